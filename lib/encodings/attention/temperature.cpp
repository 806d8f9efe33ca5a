#include "encodings/attention/temperature.h"

#include "encodings/attention/attention_window.h"

namespace pe::encodings {

void Temperature::transform(LayerContext& context, Heads& heads) {
  const Tensor tau = factor(context);
  if (!tau.defined()) return;
  const at::ScalarType type = table_type(heads.q.scalar_type());
  heads.q = (heads.q.to(type) * tau.to(type).unsqueeze(-1)).to(heads.q.scalar_type());
}

Tensor visible_counts(const LayerContext& context) {
  const Span& span = context.span;
  const std::int64_t offset = span.keys - span.queries;
  Tensor count = at::arange(offset + 1, span.keys + 1, at::TensorOptions(at::kLong).device(span.device));
  if (span.doc_start.defined()) count = count - span.doc_start.narrow(-1, offset, span.queries);
  if (const std::int64_t window = window_of(context); window > 0) count = count.clamp_max(window);
  return count.to(at::kDouble).unsqueeze(-2);
}

double mean_log_count(std::int64_t length) {
  return std::lgamma(static_cast<double>(length) + 1) / static_cast<double>(length);
}

Tensor query_tokens(const LayerContext& context) {
  const Span& span = context.span;
  if (!context.x.defined()) throw ShapeError("an encoding reads the tokens x of a layer, and none were given");
  return context.x.narrow(1, span.keys - span.queries, span.queries).to(table_type(context.x.scalar_type()));
}

}  // namespace pe::encodings
