// Display of a run: read from the screen of a terminal of several sizes, from a pipe, and as JSON.
#include <signal.h>

#include <algorithm>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <set>
#include <sstream>

#include "commands/display.h"
#include "project.h"
#include "pseudo_terminal.h"
#include "support/files.h"
#include "support/json.h"
#include "support/temp_folder.h"

using namespace pe;  // NOLINT
namespace fs = std::filesystem;
using test::has;
using test::Project;
using test::PseudoTerminal;

namespace {

const char* const kSlow = R"(schema: pe-pipeline/1
name: slow
axes:
  seed: [1, 2, 3, 4, 5, 6]
stages:
  first:
    run: pe-toy
    over: [seed]
    config: {set: {value: $(seed), tokens: 40, step_s: 0.05}}
  second:
    run: pe-toy
    over: [seed]
    needs: {init: first}
    config: {set: {value: 5, tokens: 2}}
)";

/// The program with a terminal's own variables; none of ours decides.
std::vector<std::string> in_terminal(const Project& project, const std::vector<std::string>& rest,
                                     const std::vector<std::string>& variables = {"TERM=xterm-256color"}) {
  std::vector<std::string> words = {"env", "-u",         "NO_COLOR", "-u", "CLICOLOR", "-u", "CLICOLOR_FORCE",
                                    "-u",  "FORCE_COLOR"};
  words.insert(words.end(), variables.begin(), variables.end());
  words.push_back(Project::program());
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

std::vector<std::string> run_words(const Project& project, const std::vector<std::string>& rest = {}) {
  std::vector<std::string> words = {"run", project.file().string(), "--durability", "off", "-j", "4"};
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

struct Window {
  int columns, rows;
};
std::ostream& operator<<(std::ostream& out, const Window& window) {
  return out << window.columns << "x" << window.rows;
}
const std::vector<Window> kWindows = {{24, 6}, {40, 10}, {80, 24}, {200, 50}};

}  // namespace

BOOST_AUTO_TEST_SUITE(progress_display)

BOOST_DATA_TEST_CASE(the_panel_fits_the_window_and_leaves_it_clean, boost::unit_test::data::make(kWindows), window) {
  const Project project(kSlow);
  PseudoTerminal terminal(window.columns, window.rows, in_terminal(project, run_words(project)),
                          project.root().string());
  BOOST_REQUIRE(terminal.read_until("/12 finished", 20));
  std::set<std::size_t> heights;
  while (terminal.read_for(0.1) && has(terminal.screen.text(), "/12 finished")) {
    const auto lines = terminal.screen.lines();
    heights.insert(lines.size());
    BOOST_TEST(lines.size() <= static_cast<std::size_t>(window.rows));
    std::size_t titles = 0;  // the panel is there once: nothing of an older one is left above it
    for (const std::string& line : lines) titles += line.rfind("slow ", 0) == 0;
    BOOST_TEST(titles == 1u, terminal.screen.text());
    // The panel never breaks a line; lines that stay above it may be longer than a very narrow window.
    if (window.columns >= 40) BOOST_TEST(!terminal.screen.wrapped());
  }
  BOOST_TEST(terminal.wait() == 0);
  BOOST_TEST(terminal.screen.cursor_shown());
  // The results and then the summary remain; the panel is gone.
  BOOST_TEST(!has(terminal.screen.text(), "/12 finished"));
  std::string all;
  for (const std::string& line : terminal.screen.scrolled) all += line + "\n";
  all += terminal.screen.text();
  BOOST_TEST(has(all, "12 made"), all);
  BOOST_TEST(has(all, "done"), all);
}

BOOST_AUTO_TEST_CASE(the_panel_names_what_runs_how_far_how_fast_and_how_long_yet) {
  const Project project(kSlow);
  PseudoTerminal terminal(120, 24, in_terminal(project, run_words(project)), project.root().string());
  BOOST_REQUIRE(terminal.read_until("first[seed=1]", 20));
  BOOST_TEST(terminal.read_until("/40 ", 20), terminal.screen.text());
  BOOST_TEST(terminal.read_until(" left", 20), terminal.screen.text());
  BOOST_TEST(terminal.read_until("waits for first[seed=", 20), terminal.screen.text());
  BOOST_TEST(has(terminal.screen.text(), "4 running"), terminal.screen.text());
  BOOST_TEST(terminal.wait() == 0);
}

BOOST_AUTO_TEST_CASE(a_window_that_shrinks_and_grows_shows_the_panel_once) {
  const Project project(kSlow);
  PseudoTerminal terminal(120, 30, in_terminal(project, run_words(project)), project.root().string());
  BOOST_REQUIRE(terminal.read_until("first[seed=", 20));
  for (const Window window : {Window{50, 30}, Window{30, 8}, Window{100, 12}, Window{26, 5}, Window{120, 30}}) {
    terminal.resize(window.columns, window.rows);
    terminal.read_for(0.7);  // two ticks
    if (!has(terminal.screen.text(), "/12 finished")) break;
    std::size_t titles = 0;
    for (const std::string& line : terminal.screen.lines()) titles += line.rfind("slow ", 0) == 0;
    BOOST_TEST(titles == 1u, window << "\n" << terminal.screen.text());
    BOOST_TEST(terminal.screen.lines().size() <= static_cast<std::size_t>(window.rows));
  }
  BOOST_TEST(terminal.wait() == 0);
  BOOST_TEST(terminal.screen.cursor_shown());
}

BOOST_AUTO_TEST_CASE(an_interrupt_takes_the_panel_away_and_shows_the_cursor) {
  const Project project(kSlow);
  PseudoTerminal terminal(80, 24, in_terminal(project, run_words(project)), project.root().string());
  BOOST_REQUIRE(terminal.read_until("first[seed=", 20));
  terminal.type("\003");
  const int code = terminal.wait();
  BOOST_TEST(code == 3);
  BOOST_TEST(terminal.screen.cursor_shown());
  BOOST_TEST(has(terminal.screen.text(), "the same command continues from here"), terminal.screen.text());
}

BOOST_AUTO_TEST_CASE(a_run_that_is_suspended_gives_the_cursor_back_and_draws_again_afterwards) {
  const Project project(kSlow);
  PseudoTerminal terminal(80, 24, in_terminal(project, run_words(project)), project.root().string());
  BOOST_REQUIRE(terminal.read_until("4 running", 20));
  const std::size_t before = terminal.written.size();
  // Without a shell's session above it no process could wake it, so the kernel continues it immediately.
  ::kill(terminal.pid(), SIGTSTP);
  terminal.read_for(0.7);
  BOOST_TEST(has(terminal.written.substr(before), "\033[?25h\r\n"));  // for the shell
  BOOST_TEST(has(terminal.written.substr(before), "\033[?25l"));      // drawn again
  BOOST_TEST(terminal.wait() == 0);
  BOOST_TEST(terminal.screen.cursor_shown());
  BOOST_TEST(has(terminal.screen.text(), "12 made"), terminal.screen.text());
}

BOOST_AUTO_TEST_CASE(colour_is_asked_for_and_declined_as_people_expect) {
  const Project project(kSlow);
  const auto colours = [&](const std::vector<std::string>& variables, const std::vector<std::string>& rest) {
    PseudoTerminal terminal(100, 20, in_terminal(project, rest, variables), project.root().string());
    terminal.wait();
    return has(terminal.written, "\033[3") || has(terminal.written, "\033[1m");
  };
  const std::vector<std::string> plan = {"plan", project.file().string()};
  BOOST_TEST(colours({"TERM=xterm"}, plan));
  BOOST_TEST(!colours({"TERM=xterm", "NO_COLOR=1"}, plan));
  BOOST_TEST(colours({"TERM=xterm", "NO_COLOR="}, plan));  // empty means unset
  BOOST_TEST(!colours({"TERM=xterm", "CLICOLOR=0"}, plan));
  BOOST_TEST(!colours({"TERM=dumb"}, plan));
  BOOST_TEST(colours({"TERM=dumb", "CLICOLOR_FORCE=1"}, plan));
  BOOST_TEST(!colours({"TERM=xterm", "CLICOLOR_FORCE=1", "NO_COLOR=1"}, plan));
  BOOST_TEST(colours({"TERM=xterm", "NO_COLOR=1"}, {"plan", project.file().string(), "--color", "always"}));
  const auto piped = [&](const std::string& variable) {
    std::vector<std::string> words = in_terminal(project, plan, {variable});
    return has(project.call_words(words).out, "\033[");
  };
  BOOST_TEST(!piped("TERM=xterm"));
  BOOST_TEST(piped("CLICOLOR_FORCE=1"));
}

BOOST_AUTO_TEST_CASE(no_colour_still_means_a_panel_and_a_dumb_terminal_means_lines) {
  const Project project(kSlow);
  {
    PseudoTerminal terminal(80, 24, in_terminal(project, run_words(project), {"TERM=xterm", "NO_COLOR=1"}),
                            project.root().string());
    BOOST_TEST(terminal.read_until("4 running", 20));
    BOOST_TEST(!has(terminal.written, "\033[3"));
    BOOST_TEST(!has(terminal.written, "\033[1m"));
    terminal.type("\003");
    terminal.wait();
  }
  PseudoTerminal terminal(80, 24, in_terminal(project, run_words(project), {"TERM=dumb"}), project.root().string());
  BOOST_TEST(terminal.wait() == 0);
  BOOST_TEST(!has(terminal.written, "\033["), terminal.written);
  BOOST_TEST(has(terminal.written, "start    first[seed="), terminal.written);
}

BOOST_AUTO_TEST_CASE(lines_come_with_a_summary_each_minute_and_say_how_far_what_runs_is) {
  pipeline::Graph graph;
  graph.name = "slow";
  graph.tasks.resize(2);
  graph.tasks[0].id = "first";
  graph.tasks[1].id = "second";
  pipeline::RunState state;
  state.graph = &graph;
  const std::vector<pipeline::TaskPhase> phases = {pipeline::TaskPhase::kRunning, pipeline::TaskPhase::kWaiting};
  state.phases = phases;
  state.counts = {{pipeline::TaskPhase::kRunning, 1}, {pipeline::TaskPhase::kWaiting, 1}};
  state.eta_s = 90;
  cli::CommandLine line;
  line.progress = "plain";
  line.color = "never";
  const test::TempFolder folder;
  const int before = ::dup(2);
  {
    const support::Descriptor file(::open((folder / "err").c_str(), O_WRONLY | O_CREAT, 0666));
    ::dup2(file.get(), 2);
    const auto display = commands::make_display(line);
    for (double now = 1000; now < 1185; now += 0.25) {
      state.now_s = now;
      const auto done = static_cast<std::int64_t>(now - 1000) * 2;
      state.running = {{0, 1, 1000, -1, {{"what", "step"}, {"done", done}, {"total", 1000}}}};
      display->on_tick(state);
    }
    display->finish();
    std::fflush(stderr);
    ::dup2(before, 2);
    ::close(before);
  }
  const std::string text = support::read_file(folder / "err");
  std::size_t summaries = 0;
  for (auto at = text.find("0/2 finished"); at != std::string::npos; at = text.find("0/2 finished", at + 1))
    ++summaries;
  BOOST_TEST(summaries == 3u, text);
  BOOST_TEST(has(text, "about 1 min 30 s left"), text);
  BOOST_TEST(has(text, "first  step 120/1,000 12%  1 min 0 s  7 min 20 s left"), text);  // at two steps a second
}

BOOST_AUTO_TEST_CASE(events_as_json_are_one_object_a_line_from_plan_to_end) {
  const Project project(kSlow);
  const auto answer = project.call("run", {"--progress", "json", "-j", "6"});
  BOOST_TEST(answer.code == 0);
  std::istringstream stream(answer.out);
  std::vector<std::string> names;
  for (std::string line; std::getline(stream, line);) {
    const Json event = Json::parse(line, nullptr, false);
    BOOST_REQUIRE_MESSAGE(event.is_object(), line);
    BOOST_TEST(event.value("schema_version", 0) == 1, line);
    BOOST_TEST(event.value("time", 0.0) > 1e9, line);
    names.push_back(event.value("event", ""));
    if (names.back() == "progress") BOOST_TEST(event.at("progress").contains("what"), line);
    if (names.back() == "state") BOOST_TEST(event.at("counts").is_object(), line);
  }
  BOOST_REQUIRE(!names.empty());
  BOOST_TEST(names.front() == "plan");
  BOOST_TEST(names.back() == "end");
  for (const char* name : {"start", "progress", "state", "publish", "exit"})
    BOOST_TEST(std::count(names.begin(), names.end(), name) > 0, name);
}

BOOST_AUTO_TEST_CASE(a_run_ends_with_what_its_report_found_and_where_it_is) {
  const Project project;  // the toy's report says "4 toys were gathered into …" and "and that is all"
  std::vector<std::string> words = run_words(project);
  {
    const auto events = project.call("run", {"--progress", "json"});
    BOOST_TEST(events.code == 0, events.err);
    std::istringstream stream(events.out);
    for (std::string line; std::getline(stream, line);) BOOST_TEST(Json::parse(line, nullptr, false).is_object(), line);
  }
  const std::string found = "  4 toys were gathered into the report\n  and that is all\nreport: reports/toy/";
  fs::remove_all(project.root() / "store");
  const auto piped = project.call("run");
  CHECK_HAS(piped.out, found);
  BOOST_TEST(!has(piped.out, "\033["), piped.out);
  const auto idle = project.call("run");  // nothing to do
  CHECK_HAS(idle.out, "nothing to do");
  CHECK_HAS(idle.out, found);
  const Json end = Json::parse(project.call("run", {"--progress", "json"}).out, nullptr, false);
  BOOST_TEST(end.value("time", 0.0) > 1e9, end.dump());
  BOOST_TEST((end.value("reused", 0) > 0 && end.value("failed", -1) == 0 && end.value("failures", Json()).is_array()),
             end.dump());
  for (const char* field : {"executed", "blocked", "interrupted", "conflicts", "wall_s", "reports"})
    BOOST_TEST(end.contains(field), field);
  const auto forced = project.call("run", {"report"});  // planned anew, nothing to do
  CHECK_HAS(forced.out, found);

  PseudoTerminal narrow(30, 12, in_terminal(project, words), project.root().string());
  BOOST_TEST(narrow.wait() == 0);
  CHECK_HAS(narrow.screen.text(), "  4 toys were gathered into\n    the report\n");
  CHECK_HAS(narrow.screen.text(), "report: reports/toy/");
  fs::remove_all(project.root() / "store");
  PseudoTerminal terminal(80, 24, in_terminal(project, words), project.root().string());
  BOOST_TEST(terminal.wait() == 0);
  const std::string screen = terminal.screen.text();
  CHECK_HAS(screen, "8 made");
  BOOST_TEST(screen.find("8 made") < screen.find("  4 toys were gathered"), screen);
  BOOST_TEST(screen.find("  and that is all") < screen.find("report: "), screen);

  // A report of another program that says nothing, or far too much, has its path alone.
  const fs::path latest = fs::canonical(project.root() / "reports/toy/latest");
  support::write_file_atomically(latest / "result.txt", std::string(1 << 20, 'x'), false);
  const auto huge = project.call("run");
  BOOST_TEST(!has(huge.out, "xxx"));
  CHECK_HAS(huge.out, "report: ");
  support::write_file_atomically(latest / "result.txt", "\033[2Jone\n\ntwo\nthree\n", false);
  const auto odd = project.call("run");
  CHECK_HAS(odd.out, "  ^[[2Jone\n  two\nreport: ");
}

BOOST_AUTO_TEST_CASE(seeds_are_added_until_a_claim_is_decided) {
  const auto text = [](const std::string& words) {
    return "schema: pe-pipeline/1\nname: toy\naxes: {seed: [21, 22, 23, 24, 25, 26]}\n"
           "sequential: {axis: seed, claim: C1, most: 5}\nstages:\n  trunk:\n    run: pe-toy\n    over: [seed]\n"
           "    config: {set: {value: $(seed)}}\n  report:\n    run: pe-toy-report\n    gather: {in: trunk}\n"
           "    config: {set: {text: " +
           words + "}}\n";
  };
  const Project project(text("until 4"));
  const auto first = project.call("run", {"-n"});
  CHECK_HAS(first.err, "the first look, with 3 of 6 labels of seed; `pe-pipeline plan` shows all");
  CHECK_HAS(first.out, "toy  4 tasks  4 run\n");
  BOOST_TEST(project.call("run", {"-n", "--progress", "json"}).code == 2);
  const auto decided = project.call("run");
  BOOST_REQUIRE_MESSAGE(decided.code == 0, decided.err);
  CHECK_HAS(decided.out, "look 1 of 3: claim C1 is inconclusive with 3 of at most 5 labels of seed; adds 24\n");
  CHECK_HAS(decided.out, "look 2 of 3: claim C1 is reproduced with 4 of at most 5 labels of seed\n");
  BOOST_TEST(!has(decided.out, "look 3"), decided.out);
  CHECK_HAS(decided.out, "2 made, 3 reused");  // the fourth seed and its report
  const auto again = project.call("run", {"--progress", "json"});
  BOOST_TEST(again.code == 0, again.err);
  std::vector<Json> looks;
  std::istringstream stream(again.out);
  for (std::string line; std::getline(stream, line);) {
    if (Json event = Json::parse(line); event.at("event") == "look") looks.push_back(event);
  }
  BOOST_REQUIRE(looks.size() == 2u);
  BOOST_TEST(looks[0].at("next") == "24");
  BOOST_TEST(looks[1].at("next").is_null());
  // All seeds of the budget; a selection or another axis is a plain run.
  project.write(text("until 9"));
  const auto spent = project.call("run");
  CHECK_HAS(spent.out, "look 3 of 3: claim C1 is inconclusive with 5 of at most 5 labels of seed; all are used\n");
  const auto plain = project.call("run", {"--axis", "seed=21,22,23,24,25,26"});
  BOOST_TEST(!has(plain.out, "look "), plain.out);
  project.write(text("no looks"));
  const auto none = project.call("run");
  BOOST_TEST(none.code != 0);
  CHECK_HAS(none.err, "'sequential': no report of the pipeline judges claim 'C1'");
}

BOOST_AUTO_TEST_CASE(a_watched_run_is_followed_to_its_end) {
  const Project project(kSlow);
  const pid_t run = project.start({"-j", "2"});
  std::vector<std::string> runs;
  for (int i = 0; i < 200 && runs.empty(); ++i) {
    ::usleep(50000);
    if (fs::exists(project.root() / "store" / "runs")) runs = project.store().runs();
  }
  BOOST_REQUIRE(!runs.empty());
  PseudoTerminal terminal(80, 12, in_terminal(project, {"status", project.file().string(), "--watch"}),
                          project.root().string());
  BOOST_TEST(terminal.read_until("running", 20), terminal.screen.text());
  BOOST_TEST(!terminal.screen.wrapped());
  BOOST_TEST(terminal.wait() == 0);
  BOOST_TEST(terminal.screen.cursor_shown());
  BOOST_TEST(has(terminal.screen.text(), "  done  "), terminal.screen.text());
  support::wait_for(run);
}

BOOST_AUTO_TEST_SUITE_END()
