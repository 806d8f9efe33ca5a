// HeadScale: one trained temperature for each head of each layer, to stretch a trained model without positions.
#include "encodings/attention/temperature.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct HeadScaleOptions {
  double scale = 1;
  double floor = 1;
  void describe(support::FieldVisitor& v) {
    v.field("scale", scale, "Initial value of each factor; 1 leaves the base unchanged.", {.min = 0.01, .max = 100});
    v.field("floor", floor, "Lower bound of the factors.", {.min = 0, .max = 100});
    v.check(scale >= floor, "scale is not below floor");
  }
};

class HeadScale : public Temperature {
 public:
  HeadScale(const HeadScaleOptions& options, const Shape& shape) : Temperature(shape), floor_(options.floor) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      scale_.push_back(add_constant("head_scale", "scale", {shape.query_heads}, options.scale, false, layer));
    }
  }

  Facts facts() const override { return {.learned = true}; }
  bool needs_causal_mask() const override { return false; }

  void after_step() override {
    at::NoGradGuard no_grad;
    for (Tensor& scale : scale_) scale.clamp_min_(floor_);
  }

 protected:
  Tensor factor(const LayerContext& context) override { return scale_.at(context.layer).unsqueeze(-1); }

 private:
  double floor_;
  std::vector<Tensor> scale_;  // [H]
};

}  // namespace

EncodingEntry head_scale_entry() {
  return with_options<HeadScale, HeadScaleOptions>(
      {.name = "head_scale",
       .aliases = {"nope_head_scale"},
       .summary = "Multiplies the logits of each head by a trained number.",
       .reference = "Wang et al. 2024, arXiv:2404.12224",
       .facts = {.learned = true},
       .family = Family::kTemperature,
       .acts_on = "q",
       .parameters = "layers*heads",
       .formula = "logit(i,j) × λ_h, λ_h ≥ floor",
       .known_for = "Adapts a trained model without positions to longer texts. Everything else is frozen, and 200 "
                    "steps at the new length use a learning rate of 0.05 to 0.1. The best value of uniform_scale is a "
                    "good start.",
       .errata = {"One factor for all heads helps less, since some heads must not be sharpened."}});
}

}  // namespace pe::encodings
