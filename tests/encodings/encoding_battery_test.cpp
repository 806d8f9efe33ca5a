// What every encoding must keep, run over the registry: a new encoding is under test once it is listed.
#include <c10/core/InferenceMode.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "fixture.h"

namespace data = boost::unit_test::data;
using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

std::unique_ptr<PositionalEncoding> stirred(const Json& config, const Shape& shape) {
  auto encoding = make_encoding(config, shape);
  stir(*encoding);
  return encoding;
}

Span whole(std::int64_t batch, std::int64_t length) {
  Span span = Span::whole(batch, length);
  span.pe_len = length;
  return span;
}

const AttendOptions kReference{.route = Route::kReference};
const AttendOptions kChunked{.route = Route::kChunked, .chunk_rows = 3};

bool has_fused_route(PositionalEncoding& encoding, const Span& span) {
  return route_name(encoding, span, at::kDouble, false) != "chunked";
}

/// The slopes of one subject are for two heads.
std::vector<Subject> subjects_for_any_heads() {
  std::vector<Subject> some = subjects();
  std::erase_if(some, [](const Subject& s) { return s.config.dump().find("slopes") != std::string::npos; });
  return some;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(encoding_battery)

BOOST_DATA_TEST_CASE(a_later_token_changes_nothing_before_it, data::make(subjects()), subject) {
  const auto encoding = stirred(subject.config, small_shape());
  const Toy toy(small_shape(), 2, 9);
  const Tensor before = toy.run(*encoding, whole(2, 9), kReference);
  for (const std::int64_t t : {1, 5, 8}) {
    Toy other = toy;
    for (Tensor Toy::*member : {&Toy::x}) (other.*member = (toy.*member).clone()).select(1, t).add_(1);
    for (Tensor Toy::*member : {&Toy::q, &Toy::k, &Toy::v})
      (other.*member = (toy.*member).clone()).select(2, t).add_(1);
    const Tensor after = other.run(*encoding, whole(2, 9), kReference);
    BOOST_TEST(at::equal(before.narrow(2, 0, t), after.narrow(2, 0, t)), "token " << t << " is seen before it comes");
    BOOST_TEST(!at::equal(before.select(2, t), after.select(2, t)));
    const Tensor fast = other.run(*encoding, whole(2, 9));
    BOOST_TEST(largest_difference(after, fast) <= 1e-10);
  }
}

BOOST_DATA_TEST_CASE(a_row_hook_sees_what_the_reference_route_does, data::make(subjects()), subject) {
  const auto encoding = stirred(subject.config, small_shape());
  const Toy toy(small_shape(), 2, 10);
  AttentionMatrices matrices;
  const Tensor expected = toy.run(*encoding, whole(2, 10), {.matrices = &matrices});
  std::vector<Tensor> weights, logits;
  const RowHook hook = [&](const AttentionRows& seen) {
    if (seen.rows.begin == 0) {   // another layer
      weights.clear();
      logits.clear();
    }
    BOOST_TEST(seen.rows.count() <= 3);
    const std::int64_t future = 10 - seen.weights.size(3);
    weights.push_back(at::constant_pad_nd(seen.weights, {0, future}));
    logits.push_back(at::constant_pad_nd(seen.logits, {0, future}, -std::numeric_limits<double>::infinity()));
  };
  const Tensor out = toy.run(*encoding, whole(2, 10), {.chunk_rows = 3, .row_hook = &hook});
  BOOST_TEST(largest_difference(out, expected) <= 1e-12);
  BOOST_TEST(largest_difference(at::cat(weights, 2), matrices.weights) <= 1e-12);
  const Tensor all = at::cat(logits, 2);
  BOOST_TEST(at::equal(all.isinf(), matrices.logits.isinf()));
  BOOST_TEST(largest_difference(all.nan_to_num(0, 0, 0), matrices.logits.nan_to_num(0, 0, 0)) <= 1e-11);
}

BOOST_DATA_TEST_CASE(positions_that_are_given_count_as_those_that_are_counted, data::make(subjects()), subject) {
  const auto encoding = stirred(subject.config, small_shape());
  const Toy toy(small_shape(), 2, 10);
  const c10::InferenceMode inference;
  for (const std::int64_t first : {0, 5}) {
    Span counted = whole(2, 10), given = whole(2, 10);
    counted.first_position = first;
    given.positions = at::arange(first, first + 10, at::kLong);
    if (encoding->traits(counted).maps_positions) return;
    const Tensor expected = toy.run(*encoding, counted, kReference);
    BOOST_TEST(largest_difference(toy.run(*encoding, given, kReference), expected) <= 1e-10);
    BOOST_TEST(largest_difference(toy.run(*encoding, given), expected) <= 1e-10);
    // Further apart they are something else, unless nothing asks for them.
    given.positions = at::arange(first, first + 10, at::kLong).clone();
    given.positions.narrow(0, 5, 5).add_(1);
    const Tensor apart = toy.run(*encoding, given, kReference);
    BOOST_TEST(largest_difference(apart, toy.run(*encoding, given)) <= 1e-10);
  }
  Span both = whole(2, 10);
  both.positions = at::arange(10, at::kLong);
  both.first_position = 1;
  BOOST_CHECK_THROW(toy.run(*encoding, both), ShapeError);
}

BOOST_DATA_TEST_CASE(pairs_turn_by_the_angles_that_are_told, data::make(subjects()), subject) {
  const Shape shape = small_shape();
  const auto encoding = stirred(subject.config, shape);
  const c10::InferenceMode inference;
  Span span = whole(1, 6);
  span.positions = at::arange(8, 14, at::kLong);   // beyond those that LongRoPE protects
  if (encoding->traits(span).maps_positions) return;
  const auto rotated = encoding->rotated_pairs(1, span);
  if (!rotated) return;
  BOOST_REQUIRE(rotated->pairs() > 0u);
  BOOST_REQUIRE_EQUAL(rotated->theta.size() % rotated->pairs(), 0u);
  State state = begin_pass(*encoding, span);
  const Tensor x = normals("turned.x", {1, 1, shape.width}).expand({1, 6, shape.width});
  LayerContext context = layer_context(*encoding, state, 1, x);
  Heads heads;   // the same content at every position
  heads.k = normals("turned.q", {1, shape.query_heads, 1, shape.head_width}).expand({1, shape.query_heads, 6, shape.head_width}).contiguous();
  heads.v = heads.k.clone();
  heads.q = heads.k.narrow(1, 0, encoding->projected_heads()).clone();
  encoding->transform(context, heads);
  for (std::size_t pair = 0; pair < rotated->pairs(); ++pair) {
    for (std::int64_t head = 0; head < shape.query_heads; ++head) {
      const auto group = static_cast<std::size_t>(head) * rotated->groups() / static_cast<std::size_t>(shape.query_heads);
      const double theta = rotated->theta[group * rotated->pairs() + pair];
      const Tensor a = heads.k[0][head].select(1, rotated->first[pair]), b = heads.k[0][head].select(1, rotated->second[pair]);
      for (std::int64_t t = 0; t + 1 < 6; ++t) {   // the angle from one position to the next
        const double along = value(a[t] * a[t + 1] + b[t] * b[t + 1]), across = value(a[t] * b[t + 1] - b[t] * a[t + 1]);
        const double miss = std::remainder(std::atan2(across, along) - theta, 2 * M_PI);
        BOOST_TEST(std::abs(miss) < 1e-6, "pair " << pair << " of head " << head << " at " << t << " is off by " << miss);
      }
    }
  }
}

BOOST_DATA_TEST_CASE(all_routes_agree_on_outputs_and_gradients,
                     data::make(subjects_for_any_heads()) * data::make({1, 2, 4}), subject, groups) {
  if (groups < 4 && exempt(subject, "shared keys")) return;
  const Shape shape = small_shape(4, groups);
  const auto encoding = stirred(subject.config, shape);
  const Toy toy(shape, 2, 10);
  const Span span = whole(2, 10);
  const Evaluated reference = evaluate(*encoding, toy, span, kReference);
  const Evaluated automatic = evaluate(*encoding, toy, span, {});
  const Evaluated chunked = evaluate(*encoding, toy, span, kChunked);
  BOOST_TEST(largest_difference(reference.out, automatic.out) <= 1e-11);
  BOOST_TEST(largest_difference(reference.out, chunked.out) <= 1e-12);
  for (std::size_t i = 0; i < reference.gradients.size(); ++i) {
    BOOST_TEST(largest_difference(reference.gradients[i], automatic.gradients[i]) <= 1e-10, "gradient " << i);
    BOOST_TEST(largest_difference(reference.gradients[i], chunked.gradients[i]) <= 1e-11, "gradient " << i);
  }
  at::NoGradGuard no_grad;   // without gradients more can be fused
  if (has_fused_route(*encoding, span)) {
    BOOST_TEST(largest_difference(reference.out, toy.run(*encoding, span, {.route = Route::kFused})) <= 1e-11);
    // A small limit makes the mask come in pieces.
    BOOST_TEST(largest_difference(reference.out, toy.run(*encoding, span, {.route = Route::kFused, .mask_bytes = 1})) <=
               1e-11);
  }
}

BOOST_DATA_TEST_CASE(gradients_are_those_of_finite_differences, data::make(subjects()), subject) {
  const auto encoding = stirred(subject.config, small_shape());
  const std::int64_t batch = 2, length = 5;
  Toy toy(small_shape(), batch, length);
  const Span span = whole(batch, length);
  const Evaluated found = evaluate(*encoding, toy, span, kChunked);
  std::vector<Tensor> inputs;
  for (Tensor Toy::*member : {&Toy::x, &Toy::q, &Toy::k, &Toy::v})
    inputs.push_back(toy.*member = (toy.*member).clone());
  for (const Parameter& parameter : encoding->parameters()) inputs.push_back(parameter.value);
  at::NoGradGuard no_grad;
  const Tensor direction = normals("direction", found.out.sizes()).to(at::kBFloat16).to(at::kDouble);  // as in evaluate
  const double step = 1e-6;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensor flat = inputs[i].view(-1);
    const Tensor gradient = found.gradients[i].reshape(-1);
    const std::int64_t stride = std::max<std::int64_t>(1, flat.numel() / (i < 4 ? 12 : 8));   // of many, some
    for (std::int64_t e = 0; e < flat.numel(); e += stride) {
      double* entry = element(flat, e);
      const double kept = *entry;
      *entry = kept + step;
      const double above = value((toy.run(*encoding, span, kReference) * direction).sum());
      *entry = kept - step;
      const double below = value((toy.run(*encoding, span, kReference) * direction).sum());
      *entry = kept;
      const double expected = (above - below) / (2 * step), got = value(gradient[e]);
      BOOST_TEST(std::abs(expected - got) <= 1e-6 * (1 + std::abs(expected)),
                 "input " << i << ", element " << e << ": expected " << expected << ", got " << got);
    }
  }
}

