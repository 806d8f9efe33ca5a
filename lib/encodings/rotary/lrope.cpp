// RoPE with trained frequencies, for each layer.
#include "encodings/rotary/learned_frequencies.h"
#include "encodings/rotary/rotary_schedules.h"

namespace pe::encodings {
namespace {

struct LropeOptions : RotaryOptions {
  FrequencyForm form = FrequencyForm::kScale;
  bool per_head = false;
  double kappa = 16;
  void describe(support::FieldVisitor& v) {
    RotaryOptions::describe(v);
    describe_own(v);
  }
  void describe_own(support::FieldVisitor& v) {
    v.choice("form", form,
             {{"scale", FrequencyForm::kScale},
              {"direct", FrequencyForm::kDirect},
              {"log", FrequencyForm::kLog},
              {"log_shared", FrequencyForm::kLogShared}},
             "The trained parameter: a factor on each frequency, the frequency, κ times its logarithm, or one "
             "addition to the logarithm for all layers.");
    v.field("per_head", per_head, "Separate frequencies for each key/value head; otherwise one set per layer.");
    v.field("kappa", kappa, "κ of form log; a larger value trains more slowly.", {.min = 1e-6});
  }
};

class Lrope : public LearnedFrequencies {
 public:
  Lrope(const LropeOptions& options, const Shape& shape, RescalingPointer rescaling = {})
      : LearnedFrequencies("lrope", options, options.form, options.per_head, options.kappa, shape,
                           std::move(rescaling)) {}
};

constexpr const char* kLropeSummary = "RoPE with trained frequencies for each layer.";

}  // namespace

RotarySchedule lrope_schedule() { return rotary_schedule<Lrope, LropeOptions>("lrope", kLropeSummary); }

EncodingEntry lrope_entry() {
  return with_options<Lrope, LropeOptions>(
      {.name = "lrope",
       .aliases = {"rope_learned"},
       .summary = kLropeSummary,
       .reference = "RanMo1990/PositionalEncodingExample; form log: arXiv:2512.07805",
       .facts = {.rotates = true, .learned = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .parameters = "layers*head_width/2",
       .formula = "rope with θ_c trained for each layer: scale, θ_c·g_c; direct, θ_c; log, exp(u_c/κ); "
                  "log_shared, θ_c·exp(α_c), one α for the model",
       .known_for = "Trained wavelengths. Length generalisation is not better than with rope. The gradient of a "
                    "frequency grows with distance; the multiplicative forms damp it.",
       .errata = {"The notebook that calls it LRoPE compares bare attention with whole transformer blocks, so its "
                  "ranking is not about the encoding."}});
}

}  // namespace pe::encodings
