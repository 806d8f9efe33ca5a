#include "encodings/attention_scale/sinks.h"

namespace pe::encodings {

Normaliser::Result softmax_with_sink(const Tensor& logits, const Tensor& extra) {
  const Tensor column = extra.to(logits.scalar_type()).expand({logits.size(0), logits.size(1), logits.size(2), 1});
  return {.weights = at::softmax(at::cat({logits, column}, -1), -1).narrow(-1, 0, logits.size(-1))};
}

}  // namespace pe::encodings
