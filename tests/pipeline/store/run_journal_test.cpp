#include "pipeline/store/journal.h"

#include <boost/test/unit_test.hpp>

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

BOOST_AUTO_TEST_SUITE_END()
