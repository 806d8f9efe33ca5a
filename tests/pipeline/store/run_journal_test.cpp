#include "pipeline/store/journal.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "support/temp_folder.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

BOOST_AUTO_TEST_SUITE(run_journal)

BOOST_AUTO_TEST_CASE(events_come_back_in_order_with_sequence_and_time) {
  test::TempFolder folder;
  Journal journal(folder.path());
  for (int i = 0; i < 5; ++i)
    BOOST_TEST(journal.append({{"event", "note"}, {"n", i}, {"text", "two\nlines \"quoted\" \xff"}}));
  const auto events = read_journal(folder.path());
  BOOST_REQUIRE(events.size() == 5u);
  for (int i = 0; i < 5; ++i) {
    BOOST_TEST(events[static_cast<std::size_t>(i)].at("n") == i);
    BOOST_TEST(events[static_cast<std::size_t>(i)].at("seq") == i + 1);
  }
}

BOOST_AUTO_TEST_CASE(a_journal_cut_at_any_byte_keeps_every_whole_line) {
  std::string bytes;
  std::vector<std::size_t> ends;
  for (int i = 0; i < 8; ++i) {
    bytes += journal_line({{"event", "start"}, {"seq", i}, {"time", i * 1.5}, {"task", "trunk[seed=42]"}});
    ends.push_back(bytes.size());
  }
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    std::size_t skipped = 0, expected = 0;
    while (expected < ends.size() && ends[expected] <= length) ++expected;
    BOOST_REQUIRE(parse_journal(std::string_view(bytes).substr(0, length), &skipped).size() == expected);
    const bool torn = length > 0 && (expected == 0 || ends[expected - 1] != length);
    BOOST_REQUIRE(skipped == (torn ? 1u : 0u));
  }
}

BOOST_AUTO_TEST_CASE(a_flipped_bit_loses_its_line_alone) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += journal_line({{"event", "start"}, {"seq", i}, {"time", i * 1.5}});
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    const std::size_t left = parse_journal(damaged).size();
    BOOST_REQUIRE((left == 3u || left == 2u));  // a lost newline takes the next line along
  }
}

BOOST_AUTO_TEST_CASE(journals_of_several_processes_merge_by_time) {
  test::TempFolder folder;
  support::write_file_atomically(folder / "journal.h.1.jsonl",
                                 journal_line({{"seq", 1}, {"time", 1.0}}) + journal_line({{"seq", 2}, {"time", 3.0}}),
                                 false);
  support::write_file_atomically(folder / "journal.h.2.jsonl", journal_line({{"seq", 1}, {"time", 2.0}}), false);
  const auto events = read_journal(folder.path());
  BOOST_REQUIRE(events.size() == 3u);
  BOOST_TEST(events[1].at("time") == 2.0);
}

BOOST_AUTO_TEST_CASE(a_clock_that_was_set_back_moves_no_event_before_another_of_its_journal) {
  test::TempFolder folder;
  const auto write = [&](const char* name, const std::vector<std::pair<const char*, double>>& events) {
    std::string text;
    for (const auto& [event, time] : events) text += journal_line({{"event", event}, {"seq", 1}, {"time", time}});
    support::write_file_atomically(folder / name, text, false);
  };
  const auto order = [&] {
    std::string of_trees, of_events;
    for (const Json& event : read_journal(folder.path())) of_trees += event.at("event").get<std::string>();
    each_journal_event(folder.path(), [&](const JournalEvent& event) { of_events += event.event; });
    BOOST_TEST(of_trees == of_events);
    return of_events;
  };
  write("journal.h.1.jsonl", {{"a", 10}, {"b", 5}, {"d", 12}});
  BOOST_TEST(order() == "abd");
  write("journal.h.2.jsonl", {{"c", 11}, {"e", 13}});
  BOOST_TEST(order() == "abcde");
}

