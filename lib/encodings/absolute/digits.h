/// @file
/// Positions written out in digits, least significant first, added to token embeddings: binary and decimal, raw or
/// brought to −1 … 1.
#pragma once

#include <string>

#include "encodings/absolute/absolute.h"

namespace pe::encodings {

/// Where the digits go: the first channels; all channels, over and over; or through a learned matrix.
enum class DigitFill { kPad, kTile, kProject };

struct DigitOptions : AbsoluteOptions {
  std::int64_t positions = 65536;  ///< option `pe_max_positions`
  DigitFill fill = DigitFill::kPad;
  void describe(support::FieldVisitor& v);
};

class Digits : public AbsoluteEncoding {
 public:
  /// @param normalised 2·digit/(radix − 1) − 1 rather than the digit.
  Digits(const std::string& kind, std::int64_t radix, bool normalised, const DigitOptions& options, const Shape& shape);
  Facts facts() const override;

 protected:
  Tensor embed(const LayerContext& context, const Tensor& positions) override;
  double root_mean_square() const override;

 private:
  std::string kind_;
  std::int64_t radix_;
  bool normalised_;
  DigitFill fill_;
  std::int64_t digits_ = 0;
  std::int64_t bound_ = 1;  ///< radix to the power of digits
  Tensor projection_;       ///< [digits, d_m]
};

}  // namespace pe::encodings