BOOST_DATA_TEST_CASE(row_by_row_over_all_earlier_keys_equals_one_pass, data::make(subjects()), subject) {
  const auto encoding = stirred(subject.config, small_shape());
  // A draw is for a number of tokens; a longer one is another draw.
  if (encoding->facts().stochastic || exempt(subject, "row by row")) return;
  at::NoGradGuard no_grad;
  const std::int64_t length = 9;
  const Toy toy(small_shape(), 2, length);
  for (const bool reference : {true, false}) {
    const AttendOptions options = reference ? kReference : AttendOptions{};
    const Tensor once = toy.run(*encoding, whole(2, length), options);
    for (std::int64_t row = 0; row < length; ++row) {
      const Toy prefix = toy.part(0, row + 1);
      Span one{.batch = 2, .queries = 1, .keys = row + 1, .pe_len = length};
      BOOST_TEST(largest_difference(once.narrow(2, row, 1), prefix.run(*encoding, one, options)) <= 1e-11);
    }
    Span last_four{.batch = 2, .queries = 4, .keys = length, .pe_len = length};
    BOOST_TEST(largest_difference(once.narrow(2, length - 4, 4), toy.run(*encoding, last_four, options)) <= 1e-11);
  }
}

BOOST_DATA_TEST_CASE(a_common_shift_of_positions_does_what_the_facts_say, data::make(subjects()), subject) {
  const auto encoding = stirred(subject.config, small_shape());
  const Facts facts = encoding->facts();
  // Draws ignore where a text starts.
  if (facts.stochastic) return;
  at::NoGradGuard no_grad;
  const Toy toy(small_shape(), 1, 7);
  const auto at_shift = [&](std::int64_t shift) {
    Span span = whole(1, 7);
    span.first_position = shift;
    span.pe_len = 8192;
    return std::pair(toy.run(*encoding, span, kReference), toy.run(*encoding, span));
  };
  const auto [reference, fast] = at_shift(0);
  BOOST_TEST(largest_difference(reference, fast) <= 1e-11);
  bool changed = false;
  for (const std::int64_t shift : {1, 9, 4096}) {
    if (facts.max_positions && shift + 7 > *facts.max_positions) continue;
    const auto [moved, moved_fast] = at_shift(shift);
    const double difference = largest_difference(reference, moved);
    BOOST_TEST(largest_difference(moved, moved_fast) <= 1e-9);
    if (facts.shift_invariant == ShiftInvariance::kAlways) BOOST_TEST(difference <= 1e-9, "shift " << shift);
    changed = changed || difference > 1e-3;
  }
  // The same tokens further down in a text: temperatures that count keys, and sums from the start, change there.
  const Toy longer(small_shape(), 1, 15);
  const auto logits_of = [&](const Toy& some, std::int64_t rows) {
    AttentionMatrices matrices;
    Span span = whole(1, rows);
    span.pe_len = 8192;
    some.run(*encoding, span, {.matrices = &matrices});
    return matrices.logits.narrow(2, rows - 10, 10).narrow(3, rows - 10, 10);
  };
  if (!exempt(subject, "moved rows")) {
    // The first keys are left out: a convolution there reads the token before.
    const Tensor alone = logits_of(longer.part(5, 10), 10), behind = logits_of(longer, 15);
    const Tensor seen = at::tril(at::ones({10, 10}, at::kBool)).narrow(1, 3, 7);
    const double difference = largest_difference(alone.narrow(3, 3, 7).masked_fill(seen.logical_not(), 0.0).nan_to_num(),
                                                 behind.narrow(3, 3, 7).masked_fill(seen.logical_not(), 0.0).nan_to_num());
    if (facts.shift_invariant == ShiftInvariance::kAlways) BOOST_TEST(difference <= 1e-9, "behind other tokens");
    changed = changed || difference > 1e-3;
  }
  BOOST_TEST(changed == (facts.shift_invariant != ShiftInvariance::kAlways));
}

