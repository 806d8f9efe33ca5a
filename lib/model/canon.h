/// @file
/// Canon layers: each channel adds a weighted sum of its last tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include "encodings/attention/positional_encoding.h"
#include "model/functions.h"
#include "model/model_config.h"

namespace pe::model {

class Canon {
 public:
  Canon() = default;
  /// @param taps [channels, K], the last of the own token. @param bias [channels], or undefined.
  Canon(const CanonOptions& options, Weight taps, Weight bias)
      : options_(options), taps_(std::move(taps)), bias_(std::move(bias)) {}

  /// @param x [B, T, channels]. @param span has the starts of documents, which no sum crosses.
  Tensor operator()(const Tensor& x, const encodings::Span& span) const;

 private:
  CanonOptions options_;
  Weight taps_, bias_;  ///< undefined: nothing is done
};

}  // namespace pe::model
