// The bits of the position as −1 or 1, least significant first.
#include "encodings/absolute/digits.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class BinaryNorm : public Digits {
 public:
  BinaryNorm(const DigitOptions& options, const Shape& shape)
      : Digits("binary_norm", 2, /*normalised=*/true, options, shape) {}
};

}  // namespace

EncodingEntry binary_norm_entry() {
  return with_options<BinaryNorm, DigitOptions>(
      {.name = "binary_norm",
       .summary = "Adds the bits of the position, −1 or 1, to the token embeddings.",
       .reference = "defined by this project",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .max_positions = 0},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .formula = "as binary with 2·b_j − 1 in place of b_j",
       .known_for = "Bits that are centred at 0. With `fill: tile` every position has the same norm, as with a "
                    "sinusoid."});
}

}  // namespace pe::encodings
