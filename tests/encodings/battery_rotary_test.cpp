// Invariants of every encoding that rotates q and k, and of every rule that extends one; over the registry.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "encodings/attention/attention_window.h"
#include "encodings/rotary/rescaling.h"
#include "encodings/rotary/rotary.h"
#include "encodings/rotary/rotary_schedules.h"
#include "fixture.h"

namespace data = boost::unit_test::data;
using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

/// Encodings whose angles follow from positions; repo and tape learn theirs from the content of tokens.
std::vector<Subject> rotating() {
  std::vector<Subject> some = subjects();
  std::erase_if(some, [](const Subject& s) {
    if (s.name.find("stack") != std::string::npos) return true;
    const Facts facts = make_encoding(s.config, small_shape())->facts();
    return !facts.rotates || facts.content_dependent;
  });
  return some;
}

std::vector<Subject> without_biases() {
  std::vector<Subject> some = subjects();
  std::erase_if(some, [](const Subject& s) {
    const auto encoding = make_encoding(s.config, small_shape());
    const Traits traits = encoding->traits(Span::whole(1, 8));
    return traits.bias != BiasKind::kNone || traits.own_logits || traits.rewrites_logits || traits.normalises ||
           traits.rows_coupled || traits.extra_values || window_of(*encoding, 0) > 0;
  });
  return some;
}

/// Rules of frequencies over a member of the family; distance_map leaves frequencies alone.
std::vector<std::string> extensions() {
  std::vector<std::string> names;
  for (const EncodingEntry& entry : encodings::encodings()) {
    if (support::find_field(entry.fields, "over") != nullptr && entry.name != "distance_map")
      names.push_back(entry.name);
  }
  return names;
}

std::vector<std::string> schedules() {
  std::vector<std::string> names;
  for (const RotarySchedule& schedule : rotary_schedules()) names.push_back(schedule.name);
  return names;
}

struct Rotated {
  Tensor q, k;
};

Rotated rotated(PositionalEncoding& encoding, const Toy& toy, std::int64_t first_position, std::int64_t pe_len) {
  Span span = Span::whole(toy.q.size(0), toy.q.size(2));
  span.first_position = first_position;
  span.pe_len = pe_len;
  State state = begin_pass(encoding, span);
  say_numbers(encoding, toy.x, state);
  LayerContext context = layer_context(encoding, state, 0);
  Heads heads{.q = toy.q.narrow(1, 0, encoding.projected_heads()), .k = toy.k, .v = toy.v};
  encoding.transform(context, heads);
  return {heads.q.detach(), heads.k.detach()};
}

Tensor products(const Rotated& t) { return at::matmul(t.q.to(at::kDouble), t.k.to(at::kDouble).transpose(-1, -2)); }

}  // namespace

BOOST_AUTO_TEST_SUITE(battery_rotary)

// Turning keeps lengths, but for an attention factor, which is the same for all. Not so by definition: xpos fades,
// fope mixes, pope replaces the content by its softplus, and unturned channels below an attention factor keep theirs.
BOOST_DATA_TEST_CASE(lengths_of_queries_and_keys_are_kept, data::make(rotating()), subject) {
  const std::string kind = subject.config.dump();
  for (const char* exempt : {"xpos", "fope", "pope", "partial"}) {
    if (kind.find(exempt) != std::string::npos) return;
  }
  const auto encoding = make_encoding(subject.config, small_shape());
  const Toy toy(small_shape(), 2, 12);
  const Rotated found = rotated(*encoding, toy, 4000, 8192);
  const Tensor ratio = found.q.norm(2, {-1}) / toy.q.narrow(1, 0, encoding->projected_heads()).norm(2, {-1});
  BOOST_TEST(largest_difference(ratio, ratio.flatten()[0].expand_as(ratio)) <= 1e-12);
  BOOST_TEST(value(ratio.flatten()[0]) >= 1 - 1e-12);
}

// A caller that uses the tables rotates q and k in the encoding's place (model/block.cpp), so that must be all that it
// does.
SUBJECT_TEST_CASE(rotary_tables_do_what_the_encoding_does, subjects()) {
  const auto encoding = make_encoding(subject.config, small_shape());
  const Toy toy(small_shape(), 2, 12);
  Span span = Span::whole(2, 12);
  span.pe_len = 64;
  State state = begin_pass(*encoding, span);
  say_numbers(*encoding, toy.x, state);
  LayerContext context = layer_context(*encoding, state, 0, toy.x);
  const auto tables = rotary_tables(*encoding, context, at::kDouble);
  for (const char* plain : {"rope", "p_rope", "yarn", "ntk"}) {
    if (subject.name == plain) BOOST_TEST(tables.has_value());
  }
  if (!tables) return;
  Heads heads{.q = toy.q, .k = toy.k, .v = toy.v};
  encoding->transform(context, heads);
  BOOST_TEST(heads.q.equal(rotate(toy.q, tables->cos, tables->sin, tables->layout)));
  BOOST_TEST(heads.k.equal(rotate(toy.k, tables->cos, tables->sin, tables->layout)));
  BOOST_TEST(heads.v.equal(toy.v));
  // And the rest is attention without an encoding.
  const Traits traits = encoding->traits(span);
  BOOST_TEST((traits.bias == BiasKind::kNone && !traits.needs_raw && !traits.extra_values && !traits.normalises));
  const auto none = make_encoding("none", small_shape());
  State bare_state = begin_pass(*none, span);
  LayerContext bare = layer_context(*none, bare_state, 0, toy.x);
  const Tensor whole = attend(*encoding, context, {.q = toy.q, .k = toy.k, .v = toy.v, .scale = 0.5});
  BOOST_TEST(whole.equal(attend(*none, bare, {.q = heads.q, .k = heads.k, .v = heads.v, .scale = 0.5})));
}

