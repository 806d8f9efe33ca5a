// Position interpolation: all frequencies divided by the factor, which is all positions divided by it.
#include "encodings/rotary/rescaling.h"

namespace pe::encodings {
namespace {

struct PiOptions : ExtensionOptions {
  bool dynamic = false;
  std::optional<std::int64_t> train_length;
  std::optional<std::int64_t> pe_len;
  void describe(support::FieldVisitor& v) {
    ExtensionOptions::describe(v);
    v.field("dynamic", dynamic, "Compute the factor from the length of the text, at least 1.");
    v.field("train_length", train_length, "Training length, for a dynamic factor; auto: from the model.",
            {.unit = "tokens", .min = 1});
    v.field("pe_len", pe_len, "Length of the text, for a dynamic factor; auto: from the pass.",
            {.unit = "tokens", .min = 1});
    v.check(!dynamic || factor == 1, "with dynamic: true the factor follows from the length");
  }
};

class Interpolation : public Rescaling {
 public:
  Interpolation(const PiOptions& options, const Shape& shape)
      : options_(options), train_length_(options.dynamic ? extended_length("pi", options.train_length, shape) : 1) {}

  RotaryFrequencies rescale(const FrequencySchedule& of, const Span& span) const override {
    RotaryFrequencies made{.theta = of.theta};
    const double s = !options_.dynamic
                         ? options_.factor
                         : std::max(1.0, static_cast<double>(key(span)) / static_cast<double>(train_length_));
    for (double& theta : made.theta) theta /= s;
    return made;
  }
  std::int64_t key(const Span& span) const override {
    return options_.dynamic ? working_length("pi", options_.pe_len, span) : 0;
  }
  bool length_dependent() const override { return options_.dynamic; }

 private:
  PiOptions options_;
  std::int64_t train_length_;
};

}  // namespace

EncodingEntry pi_entry() {
  return extension<Interpolation, PiOptions>(
      {.name = "pi",
       .aliases = {"position_interpolation"},
       .summary = "RoPE for longer texts: all frequencies divided by the factor.",
       .reference = "Chen et al. 2023, arXiv:2306.15595",
       .family = Family::kExtension,
       .acts_on = "q and k",
       .formula = "θ'_c = θ_c/s, s = factor, which is rope at positions p/s\n"
                  "dynamic: s = max(1, pe_len/L)",
       .known_for = "The first widely used extension. It needs some fine-tuning, since all pairs are slowed and "
                    "neighbours get harder to distinguish.",
       .errata = {"Position interpolation is arXiv:2306.15595. It is sometimes confused with 2310.05209, a paper on "
                  "scaling laws."}});
}

}  // namespace pe::encodings
