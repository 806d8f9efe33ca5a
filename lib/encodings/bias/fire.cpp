// Base of FIRE's forms: a small network reads x = ψ(i − j)/ψ(max(i, L)), ψ(d) = ln(1 + |c·d|), so that inputs of
// longer texts stay within the range of training. While no query exceeds L the bias depends on distance alone.
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <utility>
#include <vector>

#include "encodings/attention/fused_bias.h"
#include "encodings/attention/positional_encoding.h"
#include "encodings/attention/toeplitz.h"
#include "encodings/registry.h"
#include "kernels/dispatch.h"
#include "support/config.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

struct FireOptions {
  std::int64_t initial_length = 512;
  void describe(support::FieldVisitor& v);
};

/// Li et al. 2023, arXiv:2310.04418.
class FireFamily : public PositionalEncoding, public FusesBias {
 public:
  Facts facts() const override { return {.shift_invariant = ShiftInvariance::kUntilEffectiveLength, .learned = true}; }
  Traits traits(const Span& span) const override;
  void begin(State& state) override;
  Tensor table(LayerContext& context, std::int64_t n) override;
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override;
  Tensor bias(const Rows& rows) override;
  FusedKind fused_kind(const Span& span) const override { return FusedKind::kBent; }
  FusedBias fused_bias(LayerContext& context, const Heads& heads) override;

 protected:
  struct Layer {
    Tensor c, length_multiplier;  ///< scalar, or [H,1] after `read`
    Tensor w1, b1, w2, b2;
  };

  /// @param heads numbers c, and length multipliers: 0 for one scalar of each, shared by the heads.
  FireFamily(const std::string& kind, const Shape& shape, const FireOptions& options, std::int64_t heads);

  /// Adds w1, b1, w2 and b2 of a layer.
  void add_network(Layer& layer, const std::string& kind, int index, at::IntArrayRef w1, at::IntArrayRef w2);
  std::vector<Layer> layers_;

  /// @param x [n] or [H,n]. @return [H,n]
  virtual Tensor network(const Tensor& x, const Layer& layer) const = 0;

 private:
  Tensor length(const Layer& layer) const;
  Tensor by_distance(const Layer& layer, std::int64_t n) const;  ///< [H,n], for queries that are not beyond L

  double effective_length(const Span& span) const;  ///< the least of all layers
  /// Whether a pass reads the effective length from the weights. On a GPU the read waits for queued work. A pass beyond
  /// the initial length does without it there: the form for any length is exact at short lengths too.
  bool asks_weights(const Span& span) const;
  /// Positions of the first and the last query row, where positions of a document follow each other; −1 if a read of
  /// them would wait for a GPU.
  std::pair<double, double> query_range(const Rows& rows) const;

  FireOptions options_;
};

inline constexpr std::int64_t kFireHidden = 32;

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

/// FIRE: one network for all heads of a layer reads a distance that is normalised by the query's position.
class Fire : public FireFamily {
 public:
  Fire(const FireOptions& options, const Shape& shape) : FireFamily("fire", shape, options, 0) {}

 protected:
  Tensor network(const Tensor& x, const Layer& layer) const override {
    const Tensor hidden = at::addmm(layer.b1.unsqueeze(1), layer.w1, x.unsqueeze(0)).relu_();  // [32,n]
    return at::addmm(layer.b2.unsqueeze(1), layer.w2, hidden);
  }
};

constexpr std::int64_t kGuideHidden = 32;

struct FireGuideOptions {
  double initial_length = 8192;
  void describe(support::FieldVisitor& v) {
    v.field("initial_length", initial_length, "Initial value of the trained length of each head.",
            {.unit = "tokens", .min = 2});
  }
};

/// A guide's FIRE, which is not the paper's: log-distance over the logarithm of a learned length of each head, up to 1.
/// Nothing depends on the query's position, there is no c, and beyond the length all distances look alike.
class FireGuide : public PositionalEncoding {
 public:
  FireGuide(const FireGuideOptions& options, const Shape& shape) : PositionalEncoding(shape) {
    const double bound = 0.1 * std::sqrt(6.0 / static_cast<double>(1 + kGuideHidden));  // Xavier's, times 0.1
    for (int layer = 0; layer < shape.layers; ++layer) {
      layers_.push_back({add_constant("fire_guide", "log_threshold", {shape.query_heads},
                                      std::log(options.initial_length), false, layer),
                         add_uniform("fire_guide", "w1", {kGuideHidden, 1}, -bound, bound, true, layer),
                         add_constant("fire_guide", "b1", {kGuideHidden}, 0, false, layer),
                         add_uniform("fire_guide", "w2", {1, kGuideHidden}, -bound, bound, true, layer),
                         add_constant("fire_guide", "b2", {1}, 0, false, layer)});
    }
  }

  Facts facts() const override { return {.learned = true}; }
  Traits traits(const Span& span) const override { return {.bias = BiasKind::kToeplitz, .bias_needs_grad = true}; }

