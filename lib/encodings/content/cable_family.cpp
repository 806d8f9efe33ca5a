#include "encodings/content/cable.h"
#include "encodings/content/cumulative.h"

namespace pe::encodings {

Cable::Cable(const std::string& kind, CableForm form, const Shape& shape) : PositionalEncoding(shape), form_(form) {
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::vector<std::int64_t> sizes{shape.query_heads, shape.width};
    step_.push_back(add_normal(kind, "step", sizes, 0, 0.02, true, layer));
    if (form == CableForm::kWeighted) slope_.push_back(add_normal(kind, "slope", sizes, 0, 0.02, true, layer));
  }
}

Traits Cable::traits(const Span& span) const {
  return {.bias = form_ == CableForm::kLogSquare ? BiasKind::kPairwise : BiasKind::kChannels,
          .bias_needs_grad = true,
          .bias_depends_on_batch = true,
          .channels_cancel = form_ == CableForm::kWeighted};
}

// −g_i(S_i − S_j) is g_i·S_j up to a constant of the row.
Channels Cable::channels(LayerContext& context, const Heads& heads) {
  const Tensor key = steps(context).unsqueeze(-1);
  if (form_ == CableForm::kWeighted) {
    return {.query = slopes(context).unsqueeze(-1), .key = key, .query_pieces = 2, .key_pieces = 3};
  }
  return {.query = at::ones({1, 1, context.span.queries, 1}, key.options().requires_grad(false)),
          .key = key,
          .query_pieces = 1,
          .key_pieces = 3};
}

FusedBias Cable::fused_bias(LayerContext& context, const Heads& heads) {
  const Tensor places = steps(context);
  if (form_ == CableForm::kWeighted) return {.gated = {.places = places, .query_gates = slopes(context)}};
  const Tensor ones = at::ones({1, places.size(1), context.span.queries}, places.options().requires_grad(false));
  return {.gated = {.places = places, .query_gates = ones}};
}

std::vector<Tensor> Cable::row_inputs(LayerContext& context, const Heads& heads) {
  if (form_ == CableForm::kWeighted) return {steps(context), slopes(context)};
  return {steps(context)};
}

Tensor Cable::bias(const Rows& rows) {
  const RunningSums s = running_sums(rows, rows.inputs.at(0));
  const Tensor taken = s.query - s.key;
  if (form_ == CableForm::kPlain) return -taken;
  if (form_ == CableForm::kLogSquare) return -at::log1p(taken * taken);
  return -rows.inputs.at(1).narrow(-1, rows.begin, rows.count()).unsqueeze(-1) * taken;
}

Tensor Cable::steps(const LayerContext& context) const {
  return at::relu(token_scores(context, step_.at(context.layer), {})).cumsum(-1);
}

Tensor Cable::slopes(const LayerContext& context) const {
  const Span& span = context.span;
  return at::softplus(token_scores(context, slope_.at(context.layer), {}))
      .narrow(-1, span.keys - span.queries, span.queries);
}

}  // namespace pe::encodings
