#include "support/yaml.h"

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "support/temp_folder.h"

using namespace pe::support;
using pe::Json;

namespace {

std::string mistake(std::string_view text) {
  try {
    parse_yaml(text, "f.yml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(yaml)

BOOST_AUTO_TEST_CASE(scalars_stay_text_and_know_their_place) {
  const Node root = parse_yaml("a: 017\nb:\n  - \"x y\"\n  - no\n", "f.yml");
  BOOST_TEST(root.find("a")->text == "017");
  BOOST_TEST(root.find("b")->items[0].plain == false);
  BOOST_TEST(root.find("b")->items[1].text == "no");
  BOOST_TEST(root.find("b")->items[1].place().str() == "f.yml:4:5");
  BOOST_TEST(root.find_member("b")->key_mark.place().str() == "f.yml:2:1");
}

BOOST_AUTO_TEST_CASE(a_duplicate_key_names_both_lines) {
  const std::string text = mistake("a: 1\nb: 2\na: 3\n");
  BOOST_TEST(contains(text, "f.yml:3:1: duplicate key 'a', first at line 1"));
}

BOOST_AUTO_TEST_CASE(all_duplicates_are_reported_together) {
  const std::string text = mistake("a: 1\na: 2\nc: {x: 1, x: 2}\n");
  BOOST_TEST(contains(text, "duplicate key 'a'"));
  BOOST_TEST(contains(text, "duplicate key 'x'"));
}

BOOST_AUTO_TEST_CASE(an_unclosed_bracket_is_placed_where_it_opens) {
  const std::string text = mistake("a: 1\nb: [1, 2\nc: 3\n");
  BOOST_TEST(contains(text, "line 2, column 4"), text);
}

BOOST_AUTO_TEST_CASE(merge_keys_tags_and_several_documents_are_refused) {
  BOOST_TEST(contains(mistake("base: &b {x: 1}\nc:\n  <<: *b\n"), "merge keys"));
  BOOST_TEST(contains(mistake("a: !!int 3\n"), "tag"));
  BOOST_TEST(contains(mistake("a: 1\n---\nb: 2\n"), "more than one document"));
  BOOST_TEST(contains(mistake("? [a, b]\n: 1\n"), "a key must be a plain word"));
}

BOOST_AUTO_TEST_CASE(aliases_are_copies) {
  const Node root = parse_yaml("a: &x {k: 1}\nb: *x\n", "f.yml");
  BOOST_TEST(root.find("b")->find("k")->text == "1");
}

BOOST_AUTO_TEST_CASE(hostile_input_ends_in_a_message) {
  BOOST_TEST(contains(mistake(std::string(200, '[')), "nested deeper than 64"));
  BOOST_TEST(!mistake(std::string(100000, '[')).empty());
  BOOST_TEST(contains(mistake("a: \xFF"), "invalid UTF-8"));
  BOOST_TEST(contains(mistake(std::string("a: \0b", 5)), "NUL"));
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 9; ++i) bomb += std::string(i ? "," : "") + "*" + static_cast<char>(c - 1);
    bomb += "]\n";
  }
  BOOST_TEST(contains(mistake(bomb), "500,000"));
  std::string wide = "x: &x " + std::string(1 << 20, 'a') + "\ny: [*x";
  for (int i = 0; i < 70; ++i) wide += ", *x";
  BOOST_TEST(contains(mistake(wide + "]\n"), "64 MiB"));
}

BOOST_AUTO_TEST_CASE(many_keys_are_read_in_time) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "key_" + std::to_string(i) + ": 1\n";
  const auto began = std::chrono::steady_clock::now();
  BOOST_TEST(parse_yaml(text, "a.yml").members.size() == 200'000u);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  BOOST_TEST(took.count() < 30);  // a second on an idle machine; minutes before
}

BOOST_AUTO_TEST_CASE(untyped_reading_follows_yaml_1_2_core) {
  const Json json = to_json(parse_yaml("a: 1e-3\nb: 017\nc: no\nd: 12:30:45\ne: true\nf: '1'\ng: ~\nh: 2.4e9\n", "f"));
  BOOST_TEST(json.at("a") == 0.001);
  BOOST_TEST(json.at("b") == 17);
  BOOST_TEST(json.at("c") == "no");
  BOOST_TEST(json.at("d") == "12:30:45");
  BOOST_TEST(json.at("e") == true);
  BOOST_TEST(json.at("f") == "1");
  BOOST_TEST(json.at("g").is_null());
  BOOST_TEST(json.at("h") == 2.4e9);
}

BOOST_AUTO_TEST_CASE(a_tree_from_json_reads_back) {
  const Json json = Json::parse(R"({"a": [1, 0.1, "x", true, null], "b": {"c": "1"}})");
  BOOST_TEST(to_json(from_json(json, "n")) == json);
}

BOOST_AUTO_TEST_CASE(what_is_empty_has_the_place_of_its_key_or_file) {
  const Node document = parse_yaml("schema: a\nname:\nstages: {}\n", "f.yml");
  BOOST_TEST(document.find("name")->place().line == 2);
  const Place empty = parse_yaml("", "f.yml").place();
  BOOST_TEST(empty.file == "f.yml");
  BOOST_TEST(empty.line == 1);
}

BOOST_AUTO_TEST_CASE(a_missing_file_suggests_its_neighbour) {
  pe::test::TempFolder folder;
  fclose(fopen((folder / "quickstart.yml").c_str(), "w"));
  BOOST_CHECK_EXCEPTION(read_yaml(folder / "quikstart.yml"), ConfigError,
                        [](const ConfigError& error) { return contains(error.what(), "quickstart.yml'?"); });
}

BOOST_AUTO_TEST_SUITE_END()
