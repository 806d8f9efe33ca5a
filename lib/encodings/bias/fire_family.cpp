#include "encodings/bias/fire.h"

#include <torch/csrc/autograd/custom_function.h>

#include "encodings/attention/toeplitz.h"
#include "kernels/dispatch.h"

namespace pe::encodings {
namespace {

constexpr double kFireEpsilon = 1e-6;

Tensor psi(const Tensor& x, const Tensor& c) { return at::log1p((c * x).abs()); }

/// Shapes a number for each head so that it broadcasts over a list of distances.
Tensor beside(const Tensor& t) { return t.dim() == 0 ? t : t.unsqueeze(-1); }

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Σ_k w2_k·relu(w1_k·x + b1_k) + b2, for x from 0 to 2, as a line with a knot where a hidden unit starts or ends, and
/// 1/(ψ(max(i, L)) + ε). Inputs of FIRE are at most 1. Gradients are written out: a GPU waits for calls otherwise.
class BentNetwork : public torch::autograd::Function<BentNetwork> {
 public:
  /// @param c, multiplier  [] or [H,1]. @param w1, b1 [1 or H,32]. @param w2 [H,32]. @param b2 [H]. @param i
  /// positions of queries, [B or 1,1,T]. @return the numbers, knots, bends and line of a BentDistance
  static variable_list forward(AutogradContext* context, const Tensor& c, const Tensor& multiplier, const Tensor& w1,
                               const Tensor& b1, const Tensor& w2, const Tensor& b2, const Tensor& i, double length) {
    constexpr double kNever = 4;
    const Tensor starts = at::add(b1, w1, 1e-30).gt_(0);      // units that are not 0 just after x = 0
    const Tensor changes = (b1 * at::add(b1, w1, 2)).lt_(0);  // between 0 and 2
    const Tensor slopes = w1.abs().mul_(changes);             // of units that change, without w2
    const Tensor at_knots = at::where(changes.gt(0), (b1 / w1).neg_(), kNever);
    const auto [knots, order] = at::sort(at_knots, /*stable=*/true, -1, false);
    const Tensor bends = (w2 * slopes).gather(1, order.expand_as(w2));
    const Tensor line = at::stack({(w2 * (w1 * starts)).sum(-1), (w2 * (b1 * starts)).sum(-1).add_(b2)}, -1);
    const Tensor reach = at::maximum(i, multiplier.abs() * length);
    const Tensor numbers = (c.abs() * reach).log1p_().add_(kFireEpsilon).reciprocal_();
    context->save_for_backward(
        {c, multiplier, w1, b1, w2, i, starts, changes, slopes, at_knots, order, reach, numbers});
    context->saved_data["length"] = length;
    return {numbers, knots.expand_as(w2), bends, line};
  }

  static variable_list backward(AutogradContext* context, const variable_list& by) {
    const variable_list kept = context->get_saved_variables();
    const Tensor &c = kept[0], &multiplier = kept[1], &w1 = kept[2], &b1 = kept[3], &w2 = kept[4], &i = kept[5];
    const Tensor &starts = kept[6], &changes = kept[7], &slopes = kept[8], &at_knots = kept[9], &order = kept[10],
                 &reach = kept[11], &numbers = kept[12];
    const double length = context->saved_data["length"].toDouble();
    const Tensor unit = at::argsort(order, /*stable=*/true, -1, false).expand_as(w2);
    // A knot is −b1/w1: where a unit does not change, w1 may be 0.
    const Tensor by_knot = by[1].gather(1, unit).div_(at::where(changes.gt(0), w1, 1.0)).mul_(changes);
    const Tensor by_bend = by[2].gather(1, unit);
    const Tensor by_slope = by[3].select(1, 0).unsqueeze(-1), by_value = by[3].select(1, 1);
    const Tensor active = w2 * starts, values = by_value.unsqueeze(-1);
    const Tensor dw1 =
        (by_bend * w2).mul_(w1.sgn().mul_(changes)).addcmul_(by_knot, at_knots, -1).addcmul_(active, by_slope);
    const Tensor db1 = (active * values).sub_(by_knot);
    const Tensor dw2 = (by_bend * slopes).addcmul_(w1 * starts, by_slope).addcmul_(b1 * starts, values);
    // n = 1/(ln(1 + |c|·reach) + ε), reach = max(i, |multiplier|·length); a tie counts half.
    const Tensor size = c.abs(), by_size = (by[0] * numbers).mul_(numbers).div_((size * reach).add_(1)).neg_();
    const Tensor is_short = (multiplier.abs() * length - i).sgn_().add_(1).mul_(by_size);
    const Tensor dc = at::sum_to(by_size * reach, c.sizes()) * c.sgn();
    const Tensor dmultiplier = at::sum_to(is_short * size, c.sizes()) * multiplier.sgn() * (length / 2);
    return {dc,       dmultiplier, at::sum_to(dw1, w1.sizes()), at::sum_to(db1, b1.sizes()), dw2, by_value,
            Tensor(), Tensor()};
  }
};

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
  const std::int64_t count = shape_.query_heads;
  const Tensor c = beside(layer.c), i = context.positions.narrow(-1, span.keys - span.queries, span.queries);
  const variable_list made = BentNetwork::apply(
      c, beside(layer.length_multiplier), layer.w1.view({-1, kFireHidden}), layer.b1.view({-1, kFireHidden}), layer.w2,
      layer.b2, i.to(layer.w1.scalar_type()).view({-1, 1, span.queries}), static_cast<double>(options_.initial_length));
  const Tensor parameter = layer.c.expand({count});
  at::NoGradGuard no_gradients;
  const Tensor d = at::arange(span.keys, layer.w1.options().requires_grad(false)), size = d * c.abs();
  return {.bent = {.measure = size.log1p().expand({count, span.keys}),
                   .derivative = (d * c.sgn()).div_(size + 1).expand({count, span.keys}),
                   .parameter = parameter,
                   .numbers = made[0],
                   .knots = made[1],
                   .bends = made[2],
                   .line = made[3]}};
}

Tensor FireFamily::length(const Layer& layer) const {
  return (layer.length_multiplier * static_cast<double>(options_.initial_length)).abs();
}

}  // namespace pe::encodings
