// RoPE in most layers, no encoding in every interval-th: the latter see content alone and carry retrieval over
// distance.
#include "encodings/attention/layer_pattern.h"
#include "encodings/rotary/rotary_schedules.h"

namespace pe::encodings {
namespace {

struct InopeOptions : RotaryOptions {
  LayerPattern spared{.interval = 4, .phase = std::nullopt};
  bool temperature = false;
  double scale = 0.1;
  std::optional<std::int64_t> floor_scale;
  void describe(support::FieldVisitor& v) {
    RotaryOptions::describe(v);
    describe_own(v);
  }
  void describe_own(support::FieldVisitor& v) {
    v.field("interval", spared.interval, "One layer in each group of this size is not rotated; 1: all layers.",
            {.unit = "layers", .min = 1});
    spared.describe_phase(v);
    v.field("temperature", temperature,
            "In layers without rotation, multiply queries by 1 + scale·ln(1 + ⌊(position + 1)/floor_scale⌋), as in "
            "Llama 4.");
    v.field("scale", scale, "See temperature.", {.min = 0});
    v.field("floor_scale", floor_scale, "See temperature; auto: the training length.", {.unit = "tokens", .min = 1});
  }
};

class Inope : public Rotary {
 public:
  Inope(const InopeOptions& options, const Shape& shape, RescalingPointer rescaling = {})
      : Rotary("inope", shape, options, std::move(rescaling)),
        inope_(options),
        floor_scale_(options.temperature ? extended_length("inope", options.floor_scale, shape) : 1) {}

  bool is_position_free_head(int layer, int head) const override { return inope_.spared.holds(layer); }

  std::optional<RotatedPairs> rotated_pairs(int layer, const Span& span) const override {
    return is_position_free_head(layer, 0) ? std::nullopt : Rotary::rotated_pairs(layer, span);
  }

  bool only_rotates() const override { return false; }
  void transform(LayerContext& context, Heads& heads) override {
    if (!is_position_free_head(context.layer, 0)) return Rotary::transform(context, heads);
    if (!inope_.temperature) return;
    const std::int64_t queries = context.span.queries, offset = context.span.keys - queries;
    const Tensor positions = context.positions.narrow(-1, offset, queries).to(at::kDouble);
    Tensor tau = ((positions + 1) / static_cast<double>(floor_scale_)).floor().log1p() * inope_.scale + 1;
    tau = tau.dim() == 2 ? tau.unsqueeze(1).unsqueeze(-1) : tau.unsqueeze(-1);  // [T,1] or [B,1,T,1]
    const at::ScalarType type = table_type(heads.q.scalar_type());
    heads.q = (heads.q.to(type) * tau.to(type)).to(heads.q.scalar_type());
  }

 protected:
  Facts own_facts() const override {
    const bool scales = inope_.temperature && inope_.spared.phase.value_or(inope_.spared.interval - 1) < shape_.layers;
    return {.shift_invariant = scales ? ShiftInvariance::kNever : ShiftInvariance::kAlways, .rotates = true};
  }

 private:
  InopeOptions inope_;
  std::int64_t floor_scale_;
};

constexpr const char* kInopeSummary = "RoPE in most layers and no encoding in every fourth.";

}  // namespace

RotarySchedule inope_schedule() { return rotary_schedule<Inope, InopeOptions>("inope", kInopeSummary); }

EncodingEntry inope_entry() {
  return with_options<Inope, InopeOptions>(
      {.name = "inope",
       .aliases = {"irope", "rnope"},
       .summary = kInopeSummary,
       .reference = "Yang et al. 2025, arXiv:2501.18795; SmolLM3; Llama 4",
       .facts = {.rotates = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .formula = "rope, except in layers l (from 0) with l mod interval = phase, which turn nothing\n"
                  "temperature: there q_i × 1 + scale·ln(1 + ⌊(i + 1)/floor_scale⌋)",
       .known_for = "The layout of SmolLM3 and Llama 4: layers without positions are for distant retrieval, the others "
                    "for local order.",
       .errata = {"Their configs call the flag no_rope_layers, where 1 means that the layer has RoPE.",
                  "Llama 4 also limits RoPE layers to chunks and normalises q and k after rotation; neither is part of "
                  "this encoding."}});
}

}  // namespace pe::encodings
