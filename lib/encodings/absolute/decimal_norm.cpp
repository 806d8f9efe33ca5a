// The decimal digits of the position, brought to −1 … 1, least significant first.
#include "encodings/absolute/digits.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class DecimalNorm : public Digits {
 public:
  DecimalNorm(const DigitOptions& options, const Shape& shape)
      : Digits("decimal_norm", 10, /*normalised=*/true, options, shape) {}
};

}  // namespace

EncodingEntry decimal_norm_entry() {
  return with_options<DecimalNorm, DigitOptions>(
      {.name = "decimal_norm",
       .summary = "Adds the decimal digits of the position, scaled to −1 … 1, to the token embeddings.",
       .reference = "defined by this project",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .max_positions = 0},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .formula = "as decimal with 2·d_j/9 − 1 in place of d_j",
       .known_for = "Decimal digits at the scale of a sinusoid (mean square 11/27); compare with decimal."});
}

}  // namespace pe::encodings
