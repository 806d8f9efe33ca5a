#include "support/json_text.h"
#include "support/parse_json.h"

#include <boost/test/unit_test.hpp>

#include <string>

using namespace pe;  // NOLINT
using support::JsonText;

namespace {

/// Writes a document value by value, down to `depth` levels.
void write(JsonText& text, const Json& json, int depth) {
  if (depth == 0 || !json.is_structured()) {
    text.value(json);
  } else if (json.is_array()) {
    text.open_array();
    for (const Json& item : json) write(text, item, depth - 1);
    text.close_array();
  } else {
    text.open_object();
    for (const auto& [key, value] : json.items()) {
      text.key(key);
      write(text, value, depth - 1);
    }
    text.close_object();
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(json_text)

BOOST_AUTO_TEST_CASE(a_text_written_in_pieces_is_that_of_the_whole) {
  const Json json = Json::parse(R"({
    "a": [], "b": {}, "c": [1, -2.5, null, true, "line\nbreak \"quoted\" \u0001"],
    "d": {"e": [{"f": []}, {"g": {"h": [[1], [], [2, 3]]}}], "key \"with\" quotes": 1e300}, "z": "last"})");
  for (const int indent : {-1, 0, 1, 4}) {
    for (int depth = 0; depth < 7; ++depth) {
      std::string all;
      JsonText text([&](std::string_view piece) { all += piece; }, indent);
      write(text, json, depth);
      text.finish("\n");
      BOOST_TEST(all == json.dump(indent) + "\n", "indent " << indent << ", depth " << depth);
    }
  }
}

BOOST_AUTO_TEST_CASE(one_member_may_be_written_by_hand_and_bad_text_is_replaced) {
  const Json json{{"a", 1}, {"list", nullptr}, {"z", "\xff"}};
  std::string all;
  JsonText text([&](std::string_view piece) { all += piece; });
  text.object_with(json, "list", [&] { text.raw({"[1", ",2]"}); });
  text.finish();
  BOOST_TEST(all == "{\"a\":1,\"list\":[1,2],\"z\":\"\xef\xbf\xbd\"}");
}

BOOST_AUTO_TEST_CASE(a_long_text_comes_in_pieces) {
  std::size_t pieces = 0, longest = 0, bytes = 0;
  JsonText text([&](std::string_view piece) {
    ++pieces;
    longest = std::max(longest, piece.size());
    bytes += piece.size();
  });
  Json list = Json::array();
  text.open_array();
  for (int i = 0; i < 100000; ++i) {
    text.value(i);
    list.push_back(i);
  }
  text.close_array();
  text.finish();
  BOOST_TEST(bytes == list.dump().size());
  BOOST_TEST(pieces > 10u);
  BOOST_TEST(longest < 100000u);
}

BOOST_AUTO_TEST_CASE(a_text_out_of_bounds_is_refused_before_a_value_is_made) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  BOOST_TEST(support::parse_json(nested(128)).is_array());
  BOOST_TEST(support::parse_json(nested(129)).is_discarded());
  BOOST_TEST(support::json_problem(nested(129)) == "is nested deeper than 128 levels");
  std::string objects;
  for (int i = 0; i < 300000; ++i) objects += "{\"a\":";
  BOOST_TEST(support::parse_json(objects).is_discarded());
  BOOST_CHECK_THROW(support::require_json(nested(300000)), Json::exception);
  BOOST_TEST(support::parse_json("[1,[2],3]", {.values = 5}).is_array());
  BOOST_TEST(support::parse_json("[1,[2],3,4]", {.values = 5}).is_discarded());
  BOOST_TEST(support::json_problem("[1,[2],3,4]", {.values = 5}) == "holds more than 5 values");
  BOOST_TEST(support::parse_json("[1,2]", {.bytes = 4}).is_discarded());
  // Brackets and commas within texts are none of the structure.
  BOOST_TEST(support::parse_json(R"({"a\"[[,,": "\\", "b": "]]{{"})", {.depth = 1, .values = 3}).size() == 2u);
  for (const char* broken : {"", "[", "{\"a\": \"", "\"\\", "]", "[1] 2"}) {
    BOOST_TEST(support::parse_json(broken).is_discarded(), broken);
    BOOST_TEST(support::json_problem(broken) == "is not JSON", broken);
    BOOST_CHECK_THROW(support::require_json(broken), Json::exception);
  }
}

BOOST_AUTO_TEST_SUITE_END()
