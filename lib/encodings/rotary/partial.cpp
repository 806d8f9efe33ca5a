// Partial RoPE (GPT-J, NeoX): the first channels of each head are rotated, with a separate schedule; the others see
// content alone.
#include "encodings/rotary/rotary_schedules.h"

namespace pe::encodings {
namespace {

struct PartialOptions : RotaryOptions {
  double fraction = 0.25;
  void describe(support::FieldVisitor& v) {
    RotaryOptions::describe(v);
    describe_own(v);
  }
  void describe_own(support::FieldVisitor& v) {
    v.field("fraction", fraction, "Share of the channels of a head that are rotated, rounded down to an even number.",
            {.min = 0, .max = 1});
  }
};

class Partial : public Rotary {
 public:
  Partial(const PartialOptions& options, const Shape& shape, RescalingPointer rescaling = {})
      : Rotary("partial", shape, options, std::move(rescaling)),
        width_(static_cast<std::int64_t>(options.fraction * static_cast<double>(shape.head_width)) / 2 * 2) {}

  // The exponent's denominator is the rotated width, so the slowest pair is about 1/base whatever the fraction.
  FrequencySchedule schedule() const override {
    return {.theta = geometric_frequencies(options_.base, width_), .base = options_.base, .width = width_};
  }

 private:
  std::int64_t width_;
};

constexpr const char* kPartialSummary =
    "RoPE on the first channels of each head, with frequencies spread over these channels.";

}  // namespace

RotarySchedule partial_schedule() { return rotary_schedule<Partial, PartialOptions>("partial", kPartialSummary); }

EncodingEntry partial_entry() {
  return with_options<Partial, PartialOptions>(
      {.name = "partial",
       .aliases = {"rotary_pct"},
       .summary = kPartialSummary,
       .reference = "Wang and Komatsuzaki 2021 (GPT-J)",
       .facts = {.rotates = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .formula = "the first r = fraction·d_h channels of each head, rounded down to even, are turned as by rope "
                  "with θ_c = base^(−2c/r), c = 0 .. r/2 − 1; the others stay",
       .known_for = "The rotary encoding of GPT-J and GPT-NeoX (fraction 0.25): part of each head sees only content. "
                    "Published runs at a quarter of the channels are close to full rope.",
       .errata = {"Not p_rope: here the frequencies are spread over the rotated channels, so the slowest is "
                  "1/base for every fraction."}});
}

}  // namespace pe::encodings
