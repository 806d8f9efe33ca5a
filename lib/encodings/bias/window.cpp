// A window: queries see the last tokens alone, in all layers or in all but every interval-th.
#include "encodings/attention/attention_window.h"
#include "encodings/attention/layer_pattern.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct WindowOptions {
  std::optional<std::int64_t> size;
  LayerPattern whole;
  void describe(support::FieldVisitor& v) {
    v.field("size", size,
            "Number of tokens that a query sees, including its own; 0 means all, auto a quarter of the training "
            "length.",
            {.unit = "tokens", .min = 0});
    v.field("interval", whole.interval, "One layer in each group of this size has no window; 0: all layers have it.",
            {.unit = "layers", .min = 0});
    whole.describe_phase(v);
  }
};

class Window : public PositionalEncoding, public WindowedEncoding {
 public:
  Window(const WindowOptions& options, const Shape& shape)
      : PositionalEncoding(shape),
        whole_(options.whole),
        size_(options.size.value_or(std::max<std::int64_t>(1, shape.train_length / 4))) {}

  std::int64_t window(int layer) const override { return whole_.holds(layer) ? 0 : size_; }

 private:
  LayerPattern whole_;
  std::int64_t size_;
};

}  // namespace

EncodingEntry window_entry() {
  return with_options<Window, WindowOptions>(
      {.name = "window",
       .aliases = {"sliding_window", "swa"},
       .summary = "Lets queries see only the last tokens, in all layers or in some; alone or with another "
                  "encoding.",
       .reference = "Beltagy et al. 2020, arXiv:2004.05150; Jiang et al. 2023, arXiv:2310.06825",
       .family = Family::kBias,
       .acts_on = "logits",
       .formula = "logit(i,j) = −∞ where row i − row j ≥ size, except in layers l (from 0) with l mod interval = phase",
       .known_for =
           "Cost and memory per token do not grow with the length. Earlier tokens reach a query through layers, size − "
           "1 tokens per layer.",
       .errata = {"Published windows include or exclude the token of the query; here it is included."}});
}

}  // namespace pe::encodings
