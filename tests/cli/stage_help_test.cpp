// Help on a stage's config: the first page fits a screen, and everything else is a topic away.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "cli/field_help.h"
#include "support/config.h"
#include "support/error.h"

using namespace pe;
using support::VariantKind;
using support::VariantValue;

namespace {

struct Options {
  double base = 10000;
  void describe(support::FieldVisitor& v) {
    v.field("base", base, "Wavelengths grow up to 2π times this.", {.min = 1});
  }
};

std::vector<VariantKind> encodings() {
  std::vector<VariantKind> kinds;
  for (const char* name : {"none", "sinusoidal", "alibi", "t5", "fire"})
    kinds.push_back({.name = name, .aliases = {}, .summary = std::string("Says ") + name + ".", .fields = {}});
  kinds.push_back(
      {.name = "rope", .aliases = {"rotary"}, .summary = "Turns pairs.", .fields = support::schema_of<Options>()});
  return kinds;
}

struct Model {
  std::int64_t width = 256;
  VariantValue encoding{"rope"};
  void describe(support::FieldVisitor& v) {
    v.field("width", width, "Width of the residual stream.", {.min = 1});
    v.variant("encoding", encoding, encodings(), "How positions enter.", true);
  }
};

struct Train {
  double peak_lr = 3e-3;
  std::int64_t seed = 1;
  void describe(support::FieldVisitor& v) {
    v.field("peak_lr", peak_lr, "Learning rate after the warm-up.");
    v.field("seed", seed, "Decides the first weights.");
  }
};

struct Config {
  Model model;
  Train train;
  std::string title;
  void describe(support::FieldVisitor& v) {
    v.group("model", model, "Shape of the model.");
    v.group("train", train, "How it is trained.");
    v.field("title", title, "Printed on the page.");
  }
};

const support::Schema& schema() {
  static const support::Schema made = support::schema_of<Config>();
  return made;
}

std::string topic(const std::string& name) { return cli::field_topic(schema(), "pe-toy", name, 80); }
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(stage_help)

BOOST_AUTO_TEST_CASE(the_outline_counts_values_and_says_where_kinds_are) {
  BOOST_TEST(cli::field_outline(schema(), 80) ==
             "  model  Shape of the model. 2 values. 6 encodings: --help encodings.\n"
             "  train  How it is trained. 2 values.\n"
             "  title  Printed on the page.\n");
}

BOOST_AUTO_TEST_CASE(a_topic_is_a_group_a_field_a_plural_or_a_kind) {
  BOOST_TEST(has(topic("train"), "train.peak_lr  (real; default 0.003)"));
  BOOST_TEST(has(topic("train"), "train.seed"));
  BOOST_TEST(!has(topic("train"), "model.width"));
  BOOST_TEST(topic("peak_lr") == topic("train.peak_lr"));
  BOOST_TEST(has(topic("model"), "How positions enter. 6 kinds: --help encodings."));
  BOOST_TEST(!has(topic("model"), "Turns pairs"));
  const std::string list = topic("encodings");
  for (const VariantKind& kind : encodings()) BOOST_TEST(has(list, "  " + kind.name + " "), list);
  BOOST_TEST(!has(list, "Wavelengths"));
  BOOST_TEST(topic("rope") ==
             "rope, a value of model.encoding: Turns pairs.\nAlso called rotary.\n\n  base  (real, at least 1; default "
             "10000)\n"
             "      Wavelengths grow up to 2π times this.\n\n  model.encoding: {kind: rope, base: …}\n"
             "  model.encoding: {stack: [rope, …]}\n");
  BOOST_TEST(topic("rotary") == topic("rope"));
  BOOST_TEST(has(topic("none"), "It has no options."));
  BOOST_TEST(topic("all") == support::render_fields(schema(), 80));
}

BOOST_AUTO_TEST_CASE(an_unknown_topic_names_the_nearest) {
  const auto says = [](const std::string& word) {
    return [word](const support::ConfigError& error) { return has(error.what(), word); };
  };
  BOOST_CHECK_EXCEPTION(topic("lr"), support::ConfigError, says("did you mean 'train.peak_lr'?"));
  BOOST_CHECK_EXCEPTION(topic("encodngs"), support::ConfigError, says("did you mean 'encodings'?"));
  BOOST_CHECK_EXCEPTION(topic("trian"), support::ConfigError, says("no help on 'trian'"));
}

BOOST_AUTO_TEST_SUITE_END()
