#include "encodings/attention_scale/sinks.h"

namespace pe::encodings {

Normaliser::Result SinkNormaliser::normalise(const Tensor& logits, const Rows& rows) const {
  const Tensor extra =
      sink_.dim() == 1 ? sink_.view({1, -1, 1, 1}) : sink_.narrow(2, rows.begin, rows.count()).unsqueeze(-1);
  const Tensor column = extra.to(logits.scalar_type()).expand({logits.size(0), logits.size(1), logits.size(2), 1});
  return {.weights = at::softmax(at::cat({logits, column}, -1), -1).narrow(-1, 0, logits.size(-1))};
}

}  // namespace pe::encodings
