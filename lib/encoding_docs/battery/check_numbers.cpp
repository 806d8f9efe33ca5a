// Checks of numbers: the same bytes twice, facts, initial values, lower precision.
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>

#include "encoding_docs/battery/check_functions.h"
#include "encoding_docs/battery/passes.h"
#include "encoding_docs/battery/toy.h"
#include "support/error.h"

namespace pe::encoding_docs::battery {

using namespace encodings;

namespace {

void check_length_dependence(PositionalEncoding& encoding, const Toy& toy, Span span, Findings& findings) {
  span.pe_len = 1;
  const Tensor as_short = toy.run(encoding, span);
  span.pe_len = 64;
  findings.expect(largest_difference(as_short, toy.run(encoding, span)) > 1e-6,
                  "facts() says that the length matters, and lengths 1 and 64 give the same");
  span.pe_len.reset();
  bool refused = false;
  try {
    toy.run(encoding, span);
  } catch (const support::ConfigError&) {
    refused = true;
  }
  findings.expect(refused, "a pass without a length is not rejected with a ConfigError");
}

/// How far bfloat16 may move a gradient. A count of gates that a rounded q moves past a whole number has another slope
/// there, and a gradient that is one number sums such terms of both signs. The gradient of a trained frequency does the
/// same, over all distances.
double allowed_in_bfloat16(const Facts& facts) {
  if (facts.rotates && facts.learned) return 0.35;
  return facts.content_dependent ? 0.15 : 2e-2;
}

Shape single_precision() {
  Shape shape = small_shape();
  shape.dtype = at::kFloat;  // parameters are never less than float32
  return shape;
}

}  // namespace

void check_table(const Subject& subject, Findings& findings) {
  const auto encoding = stirred(subject, small_shape());
  const Toy toy(small_shape(), 1, 12);
  const Span span = whole(1, 12);
  if (encoding->traits(span).bias != BiasKind::kToeplitz) return;
  at::NoGradGuard no_grad;
  const auto table = [&](std::int64_t n) {
    State state = begin_pass(*encoding, span);
    say_numbers(*encoding, toy.x, state);
    LayerContext context = layer_context(*encoding, state, 1, toy.x);
    return encoding->table(context, n).clone();
  };
  const Tensor longest = table(12);
  findings.expect(longest.dim() == 2 && longest.size(0) == small_shape().query_heads && longest.size(1) == 12,
                  "table(12) has ", longest.numel(), " numbers in ", longest.dim(), " dimensions, expected [2, 12]");
  for (const std::int64_t n : {1, 5, 11}) {
    findings.expect_near(largest_difference(table(n), longest.narrow(1, 0, n)), 1e-12,
                         support::cat("table(", n, ") against the first ", n, " distances of table(12)"));
  }
}

void check_repetition(const Subject& subject, Findings& findings) {
  const auto one = stirred(subject, small_shape()), two = stirred(subject, small_shape());
  const Toy toy(small_shape(), 2, 8);
  const ToyGradients first = evaluate(*one, toy, whole(2, 8), {});
  for (PositionalEncoding* encoding : {one.get(), two.get()}) {
    const char* which = encoding == one.get() ? "again" : "by another encoding of the same config";
    const ToyGradients again = evaluate(*encoding, toy, whole(2, 8), {});
    findings.expect(at::equal(first.out, again.out), "the output differs ", which);
    for (std::size_t i = 0; i < first.gradients.size(); ++i) {
      findings.expect(at::equal(first.gradients[i], again.gradients[i]), "the gradient of ", input_name(*one, i),
                      " differs ", which);
    }
  }
}

void check_facts(const Subject& subject, Findings& findings) {
  const auto encoding = made(subject, small_shape());
  const Facts facts = encoding->facts();
  findings.expect(facts.learned == !encoding->parameters().empty(), "facts().learned is ",
                  facts.learned ? "true" : "false", ", and there are ", encoding->parameters().size(),
                  " trained tensors");
  const Toy toy(small_shape(), 2, 8);
  at::NoGradGuard no_grad;
  Span span = whole(2, 8);
  span.training = exemption(subject, "training") == nullptr;
  const Tensor first = toy.run(*encoding, span), again = toy.run(*encoding, span);
  findings.expect(at::equal(first, again), "the same step draws something else");
  span.step = 1;
  const Tensor next = toy.run(*encoding, span);
  span.training = false;
  const Tensor evaluated = toy.run(*encoding, span);
  span.step = 2;
  const Tensor evaluated_again = toy.run(*encoding, span);
  if (facts.stochastic) {
    // On its own a position map moves nothing. Our stacks have a member that reads positions, a user's need not.
    const bool alone = !subject.config.contains("stack"), ours = subject.name.find("stack") != std::string::npos;
    if (alone || ours) {
      findings.expect(at::equal(first, next) == alone, "facts() says that it draws, and the next step ",
                      alone ? "differs" : "draws the same");
    }
  } else {
    findings.expect(at::equal(evaluated, evaluated_again),
                    "facts() says that nothing is drawn, and evaluations differ");
  }
  if (facts.prefixes_agree()) {
    findings.expect_near(largest_difference(evaluated.narrow(2, 0, 5), toy.part(0, 5).run(*encoding, whole(2, 5))),
                         1e-12, "a prefix by itself, which facts() calls the same");
  }
  if (facts.length_dependent) check_length_dependence(*encoding, toy, span, findings);
}

void check_inference(const Subject& subject, Findings& findings) {
  const auto encoding = stirred(subject, small_shape());
  const Toy toy(small_shape(), 2, 8);
  Tensor evaluated;
  {
    const c10::InferenceMode inference;
    evaluated = toy.run(*encoding, whole(2, 8)).clone();
  }
  const ToyGradients trained = evaluate(*encoding, toy, whole(2, 8), {});
  findings.expect_near(largest_difference(evaluated, trained.out), 1e-12, "output after an evaluation");
}

void check_seed(const Subject& subject, Findings& findings) {
  const auto one = made(subject, small_shape()), two = made(subject, small_shape());
  Shape other = small_shape();
  other.seed = 6;
  const auto reseeded = made(subject, other);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < one->parameters().size(); ++i) {
    const Parameter& p = one->parameters()[i];
    findings.expect(at::equal(p.value, two->parameters()[i].value), p.name, " starts differently the second time");
    findings.expect(p.value.is_leaf() && p.value.requires_grad(), p.name, " is no leaf that requires a gradient");
    const bool constant = p.value.numel() < 2 || all_equal(p.value);
    // From a formula, not drawn.
    const std::vector<std::string> formulas{"frequency", "log_scale", "bias"};
    const bool computed = p.name == "sininit.table" || p.name.starts_with("formula.") ||
                          std::find(formulas.begin(), formulas.end(), p.short_name) != formulas.end();
    findings.expect(constant || computed || !at::equal(p.value, reseeded->parameters()[i].value), p.name,
                    " ignores the seed");
    findings.expect(!p.weight_decay || p.value.dim() >= 2, p.name, " has one dimension and takes weight decay");
    findings.expect(std::count(names.begin(), names.end(), p.name) == 0, "two parameters are called ", p.name);
    names.push_back(p.name);
  }
}

