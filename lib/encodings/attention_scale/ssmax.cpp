// Scalable softmax: logits are multiplied by s·ln n, n the number of keys that the query sees, so that attention does
// not fade as texts grow.
#include "encodings/attention/temperature.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

enum class Initial { kNeutral, kOne };

struct SsmaxOptions {
  Initial initial = Initial::kNeutral;
  bool offset = false;
  void describe(support::FieldVisitor& v) {
    v.choice("initial", initial, {{"neutral", Initial::kNeutral}, {"one", Initial::kOne}},
             "Initial value of s: 1/mean ln n over the training length, which leaves the mean temperature "
             "unchanged, or 1.");
    v.field("offset", offset, "Also learn an offset: s·ln n + beta.");
  }
};

class Ssmax : public Temperature {
 public:
  Ssmax(const SsmaxOptions& options, const Shape& shape) : Temperature(shape) {
    double start = 1;
    if (options.initial == Initial::kNeutral) {
      if (shape.train_length < 2) {
        throw support::ConfigError("encoding 'ssmax' with initial: neutral needs a training length of at least 2");
      }
      start = 1 / mean_log_count(shape.train_length);
    }
    for (int layer = 0; layer < shape.layers; ++layer) {
      s_.push_back(add_constant("ssmax", "s", {shape.query_heads}, start, false, layer));
      if (options.offset) beta_.push_back(add_constant("ssmax", "beta", {shape.query_heads}, 0, false, layer));
    }
  }

  // Positions have no effect, but the number of earlier tokens has.
  Facts facts() const override { return {.shift_invariant = ShiftInvariance::kNever, .learned = true}; }

 protected:
  Tensor factor(const LayerContext& context) override {
    const Tensor& s = s_.at(context.layer);
    const Tensor scaled = visible_counts(context).log().to(s.scalar_type()) * s.view({-1, 1});  // [H,T] or [B,H,T]
    return beta_.empty() ? scaled : scaled + beta_.at(context.layer).view({-1, 1});
  }

 private:
  std::vector<Tensor> s_, beta_;  // [H] for each layer
};

}  // namespace

EncodingEntry ssmax_entry() {
  return with_options<Ssmax, SsmaxOptions>(
      {.name = "ssmax",
       .aliases = {"scalable_softmax"},
       .summary = "Multiplies logits by a trained factor times the logarithm of the number of visible keys.",
       .reference = "Nakanishi 2025, arXiv:2501.19399",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .learned = true},
       .family = Family::kTemperature,
       .acts_on = "q",
       .parameters = "layers*heads",
       .formula = "logit(i,j) × s_h·ln n_i, n_i the number of keys that row i sees",
       .known_for = "Attention stays sharp as texts grow: the weight of one matching key does not depend on the number "
                    "of other keys. It combines with any other encoding. With s = 1/mean ln n it starts as plain "
                    "attention.",
       .errata = {"With the initial value 1 of some code the mean temperature is six times the temperature of "
                  "plain attention at 1,024 tokens (`initial`).",
                  "The paper finds that the offset (an option) hurts on long contexts."}});
}

}  // namespace pe::encodings
