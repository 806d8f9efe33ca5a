// Llama 4's temperature: it grows by a step of a logarithm for each stretch of positions, in layers without positions.
#include "encodings/attention/temperature.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct Llama4Options {
  double scale = 0.1;
  std::optional<std::int64_t> floor_scale;
  void describe(support::FieldVisitor& v) {
    v.field("scale", scale, "Weight of the logarithm.", {.min = 0, .max = 10});
    v.field("floor_scale", floor_scale, "Number of positions with the same factor; auto: the training length.",
            {.unit = "tokens", .min = 1});
  }
};

class Llama4Temperature : public Temperature {
 public:
  Llama4Temperature(const Llama4Options& options, const Shape& shape)
      : Temperature(shape),
        scale_(options.scale),
        stretch_(options.floor_scale.value_or(shape.train_length)),
        acts_(shape.layers, true) {
    if (stretch_ < 1)
      throw support::ConfigError("encoding 'llama4_temp' with floor_scale: auto needs a training length");
  }

  Facts facts() const override { return {.shift_invariant = ShiftInvariance::kNever}; }

  /// In a stack with a base that leaves whole layers without position, it acts in those layers alone.
  void enter_stack(const std::vector<const PositionalEncoding*>& others) override {
    const auto spared = [&](int layer) {
      for (const PositionalEncoding* other : others) {
        bool all = true;
        for (int head = 0; head < shape_.query_heads; ++head) all = all && other->is_position_free_head(layer, head);
        if (all) return true;
      }
      return false;
    };
    std::vector<bool> layers(shape_.layers);
    for (int layer = 0; layer < shape_.layers; ++layer) layers[layer] = spared(layer);
    if (std::find(layers.begin(), layers.end(), true) != layers.end()) acts_ = layers;
  }

 protected:
  // 1 + scale·ln(1 + ⌊(i + 1)/F⌋)
  Tensor factor(const LayerContext& context) override {
    if (!acts_.at(context.layer)) return {};
    const Span& span = context.span;
    const Tensor i = context.positions.narrow(-1, span.keys - span.queries, span.queries).to(at::kDouble);
    const Tensor steps = at::floor((i + 1) / static_cast<double>(stretch_));
    return (at::log1p(steps) * scale_ + 1).unsqueeze(-2);
  }

 private:
  double scale_;
  std::int64_t stretch_;
  std::vector<bool> acts_;
};

}  // namespace

EncodingEntry llama4_temp_entry() {
  return with_options<Llama4Temperature, Llama4Options>(
      {.name = "llama4_temp",
       .summary = "Multiplies logits by a factor that grows by one step after each block of positions.",
       .reference = "Meta 2025, Llama 4 reference code",
       .facts = {.shift_invariant = ShiftInvariance::kNever},
       .family = Family::kTemperature,
       .acts_on = "q",
       .formula = "logit(i,j) × (1 + scale·ln(1 + ⌊(i + 1)/floor_scale⌋))",
       .known_for = "Sharpens attention in steps as texts grow, in layers without position; over a base without "
                    "such layers it acts in all.",
       .errata = {"The factor depends on absolute positions, so a text with another first position has other "
                  "factors."}});
}

}  // namespace pe::encodings
