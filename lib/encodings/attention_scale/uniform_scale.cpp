// One temperature for the whole model: given, or trained.
#include "encodings/attention/temperature.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct UniformScaleOptions {
  double scale = 1;
  bool learned = false;
  void describe(support::FieldVisitor& v) {
    v.field("scale", scale, "The factor, or its initial value; 1 leaves the base unchanged.",
            {.min = 0.01, .max = 100});
    v.field("learned", learned, "Train it.");
  }
};

class UniformScale : public Temperature {
 public:
  UniformScale(const UniformScaleOptions& options, const Shape& shape) : Temperature(shape), given_(options.scale) {
    if (options.learned) scale_ = add_constant("uniform_scale", "scale", {1}, options.scale, false);
  }

  Facts facts() const override { return {.learned = scale_.defined()}; }
  bool needs_causal_mask() const override { return false; }

 protected:
  Tensor factor(const LayerContext& context) override {
    if (scale_.defined()) return scale_.view({1, 1});
    if (given_ == 1) return {};
    return at::full({1, 1}, given_, at::TensorOptions(at::kDouble).device(context.span.device));
  }

 private:
  double given_;
  Tensor scale_;
};

}  // namespace

EncodingEntry uniform_scale_entry() {
  return with_options<UniformScale, UniformScaleOptions>(
      {.name = "uniform_scale",
       .summary = "Multiplies all logits by one factor, fixed or trained.",
       .reference = "Wang et al. 2024, arXiv:2404.12224",
       .family = Family::kTemperature,
       .acts_on = "q",
       .formula = "logit(i,j) × λ",
       .known_for = "One factor for a whole model, chosen on validation text: the simplest way to sharpen attention on "
                    "longer texts."});
}

}  // namespace pe::encodings