  Tensor table(LayerContext& context, std::int64_t n) override {
    const GuideLayer& layer = layers_.at(context.layer);
    const Tensor d = at::arange(n, layer.w1.options().requires_grad(false));
    const Tensor x = (at::log1p(d) / at::log1p(at::exp(layer.log_threshold)).unsqueeze(1)).clamp_max(1);  // [H,n]
    const Tensor hidden = at::gelu(x.unsqueeze(1) * layer.w1 + layer.b1.unsqueeze(1));                    // [H,32,n]
    return at::matmul(layer.w2, hidden).squeeze(1) + layer.b2;
  }

 private:
  struct GuideLayer {
    Tensor log_threshold, w1, b1, w2, b2;
  };
  std::vector<GuideLayer> layers_;
};

/// FIRE with a separate network, c and L for each head.
class FirePerHead : public FireFamily {
 public:
  FirePerHead(const FireOptions& options, const Shape& shape)
      : FireFamily("fire_per_head", shape, options, shape.query_heads) {}

 protected:
  Tensor network(const Tensor& x, const Layer& layer) const override {
    // As products of matrices, since a pass over memory for each step of the arithmetic costs more than the arithmetic.
    const Tensor wide = x.dim() == 1 ? x.expand({layer.w1.size(0), x.size(0)}) : x;
    const Tensor hidden =
        at::baddbmm(layer.b1.unsqueeze(2), layer.w1.unsqueeze(2), wide.unsqueeze(1)).relu_();  // [H,32,n]
    return at::baddbmm(layer.b2.view({-1, 1, 1}), layer.w2.unsqueeze(1), hidden).squeeze(1);
  }
};

}  // namespace

EncodingEntry fire_entry() {
  return with_options<Fire, FireOptions>(
      {.name = "fire",
       .summary = "Adds the output of a small network of log-distance over log-position.",
       .reference = "Li et al. 2023, arXiv:2310.04418",
       .facts = {.shift_invariant = ShiftInvariance::kUntilEffectiveLength, .learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "layers*(33*heads + 66)",
       .formula = "x = ψ(i − j)/(ψ(max(i, L_eff)) + 1e−6), ψ(z) = ln(1 + |c·z|), L_eff = "
                  "|length_multiplier·initial_length|\n"
                  "logit(i,j) += w2_h·relu(w1·x + b1) + b2_h",
       .known_for = "Inputs of its network are distances relative to the position of the query, so they stay in the "
                    "trained range at any length. Its paper reports good results on long texts. Other tables show very "
                    "high perplexity beyond twice the training length.",
       .errata = {"Copies disagree: the copy of DAPE halves initial_length and uses leaky ReLU, others use GELU. This "
                  "project follows the listing in the paper's appendix.",
                  "A version without i and c also has this name; this project calls it fire_guide.",
                  "The last bias is the same for all keys of a row, which does not affect softmax. It is counted "
                  "and hardly trained, except with a sink."}});
}

EncodingEntry fire_guide_entry() {
  return with_options<FireGuide, FireGuideOptions>(
      {.name = "fire_guide",
       .summary =
           "Variant of FIRE in a guide: a network of log-distance up to a trained length, independent of the position.",
       .reference = "a guide to positional encodings; deviates from Li et al. 2023, arXiv:2310.04418",
       .facts = {.learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "layers*(heads + 97)",
       .formula = "x_h = min(1, ln(1 + d)/ln(1 + L_h)), L_h learned, at first 8192\n"
                  "logit(i,j) += w2·gelu(w1·x_h + b1) + b2",
       .known_for = "A simplification of FIRE that circulates in a guide; here to measure the difference.",
       .errata = {"It is not FIRE: it has no c and does not depend on the query's position. Nothing is interpolated as "
                  "texts grow, and all distances beyond L_h are equal.",
                  "The last bias is the same for all keys of a row, which does not affect softmax. It is counted "
                  "and hardly trained, except with a sink."}});
}

EncodingEntry fire_per_head_entry() {
  return with_options<FirePerHead, FireOptions>(
      {.name = "fire_per_head",
       .summary = "Adds the output of a small network, one for each head, of log-distance over log-position.",
       .reference = "FIRE (Li et al. 2023, arXiv:2310.04418) with a network for each head, after the guide",
       .facts = {.shift_invariant = ShiftInvariance::kUntilEffectiveLength, .learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "layers*99*heads",
       .formula = "x_h = ψ_h(i − j)/(ψ_h(max(i, L_h)) + 1e−6), ψ_h(z) = ln(1 + |c_h·z|)\n"
                  "logit(i,j) += w2_h·relu(w1_h·x_h + b1_h) + b2_h",
       .known_for = "FIRE with a c, a length and a network for each head, three times its parameters.",
       .errata = {"A combination from a guide; in the paper heads share everything except the output.",
                  "The last bias is the same for all keys of a row, which does not affect softmax. It is counted "
                  "and hardly trained, except with a sink."}});
}

}  // namespace pe::encodings