BOOST_DATA_TEST_CASE(four_times_the_training_length_is_finite_or_refused, data::make(subjects()), subject) {
  const auto encoding = stirred(subject.config, small_shape());
  at::NoGradGuard no_grad;
  const std::int64_t length = 4 * small_shape().train_length;
  const Toy toy(small_shape(), 1, length);
  const std::optional<std::int64_t> bound = encoding->facts().max_positions;
  if (bound && *bound < length) {
    BOOST_CHECK_THROW(toy.run(*encoding, whole(1, length)), RangeError);
    BOOST_TEST(all_finite(toy.part(0, *bound).run(*encoding, whole(1, *bound))));
    return;
  }
  const Tensor out = toy.run(*encoding, whole(1, length));
  BOOST_TEST(all_finite(out));
  BOOST_TEST(largest_difference(out, toy.run(*encoding, whole(1, length), kReference)) <= 1e-10);
}

BOOST_DATA_TEST_CASE(packed_documents_are_as_if_they_stood_alone, data::make(subjects()), subject) {
  const auto encoding = stirred(subject.config, small_shape());
  if (encoding->facts().stochastic) return;
  at::NoGradGuard no_grad;
  const Toy toy(small_shape(), 2, 8);
  Span span = whole(2, 8);
  span.restart_positions = true;
  for (const bool by_sequence : {false, true}) {
    span.doc_start = at::tensor({0, 0, 0, 3, 3, 3, 3, 3}, at::TensorOptions(at::kLong));
    if (by_sequence) span.doc_start = span.doc_start.expand({2, 8});
    for (const AttendOptions& options : {kReference, kChunked, AttendOptions{}}) {
      const Tensor packed = toy.run(*encoding, span, options);
      for (const auto& [begin, count] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 5}}) {
        Span alone = whole(2, count);
        alone.pe_len = 8;
        const Tensor expected = toy.part(begin, count).run(*encoding, alone, kReference);
        BOOST_TEST(largest_difference(packed.narrow(2, begin, count), expected) <= 1e-11);
      }
    }
  }
}

