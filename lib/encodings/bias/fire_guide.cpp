// A guide's FIRE, which is not the paper's: log-distance over the logarithm of a learned length of each head, up to 1.
// Nothing depends on the query's position, there is no c, and beyond the length all distances look alike.
#include "encodings/registry.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

constexpr std::int64_t kGuideHidden = 32;

struct FireGuideOptions {
  double initial_length = 8192;
  void describe(support::FieldVisitor& v) {
    v.field("initial_length", initial_length, "Initial value of the trained length of each head.",
            {.unit = "tokens", .min = 2});
  }
};

class FireGuide : public PositionalEncoding {
 public:
  FireGuide(const FireGuideOptions& options, const Shape& shape) : PositionalEncoding(shape) {
    const double bound = 0.1 * std::sqrt(6.0 / static_cast<double>(1 + kGuideHidden));  // Xavier's, times 0.1
    for (int layer = 0; layer < shape.layers; ++layer) {
      layers_.push_back({add_constant("fire_guide", "log_threshold", {shape.query_heads},
                                      std::log(options.initial_length), false, layer),
                         add_uniform("fire_guide", "w1", {kGuideHidden, 1}, -bound, bound, true, layer),
                         add_constant("fire_guide", "b1", {kGuideHidden}, 0, false, layer),
                         add_uniform("fire_guide", "w2", {1, kGuideHidden}, -bound, bound, true, layer),
                         add_constant("fire_guide", "b2", {1}, 0, false, layer)});
    }
  }

  Facts facts() const override { return {.learned = true}; }
  Traits traits(const Span& span) const override { return {.bias = BiasKind::kToeplitz, .bias_needs_grad = true}; }

  Tensor table(LayerContext& context, std::int64_t n) override {
    const GuideLayer& layer = layers_.at(context.layer);
    const Tensor d = at::arange(n, layer.w1.options().requires_grad(false));
    const Tensor x = (at::log1p(d) / at::log1p(at::exp(layer.log_threshold)).unsqueeze(1)).clamp_max(1);  // [H,n]
    const Tensor hidden = at::gelu(x.unsqueeze(1) * layer.w1 + layer.b1.unsqueeze(1));                    // [H,32,n]
    return at::matmul(layer.w2, hidden).squeeze(1) + layer.b2;
  }

 private:
  struct GuideLayer {
    Tensor log_threshold, w1, b1, w2, b2;
  };
  std::vector<GuideLayer> layers_;
};

}  // namespace

EncodingEntry fire_guide_entry() {
  return with_options<FireGuide, FireGuideOptions>(
      {.name = "fire_guide",
       .summary =
           "Variant of FIRE in a guide: a network of log-distance up to a trained length, independent of the position.",
       .reference = "a guide to positional encodings; deviates from Li et al. 2023, arXiv:2310.04418",
       .facts = {.learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "layers*(heads + 97)",
       .formula = "x_h = min(1, ln(1 + d)/ln(1 + L_h)), L_h learned, at first 8192\n"
                  "logit(i,j) += w2·gelu(w1·x_h + b1) + b2",
       .known_for = "A simplification of FIRE that circulates in a guide; here to measure the difference.",
       .errata = {"It is not FIRE: it has no c and does not depend on the query's position. Nothing is interpolated as "
                  "texts grow, and all distances beyond L_h are equal.",
                  "The last bias is the same for all keys of a row, which does not affect softmax. It is counted "
                  "and hardly trained, except with a sink."}});
}

}  // namespace pe::encodings
