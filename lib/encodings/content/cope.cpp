// CoPE: a position is a count of gates that a query opens on the keys before it; a trained table gives each count its
// logit.
#include "encodings/attention/fused_bias.h"
#include "encodings/attention/head_vectors.h"
#include "encodings/content/cumulative.h"
#include "encodings/content/ordered_gather.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

// In a stack with a rotation, gates and table may read q and k before it (raw) or after it.
enum class Reading { kRaw, kRotated };

struct CopeOptions {
  std::int64_t positions = 64;
  bool cope_div = false;
  Reading gates = Reading::kRotated;
  Reading z = Reading::kRaw;
  void describe(support::FieldVisitor& v) {
    v.field("positions", positions, "Number of separate counts in the table; larger counts share the last.",
            {.min = 2});
    v.field("cope_div", cope_div, "Divide the added logit by √head_width too, as in the released code by default.");
    v.choice("gates", gates, {{"rot", Reading::kRotated}, {"raw", Reading::kRaw}},
             "Gates read the final logits (rot), or q·k before any rotation (raw), a second product.");
    v.choice("z", z, {{"raw", Reading::kRaw}, {"rot", Reading::kRotated}},
             "Query that reads the table: before (raw) or after (rot) any rotation.");
  }
};

class Cope : public PositionalEncoding, public HoldsHeadVectors, public FusesBias {
 public:
  Cope(const CopeOptions& options, const Shape& shape) : PositionalEncoding(shape), options_(options) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      tables_.push_back(add_constant("cope", "table", {shape.head_width, options.positions}, 0, false, layer));
    }
  }

  bool apply_after_rotation() const override { return options_.z == Reading::kRotated; }
  // Where a rotated q reads the table, its place shows in the added logit.
  Facts facts() const override {
    return {.shift_invariant = options_.z == Reading::kRaw ? ShiftInvariance::kAlways : ShiftInvariance::kNever,
            .learned = true,
            .content_dependent = true};
  }
  Traits traits(const Span& span) const override {
    return {.rewrites_logits = true, .needs_row_constants = true, .needs_raw = true};
  }

  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    return {tables_.at(context.layer)};
  }

  Tensor rewrite(const Rows& rows, const Tensor& s) override {
    const at::ScalarType type = s.scalar_type();
    Tensor gate_logits = s;
    if (options_.gates == Reading::kRaw) {
      Rows raw = rows;
      raw.q = rows.raw_q;
      raw.k = rows.raw_k;
      gate_logits = PositionalEncoding::logits(raw);
    }
    const Tensor gates = at::sigmoid(gate_logits).masked_fill(rows.visible.logical_not(), 0.0);
    // Sum of the gates from the key to the query, both included.
    const double last = static_cast<double>(options_.positions - 1);
    const Tensor p = gates.flip(-1).cumsum(-1).flip(-1).clamp_max(last);
    const Tensor floor = p.detach().floor();
    const Tensor weight = p - floor;
    const Tensor low = floor.to(at::kLong), high = (low + 1).clamp_max(options_.positions - 1);
    const Tensor z = logits_of_counts(rows.raw_q, rows.q, rows.inputs.at(0), type);
    const Tensor added = weight * gather_in_order(z, high) + (1 - weight) * gather_in_order(z, low);
    return options_.cope_div ? s + added * rows.scale : s + added;
  }

  FusedKind fused_kind(const Span& span) const override {
    return options_.gates == Reading::kRotated && options_.positions <= kMostFused ? FusedKind::kCounts
                                                                                   : FusedKind::kNone;
  }
  FusedBias fused_bias(LayerContext& context, const Heads& heads) override {
    const Tensor z = logits_of_counts(heads.raw_q, heads.q, tables_.at(context.layer), at::kFloat);
    return {.counts = options_.cope_div ? z * heads.scale : z};
  }

 private:
  static constexpr std::int64_t kMostFused = 4096;

  /// [B,H,rows,positions]
  Tensor logits_of_counts(const Tensor& raw_q, const Tensor& q, const Tensor& table, at::ScalarType type) const {
    return at::matmul((options_.z == Reading::kRaw ? raw_q : q).to(type), table.to(type));
  }

  CopeOptions options_;
  std::vector<Tensor> tables_;  // [d_h, positions], shared by the heads of a layer
};

struct CopeGuideOptions {
  std::int64_t positions = 2048;
  void describe(support::FieldVisitor& v) {
    v.field("positions", positions, "Rows of the table; larger counts share the last.", {.min = 2});
  }
};

