#include "evaluation/probes/position_reader.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <Eigen/Dense>
#include <cmath>
#include <limits>

#include "support/missing.h"
#include "support/random.h"

namespace pe::evaluation {

namespace {

using support::kMissing;

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

std::int64_t count(const PositionedVectors& of) { return of.x.defined() ? of.x.size(0) : 0; }

Eigen::Map<const Matrix> as_matrix(const at::Tensor& t) { return {t.const_data_ptr<double>(), t.size(0), t.size(1)}; }
Eigen::Map<const Vector> as_vector(const at::Tensor& t) { return {t.const_data_ptr<double>(), t.size(0)}; }

/// Score of predicted against true positions, both in tokens.
ReaderScore score_of(const at::Tensor& said, const at::Tensor& position) {
  const at::Tensor miss = said - position;
  const double mean = position.mean().item<double>();
  const double spread = (position - mean).square().sum().item<double>();
  return {.r2 = spread > 0 ? 1 - miss.square().sum().item<double>() / spread : kMissing,
          .mad = miss.abs().mean().item<double>(),
          .lambda = kMissing,
          .tested = position.size(0)};
}

/// Centres and scales by the statistics of the training part; a feature that never changes becomes 0.
struct Standard {
  at::Tensor mean, factor;
  explicit Standard(const at::Tensor& x) {
    const at::Tensor wide = x.to(at::kDouble);
    mean = wide.mean(0);
    const at::Tensor sd = (wide - mean).square().mean(0).sqrt();
    factor = at::where(sd > 1e-12, sd.clamp_min(1e-12).reciprocal(), at::zeros_like(sd));
  }
  at::Tensor operator()(const at::Tensor& x) const { return ((x.to(at::kDouble) - mean) * factor).contiguous(); }
};

}  // namespace

PositionedVectors PositionedVectors::between(double begin, double end) const {
  const at::Tensor inside = position.ge(begin).logical_and(position.lt(end)).nonzero().squeeze(1);
  return {x.index_select(0, inside), position.index_select(0, inside)};
}

ReaderScore read_by_ridge(const PositionedVectors& train, const PositionedVectors& validation,
                          const PositionedVectors& test, std::int64_t length) {
  if (count(train) < 2 || count(validation) == 0 || count(test) == 0)
    return {kMissing, kMissing, kMissing, count(test)};
  const auto scale = static_cast<double>(length);
  const Standard standard(train.x);
  const at::Tensor train_x = standard(train.x), validation_x = standard(validation.x);
  const at::Tensor targets = (train.position / scale).contiguous(), checks = (validation.position / scale).contiguous();
  const auto x = as_matrix(train_x);
  const double mean = targets.mean().item<double>();
  const Vector y = as_vector(targets).array() - mean;
  // XᵀX = V Λ Vᵀ once serves every λ: w = V (Λ + λ)⁻¹ Vᵀ Xᵀy.
  const Matrix gram = x.transpose() * x;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> spectrum(gram);
  const Vector projected = spectrum.eigenvectors().transpose() * (x.transpose() * y);
  const auto checked = as_matrix(validation_x);
  const auto truth = as_vector(checks);
  double best = std::numeric_limits<double>::infinity(), chosen = kMissing;
  Vector weights;
  for (int power = -3; power <= 3; ++power) {
    const double lambda = std::pow(10.0, power);
    const Vector w =
        spectrum.eigenvectors() * (projected.array() / (spectrum.eigenvalues().array().max(0.0) + lambda)).matrix();
    const double error = (((checked * w).array() + mean) - truth.array()).square().mean();
    if (error < best) {
      best = error;
      chosen = lambda;
      weights = w;
    }
  }
  if (std::isnan(chosen)) return {kMissing, kMissing, kMissing, count(test)};  // features that are not finite
  const at::Tensor test_x = standard(test.x);
  const Vector said = ((as_matrix(test_x) * weights).array() + mean) * scale;
  at::Tensor answers = at::empty({test_x.size(0)}, at::kDouble);
  std::copy(said.data(), said.data() + said.size(), answers.mutable_data_ptr<double>());
  ReaderScore score = score_of(answers, test.position);
  score.lambda = chosen;
  return score;
}

ReaderScore read_by_classifier(const PositionedVectors& train, const PositionedVectors& test, std::int64_t length,
                               const ClassifierOptions& options, std::uint64_t key) {
  if (count(train) < 2 || count(test) == 0) return {kMissing, kMissing, kMissing, count(test)};
  const at::NoGradGuard no_gradients;
  const Standard standard(train.x);
  const at::Tensor x = standard(train.x).to(at::kFloat);
  const double width = static_cast<double>(length) / static_cast<double>(options.bins);
  const at::Tensor bin = (train.position / width).floor().clamp(0, static_cast<double>(options.bins - 1)).to(at::kLong);
  const std::int64_t d = x.size(1), n = x.size(0);

  const auto drawn = [&](std::uint64_t which, std::int64_t rows, std::int64_t columns) {
    at::Tensor made = at::empty({rows, columns}, at::kDouble);
    support::philox_normal(support::make_key({key, which}), made.mutable_data_ptr<double>(),
                           static_cast<std::size_t>(made.numel()));
    return (made * std::sqrt(2.0 / static_cast<double>(rows))).to(at::kFloat);
  };
  std::vector<at::Tensor> weights = {drawn(1, d, options.hidden), at::zeros({1, options.hidden}, at::kFloat),
                                     drawn(2, options.hidden, options.bins), at::zeros({1, options.bins}, at::kFloat)};
  std::vector<at::Tensor> first, second;
  for (const at::Tensor& w : weights) {
    first.push_back(at::zeros_like(w));
    second.push_back(at::zeros_like(w));
  }
  constexpr double kFirst = 0.9, kSecond = 0.999, kEpsilon = 1e-8;
  support::Xoshiro random(support::make_key({key, 3}));
  const std::int64_t batch = std::min(options.batch, n);
  at::Tensor rows = at::empty({batch}, at::kLong);
  for (std::int64_t step = 1; step <= options.steps; ++step) {
    auto* to = rows.mutable_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < batch; ++i)
      to[i] = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(n)));
    const at::Tensor in = x.index_select(0, rows), wanted = bin.index_select(0, rows);
    const at::Tensor hidden = at::relu(at::mm(in, weights[0]) + weights[1]);
    at::Tensor error = at::softmax(at::mm(hidden, weights[2]) + weights[3], 1);  // less one at the right bin
    error.scatter_add_(1, wanted.unsqueeze(1), at::ones_like(wanted.unsqueeze(1), at::kFloat).neg());
    error.div_(static_cast<double>(batch));
    const at::Tensor back = at::mm(error, weights[2].t()) * hidden.gt(0).to(at::kFloat);
    const std::vector<at::Tensor> gradients = {at::mm(in.t(), back), back.sum(0, true), at::mm(hidden.t(), error),
                                               error.sum(0, true)};
    const double shrink_first = 1 - std::pow(kFirst, step), shrink_second = 1 - std::pow(kSecond, step);
    for (std::size_t w = 0; w < weights.size(); ++w) {
      first[w].mul_(kFirst).add_(gradients[w], 1 - kFirst);
      second[w].mul_(kSecond).addcmul_(gradients[w], gradients[w], 1 - kSecond);
      const at::Tensor size = (second[w] / shrink_second).sqrt_().add_(kEpsilon);
      weights[w].addcdiv_(first[w], size, -options.rate / shrink_first);
    }
  }
  const at::Tensor middles = (at::arange(options.bins, at::kDouble) + 0.5) * width;
  std::vector<at::Tensor> said;
  const at::Tensor tested = standard(test.x).to(at::kFloat);
  for (std::int64_t begin = 0; begin < tested.size(0); begin += options.batch) {
    const at::Tensor in = tested.narrow(0, begin, std::min(options.batch, tested.size(0) - begin));
    const at::Tensor hidden = at::relu(at::mm(in, weights[0]) + weights[1]);
    const at::Tensor shares = at::softmax(at::mm(hidden, weights[2]) + weights[3], 1).to(at::kDouble);
    said.push_back(shares.matmul(middles));
  }
  return score_of(at::cat(said), test.position);
}

}  // namespace pe::evaluation
