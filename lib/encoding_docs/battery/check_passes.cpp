// Checks of passes: visibility, routes, gradients, positions, documents.
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <limits>

#include "encoding_docs/battery/check_functions.h"
#include "encoding_docs/battery/passes.h"
#include "encoding_docs/battery/toy.h"
#include "support/error.h"

namespace pe::encoding_docs::battery {

using namespace encodings;

namespace {

bool has_fused_route(PositionalEncoding& encoding, const Span& span) {
  return route_name(encoding, span, at::kDouble, false) != "chunked";
}

/// Slopes of a subject are for two heads.
bool is_for_two_heads(const Subject& subject) { return subject.config.dump().find("slopes") != std::string::npos; }

void check_routes_with(const Subject& subject, std::int64_t groups, Findings& findings) {
  const Shape shape = small_shape(4, groups);
  const auto encoding = stirred(subject, shape);
  const Toy toy(shape, 2, 10);
  const Span span = whole(2, 10);
  const ToyGradients reference = evaluate(*encoding, toy, span, kReference);
  const ToyGradients automatic = evaluate(*encoding, toy, span, {});
  const ToyGradients chunked = evaluate(*encoding, toy, span, kChunked);
  const std::string route = support::cat("with ", groups, " key/value heads of 4 the route '",
                                         route_name(*encoding, span, at::kDouble, true), "'");
  findings.expect_near(largest_difference(reference.out, automatic.out), 1e-11, support::cat("output of ", route));
  findings.expect_near(largest_difference(reference.out, chunked.out), 1e-12, "output in ranges of rows");
  for (std::size_t i = 0; i < reference.gradients.size(); ++i) {
    const std::string input = input_name(*encoding, i);
    findings.expect_near(largest_difference(reference.gradients[i], automatic.gradients[i]), 1e-10,
                         support::cat("gradient of ", input, ", ", route));
    findings.expect_near(largest_difference(reference.gradients[i], chunked.gradients[i]), 1e-11,
                         support::cat("gradient of ", input, " in ranges of rows"));
  }
  at::NoGradGuard no_grad;  // without gradients more can be fused
  if (!has_fused_route(*encoding, span)) return;
  findings.expect_near(largest_difference(reference.out, toy.run(*encoding, span, {.route = Route::kFused})), 1e-11,
                       "output of the fused route");
  // A small limit makes the mask come in pieces.
  findings.expect_near(
      largest_difference(reference.out, toy.run(*encoding, span, {.route = Route::kFused, .mask_bytes = 1})), 1e-11,
      "output of the fused route with a mask in pieces");
}

/// The logits of the last ten rows among themselves; the same tokens further down in a text.
bool moves_rows(PositionalEncoding& encoding, const Facts& facts, Findings& findings) {
  const Toy longer(small_shape(), 1, 15);
  const auto logits_of = [&](const Toy& some, std::int64_t rows) {
    AttentionMatrices matrices;
    Span span = whole(1, rows);
    span.pe_len = 8192;
    some.run(encoding, span, {.matrices = &matrices});
    return matrices.logits.narrow(2, rows - 10, 10).narrow(3, rows - 10, 10);
  };
  // The first keys are left out: a convolution there reads the token before.
  const Tensor alone = logits_of(longer.part(5, 10), 10), behind = logits_of(longer, 15);
  const Tensor hidden = at::tril(at::ones({10, 10}, at::kBool)).narrow(1, 3, 7).logical_not();
  const auto visible = [&](const Tensor& logits) {
    return logits.narrow(3, 3, 7).masked_fill(hidden, 0.0).nan_to_num();
  };
  const double difference = largest_difference(visible(alone), visible(behind));
  if (facts.shift_invariant == ShiftInvariance::kAlways) {
    findings.expect_near(difference, 1e-9, "logits of tokens behind other tokens");
  }
  return difference > 1e-3;
}

}  // namespace

void check_causality(const Subject& subject, Findings& findings) {
  const auto encoding = stirred(subject, small_shape());
  const Toy toy(small_shape(), 2, 9);
  const Tensor before = toy.run(*encoding, whole(2, 9), kReference);
  for (const std::int64_t t : {1, 5, 8}) {
    Toy other = toy;
    (other.x = toy.x.clone()).select(1, t).add_(1);
    for (Tensor Toy::*member : {&Toy::q, &Toy::k, &Toy::v})
      (other.*member = (toy.*member).clone()).select(2, t).add_(1);
    const Tensor after = other.run(*encoding, whole(2, 9), kReference);
    findings.expect(at::equal(before.narrow(2, 0, t), after.narrow(2, 0, t)), "token ", t, " is seen before it comes");
    findings.expect(!at::equal(before.select(2, t), after.select(2, t)), "token ", t,
                    " changes nothing where it stands");
    findings.expect_near(largest_difference(after, other.run(*encoding, whole(2, 9))), 1e-10,
                         "output of the automatic route");
  }
}

void check_row_hook(const Subject& subject, Findings& findings) {
  const auto encoding = stirred(subject, small_shape());
  const Toy toy(small_shape(), 2, 10);
  AttentionMatrices matrices;
  const Tensor expected = toy.run(*encoding, whole(2, 10), {.matrices = &matrices});
  std::vector<Tensor> weights, logits;
  const RowHook hook = [&](const AttentionRows& seen) {
    if (seen.rows.begin == 0) {  // another layer
      weights.clear();
      logits.clear();
    }
    findings.expect(seen.rows.count() <= 3, "a range has ", seen.rows.count(), " rows, and 3 were asked for");
    const std::int64_t future = 10 - seen.weights.size(3);
    weights.push_back(at::constant_pad_nd(seen.weights, {0, future}));
    logits.push_back(at::constant_pad_nd(seen.logits, {0, future}, -std::numeric_limits<double>::infinity()));
  };
  const Tensor out = toy.run(*encoding, whole(2, 10), {.chunk_rows = 3, .row_hook = &hook});
  findings.expect_near(largest_difference(out, expected), 1e-12, "output");
  findings.expect_near(largest_difference(at::cat(weights, 2), matrices.weights), 1e-12, "weights");
  const Tensor all = at::cat(logits, 2);
  findings.expect(at::equal(all.isinf(), matrices.logits.isinf()), "other logits are masked");
  findings.expect_near(largest_difference(all.nan_to_num(0, 0, 0), matrices.logits.nan_to_num(0, 0, 0)), 1e-11,
                       "logits");
}

void check_given_positions(const Subject& subject, Findings& findings) {
  const auto encoding = stirred(subject, small_shape());
  const Toy toy(small_shape(), 2, 10);
  const c10::InferenceMode inference;
  for (const std::int64_t first : {0, 5}) {
    Span counted = whole(2, 10), given = whole(2, 10);
    counted.first_position = first;
    given.positions = at::arange(first, first + 10, at::kLong);
    if (encoding->traits(counted).maps_positions) return;
    const Tensor expected = toy.run(*encoding, counted, kReference);
    findings.expect_near(largest_difference(toy.run(*encoding, given, kReference), expected), 1e-10,
                         "output at given positions");
    findings.expect_near(largest_difference(toy.run(*encoding, given), expected), 1e-10,
                         "output of the automatic route at given positions");
    // Further apart they are something else, unless nothing asks for them.
    given.positions = given.positions.clone();
    given.positions.narrow(0, 5, 5).add_(1);
    const Tensor apart = toy.run(*encoding, given, kReference);
    findings.expect_near(largest_difference(apart, toy.run(*encoding, given)), 1e-10,
                         "output of the automatic route at positions with a gap");
  }
  Span both = whole(2, 10);
  both.positions = at::arange(10, at::kLong);
  both.first_position = 1;
  bool refused = false;
  try {
    toy.run(*encoding, both);
  } catch (const ShapeError&) {
    refused = true;
  }
  findings.expect(refused, "given positions and a first position together are not rejected");
}

void check_pairs(const Subject& subject, Findings& findings) {
  const Shape shape = small_shape();
  const auto encoding = stirred(subject, shape);
  const c10::InferenceMode inference;
  Span span = whole(1, 6);
  span.positions = at::arange(8, 14, at::kLong);  // beyond the positions that LongRoPE protects
  if (encoding->traits(span).maps_positions) return;
  const auto rotated = encoding->rotated_pairs(1, span);
  if (!rotated) return;
  if (rotated->pairs() == 0 || rotated->theta.size() % rotated->pairs() != 0) {
    findings.expect(false, "rotated_pairs has ", rotated->theta.size(), " frequencies for ", rotated->pairs(),
                    " pairs");
    return;
  }
  State state = begin_pass(*encoding, span);
  const Tensor x = normals("turned.x", {1, 1, shape.width}).expand({1, 6, shape.width});
  LayerContext context = layer_context(*encoding, state, 1, x);
  Heads heads;  // the same content at every position
  heads.k = normals("turned.q", {1, shape.query_heads, 1, shape.head_width})
                .expand({1, shape.query_heads, 6, shape.head_width})
                .contiguous();
  heads.v = heads.k.clone();
  heads.q = heads.k.narrow(1, 0, encoding->projected_heads()).clone();
  encoding->transform(context, heads);
  for (std::size_t pair = 0; pair < rotated->pairs(); ++pair) {
    for (std::int64_t head = 0; head < shape.query_heads; ++head) {
      const auto group =
          static_cast<std::size_t>(head) * rotated->groups() / static_cast<std::size_t>(shape.query_heads);
      const double theta = rotated->theta[group * rotated->pairs() + pair];
      const Tensor a = heads.k[0][head].select(1, rotated->first[pair]),
                   b = heads.k[0][head].select(1, rotated->second[pair]);
      for (std::int64_t t = 0; t + 1 < 6; ++t) {  // the angle from one position to the next
        const double along = value(a[t] * a[t + 1] + b[t] * b[t + 1]),
                     across = value(a[t] * b[t + 1] - b[t] * a[t + 1]);
        const double miss = std::remainder(std::atan2(across, along) - theta, 2 * M_PI);
        findings.expect(std::abs(miss) < 1e-6, "pair ", pair, " of head ", head, " at ", t, " is off by ", miss,
                        " radians");
      }
    }
  }
}

void check_routes(const Subject& subject, Findings& findings) {
  if (is_for_two_heads(subject)) return;
  for (const std::int64_t groups : {4, 2, 1}) {
    if (groups < 4 && exemption(subject, "shared keys") != nullptr) continue;
    check_routes_with(subject, groups, findings);
  }
}

void check_gradients(const Subject& subject, Findings& findings) {
  const auto encoding = stirred(subject, small_shape());
  const std::int64_t batch = 2, length = 5;
  Toy toy(small_shape(), batch, length);
  const Span span = whole(batch, length);
  const ToyGradients found = evaluate(*encoding, toy, span, kChunked);
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
    const std::int64_t stride = std::max<std::int64_t>(1, flat.numel() / (i < 4 ? 12 : 8));  // of many, some
    for (std::int64_t e = 0; e < flat.numel(); e += stride) {
      double* entry = element(flat, e);
      const double kept = *entry;
      *entry = kept + step;
      const double above = value((toy.run(*encoding, span, kReference) * direction).sum());
      *entry = kept - step;
      const double below = value((toy.run(*encoding, span, kReference) * direction).sum());
      *entry = kept;
      const double expected = (above - below) / (2 * step), got = value(gradient[e]);
      findings.expect(std::abs(expected - got) <= 1e-6 * (1 + std::abs(expected)), "gradient of ",
                      input_name(*encoding, i), ", element ", e, ": finite differences give ", expected,
                      ", the gradient is ", got);
    }
  }
}