// Neither turning nor adding to tokens may cost a kernel, in training or in evaluation.
BOOST_DATA_TEST_CASE(nothing_without_a_bias_leaves_the_fused_kernel, data::make(without_biases()), subject) {
  const auto encoding = make_encoding(subject.config, small_shape());
  for (const bool training : {true, false}) {
    Span span = Span::whole(2, 32);
    span.training = training;
    span.pe_len = 32;
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      BOOST_TEST(route_name(*encoding, span, type, training) == "fused");
    }
  }
}

// With angles or positions in bfloat16 the error would grow with position until nothing is left.
BOOST_DATA_TEST_CASE(rounding_does_not_grow_with_position, data::make(rotating()), subject) {
  Shape shape = small_shape();
  shape.dtype = at::kFloat;
  const auto encoding = make_encoding(subject.config, shape);
  const Toy low = Toy(shape, 1, 16).to(at::kBFloat16);
  const auto error_at = [&](std::int64_t first) {
    return value((products(rotated(*encoding, low, first, 65536)) -
                  products(rotated(*encoding, low.to(at::kFloat), first, 65536)))
                     .abs()
                     .max());
  };
  const double near = error_at(512 - 16), far = error_at(32768 - 16);
  BOOST_TEST(far <= 2 * near + 0.02, "from " << near << " to " << far);
}

BOOST_DATA_TEST_CASE(a_factor_of_one_is_what_stands_below, data::make(extensions()) * data::make(schedules()), rule,
                     below) {
  if (rule.find("resonance") != std::string::npos) return;  // rounds wavelengths whatever the factor
  const auto plain = make_encoding(below, small_shape());
  // xpos has interleaved pairs however it is asked for.
  const auto one = make_encoding({{"kind", rule}, {"factor", 1}, {"over", below}}, small_shape());
  const Toy toy(small_shape(), 2, 12);
  const auto length = rule == "dyn_ntk" ? 16 : 64;  // it goes by the length
  const Rotated a = rotated(*plain, toy, 3, length), b = rotated(*one, toy, 3, length);
  BOOST_TEST(at::equal(a.q, b.q));
  BOOST_TEST(at::equal(a.k, b.k));
  BOOST_TEST(plain->parameters().size() == one->parameters().size());
  for (std::size_t i = 0; i < plain->parameters().size(); ++i) {
    BOOST_TEST(plain->parameters()[i].name == one->parameters()[i].name);  // so that a checkpoint fits
    BOOST_TEST(at::equal(plain->parameters()[i].value, one->parameters()[i].value));
  }
}

BOOST_DATA_TEST_CASE(what_is_not_turned_stays_so_under_every_rule, data::make(extensions()), rule) {
  for (const Json& over : {Json{{"kind", "p_rope"}, {"fraction", 0.5}}, Json("hope"), Json("cope_clip")}) {
    Json config = {{"kind", rule}, {"over", over}};
    if (rule.find("resonance") == std::string::npos || rule != "resonance") config["factor"] = 4;
    const auto encoding = make_encoding(config, small_shape());
    const auto plain = make_encoding(over, small_shape());
    const std::vector<double> below = dynamic_cast<Rotary&>(*plain).schedule().theta;
    const RotaryFrequencies made = dynamic_cast<Rotary&>(*encoding).frequencies({.pe_len = 64});
    BOOST_REQUIRE(made.theta.size() == below.size());
    bool slowed = false;
    for (std::size_t i = 0; i < below.size(); ++i) {
      BOOST_TEST((made.theta[i] == 0) == (below[i] == 0), rule << " over " << over << ", pair " << i);
      BOOST_TEST(std::isfinite(made.theta[i]));
      slowed = slowed || made.theta[i] != below[i];
    }
    const bool any_turns = std::any_of(below.begin(), below.end(), [](double t) { return t > 0; });
    // The fastest pair alone is one that most rules keep.
    if (rule == "pi" && any_turns) BOOST_TEST(slowed);
  }
}

BOOST_DATA_TEST_CASE(no_rule_makes_a_pair_faster, data::make(extensions()), rule) {
  if (rule.find("resonance") != std::string::npos) return;  // rounding may
  Shape wide = small_shape();
  wide.head_width = 64;
  wide.train_length = 512;
  const auto encoding = make_encoding({{"kind", rule}, {"factor", 8}}, wide);
  const auto& rotary = dynamic_cast<Rotary&>(*encoding);
  const std::vector<double> plain = rotary.schedule().theta, slow = rotary.frequencies({.pe_len = 4096}).theta;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    BOOST_TEST(slow[i] <= plain[i] * (1 + 1e-12));
    if (i > 0) BOOST_TEST(plain[i] / slow[i] >= plain[i - 1] / slow[i - 1] * (1 - 1e-12));
  }
}

BOOST_AUTO_TEST_SUITE_END()
