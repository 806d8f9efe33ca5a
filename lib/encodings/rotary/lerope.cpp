// LeRoPE: one trained addition to the logarithm of each frequency, for all layers and heads.
#include "encodings/rotary/learned_frequencies.h"
#include "encodings/rotary/rotary_schedules.h"

namespace pe::encodings {
namespace {

class Lerope : public LearnedFrequencies {
 public:
  Lerope(const RotaryOptions& options, const Shape& shape, RescalingPointer rescaling = {})
      : LearnedFrequencies("lerope", options, FrequencyForm::kLogShared, false, 1, shape, std::move(rescaling)) {}
};

constexpr const char* kLeropeSummary = "RoPE with one table of trained frequencies for the whole model.";

}  // namespace

RotarySchedule lerope_schedule() { return rotary_schedule<Lerope, RotaryOptions>("lerope", kLeropeSummary); }

EncodingEntry lerope_entry() {
  return with_options<Lerope, RotaryOptions>(
      {.name = "lerope",
       .summary = kLeropeSummary,
       .reference = "arXiv:2607.10134",
       .facts = {.rotates = true, .learned = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .parameters = "head_width/2",
       .formula = "rope with θ_c ← θ_c·exp(α_c), α trained, one table for all layers and heads",
       .known_for = "Its authors report slightly lower perplexity within the training length at every size, and "
                    "worse extrapolation than rope. A separate table for each layer or head does no better."});
}

}  // namespace pe::encodings