/// A guide's CoPE, which differs from the paper's: gates read tokens alone and are counted from the start of the text.
/// A key adds an interpolated row of a table for its count. The bias is absolute and the same for all queries, and so
/// as cheap as extra channels of q and k.
class CopeGuide : public PositionalEncoding {
 public:
  CopeGuide(const CopeGuideOptions& options, const Shape& shape) : PositionalEncoding(shape), rows_(options.positions) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      const std::int64_t heads = shape.query_heads, width = shape.head_width;
      layers_.push_back({add_normal("cope_guide", "gate_weight", {heads, shape.width}, 0, 0.02, true, layer),
                         add_constant("cope_guide", "gate_bias", {heads}, 0, false, layer),
                         add_normal("cope_guide", "table", {rows_, width}, 0, 0.02, false, layer),
                         add_normal("cope_guide", "query", {width, width}, 0, 0.02, true, layer)});
    }
  }

  Facts facts() const override {
    return {.shift_invariant = ShiftInvariance::kNever, .learned = true, .content_dependent = true};
  }
  Traits traits(const Span& span) const override {
    return {.bias = BiasKind::kChannels, .bias_needs_grad = true, .bias_depends_on_batch = true, .needs_raw = true};
  }

  Channels channels(LayerContext& context, const Heads& heads) override {
    return {.query = reader(context, heads), .key = entries(context), .query_pieces = 1, .key_pieces = 1};
  }
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    return {reader(context, heads), entries(context)};
  }
  Tensor bias(const Rows& rows) override {
    const Tensor q = rows.inputs.at(0).narrow(2, rows.begin, rows.count()),
                 k = rows.inputs.at(1).narrow(2, 0, rows.keys);
    return at::matmul(q, k.transpose(-1, -2));
  }

 private:
  struct GuideCope {
    Tensor gate_weight, gate_bias, table, query;
  };

  /// W·q before any rotation, over √d_h: [B,H,T,d_h]
  Tensor reader(const LayerContext& context, const Heads& heads) const {
    const Tensor& w = layers_.at(context.layer).query;
    return at::matmul(heads.raw_q.to(w.scalar_type()), w.t()) / std::sqrt(static_cast<double>(shape_.head_width));
  }

  /// The table at the count of each key: [B,H,S,d_h]
  Tensor entries(const LayerContext& context) const {
    const GuideCope& layer = layers_.at(context.layer);
    const Tensor gates = at::sigmoid(token_scores(context, layer.gate_weight, layer.gate_bias));  // [B,H,S]
    Tensor counts = gates.cumsum(-1);
    if (context.span.doc_start.defined()) {  // each document counts from its own start
      const Tensor start = context.span.doc_start.expand({context.span.batch, context.span.keys}).unsqueeze(1);
      counts = counts - (counts - gates).gather(-1, start.expand(counts.sizes()));
    }
    const Tensor p = counts.clamp_max(static_cast<double>(rows_) - 1.001);
    const Tensor floor = p.detach().floor();
    const Tensor weight = (p - floor).unsqueeze(-1);
    const Tensor low = floor.to(at::kLong).flatten();
    const auto row = [&](const Tensor& index) {
      return layer.table.index_select(0, index).view({p.size(0), p.size(1), p.size(2), -1});
    };
    return weight * row(low + 1) + (1 - weight) * row(low);
  }

  std::int64_t rows_;
  std::vector<GuideCope> layers_;
};

}  // namespace

EncodingEntry cope_entry() {
  return with_options<Cope, CopeOptions>(
      {.name = "cope",
       .summary = "Counts keys by content-dependent gates and adds a trained logit "
                  "for each count.",
       .reference = "Golovneva et al. 2024, arXiv:2405.18719",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*head_width*positions",
       .formula = "g_it = σ(q_i·k_t/√d_h), p_ij = min(Σ_{t=j..i} g_it, positions − 1)\n"
                  "z_i = q_i·E, E a trained table [d_h, positions] of a layer\n"
                  "logit(i,j) += z_i at p_ij, linear between ⌊p_ij⌋ and ⌈p_ij⌉",
       .known_for = "Counts units that depend on the content (sentences, steps) instead of tokens. It is good at "
                    "counting and selective copying, and needs several score-sized tensors.",
       .errata = {"The paper adds the new logit after the division by √d_h, its code by default before (`cope_div`).",
                  "Some guides use this name for a gate per token and a forward sum, which is another encoding.",
                  "2602.05258 calls a clipped RoPE by the same name."}});
}

EncodingEntry cope_guide_entry() {
  return with_options<CopeGuide, CopeGuideOptions>(
      {.name = "cope_guide",
       .summary = "Variant of CoPE in a guide: counts gates of tokens from the start of the text.",
       .reference = "a guide to positional encodings; deviates from Golovneva et al. 2024, arXiv:2405.18719",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*(heads*(width + 1) + positions*head_width + head_width*head_width)",
       .formula = "g_t = σ(w_h·x_t + b_h), p_j = min(Σ_{t ≤ j} g_t, positions − 1.001)\n"
                  "logit(i,j) += (W q_i)·e(p_j)/√d_h, e a trained table, read between its rows",
       .known_for = "A simplification of CoPE that circulates in a guide; here to measure the difference.",
       .errata = {"It is not CoPE: counts begin at the start of the text and are equal for all queries, a soft "
                  "absolute position of keys."}});
}

}  // namespace pe::encodings
