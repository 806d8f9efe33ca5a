// Scalable softmax: logits are multiplied by s·ln n, n the number of keys that the query sees, so that attention does
// not fade as texts grow.
#include "encodings/registry.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

enum class Initial { kNeutral, kOne };

struct SsmaxOptions {
  Initial initial = Initial::kNeutral;
  bool offset = false;
  void describe(support::FieldVisitor& v) {
    v.choice("initial", initial, {{"neutral", Initial::kNeutral}, {"one", Initial::kOne}},
             "Where s starts: 1/mean ln n over the training length, which leaves the mean temperature as it is, or 1.");
    v.field("offset", offset, "Learn an offset beside it: s·ln n + beta.");
  }
};

class Ssmax : public PositionalEncoding {
 public:
  Ssmax(const SsmaxOptions& options, const Shape& shape) : PositionalEncoding(shape) {
    double start = 1;
    if (options.initial == Initial::kNeutral) {
      if (shape.train_length < 2) {
        throw support::ConfigError("encoding 'ssmax' with initial: neutral needs a training length of at least 2");
      }
      start =
          static_cast<double>(shape.train_length) / std::lgamma(static_cast<double>(shape.train_length) + 1);  // ln L!
    }
    for (int layer = 0; layer < shape.layers; ++layer) {
      s_.push_back(add_constant("ssmax", "s", {shape.query_heads}, start, false, layer));
      if (options.offset) beta_.push_back(add_constant("ssmax", "beta", {shape.query_heads}, 0, false, layer));
    }
  }

  Facts facts() const override { return {.shift_invariant = ShiftInvariance::kAlways, .learned = true}; }

  void transform(LayerContext& context, Heads& heads) override {
    const Tensor& s = s_.at(context.layer);
    Tensor factor = visible_counts(context).log().to(s.scalar_type()) * s.view({-1, 1});   // [H,T] or [B,H,T]
    if (!beta_.empty()) factor = factor + beta_.at(context.layer).view({-1, 1});
    const at::ScalarType type = table_type(heads.q.scalar_type());
    heads.q = (heads.q.to(type) * factor.to(type).unsqueeze(-1)).to(heads.q.scalar_type());
  }

 private:
  /// How many keys of its document each query sees: rows, not positions. [1,T] or [B,1,T], float64.
  static Tensor visible_counts(const LayerContext& context) {
    const Span& span = context.span;
    const std::int64_t offset = span.keys - span.queries;
    Tensor count = at::arange(offset + 1, span.keys + 1, at::TensorOptions(at::kLong).device(span.device));
    if (span.doc_start.defined()) count = count - span.doc_start.narrow(-1, offset, span.queries);
    return count.to(at::kDouble).unsqueeze(-2);
  }

  std::vector<Tensor> s_, beta_;   // [H] for each layer
};

}  // namespace

EncodingEntry ssmax_entry() {
  return with_options<Ssmax, SsmaxOptions>(
      {.name = "ssmax",
       .aliases = {"scalable_softmax"},
       .summary = "Multiplies logits by a learned number times the logarithm of "
                  "the number of visible keys.",
       .reference = "Nakanishi 2025, arXiv:2501.19399",
       .facts = {.learned = true},
       .family = Family::kTemperature,
       .acts_on = "q",
       .parameters = "layers*heads",
       .formula = "logit(i,j) × s_h·ln n_i, n_i the number of keys that row i sees",
       .known_for = "Keeps attention from fading as texts grow: with it the weight of one matching key no longer "
                    "depends on how many others there are. Combines with any other encoding; s = 1/mean ln n starts "
                    "as plain attention.",
       .errata = {"With the initial value 1 of some code the mean temperature is six times that of plain attention at "
                  "1,024 tokens (`initial`).",
                  "The paper finds that the offset, which the option adds, hurts long contexts."}});
}

}  // namespace pe::encodings
