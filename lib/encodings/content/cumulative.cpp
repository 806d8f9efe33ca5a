#include "encodings/content/cumulative.h"

namespace pe::encodings {

Tensor token_scores(const LayerContext& context, const Tensor& weight, const Tensor& bias) {
  if (!context.x.defined()) throw ShapeError("an encoding reads the tokens x of a layer, and none were given");
  const Tensor scores = at::matmul(context.x.to(weight.scalar_type()), weight.t());  // [B,S,H]
  return (bias.defined() ? scores + bias : scores).transpose(1, 2);
}

RunningSums running_sums(const Rows& rows, const Tensor& c) {
  const Span& span = rows.context.span;
  const std::int64_t offset = span.keys - span.queries;
  return {c.narrow(-1, offset + rows.begin, rows.count()).unsqueeze(-1), c.narrow(-1, 0, rows.keys).unsqueeze(-2)};
}

}  // namespace pe::encodings
