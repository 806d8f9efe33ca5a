#include "encodings/attention/attention_window.h"

#include "support/text.h"

namespace pe::encodings {
namespace {

std::string window_name(int layer) { return support::cat("window.", layer); }

}  // namespace

std::int64_t window_of(const PositionalEncoding& encoding, int layer) {
  const auto* limits = dynamic_cast<const WindowedEncoding*>(&encoding);
  return limits == nullptr ? 0 : limits->window(layer);
}

std::int64_t window_of(const LayerContext& context) {
  const auto found = context.state.numbers.find(window_name(context.layer));
  return found == context.state.numbers.end() ? 0 : found->second;
}

void set_window(const PositionalEncoding& encoding, LayerContext& context) {
  if (context.layer < 0) return;
  const std::int64_t window = window_of(encoding, context.layer);
  if (window > 0 && window < context.span.keys) context.state.numbers[window_name(context.layer)] = window;
}

}  // namespace pe::encodings
