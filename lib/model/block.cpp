#include "model/block.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/max.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "encodings/attention/attend.h"
#include "encodings/rotary/rotary.h"
#include "model/canon.h"
#include "support/text.h"

namespace pe::model {
namespace {

using encodings::LayerContext;
using support::cat;
using Map = std::function<Tensor(const Tensor&)>;

AttentionShape attention_shape(const ModelConfig& config) {
  return {config.query_heads(), config.kv_heads(), config.d_h(), config.norm_eps};
}

/// Taps by that name, where the model has them.
Canon make_canon(const ModelConfig& config, const WeightSource& weights, const std::string& name,
                 std::int64_t channels) {
  return {config.canon, weights(name, {channels, config.canon.kernel}, false),
          weights(name + ".bias", {channels}, false)};
}

Weight gate_of(const ModelConfig& config, const WeightSource& weights, const std::string& at) {
  const std::int64_t rows = config.gate == Gate::kHeadwise ? config.heads : config.heads * config.d_h();
  return weights(at + "gate", {rows, config.width}, true);
}

/// mixed ⊙ σ(W x), a number a head or a channel. @param mixed [B, H, T, d_h]. @param x [B, T, d_m].
Tensor gated(const Tensor& mixed, const Tensor& x, const Weight& gate) {
  if (!gate.value.defined()) return mixed;
  const Tensor open = at::sigmoid(linear(x, gate)).unflatten(-1, {mixed.size(1), -1}).transpose(1, 2);
  return mixed * open;
}

/// Stands for an encoding that only rotates q and k, once they are rotated: it does nothing more.
class EncodingAfterRotation final : public encodings::PositionalEncoding {
 public:
  using PositionalEncoding::PositionalEncoding;
  bool needs_causal_mask() const override { return false; }
};

/// S9 is for encodings that carry additional values through the layers. For other encodings the last product adds the
/// input of the feed-forward to its output, and the feed-forward alone is never available.
bool reads_feed_forward(const encodings::PositionalEncoding& encoding, const LayerContext& context) {
  return encoding.traits(context.span).extra_values;
}

/// Mixes values; q, k and v are the unchanged outputs of the projections.
Tensor attend(encodings::PositionalEncoding& encoding, Tensor q, Tensor k, Tensor v, LayerContext& context,
              Pass& pass) {
  encodings::Heads heads;
  heads.scale = 1.0 / std::sqrt(static_cast<double>(q.size(3)));
  heads.q = std::move(q);
  heads.k = std::move(k);
  heads.v = std::move(v);
  encodings::AttentionMatrices matrices;
  encodings::AttendOptions route;
  if (pass.largest_logit != nullptr) route.matrices = &matrices;
  encodings::RowHook row_hook;
  if (pass.hooks != nullptr) {
    if (pass.hooks->heads) pass.hooks->heads(context.layer, heads);
    if (pass.hooks->rows) {
      row_hook = [&](const encodings::AttentionRows& rows) { pass.hooks->rows(context.layer, rows); };
      route.row_hook = &row_hook;
    }
  }
  const Tensor mixed = encodings::attend(encoding, context, std::move(heads), route);
  if (pass.largest_logit != nullptr) {
    const double largest = matrices.logits.max().item<double>();
    double& so_far = *pass.largest_logit;
    if (context.layer == 0 || !(largest <= so_far || std::isnan(so_far))) so_far = largest;  // NaN of any layer stays
  }
  return mixed;
}

// ---- The block of LLaMA, whose parts are fused ----------------------------------------------------------------------

class LlamaBlock final : public Block {
 public:
  LlamaBlock(const ModelConfig& config, const WeightSource& weights, const std::string& at)
      : shape_(attention_shape(config)) {
    const std::int64_t d = config.width, q = config.query_heads() * config.d_h(), kv = config.kv_heads() * config.d_h();
    attention_norm_ = weights(at + "attention.norm", {d}, false);
    packed_ = weights(at + "attention.query", {q + 2 * kv, d}, true);
    query_norm_ = weights(at + "attention.query_norm", {config.query_norm_width()}, false);
    key_norm_ = weights(at + "attention.key_norm", {config.key_norm_width()}, false);
    gate_ = gate_of(config, weights, at + "attention.");
    output_ = weights(at + "attention.output", {d, config.heads * config.d_h()}, true);
    feed_forward_norm_ = weights(at + "feed_forward.norm", {d}, false);
    gate_up_ = weights(at + "feed_forward.gate", {2 * config.d_ff(), d}, true);
    down_ = weights(at + "feed_forward.down", {d, config.d_ff()}, true);
  }

