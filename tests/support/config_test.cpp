#include "support/config.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "support/flag_value.h"
#include "support/hash.h"

using namespace pe::support;
using pe::Json;

namespace {

const std::vector<VariantKind>& kinds() {
  static const std::vector<VariantKind> all = [] {
    struct Yarn {
      double factor = 2;
      std::int64_t train_length = 0;
      void describe(FieldVisitor& v) {
        v.field("factor", factor, "Extension.", {.min = 1});
        v.field("train_length", train_length, "Length.", {.unit = "tokens", .neutral = 0});
      }
    };
    return std::vector<VariantKind>{{"none", {"nope"}, "No encoding.", {}, {}},
                                    {"rope", {}, "Rotates.", {}, {}},
                                    {"yarn", {}, "Rotates, rescaled.", schema_of<Yarn>(), {}}};
  }();
  return all;
}

enum class Shape { kLinear, kSqrt };

struct Schedule {
  double peak = 0.001;
  std::int64_t warmup_steps = 500;
  Shape shape = Shape::kSqrt;
  void describe(FieldVisitor& v) {
    v.field("peak", peak, "Peak.", {.min = 0, .max = 1});
    v.field("warmup_steps", warmup_steps, "Warm-up.", {.unit = "steps", .min = 0});
    v.choice("shape", shape, {{"linear", Shape::kLinear}, {"sqrt", Shape::kSqrt}}, "Shape.");
    v.check(peak > 0 || warmup_steps == 0, "a warm-up needs a positive peak");
  }
};

struct Config {
  Schedule schedule;
  std::int64_t tokens = 1000;
  bool qk_norm = true;
  std::optional<std::int64_t> threads;
  std::vector<std::int64_t> lengths{128};
  VariantValue encoding{"rope"};
  std::string path;
  std::string log = "info";
  double z_loss = 0;
  void describe(FieldVisitor& v) {
    v.group("schedule", schedule, "The schedule.");
    v.field("tokens", tokens, "Tokens.", {.unit = "tokens", .min = 1});
    v.field("qk_norm", qk_norm, "Norm.");
    v.field("threads", threads, "Threads.", {.min = 1});
    v.field("lengths", lengths, "Lengths.", {.unit = "tokens", .min = 1});
    v.variant("encoding", encoding, kinds(), "Encoding.", true);
    v.path("path", path, "A file.");
    v.field("log", log, "Log level.", {.hashed = false});
    v.field("z_loss", z_loss, "z-loss.", {.neutral = 0.0, .since = 2});
  }
};

struct Laid {
  Json config;
  std::string mistakes;
  Origins origins;
};

Laid lay(std::string_view yaml) {
  const Schema schema = schema_of<Config>();
  Laid laid{defaults(schema), "", {}};
  Diagnostics diagnostics;
  overlay(schema, parse_yaml(yaml, "c.yml"), laid.config, &laid.origins, diagnostics);
  for (const auto& item : diagnostics.items()) laid.mistakes += item.render() + "\n";
  return laid;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(config)

BOOST_AUTO_TEST_CASE(defaults_are_complete_and_bind_back) {
  const Json config = defaults(schema_of<Config>());
  BOOST_TEST(config.at("schedule").at("shape") == "sqrt");
  BOOST_TEST(config.at("threads").is_null());
  BOOST_TEST(config.at("encoding") == Json({{"kind", "rope"}}));
  const auto bound = make_config<Config>(config);
  BOOST_TEST(bound.schedule.warmup_steps == 500);
  BOOST_TEST((bound.schedule.shape == Shape::kSqrt));
}

BOOST_AUTO_TEST_CASE(values_are_typed_by_the_field) {
  const Laid laid =
      lay("tokens: 2.4B\nschedule: {peak: 1e-2, warmup_steps: 1_000}\nschedule.shape: linear\n"
          "threads: auto\nlengths: [1k, 2k]\nlog: no\n");
  BOOST_TEST(laid.mistakes == "");
  BOOST_TEST(laid.config.at("tokens") == 2'400'000'000);
  BOOST_TEST(laid.config.at("schedule").at("peak") == 0.01);
  BOOST_TEST(laid.config.at("schedule").at("shape") == "linear");
  BOOST_TEST(laid.config.at("lengths") == Json({1000, 2000}));
  BOOST_TEST(laid.config.at("log") == "no");
  BOOST_TEST(laid.origins.at("schedule.peak").str() == "c.yml:2:18");
}

BOOST_AUTO_TEST_CASE(a_path_on_the_command_line_is_yaml_only_as_a_list_or_in_quotes) {
  const Schema schema = schema_of<Config>();
  const auto text = [&](const std::string& key, const char* value) {
    return flag_value(find_field(schema, key), value, "--set " + key).text;
  };
  BOOST_TEST(text("path", "a: b #c") == "a: b #c");
  BOOST_TEST(text("path", "\"/data/a b\"") == "/data/a b");
  BOOST_TEST(text("path", "'it''s'") == "it's");
  BOOST_TEST(text("path", "") == "");
  BOOST_TEST(text("log", "info #c") == "info");
  BOOST_TEST(flag_value(find_field(schema, "path"), "[a, b]", "--set path").items.size() == 2u);
  BOOST_CHECK_THROW(text("path", "[a"), ConfigError);
}

BOOST_AUTO_TEST_CASE(every_mistake_is_named_with_its_place_and_a_way_out) {
  const Laid laid =
      lay("tokns: 5\nschedule: {warmup_step: 1, shape: squrt}\nqk_norm: yes\ntokens: 0.5\nlengths: {a: 1}\n"
          "schedule.peak: 3\n");
  BOOST_TEST(contains(laid.mistakes, "c.yml:1:1: unknown key 'tokns'"), laid.mistakes);
  BOOST_TEST(contains(laid.mistakes, "did you mean 'tokens'?"));
  BOOST_TEST(contains(laid.mistakes, "unknown key 'warmup_step' in 'schedule'"));
  BOOST_TEST(contains(laid.mistakes, "did you mean 'warmup_steps'?"));
  BOOST_TEST(contains(laid.mistakes, "'schedule.shape' cannot be 'squrt'"));
  BOOST_TEST(contains(laid.mistakes, "'qk_norm' must be a bool, found 'yes'"));
  BOOST_TEST(contains(laid.mistakes, "'tokens' must be an integer (tokens), found '0.5', which is not a whole number"));
  BOOST_TEST(contains(laid.mistakes, "'lengths' must be a list of integers (tokens), found a map"));
  BOOST_TEST(contains(laid.mistakes, "'schedule.peak' must be from 0 to 1, found '3'"));
}

// The order of keys is in no key of a result, so it must not matter here.
BOOST_AUTO_TEST_CASE(the_order_of_keys_means_nothing) {
  for (const char* yaml : {"encoding.factor: 8\nencoding: yarn\n", "encoding: yarn\nencoding.factor: 8\n"}) {
    const Laid laid = lay(yaml);
    BOOST_TEST(laid.mistakes == "");
    BOOST_TEST(laid.config.at("encoding").at("kind") == "yarn");
    BOOST_TEST(laid.config.at("encoding").at("factor") == 8);
  }
  BOOST_TEST(contains(lay("encoding.factor: 8\nencoding: rope\n").mistakes, "unknown key 'factor' of 'rope'"));
  for (const char* yaml : {"schedule: {peak: 1}\nschedule.peak: 2\n", "schedule.peak: 2\nschedule: {peak: 1}\n",
                           "encoding: {kind: yarn, factor: 2}\nencoding.factor: 4\n",
                           "encoding.factor: 4\nencoding: {kind: yarn, factor: 2}\n"})
    BOOST_TEST(contains(lay(yaml).mistakes, "is set twice, first at c.yml:"), yaml);
}

BOOST_AUTO_TEST_CASE(a_number_in_quotes_is_text) {
  BOOST_TEST(contains(lay("tokens: \"4k\"\n").mistakes, "found '4k', which is text: leave the quotes out"));
  BOOST_TEST(contains(lay("z_loss: '0.5'\n").mistakes, "which is text: leave the quotes out"));
}

BOOST_AUTO_TEST_CASE(a_variant_takes_names_maps_and_stacks) {
  BOOST_TEST(lay("encoding: nope").config.at("encoding") == Json({{"kind", "none"}}));
  const Json yarn = {{"kind", "yarn"}, {"factor", 4.0}, {"train_length", 0}};
  BOOST_TEST(lay("encoding: {kind: yarn, factor: 4}").config.at("encoding") == yarn);
  BOOST_TEST(lay("encoding: {stack: [{kind: yarn, factor: 4}, none]}").config.at("encoding") ==
             Json({{"stack", {yarn, {{"kind", "none"}}}}}));
  BOOST_TEST(lay("encoding: {stack: [rope]}").config.at("encoding") == Json({{"kind", "rope"}}));
  BOOST_TEST(contains(lay("encoding: rpoe").mistakes, "did you mean 'rope'?"));
  BOOST_TEST(contains(lay("encoding: {kind: yarn, facto: 4}").mistakes, "did you mean 'factor'?"));
  BOOST_TEST(contains(lay("encoding: {kind: yarn, factor: 0.5}").mistakes, "at least 1"));
  BOOST_TEST(contains(lay("encoding: {yarn: {factor: 4}}").mistakes, "write {kind: yarn, …}"));
}

BOOST_AUTO_TEST_CASE(another_kind_replaces_and_the_same_kind_merges) {
  const Schema schema = schema_of<Config>();
  Json config = defaults(schema);
  Diagnostics diagnostics;
  const auto put = [&](const char* text) { overlay(schema, parse_yaml(text, "t"), config, nullptr, diagnostics); };
  put("encoding: {kind: yarn, factor: 4, train_length: 128}");
  put("encoding: {kind: yarn, factor: 8}");
  BOOST_TEST(config.at("encoding").at("train_length") == 128);
  put("encoding.factor: 16");
  BOOST_TEST(config.at("encoding").at("factor") == 16.0);
  put("encoding: rope");
  BOOST_TEST(config.at("encoding") == Json({{"kind", "rope"}}));
  BOOST_TEST(diagnostics.empty());
}

BOOST_AUTO_TEST_CASE(the_hashed_part_leaves_out_what_cannot_matter) {
  const Schema schema = schema_of<Config>();
  const Json hashed = hashed_config(schema, defaults(schema));
  BOOST_TEST(!hashed.contains("log"));
  BOOST_TEST(!hashed.contains("z_loss"));
  BOOST_TEST(hashed.contains("tokens"));
  const Json yarn = hashed_config(schema, lay("encoding: yarn").config);
  BOOST_TEST(yarn.at("encoding") == Json({{"kind", "yarn"}, {"factor", 2.0}}));
}

BOOST_AUTO_TEST_CASE(spelling_and_order_do_not_move_the_hash_and_values_do) {
  const Schema schema = schema_of<Config>();
  const auto key = [&](const char* text) { return canonical_hash("t", hashed_config(schema, lay(text).config)); };
  BOOST_TEST(key("tokens: 1e6\nschedule: {peak: 1e-3}") == key("schedule: {peak: 0.001}  # same\n\ntokens: 1M"));
  BOOST_TEST(key("tokens: 1e6") != key("tokens: 1000001"));
  BOOST_TEST(key("log: debug") == key("log: info"));
}

BOOST_AUTO_TEST_CASE(checks_across_fields_are_told) {
  BOOST_CHECK_EXCEPTION(
      make_config<Config>(lay("schedule: {peak: 0}").config), ConfigError, [](const ConfigError& error) {
        return contains(error.what(), "a warm-up needs a positive peak") && error.exit_code() == kExitConfig;
      });
}

BOOST_AUTO_TEST_CASE(a_schema_survives_its_json) {
  const Schema schema = schema_of<Config>();
  const Json json = schema_to_json(schema);
  BOOST_TEST(schema_to_json(schema_from_json(Json::parse(json.dump()))) == json);
  BOOST_TEST(defaults(schema_from_json(json)) == defaults(schema));
}

BOOST_AUTO_TEST_CASE(keys_of_other_stages_pass_where_they_may) {
  const Schema schema = schema_of<Config>();
  Json config = defaults(schema);
  Diagnostics diagnostics;
  const OverlayOptions options{[](const std::string& dotted) { return dotted == "eval.lengths"; }, "stage 'trunk'"};
  overlay(schema, parse_yaml("eval: {lengths: [1]}\nevall: {lengths: [1]}\n", "t"), config, nullptr, diagnostics,
          options);
  BOOST_TEST(diagnostics.size() == 1u);
  BOOST_TEST(contains(diagnostics.items()[0].render(), "unknown key 'evall' of stage 'trunk'"));
}

BOOST_AUTO_TEST_CASE(differences_are_told_to_the_leaf) {
  const auto rows =
      differences(Json::parse(R"({"a": {"b": 1, "c": 2}})"), Json::parse(R"({"a": {"b": 1, "c": 3}, "d": 4})"));
  BOOST_REQUIRE(rows.size() == 2u);
  BOOST_TEST(rows[0].path == "a.c");
  BOOST_TEST(rows[1].path == "d");
}

BOOST_AUTO_TEST_CASE(help_shows_every_field) {
  const std::string text = render_fields(schema_of<Config>(), 80);
  for (const std::string& path : field_paths(schema_of<Config>())) BOOST_TEST(contains(text, path), path);
}

BOOST_AUTO_TEST_SUITE_END()
