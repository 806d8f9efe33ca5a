// Softmax with one more logit in each row, whose value is zero: attention may go nowhere.
#include <limits>

#include "encodings/attention/positional_encoding.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

/// A logit of each head, the same for all rows, or of each row.
class SinkNormaliser : public Normaliser {
 public:
  /// @param sink [H] or [B,H,T].
  explicit SinkNormaliser(Tensor sink) : sink_(std::move(sink)) {}
  Result normalise(const Tensor& logits, const Rows& rows) const override;
  Tensor sink_logits() const override { return sink_; }

 private:
  Tensor sink_;
};

Normaliser::Result SinkNormaliser::normalise(const Tensor& logits, const Rows& rows) const {
  const Tensor extra =
      sink_.dim() == 1 ? sink_.view({1, -1, 1, 1}) : sink_.narrow(2, rows.begin, rows.count()).unsqueeze(-1);
  const Tensor column = extra.to(logits.scalar_type()).expand({logits.size(0), logits.size(1), logits.size(2), 1});
  return {.weights = at::softmax(at::cat({logits, column}, -1), -1).narrow(-1, 0, logits.size(-1))};
}

struct SinkBosOptions {
  std::int64_t window = 0;
  std::int64_t keep = 1;
  void describe(support::FieldVisitor& v) {
    v.field("window", window, "Number of keys that a query sees, including its own; 0: all.",
            {.unit = "tokens", .min = 0});
    v.field("keep", keep,
            "First tokens of the text that every query sees in addition to its window; 0: none, "
            "which breaks most models.",
            {.unit = "tokens", .min = 0});
  }
};

/// A window of the nearest keys, and always the first token of the text: the past that a cache without old keys keeps.
class WindowNormaliser : public Normaliser {
 public:
  explicit WindowNormaliser(const SinkBosOptions& options) : options_(options) {}

  Result normalise(const Tensor& logits, const Rows& rows) const override {
    if (options_.window == 0) return {.weights = at::softmax(logits, -1)};
    const Tensor columns = at::arange(rows.keys, at::TensorOptions(at::kLong).device(logits.device()));
    Tensor kept = columns.lt(options_.keep);
    if (const Tensor& start = rows.context.span.doc_start; start.defined()) {
      kept = (columns - start.narrow(-1, 0, rows.keys)).lt(options_.keep);  // the first token of each document
      kept = start.dim() == 2 ? kept.view({-1, 1, 1, rows.keys}) : kept;
    }
    const Tensor near = (rows.query_rows().unsqueeze(-1) - columns).lt(options_.window);
    Result result;
    result.logits = logits.masked_fill(near.logical_or(kept).logical_not(), -std::numeric_limits<double>::infinity());
    result.weights = at::softmax(result.logits, -1);
    return result;
  }

 private:
  SinkBosOptions options_;
};

class SinkBos : public PositionalEncoding {
 public:
  SinkBos(const SinkBosOptions& options, const Shape& shape) : PositionalEncoding(shape), options_(options) {}

  Traits traits(const Span& span) const override { return {.normalises = options_.window > 0}; }
  std::unique_ptr<Normaliser> normaliser(const LayerContext& context, const std::vector<Tensor>& inputs) override {
    if (options_.window == 0) return nullptr;
    return std::make_unique<WindowNormaliser>(options_);
  }

 private:
  SinkBosOptions options_;
};

enum class SinkValue { kZero, kLearned };

struct SinkKvOptions {
  SinkValue value = SinkValue::kZero;
  void describe(support::FieldVisitor& v) {
    v.choice("value", value, {{"zero", SinkValue::kZero}, {"learned", SinkValue::kLearned}},
             "Value of the key: nothing, or a trained value that starts at zero.");
  }
};

/// A trained key for each head, before the keys of the text, that every query sees. It has no position, and the query
/// that meets it is read before S2. In a stack with a rotation the sink is therefore equally strong anywhere in a text.
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

/// A trained logit for each head that joins its softmax with a value of zero.
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

/// Softmax with one added to its denominator: a logit of 0 whose value is zero.
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

EncodingEntry sink_bos_entry() {
  return with_options<SinkBos, SinkBosOptions>(
      {.name = "sink_bos",
       .summary = "Limits attention to a window of the nearest keys, and always keeps the first token.",
       .reference = "Xiao et al. 2023, arXiv:2309.17453",
       .family = Family::kSink,
       .acts_on = "weights",
       .formula = "w_i = softmax over j ≤ i with i − j < window or j < keep",
       .known_for = "The remaining past of a cache that deletes old keys. Most models put the attention that they "
                    "need nowhere on the first token: without it they break. The paper keeps four tokens.",
       .errata = {"It keeps only the mask of such a cache: positions are positions of the text; the paper's cache "
                  "counts them from its start."}});
}

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