  Tensor forward(const Tensor& in, int layer, Pass& pass) const override {
    const std::optional<Rotation> rotation = rotation_of(in, layer, pass);
    ProjectedHeads projected =
        norm_project(in, attention_norm_, packed_, query_norm_, key_norm_, shape_, rotation ? *rotation : Rotation{});
    LayerContext context = encodings::layer_context(pass.encoding, pass.state, layer, projected.normed);
    std::optional<EncodingAfterRotation> rotated;
    if (rotation) rotated.emplace(pass.encoding.shape());
    encodings::PositionalEncoding& encoding = rotated ? *rotated : pass.encoding;
    const Tensor mixed =
        gated(attend(encoding, std::move(projected.q), std::move(projected.k), std::move(projected.v), context, pass),
              projected.normed, gate_);
    const Tensor x = pass.dropped ? projected.residual + pass.dropped(linear(mixed.transpose(1, 2).flatten(2), output_))
                                  : project_residual(projected.residual, mixed, output_);
    const bool reads_y = reads_feed_forward(pass.encoding, context);
    if (!pass.dropped && !reads_y) return feed_forward(x, feed_forward_norm_, gate_up_, down_, shape_.eps);
    const FeedForwardParts out = feed_forward_parts(x, feed_forward_norm_, gate_up_, down_, shape_.eps);
    if (reads_y) pass.encoding.after_feed_forward(context, out.y);
    return out.residual + (pass.dropped ? pass.dropped(out.y) : out.y);
  }

 private:
  /// The encoding's rotation, if it is the only change of q and k, no hook reads them before it, and a kernel rotates
  /// while it norms.
  std::optional<Rotation> rotation_of(const Tensor& in, int layer, Pass& pass) const {
    if (pass.hooks != nullptr || !rotates_with_heads(in, query_norm_, key_norm_, shape_)) return std::nullopt;
    LayerContext context = encodings::layer_context(pass.encoding, pass.state, layer);
    const encodings::Traits traits = pass.encoding.traits(context.span);
    const bool does_more = traits.bias != encodings::BiasKind::kNone || traits.own_logits || traits.rewrites_logits ||
                           traits.normalises || traits.rows_coupled || traits.extra_values;
    if (does_more) return std::nullopt;
    const auto tables = encodings::rotary_tables(pass.encoding, context, in.scalar_type());
    if (!tables || tables->cos.dim() > 3 || tables->cos.scalar_type() != at::kFloat) return std::nullopt;
    return Rotation{tables->cos.contiguous(), tables->sin.contiguous(), tables->layout == encodings::PairLayout::kHalf};
  }

