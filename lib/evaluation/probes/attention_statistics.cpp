#include "evaluation/probes/attention_statistics.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/xlogy.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "support/missing.h"

namespace pe::evaluation {

namespace {

using support::kMissing;

double over(double sum, double count) { return count > 0 ? sum / count : kMissing; }

}  // namespace

AttentionStatistics::AttentionStatistics(std::int64_t heads, std::int64_t length) : length_(length) {
  for (at::Tensor* sums : {&distance_, &entropy_, &mass_}) *sums = at::zeros({heads, length}, at::kDouble);
  rows_ = at::zeros({length}, at::kDouble);
  peaks_ = at::zeros({heads, kBins}, at::kLong);
}

void AttentionStatistics::add(const at::Tensor& weights, std::int64_t first) {
  const at::Tensor a = weights.to(at::kDouble);
  const std::int64_t heads = a.size(1), rows = a.size(2), keys = a.size(3);
  const auto options = at::TensorOptions(at::kDouble).device(a.device());
  const at::Tensor queries = at::arange(first, first + rows, options);
  const at::Tensor mass = a.sum(-1);
  const at::Tensor distance = mass * queries - at::matmul(a, at::arange(keys, options));
  const auto into = [&](at::Tensor& sums, const at::Tensor& values) {
    sums.narrow(1, first, rows).add_(values.sum(0).to(at::kCPU));
  };
  into(mass_, mass);
  into(distance_, distance);
  into(entropy_, at::xlogy(a, a).sum(-1).neg());
  rows_.narrow(0, first, rows).add_(static_cast<double>(a.size(0)));

  const std::int64_t skip = first == 0 ? 1 : 0;  // the first query has one key to look at
  if (rows <= skip) return;
  const at::Tensor from = queries.narrow(0, skip, rows - skip);
  const at::Tensor peak = a.argmax(-1).narrow(2, skip, rows - skip).to(at::kDouble);
  const at::Tensor bin = ((from - peak) / (from + 1) * kBins).floor().clamp(0, kBins - 1).to(at::kLong);
  const at::Tensor head = at::arange(heads, at::TensorOptions(at::kLong).device(a.device())).view({1, heads, 1});
  const at::Tensor counts = at::bincount((bin + head * kBins).flatten(), {}, heads * kBins);
  peaks_.add_(counts.view({heads, kBins}).to(at::kCPU));
}

AttentionFigures AttentionStatistics::figures(std::int64_t head, std::int64_t begin, std::int64_t end) const {
  const auto sums = [&](const at::Tensor& of) { return of.const_data_ptr<double>() + head * length_; };
  const double *distance = sums(distance_), *entropy = sums(entropy_), *mass = sums(mass_);
  const double* rows = rows_.const_data_ptr<double>();
  AttentionFigures total;
  double count = 0, beyond_first = 0;
  for (std::int64_t i = begin; i < std::min(end, length_); ++i) {
    total.distance += distance[i];
    total.entropy += entropy[i];
    total.mass += mass[i];
    count += rows[i];
    if (i == 0) continue;
    total.distance_share += distance[i] / static_cast<double>(i);
    total.entropy_share += entropy[i] / std::log1p(static_cast<double>(i));
    beyond_first += rows[i];
  }
  return {over(total.distance, count), over(total.distance_share, beyond_first), over(total.entropy, count),
          over(total.entropy_share, beyond_first), over(total.mass, count)};
}

std::vector<double> AttentionStatistics::peaks(std::int64_t head) const {
  const std::int64_t* counts = peaks_.const_data_ptr<std::int64_t>() + head * kBins;
  double total = 0;
  for (int b = 0; b < kBins; ++b) total += static_cast<double>(counts[b]);
  std::vector<double> shares;
  for (int b = 0; b < kBins; ++b) shares.push_back(over(static_cast<double>(counts[b]), total));
  return shares;
}

void KeyShares::add(const at::Tensor& weights) {
  const std::int64_t keys = weights.size(3);
  if (!sums_.defined()) {
    sums_ =
        at::zeros({weights.size(0), weights.size(1), length_}, at::TensorOptions(at::kDouble).device(weights.device()));
  }
  sums_.narrow(2, 0, keys).add_(weights.to(at::kDouble).sum(2));
}

at::Tensor KeyShares::take() {
  const at::Tensor seen_by = at::arange(length_, 0, -1, sums_.options());
  at::Tensor shares = sums_ / seen_by;
  sums_ = at::Tensor();
  return shares;
}

at::Tensor jensen_shannon(const at::Tensor& p, const at::Tensor& q) {
  const at::Tensor a = p.to(at::kDouble), b = q.to(at::kDouble), middle = (a + b) / 2;
  // Σ p ln(p/m) = Σ p ln p − Σ p ln m; where p is 0 both are.
  const at::Tensor from_a = (at::xlogy(a, a) - at::xlogy(a, middle)).sum(-1);
  const at::Tensor from_b = (at::xlogy(b, b) - at::xlogy(b, middle)).sum(-1);
  return (from_a + from_b) / 2;
}

}  // namespace pe::evaluation
