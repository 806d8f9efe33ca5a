#include "encodings/bias/fire.h"

#include "encodings/attention/toeplitz.h"
#include "kernels/dispatch.h"

namespace pe::encodings {
namespace {

constexpr double kFireEpsilon = 1e-6;

Tensor psi(const Tensor& x, const Tensor& c) { return at::log1p((c * x).abs()); }

/// Shapes a number for each head so that it broadcasts over a list of distances.
Tensor beside(const Tensor& t) { return t.dim() == 0 ? t : t.unsqueeze(-1); }

/// Σ_k w2_k·relu(w1_k·x + b1_k) + b2, for x from 0 to 2, as a line with a knot where a hidden unit starts or ends.
/// Inputs of FIRE are at most 1. @param w1, b1 [1 or H,32]. @param w2 [H,32]. @param b2 [H].
BentDistance bent_network(const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2) {
  constexpr double kNever = 4;
  const Tensor starts =
      at::where(b1.eq(0), w1, b1).gt(0).to(w1.scalar_type());  // units that are not 0 just after x = 0
  const Tensor changes = (b1 * (b1 + 2 * w1)).lt(0);           // between 0 and 2
  const Tensor knots = at::where(changes, b1 / at::where(changes, w1, 1.0), -kNever).neg();
  const Tensor bends = w2 * at::where(changes, w1.abs(), 0.0);
  // A product with a permutation: gradients of a gather are sums by atomics on a GPU.
  const Tensor order = at::argsort(knots.detach(), /*stable=*/true, -1, false).unsqueeze(-1);
  const Tensor ranks = order.eq(at::arange(kFireHidden, order.options())).to(w1.scalar_type());  // [1 or H,32,32]
  const auto sorted = [&](const Tensor& t) { return at::matmul(ranks, t.unsqueeze(-1)).squeeze(-1); };
  const Tensor slope = (w2 * (w1 * starts)).sum(-1), value = (w2 * (b1 * starts)).sum(-1) + b2;
  BentDistance bent;
  bent.knots = sorted(knots).expand_as(w2);
  bent.bends = sorted(bends);
  bent.line = at::stack({slope, value}, -1);
  return bent;
}

}  // namespace

void FireOptions::describe(support::FieldVisitor& v) {
  v.field("initial_length", initial_length,
          "Queries before this length share one normaliser; a trained factor, initially 1, multiplies the length.",
          {.unit = "tokens", .min = 1});
}

FireFamily::FireFamily(const std::string& kind, const Shape& shape, const FireOptions& options, std::int64_t heads)
    : PositionalEncoding(shape), options_(options) {
  std::vector<std::int64_t> sizes;
  if (heads > 0) sizes.push_back(heads);
  for (int layer = 0; layer < shape.layers; ++layer) {
    layers_.push_back({add_constant(kind, "c", sizes, 0.1, false, layer),
                       add_constant(kind, "length_multiplier", sizes, 1, false, layer)});
    add_network(layers_.back(), kind, layer,
                heads > 0 ? at::IntArrayRef{heads, kFireHidden} : at::IntArrayRef{kFireHidden, 1},
                {shape.query_heads, kFireHidden});
  }
}

void FireFamily::add_network(Layer& layer, const std::string& kind, int index, at::IntArrayRef w1, at::IntArrayRef w2) {
  // The initial range of PyTorch for linear layers of width 1 and kFireHidden.
  const double bound = 1 / std::sqrt(static_cast<double>(kFireHidden));
  const std::vector<std::int64_t> hidden =
      w1[1] == 1 ? std::vector<std::int64_t>{kFireHidden} : std::vector<std::int64_t>(w1.begin(), w1.end());
  layer.w1 = add_uniform(kind, "w1", w1, -1, 1, true, index);
  layer.b1 = add_uniform(kind, "b1", hidden, -1, 1, false, index);
  layer.w2 = add_uniform(kind, "w2", w2, -bound, bound, true, index);
  layer.b2 = add_uniform(kind, "b2", {shape_.query_heads}, -bound, bound, false, index);
}

Traits FireFamily::traits(const Span& span) const {
  const bool short_rows =
      span.first_position >= 0 && static_cast<double>(span.first_position + span.keys - 1) <= effective_length(span);
  return {.bias = short_rows ? BiasKind::kToeplitz : BiasKind::kPairwise, .bias_needs_grad = true};
}

void FireFamily::begin(State& state) {
  state.span.effective_lengths.erase(this);
  state.span.effective_lengths[this] = effective_length(state.span);
}

bool FireFamily::asks_weights(const Span& span) const {
  return !kernels::waits_for_reads(span.device) || span.first_position + span.keys - 1 <= options_.initial_length;
}

double FireFamily::effective_length(const Span& span) const {
  if (!asks_weights(span)) return -1;  // no position is known to be within it
  if (const auto known = span.effective_lengths.find(this); known != span.effective_lengths.end()) return known->second;
  at::NoGradGuard no_grad;
  std::vector<Tensor> multipliers;
  for (const Layer& layer : layers_) multipliers.push_back(layer.length_multiplier.abs().min());
  return static_cast<double>(options_.initial_length) * at::stack(multipliers).min().item<double>();
}

std::pair<double, double> FireFamily::query_range(const Rows& rows) const {
  const Span& span = rows.context.span;
  if (span.restart_positions && span.doc_start.defined()) {
    if (kernels::waits_for_reads(span.device)) return {-1, -1};
    return {rows.query_positions.min().item<double>(), rows.query_positions.max().item<double>()};
  }
  const auto first = static_cast<double>(span.first_position + span.keys - span.queries + rows.begin);
  return {first, first + static_cast<double>(rows.count() - 1)};
}

Tensor FireFamily::table(LayerContext& context, std::int64_t n) { return by_distance(layers_.at(context.layer), n); }

Tensor FireFamily::by_distance(const Layer& layer, std::int64_t n) const {
  const Tensor d = at::arange(n, layer.w1.options().requires_grad(false)), c = beside(layer.c);
  return network(psi(d, c) / (psi(beside(length(layer)), c) + kFireEpsilon), layer);
}

std::vector<Tensor> FireFamily::row_inputs(LayerContext& context, const Heads& heads) {
  if (context.contiguous && traits(context.span).bias == BiasKind::kToeplitz) {
    return PositionalEncoding::row_inputs(context, heads);
  }
  const Layer& l = layers_.at(context.layer);
  return {l.c, l.length_multiplier, l.w1, l.b1, l.w2, l.b2};
}

Tensor FireFamily::bias(const Rows& rows) {
  if (rows.inputs.size() == 1) return PositionalEncoding::bias(rows);
  const Layer layer{rows.inputs[0], rows.inputs[1], rows.inputs[2], rows.inputs[3], rows.inputs[4], rows.inputs[5]};
  const at::ScalarType type = layer.w1.scalar_type();
  const bool counted = rows.context.contiguous && asks_weights(rows.context.span);
  const auto [first, last] = counted ? query_range(rows) : std::pair(-1.0, -1.0);
  if (first >= 0 && last <= effective_length(rows.context.span)) {
    // The early rows of a long text: distance alone.
    const std::int64_t offset = rows.context.span.keys - rows.context.span.queries;
    return toeplitz(by_distance(layer, rows.keys), offset + rows.begin, offset + rows.end, rows.keys).unsqueeze(0);
  }
  Tensor d = rows.distances().to(type), i = rows.query_positions.to(type);  // [rows,keys] or [B,1,rows,keys]
  if (d.dim() == 4) i = i.unsqueeze(1);
  const std::int64_t batch = d.dim() == 4 ? d.size(0) : 1, count = d.size(-2), keys = d.size(-1);
  d = d.reshape({batch * count * keys});
  i = i.reshape({batch * count, 1}).expand({batch * count, keys}).reshape({-1});
  const Tensor c = beside(layer.c);
  const Tensor x = psi(d, c) / (psi(at::maximum(i, beside(length(layer))), c) + kFireEpsilon);  // [n] or [H,n]
  return network(x, layer).view({-1, batch, count, keys}).transpose(0, 1);
}

FusedBias FireFamily::fused_bias(LayerContext& context, const Heads& heads) {
  const Layer& layer = layers_.at(context.layer);
  const Span& span = context.span;
  const std::int64_t heads_count = shape_.query_heads;
  BentDistance bent =
      bent_network(layer.w1.view({-1, kFireHidden}), layer.b1.view({-1, kFireHidden}), layer.w2, layer.b2);
  const Tensor c = beside(layer.c);
  {
    at::NoGradGuard no_gradients;
    const Tensor d = at::arange(span.keys, layer.w1.options().requires_grad(false)), size = d * c.abs();
    bent.measure = size.log1p().expand({heads_count, span.keys});
    bent.derivative = (d * c.sign() / (size + 1)).expand({heads_count, span.keys});
  }
  bent.parameter = layer.c.expand({heads_count});
  const Tensor i = context.positions.narrow(-1, span.keys - span.queries, span.queries).to(layer.w1.scalar_type());
  bent.numbers =
      (psi(at::maximum(i.view({-1, 1, span.queries}), beside(length(layer))), c) + kFireEpsilon).reciprocal();
  return {.bent = bent};
}

Tensor FireFamily::length(const Layer& layer) const {
  return (layer.length_multiplier * static_cast<double>(options_.initial_length)).abs();
}

}  // namespace pe::encodings