BOOST_AUTO_TEST_CASE(events_read_without_a_tree_are_those_of_the_tree) {
  test::TempFolder folder;
  // More files than one thread takes, times that meet, fields that are missing, nested or of another type, bad lines.
  const std::vector<Json> shapes = {
      {{"event", "start"}, {"task", "trunk[seed=42]"}, {"attempt", 3}, {"log", "/a \"b\"/stage.log"}, {"key", "00ff"}},
      {{"event", "publish"},
       {"task", "t"},
       {"snapshot", "s10"},
       {"detail", {{"task", "inner"}, {"seq", 7}, {"key", "x"}}}},
      {{"event", "exit"}, {"task", "t"}, {"class", "done"}, {"list", {"event", {{"event", "no"}}, 5}}},
      {{"event", "fail"}, {"reason", "line\nbreak \u00e9 \xff"}, {"attempt", -1}, {"task", nullptr}},
      {{"event", 5}, {"key", true}, {"attempt", 2.0}},
      Json::object()};
  std::size_t lines = 0;
  for (int file = 0; file < 300; ++file) {
    std::string text;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      Json event = shapes[(i + static_cast<std::size_t>(file)) % shapes.size()];
      event["seq"] = i;
      if (i % 2)
        event["time"] = 1.7e9 + static_cast<double>((file * 7 + static_cast<int>(i)) % 40) / 8;
      else
        event["time"] = 1700000000 + file % 5;
      text += journal_line(event);
      ++lines;
    }
    if (file % 50 == 0) text += "torn {\n" + journal_line({{"seq", 1}}) + journal_line(Json::array({1, 2, 3}));
    support::write_file_atomically(folder / ("journal.h." + std::to_string(file) + ".jsonl"), text, false);
  }
  std::size_t skipped_trees = 0, skipped = 0;
  const auto trees = read_journal(folder.path(), &skipped_trees);
  std::vector<JournalEvent> events;
  each_journal_event(
      folder.path(), [&](const JournalEvent& event) { events.push_back(event); }, &skipped);
  BOOST_TEST(skipped_trees == 18u);
  BOOST_TEST(skipped == skipped_trees);
  BOOST_TEST_REQUIRE(trees.size() == lines);
  BOOST_TEST_REQUIRE(events.size() == lines);
  const auto text = [](const Json& tree, const char* name) {
    return tree.contains(name) && tree[name].is_string() ? tree[name].get<std::string>() : std::string();
  };
  for (std::size_t i = 0; i < lines; ++i) {
    const Json& tree = trees[i];
    BOOST_REQUIRE(events[i].time == tree.at("time").get<double>());
    BOOST_REQUIRE(events[i].seq == tree.at("seq").get<std::int64_t>());
    BOOST_REQUIRE(events[i].event == text(tree, "event"));
    BOOST_REQUIRE(events[i].task == text(tree, "task"));
    BOOST_REQUIRE(events[i].key == text(tree, "key"));
    BOOST_REQUIRE(events[i].log == text(tree, "log"));
    BOOST_REQUIRE(events[i].reason == text(tree, "reason"));
    BOOST_REQUIRE(events[i].outcome == text(tree, "class"));
    BOOST_REQUIRE(events[i].attempt == (tree.contains("attempt") ? tree["attempt"].get<int>() : 0));
    BOOST_REQUIRE(events[i].snapshot == text(tree, "snapshot"));
  }
}

void long_journals_are_read_in_order(int files) {
  test::TempFolder folder;
  // 10 MB in each file; lines of the others come in between, with a clock that was set back and bad lines.
  const std::string filler(4000, 'x');
  std::vector<std::tuple<double, int, int>> expected;  // latest time of its file, number, file
  for (int file = 0; file < files; ++file) {
    std::string text;
    double latest = 0;
    for (int i = 0; i < 2500; ++i) {
      const double time = 1.7e9 + (i > 2000 ? i - 500 : i) + (i / 100 % 3 == file ? 0.25 : 0.5 + file / 8.0);
      text += journal_line({{"event", "start"},
                            {"seq", i},
                            {"time", time},
                            {"task", std::to_string(file)},
                            {"text", filler},
                            {"attempt", i},
                            {"cpus", 2},
                            {"gpus", {"0", "1"}},
                            {"resumed", true}});
      if (i % 500 == 17) text += "torn {\n";
      expected.emplace_back(latest = std::max(latest, time), i, file);
    }
    if (file == 0) text += "{\"event\":\"cut";
    support::write_file_atomically(folder / ("journal.h." + std::to_string(file) + ".jsonl"), text, false);
  }
  std::sort(expected.begin(), expected.end());
  std::size_t skipped_trees = 0, skipped = 0, at = 0;
  const auto trees = read_journal(folder.path(), &skipped_trees);
  BOOST_TEST_REQUIRE(trees.size() == expected.size());
  each_journal_event(
      folder.path(),
      [&](const JournalEvent& event) {
        BOOST_REQUIRE(at < trees.size());
        const auto [latest, number, file] = expected[at];
        BOOST_REQUIRE(event.seq == number);
        BOOST_REQUIRE(event.task == std::to_string(file));
        const Json& tree = trees[at++];
        BOOST_REQUIRE(event.time == tree.at("time").get<double>());
        BOOST_REQUIRE(event.seq == tree.at("seq").get<std::int64_t>());
        BOOST_REQUIRE(event.task == tree.at("task").get<std::string>());
        BOOST_REQUIRE(event.attempt == tree.at("attempt").get<int>());
        BOOST_REQUIRE(event.cpus == 2);
        BOOST_REQUIRE((event.gpus == std::vector<std::string>{"0", "1"}));
        BOOST_REQUIRE(event.resumed);
      },
      &skipped);
  BOOST_TEST(at == expected.size());
  BOOST_TEST(skipped_trees == 5u * static_cast<std::size_t>(files) + 1);
  BOOST_TEST(skipped == skipped_trees);
}

BOOST_AUTO_TEST_CASE(long_journals_are_read_in_the_same_order) { long_journals_are_read_in_order(3); }
BOOST_AUTO_TEST_CASE(a_long_journal_alone_is_read_in_its_order) { long_journals_are_read_in_order(1); }

BOOST_AUTO_TEST_SUITE_END()
