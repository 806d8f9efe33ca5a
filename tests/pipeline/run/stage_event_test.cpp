// Output of programs on their events descriptor: any bytes become an event of a stage or nothing, and the run and its
// display survive all of them. They also survive every name that a pipeline file may hold. PE_TEST_EVENTS=N tries so
// many random events, PE_TEST_NAMES=N so many random names.
#include "pipeline/run/stage_event.h"

#include <stdlib.h>
#include <boost/test/unit_test.hpp>

#include <limits>
#include <string>

#include "commands/display_panel.h"
#include "commands/display_text.h"
#include "pipeline/run/run_fixture.h"
#include "pipeline/run/run_status.h"
#include "pipeline/store/journal.h"
#include "support/odd_events.h"
#include "support/random.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::FakeAttempt;
using pe::test::OddEvents;
using pe::test::SmallRun;
using pe::test::write_all_outputs;

namespace {

std::size_t number_of_tries(const char* variable, std::size_t usual) {
  const char* text = ::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : usual;
}

std::size_t events_to_try() { return number_of_tries("PE_TEST_EVENTS", 20000); }

bool harmless_text(const std::string& text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') return false;
  }
  return text.find("\xc2\x9b") == std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stage_event)

BOOST_AUTO_TEST_CASE(names_of_the_run_are_not_a_stage_s_to_use) {
  for (const char* name :
       {"start", "wait", "stop", "block", "exit", "reuse", "end", "plan", "publish", "fail", "retry"})
    BOOST_TEST(read_stage_event({{"event", name}}).name == std::string("stage:") + name);
  for (const char* name : {"note", "warn", "checkpoint", "snapshot", "progress", "memory", "machine"})
    BOOST_TEST(read_stage_event({{"event", name}}).name == name);
  BOOST_TEST(read_stage_event({{"event", "a\nb"}}).name == "stage:other");
  BOOST_TEST(read_stage_event({{"event", std::string(65, 'x')}}).name == "stage:other");
  BOOST_TEST(read_stage_event({{"done", 3}}).name == "progress");
  BOOST_TEST(read_stage_event(Json::array()).name == "progress");
  BOOST_TEST(!read_stage_event({{"event", "note"}, {"key", "k"}}).detail.contains("key"));
  BOOST_TEST(!read_stage_event({{"step", std::numeric_limits<std::uint64_t>::max()}}).integer("step"));
  BOOST_TEST(read_stage_event({{"step", 7}}).integer("step").value() == 7);
}

BOOST_AUTO_TEST_CASE(lines_that_are_no_event_are_left_out) {
  BOOST_TEST(!parse_stage_event("").has_value());
  BOOST_TEST(!parse_stage_event("[1]").has_value());
  BOOST_TEST(!parse_stage_event("{\"text\": \"\xff\"}").has_value());
  BOOST_TEST(parse_stage_event("{\"event\": \"note\"}").has_value());
  const std::string deep = "{\"x\": " + std::string(30000, '[') + std::string(30000, ']') + "}";
  BOOST_TEST(!parse_stage_event(deep).has_value());
  BOOST_TEST(!parse_stage_event("{\"x\": \"" + std::string(kLongestStageEvent, 'x') + "\"}").has_value());
}

/// Straight into the code that keeps, shows and reads events.
BOOST_AUTO_TEST_CASE(odd_events_can_be_kept_and_shown) {
  const std::size_t tries = events_to_try();
  Graph graph;
  graph.tasks.emplace_back();
  graph.tasks[0].id = "task";
  RunState state;
  state.graph = &graph;
  const cli::Style style(false);
  OddEvents events(1);
  std::size_t odd = 0;
  for (std::size_t i = 0; i < tries; ++i) {
    const Json event = events.next();
    const StageEvent said = read_stage_event(event);
    // As a stage's event, and as one of the run itself: a journal on a shared disk may hold anything.
    const std::string own = event.is_object() && event.contains("event") && event["event"].is_string()
                                ? event["event"].get<std::string>()
                                : "note";
    for (const std::string& name : {said.name, own}) {
      const RunEvent shown{name, 0, 1, said.detail};
      odd += !harmless_text(commands::event_line(shown, state, style));
      odd += !harmless_text(commands::render_failure(graph, shown, false));
    }
    odd += !harmless_text(commands::render_progress(said.detail));
    state.running = {{0, 1, 0, -1, said.detail}};
    commands::TaskClock clock;
    clock.look(state);
    for (const std::string& line : commands::panel_lines(state, clock, "", style, 60, 10)) odd += !harmless_text(line);
    Json kept = said.detail;
    kept["event"] = said.name;
    kept["seq"] = 1;
    kept["time"] = 1.5;
    odd += parse_journal(journal_line(kept)).size() != 1;
  }
  BOOST_TEST(odd == 0u);
}

