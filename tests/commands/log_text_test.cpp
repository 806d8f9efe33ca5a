// The end of a log is found from its end, in pieces, whatever its size.
#include "commands/log_text.h"

#include <boost/test/unit_test.hpp>

#include "support/files.h"
#include "support/temp_folder.h"

using namespace pe;            // NOLINT
using namespace pe::commands;  // NOLINT

namespace {

/// The naive way.
std::string last_lines(const std::string& text, std::int64_t count) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1);
    lines.push_back(text.substr(at, end + 1 - at));
    at = end + 1;
  }
  std::string out;
  for (std::size_t i = lines.size() - std::min<std::size_t>(lines.size(), count); i < lines.size(); ++i)
    out += lines[i];
  return out;
}

std::string read(const std::filesystem::path& file, std::optional<std::int64_t> lines) {
  std::string out;
  read_log(file, lines, [&](std::string_view piece) { out += piece; });
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(log_text)

BOOST_AUTO_TEST_CASE(the_last_lines_are_those_of_the_naive_way) {
  const test::TempFolder folder;
  const auto file = folder / "stage.log";
  std::string large;
  for (int i = 0; large.size() < 300'000; ++i) large += std::string(static_cast<std::size_t>(i * 37 % 211), 'x') + "\n";
  for (const std::string& text : {std::string(), std::string("\n"), std::string("a"), std::string("a\n\nb\n"), large,
                                  large + "no newline at the end", std::string(200'000, 'y') + "\nz\n"}) {
    support::write_file_atomically(file, text, false);
    for (const std::int64_t count : {0, 1, 2, 3, 1000, 100'000}) {
      BOOST_TEST((read(file, count) == last_lines(text, count)), text.size() << " bytes, " << count << " lines");
      BOOST_TEST((commands::log_text(file, count, 1 << 20) == last_lines(text, count)));
    }
    BOOST_TEST((read(file, std::nullopt) == text));
    BOOST_TEST((commands::log_text(file, std::nullopt, 10) ==
                text.substr(text.size() - std::min<std::size_t>(10, text.size()))));
  }
  BOOST_TEST(read(folder / "none.log", 5).empty());
}

BOOST_AUTO_TEST_CASE(reading_continues_where_it_ended_whatever_was_written_since) {
  const test::TempFolder folder;
  const auto file = folder / "stage.log";
  support::write_file_atomically(file, "one\ntwo\nthree\n", false);
  const std::uint64_t end = read_log(file, 2, [](std::string_view) {});
  BOOST_TEST(end == 14U);
  support::write_file_atomically(file, "one\ntwo\nthree\nfour\nfi", false);
  std::string more;
  BOOST_TEST(read_log_from(file, end, [&](std::string_view piece) { more += piece; }) == 21U);
  BOOST_TEST(more == "four\nfi");
  BOOST_TEST(read_log(folder / "none.log", std::nullopt, [](std::string_view) {}) == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
