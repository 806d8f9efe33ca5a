#include "encodings/bias/bam.h"
#include "encodings/bias/slopes.h"
#include "support/text.h"

namespace pe::encodings {

void BamOptions::describe(support::FieldVisitor& v) {
  v.choice("initial_shape", initial_shape,
           {{"one", Shapes::kOne}, {"linear", Shapes::kLinear}, {"normal", Shapes::kNormal}},
           "Initial exponents: all 1 (ALiBi), evenly from 0 to 1 over the heads, or standard normal draws.");
  v.field("location", location, "Train a location too, so that the maximum can be at another distance than 0.");
}

BamPrior::BamPrior(const std::string& kind, const BamOptions& options, const Shape& shape)
    : PositionalEncoding(shape), kind_(kind) {
  const std::int64_t heads = shape.query_heads;
  switch (options.initial_shape) {
    case BamOptions::Shapes::kOne:
      alpha_ = add_constant(kind, "shape", {heads}, 1, false);
      break;
    case BamOptions::Shapes::kLinear:
      alpha_ = add_parameter(kind, "shape", at::linspace(0, 1, heads, at::TensorOptions(at::kDouble)), false);
      break;
    case BamOptions::Shapes::kNormal:
      alpha_ = add_normal(kind, "shape", {heads}, 0, 1, false);
      break;
  }
  const Tensor slopes = at::tensor(alibi_slopes(heads), at::TensorOptions(at::kDouble));
  log_scale_ = add_parameter(kind, "log_scale", slopes.log(), false);
  if (options.location) location_ = add_constant(kind, "location", {heads}, 0, false);
}

Tensor BamPrior::table(LayerContext& context, std::int64_t n) {
  Tensor& table = context.state.tensors[support::cat(kind_, ".", n)];  // all layers share it
  if (!table.defined()) {
    Tensor d = at::arange(n, alpha_.options().requires_grad(false)).unsqueeze(0);
    if (location_.defined()) d = d + (2 * at::sinh(location_)).unsqueeze(1);  // |j − i − μ| = |d + μ|
    table = -at::pow(d.abs() + 1e-5, alpha_.unsqueeze(1)) * at::exp(log_scale_).unsqueeze(1);
  }
  return table;
}

}  // namespace pe::encodings