  AttentionShape shape_;
  Weight attention_norm_, packed_, query_norm_, key_norm_, gate_, output_, feed_forward_norm_, gate_up_, down_;
};

// ---- Blocks of parts ------------------------------------------------------------------------------------------------

struct Norm {
  Map alone;
  std::function<Tensor(const Tensor& x, const Tensor& y)> of_sum;  ///< of x + y
};

Norm make_norm(const ModelConfig& config, const WeightSource& weights, const std::string& name) {
  const Weight weight = weights(name, {config.width}, false), bias = weights(name + ".bias", {config.width}, false);
  const double eps = config.norm_eps;
  if (config.norm == NormKind::kLayer) {
    return {[=](const Tensor& x) { return layer_norm(x, weight, bias, eps); },
            [=](const Tensor& x, const Tensor& y) { return layer_norm(x + y, weight, bias, eps); }};
  }
  return {[=](const Tensor& x) { return rms_norm(x, weight, eps); },
          [=](const Tensor& x, const Tensor& y) { return add_rms_norm(x, y, weight, eps); }};
}

/// Several projections of one input, side by side from `first` on.
Map make_linear(const WeightSource& weights, const std::string& first, std::int64_t outputs, std::int64_t inputs) {
  const Weight weight = weights(first, {outputs, inputs}, true), bias = weights(first + ".bias", {outputs}, false);
  return [=](const Tensor& x) { return linear(x, weight, bias); };
}

using FeedForward = std::function<Tensor(const Tensor& x, const encodings::Span& span)>;

FeedForward make_feed_forward(const ModelConfig& config, const WeightSource& weights, const std::string& at) {
  const std::int64_t inner = config.d_ff();
  const Map down = make_linear(weights, at + "down", config.width, inner);
  const bool two = config.activation == Activation::kSwiglu;
  const Canon before = make_canon(config, weights, at + "canon_c", config.width);
  const Canon inside = make_canon(config, weights, at + "canon_d", two ? 2 * inner : inner);
  if (two) {
    const Map gate_up = make_linear(weights, at + "gate", 2 * inner, config.width);
    return [=](const Tensor& x, const encodings::Span& span) {
      const Tensor both = inside(gate_up(before(x, span)), span);
      return down(at::silu(both.narrow(-1, 0, inner)) * both.narrow(-1, inner, inner));
    };
  }
  const Map up = make_linear(weights, at + "up", inner, config.width);
  const bool relu = config.activation == Activation::kRelu;
  const char* const gelu = config.activation == Activation::kGeluTanh ? "tanh" : "none";
  return [=](const Tensor& x, const encodings::Span& span) {
    const Tensor inner_x = inside(up(before(x, span)), span);
    return down(relu ? at::relu(inner_x) : at::gelu(inner_x, gelu));
  };
}

class Attention {
 public:
  Attention(const ModelConfig& config, const WeightSource& weights, const std::string& at)
      : shape_(attention_shape(config)) {
    const std::int64_t d = config.width, q = config.query_heads() * config.d_h(), kv = config.kv_heads() * config.d_h();
    projections_ = make_linear(weights, at + "query", q + 2 * kv, d);
    query_norm_ = weights(at + "query_norm", {config.query_norm_width()}, false);
    key_norm_ = weights(at + "key_norm", {config.key_norm_width()}, false);
    output_ = make_linear(weights, at + "output", d, config.heads * config.d_h());
    gate_ = gate_of(config, weights, at);
    convolves_ = config.canon.has('B');
    canon_ = make_canon(config, weights, at + "canon_b", q + 2 * kv);
  }

  Tensor operator()(const Tensor& x, LayerContext& context, Pass& pass) const {
    const Tensor all = projections_(x);
    const std::int64_t q = shape_.heads * shape_.head_width, kv = shape_.kv_heads * shape_.head_width;
    std::vector<Tensor> parts = {heads(all.narrow(-1, 0, q), query_norm_), heads(all.narrow(-1, q, kv), key_norm_),
                                 heads(all.narrow(-1, q + kv, kv), {})};
    if (convolves_) parts = convolved(parts, context.span);
    const Tensor mixed = gated(attend(pass.encoding, parts[0], parts[1], parts[2], context, pass), x, gate_);
    return output_(mixed.transpose(1, 2).flatten(2));
  }

 private:
  /// Queries, keys and values side by side, each channel by its own taps, and apart again.
  std::vector<Tensor> convolved(const std::vector<Tensor>& parts, const encodings::Span& span) const {
    std::vector<Tensor> flat;
    std::vector<std::int64_t> widths;
    for (const Tensor& part : parts) {
      flat.push_back(part.transpose(1, 2).flatten(2));
      widths.push_back(flat.back().size(-1));
    }
    std::vector<Tensor> made;
    for (const Tensor& part : canon_(at::cat(flat, -1), span).split_with_sizes(widths, -1)) {
      made.push_back(part.unflatten(-1, {-1, shape_.head_width}).transpose(1, 2).contiguous());
    }
    return made;
  }

