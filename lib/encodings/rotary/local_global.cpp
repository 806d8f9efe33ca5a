// Local layers with RoPE and a window, global ones without either.
#include "encodings/attention/attention_window.h"
#include "encodings/attention/layer_pattern.h"
#include "encodings/attention/temperature.h"
#include "encodings/registry.h"
#include "encodings/rotary/rescaling.h"

namespace pe::encodings {
namespace {

enum class GlobalScale { kNone, kLogn };

struct LocalGlobalOptions : RotaryOptions {
  LayerPattern global{.interval = 4, .phase = std::nullopt};
  std::optional<std::int64_t> size;
  GlobalScale scale = GlobalScale::kNone;
  std::optional<std::int64_t> train_length;
  void describe(support::FieldVisitor& v) {
    RotaryOptions::describe(v);
    v.field("interval", global.interval, "One layer in each group of this size is global; 1: all layers.",
            {.unit = "layers", .min = 1});
    global.describe_phase(v);
    v.field("size", size,
            "Number of tokens that a query of a local layer sees, including its own; 0 means all, auto a quarter of "
            "the training length.",
            {.unit = "tokens", .min = 0});
    v.choice("scale", scale, {{"none", GlobalScale::kNone}, {"logn", GlobalScale::kLogn}},
             "Factor on queries in global layers: 1, or max(1, ln n / ln L) with n the number of visible keys.");
    v.field("train_length", train_length, "L in size and scale; auto: the training length.",
            {.unit = "tokens", .min = 2});
  }
};

class LocalGlobal : public Rotary, public WindowedEncoding {
 public:
  LocalGlobal(const LocalGlobalOptions& options, const Shape& shape)
      : Rotary("local_global", shape, options),
        of_(options),
        length_(extended_length("local_global", options.train_length, shape)),
        size_(options.size.value_or(std::max<std::int64_t>(1, length_ / 4))) {
    if (options.scale == GlobalScale::kLogn && length_ < 2) {
      throw support::ConfigError("encoding 'local_global' with scale: logn needs a training length of at least 2");
    }
  }

  std::int64_t window(int layer) const override { return of_.global.holds(layer) ? 0 : size_; }
  bool needs_causal_mask() const override { return true; }
  bool is_position_free_head(int layer, int head) const override { return of_.global.holds(layer); }
  std::optional<RotatedPairs> rotated_pairs(int layer, const Span& span) const override {
    return of_.global.holds(layer) ? std::nullopt : Rotary::rotated_pairs(layer, span);
  }

  bool only_rotates() const override { return false; }
  void transform(LayerContext& context, Heads& heads) override {
    if (!of_.global.holds(context.layer)) return Rotary::transform(context, heads);
    if (of_.scale == GlobalScale::kNone) return;
    const Tensor tau =
        (visible_counts(context).log() / std::log(static_cast<double>(length_))).clamp_min(1).unsqueeze(-1);
    const at::ScalarType type = table_type(heads.q.scalar_type());
    heads.q = (heads.q.to(type) * tau.to(type)).to(heads.q.scalar_type());
  }

 protected:
  Facts own_facts() const override {
    const bool scales = of_.scale == GlobalScale::kLogn;
    return {.shift_invariant = scales ? ShiftInvariance::kNever : ShiftInvariance::kAlways, .rotates = true};
  }

 private:
  LocalGlobalOptions of_;
  std::int64_t length_, size_;
};

}  // namespace

EncodingEntry local_global_entry() {
  return with_options<LocalGlobal, LocalGlobalOptions>(
      {.name = "local_global",
       .aliases = {"swan", "rnope_swa"},
       .summary = "RoPE within a window in most layers, and no encoding over the whole text in every fourth.",
       .reference = "Yang et al. 2025, arXiv:2501.18795; Puvvada et al. 2025, arXiv:2504.08719",
       .facts = {.rotates = true},
       .family = Family::kRotary,
       .acts_on = "q and k, mask",
       .formula = "layers l (from 0) with l mod interval = phase: no encoding, the whole text; scale: logn: q_i × "
                  "max(1, ln n_i/ln L)\n"
                  "the others: rope, and logit(i,j) = −∞ where row i − row j ≥ size",
       .known_for = "The arrangement of most open models of 2026. Rotations stay within their trained lengths, "
                    "and layers without position see far tokens; evaluation of local layers costs no more at any "
                    "length.",
       .errata = {"SWAN begins each group with the global layer (phase 0). Its scale is logarithmic with constants "
                  "that were not available; use `logn` instead.",
                  "n counts visible keys, so logn would be constant in a window; it acts only in global layers."}});
}

}  // namespace pe::encodings
