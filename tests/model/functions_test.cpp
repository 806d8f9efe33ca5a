// The kernels against the same mathematics in float64 tensor operations, and those against naive loops.
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

#include "kernels/normals.h"
#include "model/functions.h"
#include "support/random.h"

namespace {

using at::Tensor;
using pe::model::Weight;

/// Numbers that float32 holds too, so that both precisions start from the same.
Tensor normals(std::uint64_t key, const std::vector<std::int64_t>& shape, double scale = 1) {
  return pe::test::normals(key, shape, scale).to(at::kFloat).to(at::kDouble);
}

Weight weight_of(const Tensor& value, at::ScalarType type) {
  const Tensor converted = value.to(type);
  return {converted, at::zeros_like(converted)};
}

double difference(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

/// Result of a piece in one dtype: outputs, the gradient by x, gradients by weights.
struct Outcome {
  std::vector<Tensor> outputs;
  std::vector<Tensor> gradients;
};

/// Lengths of consecutive sums up to the outputs, and up to the gradients.
struct Chain {
  std::vector<std::int64_t> forward, backward;
};

/// How far float32 may be from float64 at the end of such a chain: a few units for each sum and its roundings,
/// relative to the largest element. The error of a sum grows as the root of its length, since the data have mean zero
/// (N. J. Higham and T. Mary, SIAM J. Sci. Comput. 42, 2020).
double rounding_bound(const Tensor& reference, const std::vector<std::int64_t>& sums) {
  constexpr double kUnit = 0x1p-24;  // the unit roundoff of float32
  constexpr double kDeviations = 4, kBeside = 2;
  double units = 0;
  for (const std::int64_t length : sums) units += std::sqrt(static_cast<double>(length)) + kBeside;
  return kDeviations * units * kUnit * reference.abs().max().item<double>();
}

void compare(const Outcome& kernel, const Outcome& reference, const Chain& chain) {
  std::vector<std::int64_t> both = chain.forward;
  both.insert(both.end(), chain.backward.begin(), chain.backward.end());
  const auto near = [](const std::vector<Tensor>& ours, const std::vector<Tensor>& exact,
                       const std::vector<std::int64_t>& sums) {
    BOOST_REQUIRE(ours.size() == exact.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      BOOST_TEST_CONTEXT("tensor " << i) BOOST_TEST(difference(ours[i], exact[i]) <= rounding_bound(exact[i], sums));
    }
  };
  BOOST_TEST_CONTEXT("outputs") near(kernel.outputs, reference.outputs, chain.forward);
  BOOST_TEST_CONTEXT("gradients") near(kernel.gradients, reference.gradients, both);
}

void same(const Outcome& one, const Outcome& other) {
  BOOST_REQUIRE(one.outputs.size() == other.outputs.size());
  for (std::size_t i = 0; i < one.outputs.size(); ++i)
    BOOST_TEST(one.outputs[i].equal(other.outputs[i]), "output " << i);
  BOOST_REQUIRE(one.gradients.size() == other.gradients.size());
  for (std::size_t i = 0; i < one.gradients.size(); ++i)
    BOOST_TEST(one.gradients[i].equal(other.gradients[i]), "gradient " << i);
}

// Widths that are no multiple of the kernels' sixteen lanes, so that tails are covered.
constexpr std::int64_t kWidth = 37, kBatch = 2, kLength = 5, kRows = kBatch * kLength;

Outcome run_norm(at::ScalarType type) {
  const Tensor x = normals(1, {kBatch, kLength, kWidth}).to(type).requires_grad_(true);
  const Weight w = weight_of(normals(2, {kWidth}), type);
  const Tensor y = pe::model::rms_norm(x, w, 1e-6);
  (y * normals(3, {kBatch, kLength, kWidth}).to(type)).sum().backward();
  return {{y.detach()}, {x.grad(), w.gradient}};
}

Outcome run_project(at::ScalarType type, bool qk_norm, bool over_width = false) {
  const pe::model::AttentionShape shape{4, 2, 6, 1e-6};
  const Tensor x = normals(1, {kBatch, kLength, kWidth}).to(type).requires_grad_(true);
  const Weight norm = weight_of(normals(2, {kWidth}), type), packed = weight_of(normals(3, {48, kWidth}, 0.3), type);
  const Weight q_norm = qk_norm ? weight_of(normals(4, {over_width ? 24 : 6}), type) : Weight{};
  const Weight k_norm = qk_norm ? weight_of(normals(5, {over_width ? 12 : 6}), type) : Weight{};
  const auto out = pe::model::norm_project(x, norm, packed, q_norm, k_norm, shape);
  (out.q * normals(6, {kBatch, 4, kLength, 6}).to(type))
      .sum()
      .add_((out.k * normals(7, {kBatch, 2, kLength, 6}).to(type)).sum())
      .add_((out.v * normals(8, {kBatch, 2, kLength, 6}).to(type)).sum())
      .add_((out.normed * normals(9, {kBatch, kLength, kWidth}).to(type)).sum())
      .add_((out.residual * normals(10, {kBatch, kLength, kWidth}).to(type)).sum())
      .backward();
  Outcome outcome{{out.normed.detach(), out.q.detach(), out.k.detach(), out.v.detach()},
                  {x.grad(), norm.gradient, packed.gradient}};
  if (qk_norm) outcome.gradients.insert(outcome.gradients.end(), {q_norm.gradient, k_norm.gradient});
  return outcome;
}

Outcome run_feed_forward(at::ScalarType type, bool in_parts) {
  const Tensor x = normals(1, {kBatch, kLength, kWidth}).to(type).requires_grad_(true);
  const Weight norm = weight_of(normals(2, {kWidth}), type), gate_up = weight_of(normals(3, {42, kWidth}, 0.3), type);
  const Weight down = weight_of(normals(4, {kWidth, 21}, 0.3), type);
  Outcome outcome;
  if (in_parts) {
    const auto out = pe::model::feed_forward_parts(x, norm, gate_up, down, 1e-6);
    ((out.residual * normals(5, {kBatch, kLength, kWidth}).to(type)).sum() +
     (out.y * normals(6, {kBatch, kLength, kWidth}).to(type)).sum())
        .backward();
    outcome.outputs = {out.y.detach()};
  } else {
    const Tensor sum = pe::model::feed_forward(x, norm, gate_up, down, 1e-6);
    (sum * normals(5, {kBatch, kLength, kWidth}).to(type)).sum().backward();
    outcome.outputs = {sum.detach()};
  }
  outcome.gradients = {x.grad(), norm.gradient, gate_up.gradient, down.gradient};
  return outcome;
}

Outcome run_cross_entropy(at::ScalarType type, const pe::model::LogitOptions& options = {}, std::int64_t rows = 40,
                          std::int64_t vocabulary = 53) {
  const Tensor hidden = normals(1, {rows, kWidth}).to(type).requires_grad_(true);
  const Weight head = weight_of(normals(2, {vocabulary, kWidth}, 0.5), type);
  Tensor targets = at::empty({rows}, at::kLong);
  for (std::int64_t i = 0; i < rows; ++i) targets.data_ptr<std::int64_t>()[i] = i == 7 ? -1 : (i * 11) % vocabulary;
  const Tensor loss = pe::model::linear_cross_entropy(hidden, targets, head, options);
  (loss * 0.25).backward();
  return {
      {loss.detach() / static_cast<double>(rows), pe::model::row_losses(hidden.detach(), targets, head.value, options)},
      {hidden.grad(), head.gradient}};
}

/// Central differences of f by every element of x, in float64.
template <typename F>
Tensor numeric(Tensor x, const F& f) {
  Tensor result = at::zeros_like(x);
  double *values = x.data_ptr<double>(), *out = result.data_ptr<double>();
  constexpr double kStep = 1e-5;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double kept = values[i];
    values[i] = kept + kStep;
    const double up = f();
    values[i] = kept - kStep;
    const double down = f();
    values[i] = kept;
    out[i] = (up - down) / (2 * kStep);
  }
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(functions)

BOOST_AUTO_TEST_CASE(the_norm_kernel_agrees_with_float64) {
  compare(run_norm(at::kFloat), run_norm(at::kDouble), {{kWidth}, {kWidth, kRows}});
}

BOOST_AUTO_TEST_CASE(the_projection_kernel_agrees_with_float64) {
  // Norm, product, norms of heads or of their whole width; back through the same, and over rows for weights.
  compare(run_project(at::kFloat, true), run_project(at::kDouble, true), {{kWidth, kWidth, 6}, {6, 48, kWidth, kRows}});
  compare(run_project(at::kFloat, false), run_project(at::kDouble, false), {{kWidth, kWidth}, {48, kWidth, kRows}});
  compare(run_project(at::kFloat, true, true), run_project(at::kDouble, true, true),
          {{kWidth, kWidth, 24}, {24, 48, kWidth, kRows}});
}

BOOST_AUTO_TEST_CASE(the_feed_forward_kernel_agrees_with_float64) {
  for (const bool in_parts : {false, true}) {
    compare(run_feed_forward(at::kFloat, in_parts), run_feed_forward(at::kDouble, in_parts),
            {{kWidth, kWidth, 21}, {kWidth, 42, kWidth, kRows}});
  }
}

BOOST_AUTO_TEST_CASE(the_sum_is_of_the_parts) {
  const Tensor x = normals(1, {kBatch, kLength, kWidth}).requires_grad_(true);
  const Weight norm = weight_of(normals(2, {kWidth}), at::kDouble),
               gate_up = weight_of(normals(3, {42, kWidth}, 0.3), at::kDouble);
  const Weight down = weight_of(normals(4, {kWidth, 21}, 0.3), at::kDouble);
  const auto parts = pe::model::feed_forward_parts(x, norm, gate_up, down, 1e-6);
  BOOST_TEST(difference(parts.residual + parts.y, pe::model::feed_forward(x, norm, gate_up, down, 1e-6)) <= 1e-14);
  parts.residual.sum().backward();  // y is never read: the residual's gradient alone comes back
  BOOST_TEST(x.grad().equal(at::ones_like(x)));
}

// Logits and their softmax; back over the vocabulary for hidden states, over rows for the head.
const Chain kEntropy{{kWidth, 53}, {53, 40}};

BOOST_AUTO_TEST_CASE(the_cross_entropy_kernel_agrees_with_float64) {
  compare(run_cross_entropy(at::kFloat), run_cross_entropy(at::kDouble), kEntropy);
}

// More rows than are taken at a time, by one thread and by two.
BOOST_AUTO_TEST_CASE(a_large_vocabulary_goes_in_parts_whose_sums_do_not_depend_on_threads) {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Outcome one = run_cross_entropy(at::kFloat, {}, 600, 9001);
  at::set_num_threads(2);
  const Outcome two = run_cross_entropy(at::kFloat, {}, 600, 9001);
  at::set_num_threads(before);
  compare(one, run_cross_entropy(at::kDouble, {}, 600, 9001), {{kWidth, 9001}, {9001, 600}});
  same(one, two);
}

BOOST_AUTO_TEST_CASE(capped_logits_and_the_z_loss_agree_with_float64) {
  compare(run_cross_entropy(at::kFloat, {2.0, 0}), run_cross_entropy(at::kDouble, {2.0, 0}), kEntropy);
  compare(run_cross_entropy(at::kFloat, {0, 0.1}), run_cross_entropy(at::kDouble, {0, 0.1}), kEntropy);
  compare(run_cross_entropy(at::kFloat, {3.0, 0.1}), run_cross_entropy(at::kDouble, {3.0, 0.1}), kEntropy);
}

// The value is the cross entropy of capped logits; the gradient also has z·lse², by differences.
BOOST_AUTO_TEST_CASE(the_gradient_with_a_cap_and_a_z_loss_agrees_with_differences) {
  for (const pe::model::LogitOptions& options : {pe::model::LogitOptions{1.5, 0}, {0, 0.2}, {1.5, 0.2}}) {
    const Tensor hidden = normals(1, {4, 5}).requires_grad_(true);
    const Weight head = weight_of(normals(2, {7, 5}), at::kDouble);
    Tensor targets = at::empty({4}, at::kLong);
    for (std::int64_t i = 0; i < 4; ++i) targets.data_ptr<std::int64_t>()[i] = i == 2 ? -1 : 2 * i;
    const Tensor loss = pe::model::linear_cross_entropy(hidden, targets, head, options);
    loss.backward();
    const auto naive = [&](double z) {
      double total = 0;
      for (std::int64_t row = 0; row < 4; ++row) {
        if (row == 2) continue;
        double sum = 0, wanted = 0;
        for (std::int64_t v = 0; v < 7; ++v) {
          double logit = 0;
          for (std::int64_t i = 0; i < 5; ++i) {
            logit += hidden.data_ptr<double>()[row * 5 + i] * head.value.data_ptr<double>()[v * 5 + i];
          }
          if (options.softcap > 0) logit = options.softcap * std::tanh(logit / options.softcap);
          sum += std::exp(logit);
          if (v == 2 * row) wanted = logit;
        }
        total += std::log(sum) - wanted + z * std::log(sum) * std::log(sum);
      }
      return total;
    };
    BOOST_TEST(loss.item<double>() == naive(0), boost::test_tools::tolerance(1e-12));
    BOOST_TEST(difference(hidden.grad(), numeric(hidden.detach(), [&] { return naive(options.z_loss); })) <= 1e-7);
    BOOST_TEST(difference(head.gradient, numeric(head.value, [&] { return naive(options.z_loss); })) <= 1e-7);
  }
}

BOOST_AUTO_TEST_CASE(cross_entropy_is_minus_log_softmax_by_a_naive_loop) {
  const Tensor hidden = normals(1, {4, 5}), head = normals(2, {7, 5});
  const std::vector<std::int64_t> wanted{3, 0, 6, 2};
  Tensor targets = at::empty({4}, at::kLong);
  std::copy(wanted.begin(), wanted.end(), targets.data_ptr<std::int64_t>());
  const Tensor losses = pe::model::row_losses(hidden, targets, head);
  for (std::int64_t row = 0; row < 4; ++row) {
    std::vector<double> logits(7, 0.0);
    double total = 0;
    for (std::int64_t v = 0; v < 7; ++v) {
      for (std::int64_t i = 0; i < 5; ++i) {
        logits[static_cast<std::size_t>(v)] += hidden[row][i].item<double>() * head[v][i].item<double>();
      }
      total += std::exp(logits[static_cast<std::size_t>(v)]);
    }
    const double expected = std::log(total) - logits[static_cast<std::size_t>(wanted[static_cast<std::size_t>(row)])];
    BOOST_TEST(losses[row].item<double>() == expected, boost::test_tools::tolerance(1e-12));
  }
}

BOOST_AUTO_TEST_CASE(gradients_agree_with_differences) {
  const Tensor x = normals(1, {1, 3, 8}).requires_grad_(true);
  const Weight norm = weight_of(normals(2, {8}), at::kDouble),
               gate_up = weight_of(normals(3, {12, 8}, 0.5), at::kDouble);
  const Weight down = weight_of(normals(4, {8, 6}, 0.5), at::kDouble),
               head = weight_of(normals(5, {9, 8}), at::kDouble);
  Tensor targets = at::empty({3}, at::kLong);
  for (std::int64_t i = 0; i < 3; ++i) targets.data_ptr<std::int64_t>()[i] = 2 * i;
  const auto loss = [&] {
    const Tensor y = pe::model::feed_forward(x, norm, gate_up, down, 1e-6);
    return pe::model::linear_cross_entropy(y.reshape({3, 8}), targets, head);
  };
  loss().backward();
  const auto value = [&] {
    const at::NoGradGuard guard;
    return loss().item<double>();
  };
  BOOST_TEST(difference(x.grad(), numeric(x.detach(), value)) <= 1e-7);
  BOOST_TEST(difference(norm.gradient, numeric(norm.value, value)) <= 1e-7);
  BOOST_TEST(difference(gate_up.gradient, numeric(gate_up.value, value)) <= 1e-7);
  BOOST_TEST(difference(down.gradient, numeric(down.value, value)) <= 1e-7);
  BOOST_TEST(difference(head.gradient, numeric(head.value, value)) <= 1e-7);
}

BOOST_AUTO_TEST_SUITE_END()
