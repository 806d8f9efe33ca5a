// A trained key for each head, before the keys of the text, that every query sees. It has no position, and the query
// that meets it is read before S2. In a stack with a rotation the sink is therefore equally strong anywhere in a text.
#include "encodings/attention_scale/sinks.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

enum class SinkValue { kZero, kLearned };

struct SinkKvOptions {
  SinkValue value = SinkValue::kZero;
  void describe(support::FieldVisitor& v) {
    v.choice("value", value, {{"zero", SinkValue::kZero}, {"learned", SinkValue::kLearned}},
             "Value of the key: nothing, or a trained value that starts at zero.");
  }
};

class SinkKv : public PositionalEncoding {
 public:
  SinkKv(const SinkKvOptions& options, const Shape& shape)
      : PositionalEncoding(shape), learned_value_(options.value == SinkValue::kLearned) {
    const std::vector<std::int64_t> sizes{shape.query_heads, shape.head_width};
    for (int layer = 0; layer < shape.layers; ++layer) {
      key_.push_back(add_normal("sink_kv", "key", sizes, 0, 0.02, false, layer));
      if (learned_value_) value_.push_back(add_constant("sink_kv", "value", sizes, 0, false, layer));
    }
  }

  Facts facts() const override { return {.learned = true}; }
  Traits traits(const Span& span) const override {
    return {
        .normalises = true, .sink = true, .sink_share = learned_value_, .needs_row_constants = true, .needs_raw = true};
  }
  /// scale·q·κ, [B,H,T].
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    const Tensor& key = key_.at(context.layer);
    const Tensor q = heads.raw_q.to(key.scalar_type()) * heads.scale;
    return {at::matmul(q, key.unsqueeze(-1)).squeeze(-1)};
  }
  std::unique_ptr<Normaliser> normaliser(const LayerContext& context, const std::vector<Tensor>& inputs) override {
    return std::make_unique<SinkNormaliser>(inputs.at(0));
  }

  // The keys of the text leave the rest of each row to the sink.
  Tensor finish(LayerContext& context, const Tensor& out, const Tensor& extra) override {
    if (!extra.defined()) return out;
    const Tensor value = value_.at(context.layer).unsqueeze(1);  // [H,1,d_h]
    return (out.to(value.scalar_type()) + (1 - extra) * value).to(out.scalar_type());
  }

 private:
  bool learned_value_;
  std::vector<Tensor> key_, value_;  // [H,d_h] for each layer
};

}  // namespace

EncodingEntry sink_kv_entry() {
  return with_options<SinkKv, SinkKvOptions>(
      {.name = "sink_kv",
       .summary = "Adds a trained key to each head that all queries see, with no value or a trained one.",
       .reference = "Gu et al. 2024, arXiv:2410.10781",
       .facts = {.learned = true},
       .family = Family::kSink,
       .acts_on = "weights",
       .parameters = "layers*heads*head_width",
       .formula = "one more key κ_h for every query: w_ij = exp(a_ij)/(exp(q_i·κ_h/√d_h) + Σ_l exp(a_il)), its value "
                  "0 or learned",
       .known_for = "Moves the attention sink from the first token to a separate key.",
       .errata = {"Released forms append the key after rotation: a rotated query meets an unrotated key, so the sink "
                  "depends on the position. Here the query is taken before rotation."}});
}

}  // namespace pe::encodings
