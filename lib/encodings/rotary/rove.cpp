// RoVE: values are rotated like queries and keys, and the output of a query is rotated back, so that it sees relative
// values.
#include "encodings/registry.h"
#include "encodings/rotary/rotary.h"

namespace pe::encodings {
namespace {

struct RoveOptions : RotaryOptions {
  double fraction = 1;
  bool keys = true;
  bool undo = true;
  void describe(support::FieldVisitor& v) {
    RotaryOptions::describe(v);
    v.field("fraction", fraction, "Share of the channels of a head that are rotated, rounded down to an even number.",
            {.min = 0, .max = 1});
    v.field("keys", keys, "Also rotate queries and keys; else only values.");
    v.field("undo", undo,
            "Rotate the output back by the position of the query; otherwise values are absolute, a control.");
  }
};

class Rove : public Rotary {
 public:
  Rove(const RoveOptions& options, const Shape& shape)
      : Rotary("rove", shape, options),
        rove_(options),
        width_(static_cast<std::int64_t>(options.fraction * static_cast<double>(shape.head_width)) / 2 * 2) {}

  FrequencySchedule schedule() const override {
    return {.theta = geometric_frequencies(options_.base, width_), .base = options_.base, .width = width_};
  }
  std::optional<RotatedPairs> rotated_pairs(int layer, const Span& span) const override {
    return rove_.keys ? Rotary::rotated_pairs(layer, span) : std::nullopt;
  }
  bool only_rotates() const override { return false; }

  void transform(LayerContext& context, Heads& heads) override {
    if (width_ == 0) return;
    const RotaryCache::Values all = tables_for(context, heads.q.scalar_type());
    if (rove_.keys) rotate_heads(heads, context.span, all);
    heads.v = rotate(heads.v, all.cos, all.sin, options_.layout);
  }

  Tensor finish(LayerContext& context, const Tensor& out, const Tensor& extra) override {
    if (width_ == 0 || !rove_.undo) return out;
    const Span& span = context.span;
    const RotaryCache::Values all = tables_for(context, out.scalar_type());
    const auto of_queries = [&](const Tensor& t) {
      return t.narrow(t.dim() - 2, span.keys - span.queries, span.queries);
    };
    return rotate(out, of_queries(all.cos), -of_queries(all.sin), options_.layout);
  }

 protected:
  Facts own_facts() const override {
    const bool absolute = !rove_.undo && width_ > 0;
    return {.shift_invariant = absolute ? ShiftInvariance::kNever : ShiftInvariance::kAlways, .rotates = rove_.keys};
  }

 private:
  RoveOptions rove_;
  std::int64_t width_;
};

}  // namespace

EncodingEntry rove_entry() {
  return with_options<Rove, RoveOptions>(
      {.name = "rove",
       .aliases = {"vo_rope"},
       .summary = "RoPE on values too; the output is rotated back, so values are relative.",
       .reference = "arXiv:2606.11275 (2026); Su 2025, kexue.fm/archives/10862; DeepSeek-V4",
       .facts = {.rotates = true},
       .family = Family::kRotary,
       .acts_on = "q and k, values",
       .formula = "R_p turns the first r = fraction·d_h channels as rope does, θ_c = base^(−2c/r)\n"
                  "o_i = R_iᵀ Σ_j w_ij R_j v_j = Σ_j w_ij R_{j−i} v_j, w from R_i q_i and R_j k_j",
       .known_for = "DeepSeek-V4 shares keys and values and rotates both; a value then contains its distance. It has "
                    "no parameters or extra cost.",
       .errata = {"DeepSeek-V4 rotates the last 64 of 512 channels in the interleaved layout, with values equal to "
                  "keys; its comment says the first.",
                  "An attention factor on cosines and sines must not apply to values: they would have its square."}});
}

}  // namespace pe::encodings