/// Through whole runs: each ends as if the stage had said nothing.
BOOST_FIXTURE_TEST_CASE(odd_events_do_not_disturb_a_run, SmallRun) {
  const auto talker = add("talker"), reader = add("reader", {talker});
  const std::size_t runs = std::max<std::size_t>(2, events_to_try() / 1000);
  OddEvents events(2);
  for (std::size_t i = 0; i < runs; ++i) {
    task(talker).config.edit()["salt"] = std::to_string(i);
    behaviour["talker"] = [&](FakeAttempt& attempt) {
      write_all_outputs(attempt);
      for (int k = 0; k < 1000; ++k) {
        const auto message = parse_stage_event(events.next().dump(-1, ' ', false, Json::error_handler_t::replace));
        if (message) attempt.messages.push_back(*message);
      }
    };
    const RunSummary summary = run();
    BOOST_REQUIRE(summary.exit_code == kRunDone);
    const RunStatus status = read_run(*store, summary.run_id);
    for (const TaskStatus& task : status.tasks) BOOST_REQUIRE(task.phase == "done");
    (void)reader;
  }
}

/// Each run makes all its tasks, and its display shows them.
BOOST_AUTO_TEST_CASE(names_do_not_disturb_a_run) {
  constexpr std::string_view kOfNames = "abcdefghijklmnopqrstuvwxyz0123456789_";
  constexpr std::string_view kOfLabels = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-";
  const std::size_t wanted = number_of_tries("PE_TEST_NAMES", 2000);
  support::Xoshiro random(support::make_key({12, 1}));
  std::size_t names = 0, odd = 0;
  /// Mostly short, and sometimes longer than any file name may be.
  const auto name = [&](std::string_view alphabet, std::size_t longest) {
    ++names;
    const std::size_t length = 1 + random.below(random.below(4) == 0 ? longest : std::min<std::size_t>(longest, 12));
    std::string text(
        1, alphabet == kOfNames ? static_cast<char>('a' + random.below(26)) : alphabet[random.below(alphabet.size())]);
    while (text.size() < length) text += alphabet[random.below(alphabet.size())];
    return text;
  };
  while (names < wanted) {
    SmallRun small;
    small.graph.name = name(kOfNames, 400);
    for (int i = 0; i < 40; ++i) {
      const std::string label = name(kOfNames, 400);
      const auto index = small.add(
          label + "_" + std::to_string(i),
          i > 0 ? std::vector<std::size_t>{random.below(static_cast<std::size_t>(i))} : std::vector<std::size_t>{});
      Task& task = small.task(index);
      task.label = label;  // of several tasks sometimes
      task.id = label + "[";
      for (std::size_t axes = random.below(6); axes > 0; --axes) {
        task.axes.emplace_back(name(kOfNames, 100), name(kOfLabels, 64));
        task.id += task.axes.back().first + "=" + task.axes.back().second + ",";
      }
      task.id += "i=" + std::to_string(i) + "]";
      task.axes.emplace_back("i", std::to_string(i));
      if (random.below(3) == 0)
        task.output_names["out"] = name(random.below(2) == 0 ? kOfLabels : std::string_view("/.. \n\x1b\"'é$"), 300);
    }
    const RunSummary summary = small.run();
    BOOST_REQUIRE(summary.exit_code == kRunDone);
    BOOST_REQUIRE(summary.executed == 40u);
    RunState state;
    state.graph = &small.graph;
    for (const RunEvent& event : small.events)
      odd += !harmless_text(commands::event_line(event, state, cli::Style(false)));
    BOOST_REQUIRE(read_run(*small.store, summary.run_id).tasks.size() == 40u);
    BOOST_REQUIRE(small.plan().nothing_to_do());
  }
  BOOST_TEST(odd == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_flood_of_notes_is_counted_instead_of_kept, SmallRun) {
  const auto talker = add("talker");
  behaviour["talker"] = [](FakeAttempt& attempt) {
    write_all_outputs(attempt);
    for (int k = 0; k < 5000; ++k) attempt.messages.push_back({{"event", "note"}, {"text", "again"}});
    attempt.messages.push_back({{"event", "checkpoint"}, {"step", 7}});
  };
  BOOST_TEST(run().exit_code == kRunDone);
  std::size_t notes = 0;
  std::string last;
  for (const RunEvent& event : events) {
    if (event.name != "note" || event.task != static_cast<std::int64_t>(talker)) continue;
    ++notes;
    last = event.detail.at("text");
  }
  BOOST_TEST(notes == 101u);
  BOOST_TEST(last == "4,901 events left out: it says too much in a second");
}

BOOST_AUTO_TEST_SUITE_END()
