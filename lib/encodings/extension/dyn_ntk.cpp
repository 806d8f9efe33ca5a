// Dynamic NTK: NTK-aware scaling whose factor follows the current length; up to the training length it is plain RoPE.
#include "encodings/rotary/rescaling.h"

namespace pe::encodings {
namespace {

struct DynamicNtkOptions : ExtensionOptions {
  std::optional<std::int64_t> train_length;
  std::optional<std::int64_t> pe_len;
  void describe(support::FieldVisitor& v) {
    ExtensionOptions::describe(v);
    v.field("train_length", train_length, "Training length of the extended model; auto: from the model.",
            {.unit = "tokens", .min = 1});
    v.field("pe_len", pe_len, "Length of the text; auto: from the pass.", {.unit = "tokens", .min = 1});
  }
};

class DynamicNtk : public Rescaling {
 public:
  DynamicNtk(const DynamicNtkOptions& options, const Shape& shape)
      : options_(options), train_length_(extended_length("dyn_ntk", options.train_length, shape)) {}

  RotaryFrequencies rescale(const FrequencySchedule& of, const Span& span) const override {
    RotaryFrequencies made{.theta = of.theta};
    const std::int64_t length = key(span);
    if (length <= train_length_) return made;
    const double s = options_.factor;
    const double stretch = s * static_cast<double>(length) / static_cast<double>(train_length_) - (s - 1);
    for (std::size_t i = 0; i < made.theta.size(); ++i) made.theta[i] /= ntk_divisor(stretch, i, of.width);
    return made;
  }
  std::int64_t key(const Span& span) const override { return working_length("dyn_ntk", options_.pe_len, span); }
  bool length_dependent() const override { return true; }

 private:
  DynamicNtkOptions options_;
  std::int64_t train_length_;
};

}  // namespace

EncodingEntry dyn_ntk_entry() {
  return extension<DynamicNtk, DynamicNtkOptions>(
      {.name = "dyn_ntk",
       .aliases = {"dynamic_ntk"},
       .summary = "RoPE for longer texts: the base grows with the length of the text.",
       .reference = "emozilla 2023, as in Peng et al. 2023, arXiv:2309.00071, section 3.3",
       .facts = {.length_dependent = true},
       .family = Family::kExtension,
       .acts_on = "q and k",
       .formula = "ntk with the factor s·l/L − (s − 1) for l = pe_len > L, rope up to L",
       .known_for = "No loss within the training length, and no factor to choose. The length of a text changes the "
                    "frequencies of all its positions, so losses of prefixes change and cached keys are invalid.",
       .errata = {"Code that infers the length from one chunk silently changes the encoding in chunked evaluations; "
                  "here `pe_len` sets the length."}});
}

}  // namespace pe::encodings