BOOST_DATA_TEST_CASE(bfloat16_stays_near_float32, data::make(subjects()), subject) {
  Shape shape = small_shape();
  shape.dtype = at::kFloat;   // parameters are never less than float32
  const auto encoding = stirred(subject.config, shape);
  for (const Parameter& parameter : encoding->parameters()) BOOST_TEST((parameter.value.scalar_type() == at::kFloat));
  Span span = whole(2, 48);
  if (encoding->facts().max_positions.value_or(4096) < 48) span = whole(2, 16);
  Toy low(shape, 2, span.keys);
  // Both see the same numbers as q, k and v: nothing but attention is compared.
  for (Tensor Toy::*member : {&Toy::wq, &Toy::wk, &Toy::wv}) (low.*member).zero_();
  low = low.to(at::kBFloat16);
  const Toy high = low.to(at::kFloat);
  const Evaluated expected = evaluate(*encoding, high, span, kReference);
  // A count of gates that a rounded q moves past a whole number has another slope there, and a gradient that is one
  // number sums such terms of both signs.
  // So does that of a trained frequency, over all distances.
  const Facts facts = encoding->facts();
  const double allowed = facts.rotates && facts.learned ? 0.35 : facts.content_dependent ? 0.15 : 2e-2;
  double largest = 0;
  for (std::size_t i = 1; i < expected.gradients.size(); ++i) {
    largest = std::max(largest, value(expected.gradients[i].norm()));
  }
  for (const AttendOptions& options : {AttendOptions{}, kChunked}) {
    const Evaluated got = evaluate(*encoding, low, span, options);
    BOOST_TEST(relative_difference(got.out, expected.out) <= 2e-2);
    for (std::size_t i = 0; i < got.gradients.size(); ++i) {
      // A parameter of a few numbers sums terms of both signs, as large as those of other gradients.
      const double noise = i < 4 ? 0 : 1e-2 * largest;
      const double size = value(expected.gradients[i].norm()) + 1e-3;
      const double off = relative_difference(got.gradients[i], expected.gradients[i]);
      BOOST_TEST(off <= allowed + noise / size, "gradient " << i << " is off by " << off);
    }
  }
  at::NoGradGuard no_grad;
  State one = begin_pass(*encoding, span), two = begin_pass(*encoding, span);
  say_numbers(*encoding, low.x, one);
  say_numbers(*encoding, high.x, two);
  const Tensor sum = add_to_tokens(*encoding, low.x, one);
  BOOST_TEST((sum.scalar_type() == at::kBFloat16));
  BOOST_TEST(relative_difference(sum, add_to_tokens(*encoding, high.x, two)) <= 4e-3);
}