void check_row_by_row(const Subject& subject, Findings& findings) {
  const auto encoding = stirred(subject, small_shape());
  // A draw is for a number of tokens; a longer one is another draw.
  if (encoding->facts().stochastic || exemption(subject, "row by row") != nullptr) return;
  at::NoGradGuard no_grad;
  const std::int64_t length = 9;
  const Toy toy(small_shape(), 2, length);
  for (const bool reference : {true, false}) {
    const AttendOptions options = reference ? kReference : AttendOptions{};
    const Tensor once = toy.run(*encoding, whole(2, length), options);
    for (std::int64_t row = 0; row < length; ++row) {
      const Toy prefix = toy.part(0, row + 1);
      const Span one{.batch = 2, .queries = 1, .keys = row + 1, .pe_len = length};
      findings.expect_near(largest_difference(once.narrow(2, row, 1), prefix.run(*encoding, one, options)), 1e-11,
                           support::cat("row ", row, " by itself"));
    }
    const Span last_four{.batch = 2, .queries = 4, .keys = length, .pe_len = length};
    findings.expect_near(largest_difference(once.narrow(2, length - 4, 4), toy.run(*encoding, last_four, options)),
                         1e-11, "the last four rows by themselves");
  }
}

void check_shift(const Subject& subject, Findings& findings) {
  const auto encoding = stirred(subject, small_shape());
  const Facts facts = encoding->facts();
  if (facts.stochastic) return;  // draws ignore where a text starts
  at::NoGradGuard no_grad;
  const Toy toy(small_shape(), 1, 7);
  const auto at_shift = [&](std::int64_t shift) {
    Span span = whole(1, 7);
    span.first_position = shift;
    span.pe_len = 8192;
    return std::pair(toy.run(*encoding, span, kReference), toy.run(*encoding, span));
  };
  const bool always = facts.shift_invariant == ShiftInvariance::kAlways;
  const auto [reference, fast] = at_shift(0);
  findings.expect_near(largest_difference(reference, fast), 1e-11, "output of the automatic route");
  bool changed = false;
  for (const std::int64_t shift : {1, 9, 4096}) {
    if (facts.max_positions && shift + 7 > *facts.max_positions) continue;
    const auto [moved, moved_fast] = at_shift(shift);
    const double difference = largest_difference(reference, moved);
    findings.expect_near(largest_difference(moved, moved_fast), 1e-9,
                         support::cat("output of the automatic route from position ", shift));
    if (always)
      findings.expect_near(difference, 1e-9,
                           support::cat("output at a shift of ", shift, ", which facts() calls none"));
    changed = changed || difference > 1e-3;
  }
  if (exemption(subject, "moved rows") == nullptr) changed = moves_rows(*encoding, facts, findings) || changed;
  // A temperature counts keys. Under a window, which is full from the first shift on, it has the same number.
  const bool windowed = subject.config.contains("stack") && contains(subject, "window");
  findings.expect(always || changed || windowed, "facts() says that a shift changes something, and it changes nothing");
}

