// T5's relative bias: a trained number for each head and each bucket of distances, one table for all layers.
#include "encodings/registry.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

struct T5Options {
  std::int64_t buckets = 32;
  std::int64_t max_distance = 128;
  void describe(support::FieldVisitor& v) {
    v.field("buckets", buckets,
            "Number of buckets. Half of them hold one distance each; the widths of the others grow logarithmically.",
            {.min = 2});
    v.field("max_distance", max_distance, "Distances from here on share the last bucket.",
            {.unit = "tokens", .min = 2});
    v.check(buckets % 2 == 0, "buckets is even");
    v.check(max_distance > buckets / 2, "max_distance exceeds the buckets of one distance each");
  }
};

class T5 : public PositionalEncoding {
 public:
  T5(const T5Options& options, const Shape& shape) : PositionalEncoding(shape), options_(options) {
    table_ = add_normal("t5", "table", {options.buckets, shape.query_heads}, 0, 0.02, false);
  }

  Facts facts() const override { return {.learned = true}; }
  Traits traits(const Span& span) const override { return {.bias = BiasKind::kToeplitz, .bias_needs_grad = true}; }

  Tensor table(LayerContext& context, std::int64_t n) override {
    Tensor& shared = context.state.tensors[support::cat("t5.", n)];  // all layers of a pass use it
    if (!shared.defined()) {
      std::vector<std::int64_t> buckets(n);
      for (std::int64_t d = 0; d < n; ++d) buckets[d] = bucket(d);
      const Tensor index = at::tensor(buckets, at::TensorOptions(at::kLong)).to(table_.device());
      // A product with zeros and ones is exact, and its gradient is a sum in a fixed order.
      const Tensor picks = index.unsqueeze(0).eq(at::arange(options_.buckets, index.options()).unsqueeze(1));
      shared = at::matmul(table_.t(), picks.to(table_.scalar_type()));
    }
    return shared;
  }

 private:
  // In double on the host: exact powers sit on a boundary.
  std::int64_t bucket(std::int64_t d) const {
    const std::int64_t exact = options_.buckets / 2;
    if (d < exact) return d;
    const double e = static_cast<double>(exact), n = static_cast<double>(options_.buckets);
    const double grown =
        std::log(static_cast<double>(d) / e) / std::log(static_cast<double>(options_.max_distance) / e);
    return std::min(options_.buckets - 1, exact + static_cast<std::int64_t>(grown * (n - e)));
  }

  T5Options options_;
  Tensor table_;  // [buckets, H]
};

}  // namespace

EncodingEntry t5_entry() {
  return with_options<T5, T5Options>(
      {.name = "t5",
       .aliases = {"t5_rpe"},
       .summary = "Adds a trained bias for each head and bucket of distances.",
       .reference = "Raffel et al. 2019, arXiv:1910.10683",
       .facts = {.learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "buckets*heads",
       .formula = "logit(i,j) += table[bucket(d), h]\n"
                  "bucket(d) = d for d < E = buckets/2, else min(E + ⌊E·ln(d/E)/ln(max_distance/E)⌋, buckets − 1)",
       .known_for = "A trained bias with fine steps for near and coarse steps for far distances, one table for all "
                    "layers. Acceptable at twice the training length, poor beyond four times.",
       .errata = {"T5 does not divide q·k by √d_h; this project divides it and then adds the bias.",
                  "With fewer than max_distance training tokens some buckets are never trained."}});
}

}  // namespace pe::encodings
