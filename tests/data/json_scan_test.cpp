// Lines of JSON, checked in place, compared with the library's reader.
#include "data/sources/json_scan.h"

#include <boost/test/unit_test.hpp>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "support/json.h"
#include "support/random.h"
#include "support/text.h"

using namespace pe;
using data::JsonScan;

BOOST_AUTO_TEST_SUITE(json_scan)

namespace {

/// The library's value; nothing where the line is no JSON.
std::optional<Json> library(const std::string& line) {
  try {
    return Json::parse(line);
  } catch (const Json::parse_error&) {
    return std::nullopt;
  }
}

std::string text_of(const std::string& line, const JsonScan::Value& value) {
  std::string text = line.substr(value.begin, value.end - value.begin);
  text.resize(data::unescape_json(text.data(), text.size()));
  return text;
}

void check(const std::string& line) {
  JsonScan scan({"text", "n"});
  const bool read = scan.read(line);
  std::optional<Json> expected;
  try {
    expected = library(line);
  } catch (const Json::out_of_range&) {  // a number too large for a double is syntax all the same
    return;
  }
  BOOST_TEST(read == expected.has_value(), support::quote(line) << ": " << scan.problem());
  if (!read || !expected) {
    BOOST_TEST((read || !scan.problem().empty()));
    BOOST_TEST(scan.error_at() <= line.size() + 1);
    return;
  }
  BOOST_TEST((scan.root() == JsonScan::Kind::kObject) == expected->is_object());
  for (std::size_t i = 0; i < 2 && expected->is_object(); ++i) {
    const char* const keys[] = {"text", "n"};
    const JsonScan::Value& value = scan.value(i);
    if (!expected->contains(keys[i])) {
      BOOST_TEST((value.kind == JsonScan::Kind::kMissing));
      continue;
    }
    const Json& wanted = (*expected)[keys[i]];
    BOOST_TEST((value.kind == JsonScan::Kind::kText) == wanted.is_string());
    if (wanted.is_string()) BOOST_TEST(text_of(line, value) == wanted.get<std::string>());
    const data::Scalar scalar = data::json_scalar(line, value);
    if (wanted.is_number_float()) BOOST_TEST(std::get<double>(scalar) == wanted.get<double>());
    if (wanted.is_number_integer() && wanted.get<double>() < 9e18) {
      BOOST_TEST(std::get<std::int64_t>(scalar) == wanted.get<std::int64_t>());
    }
    if (wanted.is_boolean()) BOOST_TEST(std::get<bool>(scalar) == wanted.get<bool>());
  }
}

const std::vector<std::string>& lines() {
  static const std::vector<std::string> all{
      R"({"text": "one \u00e9\n\t\"\\\/\b\f\r", "n": 3.5, "x": [1, {"text": null}], "y": {"n": 9}})",
      R"({"n":-12,"text":"\ud83d\ude00 plain é 😀","t":true,"f":false})",
      R"({ "te\u0078t" : "escaped key" , "n" : 1e3 , "n" : 18446744073709551615 })",
      R"({"text": "first", "text": "second", "n": -0, "e": [], "o": {}})",
      R"([1, 2, [3, "four"], null])",
      R"("text")",
      "17",
      "-0.5E-2",
      "true",
      "null",
      "\t {\"text\":\"\"} \r\n",
      "\xef\xbb\xbf{\"text\": \"behind a mark\"}",
      R"({"text": "\u0000 nul", "n": false})"};
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(lines_read_as_the_library_reads_them) {
  for (const std::string& line : lines()) {
    BOOST_TEST(library(line).has_value());
    check(line);
  }
  for (const char* line : {"",
                           " ",
                           "{",
                           "}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{,}",
                           "[1,]",
                           "[1 2]",
                           "{1:2}",
                           "{'a':1}",
                           "01",
                           "-",
                           "1.",
                           ".5",
                           "1e",
                           "+1",
                           "tru",
                           "nul",
                           "truee",
                           "{} x",
                           "\"",
                           "\"\\\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\u12g4\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\ud800\\n\"",
                           "\"a\nb\"",
                           "\"\x01\"",
                           "\"\xff\"",
                           "\"\xc3\"",
                           "\"\xed\xa0\x80\"",
                           "\xff",
                           "{\"a\":\xc3\xa9}",
                           "NaN",
                           "// c\n1",
                           "\xef\xbb\xbf",
                           "{\"text\":\"x\"",
                           "[[[[",
                           "\"12345678\\"}) {
    BOOST_TEST(!library(line).has_value());
    check(line);
  }
}

/// Cut everywhere, and with bytes changed, put in and taken out: the same lines are JSON, with the same values.
BOOST_AUTO_TEST_CASE(changed_lines_read_as_the_library_reads_them) {
  support::Xoshiro random(5);
  const std::string favourites = "{}[]\",:\\u0eE.-+ d8\x7f\xc3\xa9\xf0";
  int still_json = 0;
  for (const std::string& line : lines()) {
    for (std::size_t cut = 0; cut < line.size(); ++cut) check(line.substr(0, cut));
    for (int i = 0; i < 1500; ++i) {
      std::string changed = line;
      for (std::uint64_t edits = 1 + random.below(3); edits > 0 && !changed.empty(); --edits) {
        const std::size_t at = random.below(changed.size());
        const char byte =
            random.below(2) ? favourites[random.below(favourites.size())] : static_cast<char>(1 + random.below(255));
        switch (random.below(3)) {
          case 0:
            changed[at] = byte;
            break;
          case 1:
            changed.insert(at, 1, byte);
            break;
          default:
            changed.erase(at, 1);
        }
      }
      still_json += Json::accept(changed) ? 1 : 0;
      check(changed);
    }
  }
  BOOST_TEST(still_json > 1000);  // both answers were compared
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_said_with_its_place) {
  JsonScan scan({"text"});
  const auto says = [&](const std::string& line, const std::string& problem, std::size_t at) {
    BOOST_TEST(!scan.read(line));
    BOOST_TEST(scan.problem() == problem);
    BOOST_TEST(scan.error_at() == at);
  };
  says("{\"text\" \"a\"}", "invalid JSON: expected ':', found '\"'", 9);
  says("{\"text\": \"a", "invalid JSON: expected '\"' at the end of a string, found the end of the line", 12);
  says("{\"text\": \"a\xff\"}", "invalid JSON: byte 0xff is not UTF-8", 12);
  says("{\"a\": 01}", "invalid JSON: expected ',' or '}', found '1'", 8);
  says("<html>", "invalid JSON: expected a value, found '<'", 1);
  says(std::string(300, '['), "it is nested deeper than 256 levels", 257);
  BOOST_TEST(scan.read(std::string(256, '[') + std::string(256, ']')));
}

BOOST_AUTO_TEST_SUITE_END()
