// DroPE's logit scale: one factor for a pass, from the current length.
#include "encodings/attention/temperature.h"
#include "encodings/registry.h"
#include "encodings/rotary/rescaling.h"

namespace pe::encodings {
namespace {

struct LengthScaleOptions {
  double slope = 0.412;
  std::optional<std::int64_t> train_length;
  void describe(support::FieldVisitor& v) {
    v.field("slope", slope, "a in 1 + a·ln s; 0.412 was fitted for 494M parameters, 0.103 for a converted 360M.",
            {.min = 0, .max = 10});
    v.field("train_length", train_length, "Training length; auto: from the model.", {.unit = "tokens", .min = 1});
  }
};

class LengthScale : public Temperature {
 public:
  LengthScale(const LengthScaleOptions& options, const Shape& shape)
      : Temperature(shape),
        slope_(options.slope),
        train_length_(extended_length("length_scale", options.train_length, shape)) {}

  Facts facts() const override { return {.length_dependent = true}; }

 protected:
  Tensor factor(const LayerContext& context) override {
    const std::int64_t length = working_length("length_scale", std::nullopt, context.span);
    if (length <= train_length_ || slope_ == 0) return {};
    const double s = static_cast<double>(length) / static_cast<double>(train_length_);
    return at::full({1, 1}, 1 + slope_ * std::log(s), at::TensorOptions(at::kDouble).device(context.span.device));
  }

 private:
  double slope_;
  std::int64_t train_length_;
};

}  // namespace

EncodingEntry length_scale_entry() {
  return with_options<LengthScale, LengthScaleOptions>(
      {.name = "length_scale",
       .summary = "Multiplies all logits by a factor that grows with the logarithm of the length beyond training.",
       .reference = "Gelberg et al. 2025, arXiv:2512.12167",
       .facts = {.length_dependent = true},
       .family = Family::kTemperature,
       .acts_on = "q",
       .formula = "logit(i,j) × (1 + a·ln s), s = length/L for length > L, else 1",
       .known_for = "The scale of DroPE at evaluation. It sharpens attention on texts longer than in training and "
                    "leaves shorter ones unscaled."});
}

}  // namespace pe::encodings