void check_frozen(const Subject& subject, Findings& findings) {
  const auto encoding = stirred(subject, small_shape());
  if (encoding->parameters().empty()) return;
  const Toy frozen(small_shape(), 2, 8);
  const auto gradients = [&](const AttendOptions& options) {
    for (const Parameter& p : encoding->parameters()) Tensor(p.value).mutable_grad() = Tensor();
    Span span = whole(2, 8);
    span.pe_len = 64;  // four times the training length, where rules for longer texts act
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
    findings.expect_near(largest_difference(reference[i], fast[i]), 1e-11,
                         support::cat("gradient of ", encoding->parameters()[i].name));
    largest = std::max(largest, value(reference[i].abs().max()));
  }
  findings.expect(largest > 0, "no parameter has a gradient");
}

void check_float32(const Subject& subject, Findings& findings) {
  const Shape shape = single_precision();
  const auto encoding = stirred(subject, shape);
  const std::int64_t length = std::min<std::int64_t>(encoding->facts().max_positions.value_or(120), 120);
  const Toy toy(shape, 1, length, at::kFloat);
  const ToyGradients reference = evaluate(*encoding, toy, whole(1, length), kReference);
  const ToyGradients fast = evaluate(*encoding, toy, whole(1, length), {});
  const ToyGradients chunked = evaluate(*encoding, toy, whole(1, length), {.route = Route::kChunked, .chunk_rows = 50});
  findings.expect_near(largest_difference(reference.out, chunked.out), 1e-5, "output in ranges of rows");
  // One channel holds slope times place in float32, up to 60 here.
  findings.expect_near(largest_difference(reference.out, fast.out), 2e-4, "output of the automatic route");
  for (std::size_t i = 0; i < reference.gradients.size(); ++i) {
    const double size = 1 + value(reference.gradients[i].abs().max());
    const std::string input = support::cat("gradient of ", input_name(*encoding, i));
    findings.expect_near(largest_difference(reference.gradients[i], chunked.gradients[i]), 2e-5 * size, input);
    findings.expect_near(largest_difference(reference.gradients[i], fast.gradients[i]), 3e-4 * size, input);
  }
}

