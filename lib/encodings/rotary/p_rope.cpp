// p-RoPE: of RoPE's pairs only the fastest rotate; the slowest, which carry hardly any position, see content alone.
#include "encodings/rotary/rotary_schedules.h"

namespace pe::encodings {
namespace {

struct PRopeOptions : RotaryOptions {
  double fraction = 0.75;
  bool reversed = false;
  void describe(support::FieldVisitor& v) {
    RotaryOptions::describe(v);
    describe_own(v);
  }
  void describe_own(support::FieldVisitor& v) {
    v.field("fraction", fraction, "Share of the pairs that are rotated, rounded down.", {.min = 0, .max = 1});
    v.field("reversed", reversed, "Rotate the slowest pairs instead of the fastest (an ablation of the paper).");
  }
};

class PRope : public Rotary {
 public:
  PRope(const PRopeOptions& options, const Shape& shape, RescalingPointer rescaling = {})
      : Rotary("p_rope", shape, options, std::move(rescaling)),
        fraction_(options.fraction),
        reversed_(options.reversed) {}

  FrequencySchedule schedule() const override {
    FrequencySchedule all = Rotary::schedule();
    const std::size_t pairs = all.theta.size();
    const auto kept = static_cast<std::size_t>(fraction_ * static_cast<double>(pairs));
    for (std::size_t i = 0; i < pairs; ++i) {
      if (reversed_ ? i < pairs - kept : i >= kept) all.theta[i] = 0;
    }
    return all;
  }

 private:
  double fraction_;
  bool reversed_;
};

constexpr const char* kPRopeSummary = "RoPE without rotation of the slowest pairs.";

}  // namespace

RotarySchedule p_rope_schedule() { return rotary_schedule<PRope, PRopeOptions>("p_rope", kPRopeSummary); }

EncodingEntry p_rope_entry() {
  return with_options<PRope, PRopeOptions>(
      {.name = "p_rope",
       .aliases = {"proportional"},
       .summary = kPRopeSummary,
       .reference = "Barbero et al. 2024, arXiv:2410.06205",
       .facts = {.rotates = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .formula = "rope whose pairs c ≥ ⌊fraction·d_h/2⌋ have θ_c = 0\n"
                  "reversed: the first pairs have θ_c = 0 instead",
       .known_for = "RoPE without its slowest pairs, which carry content rather than position. At 2B parameters the "
                    "paper finds that fraction 0.75 has at most the perplexity of rope. Hugging Face configs call it "
                    "'proportional'.",
       .errata = {"It is not partial: frequencies come from the schedule of the whole head."}});
}

}  // namespace pe::encodings
