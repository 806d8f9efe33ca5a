// Multiscale RoPE: each key/value head has a separate base, from short wavelengths to long ones. Query heads take the
// base of the head they read, or the product would not depend on distance alone.
#include "encodings/rotary/rotary_schedules.h"

namespace pe::encodings {
namespace {

struct MultiscaleOptions : RotaryOptions {
  double base_min = 1000;
  double base_max = 100000;
  double scaling_factor = 1;
  void describe(support::FieldVisitor& v) {
    describe_own(v);
    v.choice("layout", layout, {{"half", PairLayout::kHalf}, {"interleaved", PairLayout::kInterleaved}},
             "Which channels form a pair: (i, i + d/2), or (2i, 2i + 1).");
  }
  void describe_own(support::FieldVisitor& v) {
    v.field("base_min", base_min, "Base of the first key/value head.", {.min = 1});
    v.field("base_max", base_max, "Base of the last key/value head; bases between are spaced geometrically.",
            {.min = 1});
    v.field("scaling_factor", scaling_factor, "Divisor of all frequencies.", {.min = 1e-6});
    v.check(base_min > 1 && base_max > 1, "a base of 1 would rotate all pairs equally");
  }
};

class MultiscaleRope : public Rotary {
 public:
  MultiscaleRope(const MultiscaleOptions& options, const Shape& shape, RescalingPointer rescaling = {})
      : Rotary("multiscale_rope", shape, options, std::move(rescaling)), multiscale_(options) {}

  FrequencySchedule schedule() const override { return schedule_of(0); }

  bool only_rotates() const override { return false; }
  void transform(LayerContext& context, Heads& heads) override {
    RotaryCache::Values all = table(context.span)(context, 0, context.span.keys, heads.q.scalar_type());
    // [T or B,T, G·n] → [1 or B, G, T, n]
    const auto by_head = [&](const Tensor& t) {
      const Tensor batched = t.dim() == 2 ? t.unsqueeze(0) : t;
      const std::int64_t groups = shape_.key_value_heads;
      return batched.unflatten(-1, {groups, batched.size(-1) / groups}).transpose(1, 2);
    };
    rotate_heads(heads, context.span, {by_head(all.cos), by_head(all.sin)});
  }

 protected:
  RotaryFrequencies table_rule(const Span& span) const override {
    RotaryFrequencies all;
    for (std::int64_t g = 0; g < shape_.key_value_heads; ++g) {
      RotaryFrequencies one = rescaled(schedule_of(g), span);
      const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      append(all.theta, one.theta);
      append(all.periods, one.periods);
      append(all.protected_theta, one.protected_theta);
      all.attention_factor = one.attention_factor;
      all.protected_positions = one.protected_positions;
    }
    return all;
  }

 private:
  FrequencySchedule schedule_of(std::int64_t head) const {
    const double low = std::log(multiscale_.base_min), high = std::log(multiscale_.base_max);
    const std::int64_t heads = shape_.key_value_heads;
    const double along = heads == 1 ? 0.5 : static_cast<double>(head) / static_cast<double>(heads - 1);
    const double base = std::exp(low + along * (high - low));
    FrequencySchedule made{
        .theta = geometric_frequencies(base, shape_.head_width), .base = base, .width = shape_.head_width};
    for (double& theta : made.theta) theta /= multiscale_.scaling_factor;
    return made;
  }

  MultiscaleOptions multiscale_;
};

constexpr const char* kMultiscaleSummary = "RoPE with a separate base for each key/value head.";

}  // namespace

RotarySchedule multiscale_rope_schedule() {
  return rotary_schedule<MultiscaleRope, MultiscaleOptions>("multiscale_rope", kMultiscaleSummary);
}

EncodingEntry multiscale_rope_entry() {
  return with_options<MultiscaleRope, MultiscaleOptions>(
      {.name = "multiscale_rope",
       .summary = kMultiscaleSummary,
       .reference = "kvnyu24/Nexus",
       .facts = {.rotates = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .formula = "rope in which key/value head g has base_g = exp(ln base_min + g/(G − 1)·(ln base_max − ln "
                  "base_min)), and query heads have the base of the head they read; one head: √(base_min·base_max)",
       .known_for = "Separate heads for short and long distances. It is from a code repository without a paper, and "
                    "there are no scripts for its published benchmark tables.",
       .errata = {"A guide gives 1000, 2154, … for eight heads; the formula gives 1000, 1931, …."}});
}

}  // namespace pe::encodings
