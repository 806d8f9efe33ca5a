#include "encodings/angles.h"

#include <c10/core/InferenceMode.h>

namespace pe::encodings {

std::vector<double> geometric_frequencies(double base, std::int64_t width) {
  std::vector<double> frequencies(width / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
  }
  return frequencies;
}

AngleTable::AngleTable(std::vector<double> frequencies, double factor)
    : frequencies_(std::move(frequencies)), factor_(factor) {}

AngleTable::Values AngleTable::compute(const Tensor& positions, at::ScalarType type) const {
  const Tensor theta =
      torch::tensor(frequencies_, at::TensorOptions(at::kDouble)).to(positions.device());
  const Tensor angles = positions.to(at::kDouble).unsqueeze(-1) * theta;
  return {(angles.cos() * factor_).to(type), (angles.sin() * factor_).to(type)};
}

AngleTable::Values AngleTable::operator()(const LayerContext& context, std::int64_t begin, std::int64_t count,
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
    // What an evaluation makes here a training step may save for its backward pass.
    const c10::InferenceMode ordinary_tensors(false);
    std::int64_t length = 64;
    while (length < first + count) length *= 2;
    cache_ = compute(at::arange(length, at::TensorOptions(at::kLong).device(device)), table);
  }
  return {cache_.cos.narrow(0, first, count), cache_.sin.narrow(0, first, count)};
}

}  // namespace pe::encodings
