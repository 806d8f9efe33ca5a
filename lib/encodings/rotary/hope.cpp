// HoPE (high-frequency rotary): pairs without a whole turn within the training length are not rotated at all, so no
// angle beyond it is new.
#include <numbers>

#include "encodings/rotary/rotary_schedules.h"

namespace pe::encodings {
namespace {

struct HopeOptions : RotaryOptions {
  std::optional<std::int64_t> train_length;
  void describe(support::FieldVisitor& v) {
    RotaryOptions::describe(v);
    describe_own(v);
  }
  void describe_own(support::FieldVisitor& v) {
    v.field("train_length", train_length, "Length within which a pair must make a full turn; auto: from the model.",
            {.unit = "tokens", .min = 1});
  }
};

class Hope : public Rotary {
 public:
  Hope(const HopeOptions& options, const Shape& shape, RescalingPointer rescaling = {})
      : Rotary("hope", shape, options, std::move(rescaling)),
        length_(extended_length("hope", options.train_length, shape)) {}

  FrequencySchedule schedule() const override {
    FrequencySchedule all = Rotary::schedule();
    for (double& theta : all.theta) {
      if (theta < 2 * std::numbers::pi / static_cast<double>(length_)) theta = 0;
    }
    return all;
  }

 private:
  std::int64_t length_;
};

constexpr const char* kHopeSummary = "RoPE without the pairs that make less than one turn in the training length.";

}  // namespace

RotarySchedule hope_schedule() { return rotary_schedule<Hope, HopeOptions>("hope", kHopeSummary); }

EncodingEntry hope_entry() {
  return with_options<Hope, HopeOptions>(
      {.name = "hope",
       .summary = kHopeSummary,
       .reference = "Chen et al. 2024, arXiv:2410.21216",
       .facts = {.rotates = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .formula = "rope with θ_c = 0 where θ_c < 2π/L, L the training length",
       .known_for = "Rotated pairs have no new angles beyond the training length. It is p_rope with a fraction that "
                    "follows from the training length.",
       .errata = {"Three unrelated methods have the name HoPE. This is arXiv:2410.21216, not 2505.20444 (vision and "
                  "language) or 2509.05218 (hyperbolic)."}});
}

}  // namespace pe::encodings
