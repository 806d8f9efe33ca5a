// Clipped RoPE: the slowest pairs are slowed further along a cosine, the last one to a standstill.
#include <numbers>

#include "encodings/rotary/rotary_schedules.h"

namespace pe::encodings {
namespace {

enum class Clip { kSoft, kHard };

struct CopeClipOptions : RotaryOptions {
  double fraction = 0.3125;
  Clip mode = Clip::kSoft;
  void describe(support::FieldVisitor& v) {
    RotaryOptions::describe(v);
    describe_own(v);
  }
  void describe_own(support::FieldVisitor& v) {
    v.field("fraction", fraction, "Share of the pairs that are clipped, starting with the slowest.",
            {.min = 0, .max = 1});
    v.choice("mode", mode, {{"soft", Clip::kSoft}, {"hard", Clip::kHard}},
             "Clipped pairs are slowed along half a cosine, or not rotated.");
  }
};

class CopeClip : public Rotary {
 public:
  CopeClip(const CopeClipOptions& options, const Shape& shape, RescalingPointer rescaling = {})
      : Rotary("cope_clip", shape, options, std::move(rescaling)), fraction_(options.fraction), mode_(options.mode) {}

  FrequencySchedule schedule() const override {
    FrequencySchedule all = Rotary::schedule();
    const std::size_t pairs = all.theta.size();
    const auto n = static_cast<std::size_t>(std::lround(fraction_ * static_cast<double>(pairs)));
    for (std::size_t j = 0; j < n; ++j) {
      const double along = n == 1 ? 1 : static_cast<double>(j) / static_cast<double>(n - 1);
      all.theta[pairs - n + j] *= mode_ == Clip::kHard ? 0
                                  : j + 1 == n         ? 0
                                                       : (1 + std::cos(std::numbers::pi * along)) / 2;
    }
    return all;
  }

 private:
  double fraction_;
  Clip mode_;
};

constexpr const char* kCopeClipSummary = "RoPE with its slowest pairs slowed further, down to frequency 0.";

}  // namespace

RotarySchedule cope_clip_schedule() {
  return rotary_schedule<CopeClip, CopeClipOptions>("cope_clip", kCopeClipSummary);
}

EncodingEntry cope_clip_entry() {
  return with_options<CopeClip, CopeClipOptions>(
      {.name = "cope_clip",
       .aliases = {"clipped_rope"},
       .summary = kCopeClipSummary,
       .reference = "arXiv:2602.05258",
       .facts = {.rotates = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .formula = "rope whose last n = round(fraction·d_h/2) pairs are slowed: θ_c ← θ_c·½(1 + cos(π·j/(n − 1))), "
                  "j = 0 .. n − 1; mode hard: θ_c ← 0",
       .known_for = "A soft form of p_rope for continued training at longer contexts; the paper clips 20 of 64 "
                    "pairs.",
       .errata = {"Its authors call it CoPE, which is also the name of contextual position encoding (here cope)."}});
}

}  // namespace pe::encodings
