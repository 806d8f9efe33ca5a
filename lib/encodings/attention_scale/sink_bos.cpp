// A window of the nearest keys, and always the first token of the text: the past that a cache without old keys keeps.
#include <limits>

#include "encodings/registry.h"

namespace pe::encodings {
namespace {

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

}  // namespace pe::encodings
