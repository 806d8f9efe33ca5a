#include <boost/test/unit_test.hpp>

#include "encoding_docs/battery/checks.h"
#include "fixture.h"
#include "support/config.h"

using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

Json parse(std::string text) {
  std::replace(text.begin(), text.end(), '\'', '"');
  return Json::parse(text);
}

std::vector<Subject> entries() {
  std::vector<Subject> all;
  for (const EncodingEntry& entry : encodings::encodings()) all.push_back({entry.name, entry.name});
  return all;
}

std::string refusal(const std::string& config, const Shape& shape = small_shape()) {
  return refusal_of(parse(config), shape);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(encoding_registry)

/// Facts, texts and the count of parameters of an entry agree with its encoding.
SUBJECT_TEST_CASE(an_entry_says_what_its_encoding_is, entries()) {
  Findings findings;
  check_entry(*find_encoding(subject.name), findings);
  BOOST_TEST(findings.clean(), subject.name << ": " << findings.text());
}

BOOST_AUTO_TEST_CASE(no_two_entries_have_one_name) {
  std::vector<std::string> names;
  for (const EncodingEntry& entry : encodings::encodings()) {
    names.push_back(entry.name);
    names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
    BOOST_TEST((entry.family == Family::kBaseline) == (entry.name == "none"), entry.name);
  }
  std::sort(names.begin(), names.end());
  BOOST_TEST((std::adjacent_find(names.begin(), names.end()) == names.end()));
}

/// Each mistake that an author makes is found, and reported once.
BOOST_AUTO_TEST_CASE(a_wrong_entry_is_told_what_is_wrong) {
  const auto told = [](const std::function<void(EncodingEntry&)>& spoil) {
    EncodingEntry entry = *find_encoding("t5");
    spoil(entry);
    Findings findings;
    check_entry(entry, findings);
    return findings.text();
  };
  BOOST_TEST(told([](EncodingEntry&) {}).empty());
  check_says(told([](EncodingEntry& entry) { entry.parameters = "buckets*heads + 1"; }),
             {".parameters 'buckets*heads + 1' is 129, and a model has 128", "1 more of this kind"});
  check_says(told([](EncodingEntry& entry) { entry.parameters = "bukets*heads"; }), {"no arithmetic over width"});
  check_says(told([](EncodingEntry& entry) { entry.facts.learned = false; }),
             {".facts of the entry are", "\"learned\":false"});
  check_says(told([](EncodingEntry& entry) { entry.acts_on = "q and k"; }), {"lacks 'logits'"});
  check_says(told([](EncodingEntry& entry) { entry.known_for = "It is good"; }), {".known_for ends in a full stop"});
}

BOOST_AUTO_TEST_CASE(the_eleven_of_the_ground_floor_are_there) {
  for (const char* name :
       {"none", "sinusoidal", "learned", "rope", "yarn", "alibi", "t5", "fire", "cope", "ssmax", "randomised"}) {
    BOOST_TEST((find_encoding(name) != nullptr), name);
  }
}

BOOST_AUTO_TEST_CASE(an_alias_is_the_encoding) {
  BOOST_TEST((find_encoding("nope") == find_encoding("none")));
  BOOST_TEST(encoding_name("nope") == "none");
  BOOST_TEST(encoding_name(parse("{'kind': 'rotary', 'base': 500000}")) == "rope");
  BOOST_TEST(encoding_name(parse("{'stack': ['rope', {'kind': 'ssmax'}]}")) == "rope+ssmax");
  BOOST_TEST(make_encoding("rotary", small_shape())->facts().rotates);
}

BOOST_AUTO_TEST_CASE(counts_of_parameters) {
  const Shape shape{
      .width = 512, .layers = 6, .query_heads = 8, .key_value_heads = 8, .head_width = 64, .train_length = 1024};
  const auto count = [&](const std::string& config) {
    std::int64_t n = 0;
    for (const Parameter& p : make_encoding(parse(config), shape)->parameters()) n += p.value.numel();
    return n;
  };
  for (const char* free : {"'none'", "'sinusoidal'", "'rope'", "'yarn'", "'alibi'", "'randomised'", "'sinonly'",
                           "'binary'", "'decimal_norm'", "'partial'", "'p_rope'", "'multiscale_rope'", "'xpos'",
                           "'hope'", "'fope'", "'inope'", "'cope_clip'", "'longrope'", "'yarn_resonance'"})
    BOOST_TEST(count(free) == 0);
  BOOST_TEST(count("'sininit'") == 1024 * 512);
  BOOST_TEST(count("{'kind': 'binary', 'fill': 'project'}") == 16 * 512);
  BOOST_TEST(count("{'kind': 'decimal', 'fill': 'project'}") == 5 * 512);
  BOOST_TEST(count("'lrope'") == 6 * 32);
  BOOST_TEST(count("{'kind': 'lrope', 'per_head': true}") == 6 * 8 * 32);
  BOOST_TEST(count("'lerope'") == 32);
  BOOST_TEST(count("'pope'") == 6 * 512);
  BOOST_TEST(count("'clex'") == 4096);
  BOOST_TEST(count("{'kind': 'fope', 'learnable': true}") == 6 * 2 * 8 * 18 * 16);
  BOOST_TEST(count("{'kind': 'yarn', 'over': 'pope'}") == 6 * 512);
  BOOST_TEST(count("'learned'") == 1024 * 512);
  BOOST_TEST(count("'t5'") == 256);
  BOOST_TEST(count("'fire'") == 6 * 330);
  BOOST_TEST(count("'cope'") == 6 * 4096);
  BOOST_TEST(count("'ssmax'") == 6 * 8);
  BOOST_TEST(count("{'kind': 'sinusoidal', 'pe_scale': 'learned'}") == 1);
  BOOST_TEST(count("{'stack': ['t5', 'fire', 'rope']}") == 256 + 6 * 330);
}

BOOST_AUTO_TEST_CASE(parameters_have_the_names_and_shapes_that_artifacts_use) {
  const auto fire = make_encoding("fire", small_shape());
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> expected = {
      {"fire.0.c", {}},    {"fire.0.length_multiplier", {}}, {"fire.0.w1", {32, 1}},
      {"fire.0.b1", {32}}, {"fire.0.w2", {2, 32}},           {"fire.0.b2", {2}},
      {"fire.1.c", {}}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Parameter& p = fire->parameters()[i];
    BOOST_TEST(p.name == expected[i].first);
    BOOST_TEST((p.value.sizes() == at::IntArrayRef(expected[i].second)), p.name);
    BOOST_TEST(p.weight_decay == (p.value.dim() == 2), p.name);
    BOOST_TEST(p.layer == static_cast<int>(i / 6));
  }
  const auto t5 = make_encoding("t5", small_shape());
  BOOST_TEST(t5->parameters()[0].name == "t5.table");
  BOOST_TEST(!t5->parameters()[0].weight_decay);  // a table, though it has two dimensions
  BOOST_TEST(t5->parameters()[0].layer == -1);
}

BOOST_AUTO_TEST_CASE(what_two_encodings_share_starts_alike) {
  const auto alone = make_encoding("fire", small_shape());
  const auto stacked = make_encoding(parse("{'stack': ['rope', 'fire']}"), small_shape());
  for (std::size_t i = 0; i < alone->parameters().size(); ++i) {
    BOOST_TEST(at::equal(alone->parameters()[i].value, stacked->parameters()[i].value));
  }
}

BOOST_AUTO_TEST_CASE(unknown_names_and_options_are_told_with_the_nearest_word) {
  check_says(refusal("'roppe'"), {"unknown encoding 'roppe'", "did you mean 'rope'?"});
  check_says(refusal("{'kind': 'yarn', 'facotr': 4}"),
             {"encoding 'yarn' has no option 'facotr'", "did you mean 'factor'?"});
  check_says(refusal("{'kind': 'none', 'base': 4}"), {"encoding 'none' has no option 'base'", "no options"});
  check_says(refusal("{'stack': ['rope', 'ssmx']}"), {"'ssmx'", "ssmax"});
  check_says(refusal("{'stack': []}"), {"at least one member"});
  check_says(refusal("{'stack': ['rope'], 'kind': 'rope'}"), {"a stack is"});
  check_says(refusal("{'base': 4}"), {"'kind'"});
  check_says(refusal("17"), {"17"});
}

BOOST_AUTO_TEST_CASE(a_stack_names_the_members_that_exclude_each_other) {
  check_says(refusal("{'stack': ['rope', 'alibi', 'yarn']}"), {"'rope' and 'yarn'", "both rotate"});
  check_says(refusal("{'stack': ['cope', 'rope', 'cope']}"), {"'cope' and 'cope'", "both rewrite the logits"});
  check_says(refusal("{'stack': ['randomised', 'rope', 'randomised']}"), {"both map positions"});
  check_says(refusal("{'stack': ['pose', 'cream', 'rope']}"), {"'pose' and 'cream'", "both map positions"});
  check_says(refusal("{'stack': ['randomised', 'clex']}"), {"both map positions"});
  check_says(refusal("{'stack': ['ssmax', 'ssmax']}"), {"'ssmax' occurs in a stack twice"});
  BOOST_TEST(refusal("{'stack': ['alibi', 'alibi', 'rope']}") == "accepted");
}

BOOST_AUTO_TEST_CASE(settings_that_would_give_no_number_or_have_no_effect_are_refused) {
  check_says(refusal("{'kind': 'sinusoidal', 'pe_scale': '.nan'}"), {"pe_scale is a finite number"});
  check_says(refusal("{'kind': 'learned', 'pe_scale': '.inf'}"), {"pe_scale is a finite number"});
  check_says(refusal("{'kind': 'learned', 'pe_scale': 'matched', 'init_std': 0}"), {"init_std above 0"});
  check_says(refusal("{'kind': 'yarn', 'dynamic': true, 'factor': 4}"), {"the factor follows from the length"});
  check_says(refusal("{'kind': 'resonance', 'over': 'lrope'}"),
             {"'lrope' trains its frequencies", "whole wavelengths"});
  check_says(refusal("{'kind': 'longrope', 'factor': 4, 'protected': 8, 'over': 'lrope'}"),
             {"'lrope' trains its frequencies", "protected positions"});
}

BOOST_AUTO_TEST_CASE(shapes_that_do_not_fit_are_refused) {
  Shape odd = small_shape();
  odd.head_width = 5;
  check_says(refusal("'rope'", odd), {"'rope'", "head width 5", "not even"});
  for (const char* kind : {"yarn", "pi", "partial", "p_rope", "xpos", "hope", "fope", "pope", "lrope", "lerope",
                           "inope", "multiscale_rope", "cope_clip", "clex", "resonance", "longrope2"}) {
    check_says(refusal("'" + std::string(kind) + "'", odd), {"head width 5", "not even"});
  }
  check_says(refusal("'rope_pp'", small_shape(3, 3)),
             {"'rope_pp'", "two attention heads of each query head", "3 heads"});
  odd.width = 7;
  check_says(refusal("'sinusoidal'", odd), {"width 7", "not even"});
  check_says(refusal("{'kind': 'alibi', 'slopes': [1, 2, 3]}"), {"3 slopes for 2 query heads"});
  check_says(refusal("'rope'", small_shape(4, 3)), {"4 query heads cannot share 3"});
  Shape unknown = small_shape();
  unknown.train_length = 0;
  check_says(refusal("'learned'", unknown), {"max_positions"});
  check_says(refusal("'yarn'", unknown), {"train_length"});
}

BOOST_AUTO_TEST_CASE(values_that_do_not_hold_together_are_refused) {
  check_says(refusal("{'kind': 't5', 'buckets': 7}"), {"buckets is even"});
  check_says(refusal("{'kind': 't5', 'buckets': 32, 'max_distance': 10}"), {"max_distance"});
  check_says(refusal("{'kind': 'yarn', 'beta_fast': 1, 'beta_slow': 2}"), {"beta_fast"});
  check_says(refusal("{'kind': 'sinusoidal', 'pe_scale': 'big'}"), {"pe_scale"});
  // A factor below 1 is reported where a config is read, with its place; see below.
}

BOOST_AUTO_TEST_CASE(a_config_reads_encodings_as_a_variant) {
  support::VariantValue encoding{"rope"};
  const auto describe = [&](support::FieldVisitor& v) { v.variant("encoding", encoding, variant_kinds(), "…", true); };
  const support::Schema schema = support::schema_of(describe);
  const auto read = [&](const std::string& text) {
    Json config = support::defaults(schema);
    support::Diagnostics diagnostics;
    support::overlay(schema, support::parse_yaml(text, "a.yml"), config, nullptr, diagnostics);
    diagnostics.throw_if_any();
    support::bind_config(describe, config, "config");
    return encoding.json;
  };
  BOOST_TEST(read("encoding: nope")["kind"] == "none");
  BOOST_TEST(read("encoding: {kind: yarn, factor: 4}")["beta_fast"] == 32);
  BOOST_TEST(encoding_name(read("encoding: {stack: [rope, {kind: ssmax}]}")) == "rope+ssmax");
  for (const Subject& subject : subjects()) {
    // A text of JSON is a text of YAML.
    const Json canonical = read("encoding: " + subject.config.dump());
    BOOST_TEST(encoding_name(canonical) == encoding_name(subject.config));
    make_encoding(canonical, small_shape());
  }
  for (const EncodingEntry& entry : encodings::encodings())
    make_encoding(read("encoding: " + entry.name), wide_shape());
  const auto refused = [&](const std::string& text) {
    try {
      read(text);
    } catch (const support::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  check_says(refused("encoding: {kind: yarn, factor: 0.5}"), {"a.yml:1", "factor"});
  check_says(refused("encoding:\n  stack:\n    - rope\n    - {kind: yarn, factor: 4}"),
             {"a.yml:4", "'rope' and 'yarn'", "both rotate queries and keys"});
  check_says(refused("encoding: {kind: yarn, over: {kind: p_rope, fracton: 0.5}}"), {"a.yml:1", "fraction"});
  check_says(refused("encoding: {kind: yarn, over: alibi}"), {"a.yml:1", "alibi"});
  check_says(refused("encoding: {kind: ntk, factor: 0.5}"), {"a.yml:1", "factor"});
  check_says(refused("encoding: rop"), {"a.yml:1", "rope"});
  check_says(refused("encoding: {kind: rope, bas: 4}"), {"a.yml:1", "base"});
}

BOOST_AUTO_TEST_SUITE_END()