void check_far(const Subject& subject, Findings& findings) {
  const auto encoding = stirred(subject, small_shape());
  at::NoGradGuard no_grad;
  const std::int64_t length = 4 * small_shape().train_length;
  const Toy toy(small_shape(), 1, length);
  const std::optional<std::int64_t> bound = encoding->facts().max_positions;
  if (bound && *bound < length) {
    bool refused = false;
    try {
      toy.run(*encoding, whole(1, length));
    } catch (const RangeError&) {
      refused = true;
    }
    findings.expect(refused, "there are ", *bound, " positions, and ", length,
                    " tokens are not rejected with a RangeError");
    findings.expect(all_finite(toy.part(0, *bound).run(*encoding, whole(1, *bound))), "the output of ", *bound,
                    " tokens is not finite");
    return;
  }
  const Tensor out = toy.run(*encoding, whole(1, length));
  findings.expect(all_finite(out), "the output of ", length, " tokens is not finite");
  findings.expect_near(largest_difference(out, toy.run(*encoding, whole(1, length), kReference)), 1e-10,
                       support::cat("output of the automatic route at ", length, " tokens"));
}

void check_packed(const Subject& subject, Findings& findings) {
  const auto encoding = stirred(subject, small_shape());
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
        findings.expect_near(largest_difference(packed.narrow(2, begin, count), expected), 1e-11,
                             support::cat("the document at rows ", begin, " to ", begin + count - 1));
      }
    }
  }
}

}  // namespace pe::encoding_docs::battery
