/// @file
/// Softmax with one more logit in each row, whose value is zero: attention may go nowhere.
#pragma once

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

/// @param extra broadcasts to [B,H,rows,1].
Normaliser::Result softmax_with_sink(const Tensor& logits, const Tensor& extra);

/// A logit of each head, the same for all rows.
class SinkNormaliser : public Normaliser {
 public:
  explicit SinkNormaliser(Tensor sink) : sink_(std::move(sink)) {}
  Result normalise(const Tensor& logits, const Rows& rows) const override {
    return softmax_with_sink(logits, sink_.view({1, -1, 1, 1}));
  }
  Tensor sink_logits() const override { return sink_; }

 private:
  Tensor sink_;   // [H]
};

}  // namespace pe::encodings