  /// [B, T, H·d_h] → [B, H, T, d_h], normed where there is a weight: each head, or all of them together.
  Tensor heads(const Tensor& part, const Weight& norm) const {
    const std::int64_t width = shape_.head_width, batch = part.size(0), length = part.size(1);
    const bool together = norm.value.defined() && norm.value.numel() != width;
    Tensor rows = together ? rms_norm(part.contiguous(), norm, shape_.eps) : part;
    rows = rows.reshape({batch, length, part.size(2) / width, width});
    if (norm.value.defined() && !together) rows = rms_norm(rows.contiguous(), norm, shape_.eps);
    return rows.transpose(1, 2).contiguous();
  }

  AttentionShape shape_;
  Map projections_, output_;
  Weight query_norm_, key_norm_, gate_;
  Canon canon_;
  bool convolves_ = false;
};

/// The function of a half block between its input and its output.
using Half = std::function<Tensor(const Tensor&)>;
using Wiring = Tensor (*)(const Tensor& x, const Norm& norm, const Half& half, const Pass& pass);

Tensor dropped(const Tensor& y, const Pass& pass) { return pass.dropped ? pass.dropped(y) : y; }
Tensor wire_pre(const Tensor& x, const Norm& norm, const Half& half, const Pass& pass) {
  return x + dropped(half(norm.alone(x)), pass);
}
Tensor wire_post(const Tensor& x, const Norm& norm, const Half& half, const Pass& pass) {
  return norm.of_sum(x, dropped(half(x), pass));
}
Tensor wire_bare(const Tensor& x, const Norm&, const Half& half, const Pass& pass) { return dropped(half(x), pass); }

class ComposedBlock final : public Block {
 public:
  ComposedBlock(const ModelConfig& config, const WeightSource& weights, const std::string& at)
      : attention_(config, weights, at + "attention."),
        canon_(make_canon(config, weights, at + "attention.canon_a", config.width)),
        wiring_(config.bare_attention                           ? wire_bare
                : config.norm_placement == NormPlacement::kPost ? wire_post
                                                                : wire_pre) {
    if (config.bare_attention) return;
    attention_norm_ = make_norm(config, weights, at + "attention.norm");
    feed_forward_norm_ = make_norm(config, weights, at + "feed_forward.norm");
    feed_forward_ = make_feed_forward(config, weights, at + "feed_forward.");
  }

  Tensor forward(const Tensor& in, int layer, Pass& pass) const override {
    std::optional<LayerContext> context;
    const auto attention = [&](const Tensor& given) {
      const Tensor x = canon_(given, pass.state.span);
      context.emplace(encodings::layer_context(pass.encoding, pass.state, layer, x));
      return attention_(x, *context, pass);
    };
    const Tensor x = wiring_(in, attention_norm_, attention, pass);
    if (!feed_forward_) return x;
    const auto feed_forward = [&](const Tensor& half_in) {
      const Tensor y = feed_forward_(half_in, pass.state.span);
      if (reads_feed_forward(pass.encoding, *context)) pass.encoding.after_feed_forward(*context, y);
      return y;
    };
    return wiring_(x, feed_forward_norm_, feed_forward, pass);
  }

 private:
  Attention attention_;
  Canon canon_;
  Norm attention_norm_, feed_forward_norm_;  // empty where the block is bare
  FeedForward feed_forward_;
  Wiring wiring_;
};

bool is_llama(const ModelConfig& config) {
  return config.norm == NormKind::kRms && config.norm_placement == NormPlacement::kPre &&
         config.activation == Activation::kSwiglu && !config.biases && !config.bare_attention &&
         config.canon.set.empty();
}

}  // namespace

std::vector<std::unique_ptr<Block>> make_blocks(const ModelConfig& config, const WeightSource& weights) {
  std::vector<std::unique_ptr<Block>> blocks;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string at = cat("layers.", layer, ".");
    if (is_llama(config))
      blocks.push_back(std::make_unique<LlamaBlock>(config, weights, at));
    else
      blocks.push_back(std::make_unique<ComposedBlock>(config, weights, at));
  }
  return blocks;
}

std::function<Tensor(const Tensor&)> make_final_norm(const ModelConfig& config, const WeightSource& weights) {
  if (!config.final_norm()) return [](const Tensor& x) { return x; };
  return make_norm(config, weights, "norm").alone;
}

}  // namespace pe::model