// bfloat16 holds no whole number above 256: a position in it, far out, would be another one.
BOOST_DATA_TEST_CASE(far_positions_in_bfloat16_are_still_exact, data::make(subjects()), subject) {
  Shape shape = small_shape();
  shape.dtype = at::kFloat;
  const auto encoding = stirred(subject.config, shape);
  const Facts facts = encoding->facts();
  if (facts.stochastic || facts.max_positions) return;
  at::NoGradGuard no_grad;
  const Toy low = Toy(shape, 1, 12).to(at::kBFloat16);
  Span span = whole(1, 12);
  span.first_position = 20011;
  span.pe_len = 32768;
  const Tensor expected = low.to(at::kFloat).run(*encoding, span, kReference);
  const Tensor got = low.run(*encoding, span).to(at::kFloat);
  BOOST_TEST(relative_difference(got, expected) <= 2e-2);
}

BOOST_DATA_TEST_CASE(float32_routes_agree, data::make(subjects()), subject) {
  Shape shape = small_shape();
  shape.dtype = at::kFloat;
  const auto encoding = stirred(subject.config, shape);
  const std::int64_t length = std::min<std::int64_t>(encoding->facts().max_positions.value_or(120), 120);
  const Toy toy(shape, 1, length, at::kFloat);
  const Evaluated reference = evaluate(*encoding, toy, whole(1, length), kReference);
  const Evaluated fast = evaluate(*encoding, toy, whole(1, length), {});
  const Evaluated chunked = evaluate(*encoding, toy, whole(1, length), {.route = Route::kChunked, .chunk_rows = 50});
  BOOST_TEST(largest_difference(reference.out, chunked.out) <= 1e-5);
  // One channel holds slope times place in float32, up to 60 here.
  BOOST_TEST(largest_difference(reference.out, fast.out) <= 2e-4);
  for (std::size_t i = 0; i < reference.gradients.size(); ++i) {
    const double size = 1 + value(reference.gradients[i].abs().max());
    BOOST_TEST(largest_difference(reference.gradients[i], chunked.gradients[i]) <= 2e-5 * size, "gradient " << i);
    BOOST_TEST(largest_difference(reference.gradients[i], fast.gradients[i]) <= 3e-4 * size, "gradient " << i);
  }
}

