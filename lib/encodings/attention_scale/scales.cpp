// Trained factors on the logits, to stretch a trained model: by head, by length, or one for all.
#include "encodings/attention/temperature.h"
#include "encodings/registry.h"
#include "encodings/rotary/rescaling.h"

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

/// HeadScale: one trained temperature for each head of each layer, to stretch a trained model without positions.
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

struct LengthScaleOptions {
  double slope = 0.412;
  std::optional<std::int64_t> train_length;
  void describe(support::FieldVisitor& v) {
    v.field("slope", slope, "a in 1 + a·ln s; 0.412 was fitted for 494M parameters, 0.103 for a converted 360M.",
            {.min = 0, .max = 10});
    v.field("train_length", train_length, "Training length; auto: from the model.", {.unit = "tokens", .min = 1});
  }
};

/// DroPE's logit scale: one factor for a pass, from the current length.
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

struct UniformScaleOptions {
  double scale = 1;
  bool learned = false;
  void describe(support::FieldVisitor& v) {
    v.field("scale", scale, "The factor, or its initial value; 1 leaves the base unchanged.",
            {.min = 0.01, .max = 100});
    v.field("learned", learned, "Train it.");
  }
};

/// One temperature for the whole model: given, or trained.
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
