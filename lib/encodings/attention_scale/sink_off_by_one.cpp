// Softmax with one added to its denominator: a logit of 0 whose value is zero.
#include "encodings/attention_scale/sinks.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class SinkOffByOne : public PositionalEncoding {
 public:
  explicit SinkOffByOne(const Shape& shape) : PositionalEncoding(shape) {}

  Traits traits(const Span& span) const override {
    return {.normalises = true, .sink = true, .needs_row_constants = true};
  }
  std::unique_ptr<Normaliser> normaliser(const LayerContext& context, const std::vector<Tensor>& inputs) override {
    return std::make_unique<SinkNormaliser>(
        at::zeros({shape_.query_heads}, at::TensorOptions(shape_.dtype).device(context.span.device)));
  }
};

}  // namespace

EncodingEntry sink_off_by_one_entry() {
  return without_options<SinkOffByOne>(
      {.name = "sink_off_by_one",
       .summary = "Adds one to the denominator of softmax, so attention may go nowhere.",
       .reference = "Miller 2023; Gu et al. 2024, arXiv:2410.10781",
       .family = Family::kSink,
       .acts_on = "weights",
       .formula = "w_ij = exp(a_ij)/(1 + Σ_l exp(a_il))",
       .known_for = "A head can attend to nothing, so no token must serve as a sink.",
       .errata = {"A bias next to it keeps its row constant, which would not affect plain softmax."}});
}

}  // namespace pe::encodings
