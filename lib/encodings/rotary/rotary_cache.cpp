#include "encodings/rotary/rotary_cache.h"

#include <c10/core/InferenceMode.h>

namespace pe::encodings {

std::vector<double> geometric_frequencies(double base, std::int64_t width) {
  std::vector<double> frequencies(width / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
  }
  return frequencies;
}

RotaryCache::RotaryCache(std::vector<double> frequencies, double factor)
    : rule_{.theta = std::move(frequencies), .attention_factor = factor} {}

RotaryCache::RotaryCache(RotaryFrequencies rule) : rule_(std::move(rule)) {}

RotaryCache::Values RotaryCache::compute(const Tensor& positions, at::ScalarType type) const {
  const auto on_device = [&](const std::vector<double>& values) {
    return at::tensor(values, at::TensorOptions(at::kDouble)).to(positions.device());
  };
  const Tensor place = positions.to(at::kDouble).unsqueeze(-1);
  Tensor turned = place;
  if (!rule_.periods.empty()) {
    if (positions.is_floating_point()) {
      throw support::ConfigError(
          "rules with whole wavelengths need whole positions, and the position map gives fractions");
    }
    const Tensor periods = on_device(rule_.periods);
    turned = at::where(periods.gt(0), at::remainder(place, periods.clamp_min(1)), place);
  }
  const Tensor angles = turned * on_device(rule_.theta);
  Tensor cos = angles.cos() * rule_.attention_factor, sin = angles.sin() * rule_.attention_factor;
  if (rule_.protected_positions > 0) {
    const Tensor near = place.lt(static_cast<double>(rule_.protected_positions));
    const Tensor plain = place * on_device(rule_.protected_theta);
    cos = at::where(near, plain.cos(), cos);
    sin = at::where(near, plain.sin(), sin);
  }
  return {cos.to(type), sin.to(type)};
}

RotaryCache::Values RotaryCache::operator()(const LayerContext& context, std::int64_t begin, std::int64_t count,
                                            at::ScalarType type) {
  const at::ScalarType table = table_type(type);
  const std::int64_t first = context.span.first_position + begin;
  at::NoGradGuard no_grad;
  if (!context.contiguous || context.positions.dim() != 1 || context.span.restart_positions || first < 0) {
    return compute(context.positions.narrow(-1, begin, count), table);
  }
  const at::Device device = context.positions.device();
  if (!cache_.cos.defined() || cache_.cos.size(0) < first + count || cache_.cos.scalar_type() != table ||
      cache_.cos.device() != device) {
    // A training step may save tensors for its backward pass that an evaluation made here.
    const c10::InferenceMode ordinary_tensors(false);
    std::int64_t length = 64;
    while (length < first + count) length *= 2;
    cache_ = compute(at::arange(length, at::TensorOptions(at::kLong).device(device)), table);
  }
  return {cache_.cos.narrow(0, first, count), cache_.sin.narrow(0, first, count)};
}

}  // namespace pe::encodings
