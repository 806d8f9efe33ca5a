// Sandwich: the product of two sinusoidal encodings as a bias, a penalty that grows like a logarithm, with ripples.
#include "encodings/registry.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

struct SandwichOptions {
  std::int64_t width = 128;
  void describe(support::FieldVisitor& v) {
    v.field("width", width, "Width of the sinusoidal encodings; half as many cosines are summed.", {.min = 2});
    v.check(width % 2 == 0, "width is even");
  }
};

class Sandwich : public PositionalEncoding {
 public:
  Sandwich(const SandwichOptions& options, const Shape& shape) : PositionalEncoding(shape), options_(options) {}

  Traits traits(const Span& span) const override { return {.bias = BiasKind::kToeplitz}; }

  // (Σ_k cos(d·10000^(−2k/width)) − width/2) / (8(h + 1)/H) with k = 1 .. width/2
  Tensor table(LayerContext& context, std::int64_t n) override {
    Tensor& shared = context.state.tensors[support::cat("sandwich.", options_.width, ".", n)];
    if (!shared.defined()) {
      const std::int64_t half = options_.width / 2;
      const at::TensorOptions doubles(at::kDouble);
      const Tensor k = at::arange(1, half + 1, doubles);
      const Tensor frequency = at::exp(k * (-2 * std::log(10000.0) / static_cast<double>(options_.width)));
      std::vector<Tensor> sums;  // in parts, as distances times frequencies may be many
      for (std::int64_t begin = 0; begin < n; begin += 4096) {
        const Tensor d = at::arange(begin, std::min(n, begin + 4096), doubles);
        sums.push_back(at::cos(d.unsqueeze(1) * frequency).sum(1) - static_cast<double>(half));
      }
      const Tensor head =
          at::arange(1, shape_.query_heads + 1, doubles) * (8.0 / static_cast<double>(shape_.query_heads));
      shared = (at::cat(sums).unsqueeze(0) / head.unsqueeze(1))
                   .to(at::TensorOptions(shape_.dtype).device(context.positions.device()));
    }
    return shared;
  }

 private:
  SandwichOptions options_;
};

}  // namespace

EncodingEntry sandwich_entry() {
  return with_options<Sandwich, SandwichOptions>(
      {.name = "sandwich",
       .summary = "Adds the product of two sinusoidal encodings: a penalty that grows logarithmically.",
       .reference = "Chi et al. 2022, arXiv:2212.10356",
       .family = Family::kBias,
       .acts_on = "logits",
       .formula = "S(d) = Σ_k cos(d·10000^(−2k/width)), k = 1 .. width/2\n"
                  "logit(i,j) += (S(d) − width/2)/(8(h + 1)/H)",
       .known_for = "A logarithmic decay without parameters, with ripples; the first head is the most local.",
       .errata = {"An early copy omits the cosine and uses one frequency fewer."}});
}

}  // namespace pe::encodings
