#include "encodings/content/accumulated.h"

#include "support/text.h"

namespace pe::encodings {

using support::cat;

AccumulatedRotation::AccumulatedRotation(const std::string& kind, const Shape& shape, PairLayout layout, bool values)
    : PositionalEncoding(shape), kind_(kind), layout_(layout), values_(values) {
  check_even_head(kind, shape.head_width);
}

Tensor AccumulatedRotation::tokens(const LayerContext& context) const {
  if (context.x.defined()) return context.x.to(shape_.dtype);
  throw ShapeError(cat("encoding '", kind_, "' reads the tokens x of a layer, and none were given"));
}

void AccumulatedRotation::transform(LayerContext& context, Heads& heads) {
  const Span& span = context.span;
  const Tensor angle = angles(context), cos = at::cos(angle), sin = at::sin(angle);
  const Tensor query_cos = cos.narrow(2, span.keys - span.queries, span.queries);
  const Tensor query_sin = sin.narrow(2, span.keys - span.queries, span.queries);
  heads.q = rotate(heads.q, query_cos, query_sin, layout_);
  heads.k = rotate(heads.k, cos, sin, layout_);
  if (!values_) return;
  heads.v = rotate(heads.v, cos, sin, layout_);
  context.state.tensors[cat(kind_, ".cos.", context.layer)] = query_cos;
  context.state.tensors[cat(kind_, ".sin.", context.layer)] = query_sin;
}

Tensor AccumulatedRotation::finish(LayerContext& context, const Tensor& out, const Tensor& extra) {
  if (!values_) return out;
  const auto taken = [&](const char* name) {
    auto kept = context.state.tensors.extract(cat(kind_, name, context.layer));
    return kept.mapped();
  };
  const Tensor cos = taken(".cos."), sin = taken(".sin.");
  return rotate(out, cos, -sin, layout_);
}

}  // namespace pe::encodings
