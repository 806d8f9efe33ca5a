// A trained logit for each head that joins its softmax with a value of zero.
#include "encodings/attention_scale/sinks.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class SinkLogit : public PositionalEncoding {
 public:
  explicit SinkLogit(const Shape& shape) : PositionalEncoding(shape) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      sink_.push_back(add_constant("sink_logit", "sink", {shape.query_heads}, 0, false, layer));
    }
  }

  Facts facts() const override { return {.learned = true}; }
  Traits traits(const Span& span) const override {
    return {.normalises = true, .sink = true, .needs_row_constants = true};
  }
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    return {sink_.at(context.layer)};
  }
  std::unique_ptr<Normaliser> normaliser(const LayerContext& context, const std::vector<Tensor>& inputs) override {
    return std::make_unique<SinkNormaliser>(inputs.at(0));
  }

 private:
  std::vector<Tensor> sink_;  // [H] for each layer
};

}  // namespace

EncodingEntry sink_logit_entry() {
  return without_options<SinkLogit>(
      {.name = "sink_logit",
       .summary = "Adds a trained logit with value zero to the softmax of each head.",
       .reference = "OpenAI 2025, gpt-oss; Gu et al. 2024, arXiv:2410.10781",
       .facts = {.learned = true},
       .family = Family::kSink,
       .acts_on = "weights",
       .parameters = "layers*heads",
       .formula = "w_ij = exp(a_ij)/(exp(s_h) + Σ_l exp(a_il))",
       .known_for = "The trained form of an attention sink: each head learns how much attention it drops.",
       .errata = {"Fused kernels give no gradient through their log-sum-exp. The weights are corrected by σ(LSE − s), "
                  "and the backward pass uses the corrected sum."}});
}

}  // namespace pe::encodings
