/// @file
/// Biases −m·(i − j) with a fixed slope m for each head: ALiBi and encodings derived from it.
#pragma once

#include <cstdint>
#include <vector>

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

/// 2^(−8(h+1)/H) for H a power of two. For another H: the slopes of the largest power of two below it, then every
/// second slope of twice that power, so the list is not monotone.
std::vector<double> alibi_slopes(std::int64_t heads);

class SlopeBias : public PositionalEncoding {
 public:
  /// @param kind for messages. @throws ConfigError unless there is one slope for each query head.
  SlopeBias(const std::string& kind, std::vector<double> slopes, const Shape& shape);

  Traits traits(const Span& span) const override { return {.bias = BiasKind::kChannels, .has_table = true}; }
  Channels channels(LayerContext& context, const Heads& heads) override;
  Tensor table(LayerContext& context, std::int64_t n) override;
  Tensor bias(const Rows& rows) override;

 protected:
  const std::vector<double>& slopes() const { return slopes_; }

 private:
  Tensor slope_tensor(const Tensor& like, at::ScalarType type) const;

  std::vector<double> slopes_;
  bool powers_of_two_ = false;
};

}  // namespace pe::encodings
