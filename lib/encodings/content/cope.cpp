// CoPE: a position is a count of gates that a query opens on the keys before it; a trained table gives each count its
// logit.
#include "encodings/attention/head_vectors.h"
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

class Cope : public PositionalEncoding, public HoldsHeadVectors {
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
    const Tensor& reader = options_.z == Reading::kRaw ? rows.raw_q : rows.q;
    const Tensor z = at::matmul(reader.to(type), rows.inputs.at(0).to(type));  // [B,H,rows,positions]
    const Tensor added = weight * gather_in_order(z, high) + (1 - weight) * gather_in_order(z, low);
    return options_.cope_div ? s + added * rows.scale : s + added;
  }

 private:
  CopeOptions options_;
  std::vector<Tensor> tables_;  // [d_h, positions], shared by the heads of a layer
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

}  // namespace pe::encodings