void check_bfloat16(const Subject& subject, Findings& findings) {
  const Shape shape = single_precision();
  const auto encoding = stirred(subject, shape);
  for (const Parameter& p : encoding->parameters())
    findings.expect(p.value.scalar_type() == at::kFloat, p.name, " is not float32");
  Span span = whole(2, 48);
  if (encoding->facts().max_positions.value_or(4096) < 48) span = whole(2, 16);
  Toy low(shape, 2, span.keys);
  // Both see the same numbers as q, k and v: nothing but attention is compared.
  for (Tensor Toy::*member : {&Toy::wq, &Toy::wk, &Toy::wv}) (low.*member).zero_();
  low = low.to(at::kBFloat16);
  const Toy high = low.to(at::kFloat);
  const ToyGradients expected = evaluate(*encoding, high, span, kReference);
  const double allowed = allowed_in_bfloat16(encoding->facts());
  double largest = 0;
  for (std::size_t i = 1; i < expected.gradients.size(); ++i)
    largest = std::max(largest, value(expected.gradients[i].norm()));
  for (const AttendOptions& options : {AttendOptions{}, kChunked}) {
    const ToyGradients got = evaluate(*encoding, low, span, options);
    findings.expect_near(relative_difference(got.out, expected.out), 2e-2, "output, relative");
    for (std::size_t i = 0; i < got.gradients.size(); ++i) {
      // A parameter of a few numbers sums terms of both signs, as large as the terms of other gradients.
      const double noise = i < 4 ? 0 : 1e-2 * largest;
      const double size = value(expected.gradients[i].norm()) + 1e-3;
      findings.expect_near(relative_difference(got.gradients[i], expected.gradients[i]), allowed + noise / size,
                           support::cat("gradient of ", input_name(*encoding, i), ", relative"));
    }
  }
  at::NoGradGuard no_grad;
  State one = begin_pass(*encoding, span), two = begin_pass(*encoding, span);
  say_numbers(*encoding, low.x, one);
  say_numbers(*encoding, high.x, two);
  const Tensor sum = add_to_tokens(*encoding, low.x, one);
  findings.expect(sum.scalar_type() == at::kBFloat16, "add_to_tokens changes the type of the tokens");
  findings.expect_near(relative_difference(sum, add_to_tokens(*encoding, high.x, two)), 4e-3,
                       "embedded tokens, relative");
}

// bfloat16 holds no whole number above 256: a position in it, far out, would be another one.
void check_far_bfloat16(const Subject& subject, Findings& findings) {
  const Shape shape = single_precision();
  const auto encoding = stirred(subject, shape);
  const Facts facts = encoding->facts();
  if (facts.stochastic || facts.max_positions) return;
  at::NoGradGuard no_grad;
  const Toy low = Toy(shape, 1, 12).to(at::kBFloat16);
  Span span = whole(1, 12);
  span.first_position = 20011;
  span.pe_len = 32768;
  const Tensor expected = low.to(at::kFloat).run(*encoding, span, kReference);
  const Tensor got = low.run(*encoding, span).to(at::kFloat);
  findings.expect_near(relative_difference(got, expected), 2e-2, "output from position 20,011 on, relative");
}

}  // namespace pe::encoding_docs::battery