BOOST_DATA_TEST_CASE(facts_hold, data::make(subjects()), subject) {
  const auto encoding = make_encoding(subject.config, small_shape());
  const Facts facts = encoding->facts();
  BOOST_TEST(facts.learned == !encoding->parameters().empty());
  const Toy toy(small_shape(), 2, 8);
  at::NoGradGuard no_grad;
  Span span = whole(2, 8);
  span.training = !exempt(subject, "training");
  const Tensor first = toy.run(*encoding, span), again = toy.run(*encoding, span);
  BOOST_TEST(at::equal(first, again));   // the same step draws the same
  span.step = 1;
  const Tensor next = toy.run(*encoding, span);
  span.training = false;
  const Tensor evaluated = toy.run(*encoding, span);
  span.step = 2;
  const Tensor evaluated_again = toy.run(*encoding, span);
  if (facts.stochastic) {
    // On its own a position map moves nothing.
    const bool moves = subject.name.find("stack") != std::string::npos;
    BOOST_TEST(at::equal(first, next) == !moves);
  } else {
    BOOST_TEST(at::equal(evaluated, evaluated_again));   // some draw in training alone
  }
  if (facts.prefixes_agree()) {
    Span prefix = whole(2, 5);
    BOOST_TEST(largest_difference(evaluated.narrow(2, 0, 5), toy.part(0, 5).run(*encoding, prefix)) <= 1e-12);
  }
  if (facts.length_dependent) {
    span.pe_len = 1;
    const Tensor as_short = toy.run(*encoding, span);
    span.pe_len = 64;
    BOOST_TEST(largest_difference(as_short, toy.run(*encoding, span)) > 1e-6);
    span.pe_len.reset();
    BOOST_CHECK_THROW(toy.run(*encoding, span), support::ConfigError);
  }
}

BOOST_DATA_TEST_CASE(training_goes_on_after_an_evaluation_in_inference_mode, data::make(subjects()), subject) {
  const auto encoding = stirred(subject.config, small_shape());
  const Toy toy(small_shape(), 2, 8);
  Tensor evaluated;
  {
    const c10::InferenceMode inference;
    evaluated = toy.run(*encoding, whole(2, 8)).clone();
  }
  const Evaluated trained = evaluate(*encoding, toy, whole(2, 8), {});
  BOOST_TEST(largest_difference(evaluated, trained.out) <= 1e-12);
}

BOOST_DATA_TEST_CASE(initial_values_come_from_seed_and_name_alone, data::make(subjects()), subject) {
  const auto one = make_encoding(subject.config, small_shape()), two = make_encoding(subject.config, small_shape());
  Shape other = small_shape();
  other.seed = 6;
  const auto reseeded = make_encoding(subject.config, other);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < one->parameters().size(); ++i) {
    const Parameter& p = one->parameters()[i];
    BOOST_TEST(at::equal(p.value, two->parameters()[i].value), p.name);
    BOOST_TEST((p.value.is_leaf() && p.value.requires_grad()), p.name);
    const bool constant = p.value.numel() < 2 || all_equal(p.value);
    // From a formula, not drawn.
    const std::vector<std::string> formulas{"frequency", "log_scale", "bias"};
    const bool computed = p.name == "sininit.table" ||
                          std::find(formulas.begin(), formulas.end(), p.short_name) != formulas.end();
    BOOST_TEST((constant || computed || !at::equal(p.value, reseeded->parameters()[i].value)), p.name);
    BOOST_TEST((!p.weight_decay || p.value.dim() >= 2), p.name);
    BOOST_TEST(std::count(names.begin(), names.end(), p.name) == 0, p.name);
    names.push_back(p.name);
  }
}

BOOST_DATA_TEST_CASE(a_frozen_model_still_trains_its_encoding, data::make(subjects()), subject) {
  const auto encoding = stirred(subject.config, small_shape());
  if (encoding->parameters().empty()) return;
  const Toy frozen(small_shape(), 2, 8);
  const auto gradients = [&](const AttendOptions& options) {
    for (const Parameter& p : encoding->parameters()) Tensor(p.value).mutable_grad() = Tensor();
    Span span = whole(2, 8);
    span.pe_len = 64;   // four times the training length, where rules for longer texts act
    (frozen.run(*encoding, span, options) * normals("direction", {2, 2, 8, 4})).sum().backward();
    std::vector<Tensor> found;
    for (const Parameter& p : encoding->parameters()) {
      found.push_back(p.value.grad().defined() ? p.value.grad().clone() : at::zeros_like(p.value));
    }
    return found;
  };
  const std::vector<Tensor> reference = gradients(kReference), fast = gradients({});
  double largest = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    BOOST_TEST(largest_difference(reference[i], fast[i]) <= 1e-11);
    largest = std::max(largest, value(reference[i].abs().max()));
  }
  BOOST_TEST(largest > 0);
}

BOOST_AUTO_TEST_SUITE_END()
