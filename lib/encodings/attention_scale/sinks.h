/// @file
/// Softmax with one more logit in each row, whose value is zero: attention may go nowhere.
#pragma once

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

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

}  // namespace pe::encodings
