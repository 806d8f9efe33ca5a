// The bits of the position, 0 or 1, least significant first.
#include "encodings/absolute/digits.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class Binary : public Digits {
 public:
  Binary(const DigitOptions& options, const Shape& shape) : Digits("binary", 2, /*normalised=*/false, options, shape) {}
};

}  // namespace

EncodingEntry binary_entry() {
  return with_options<Binary, DigitOptions>(
      {.name = "binary",
       .summary = "Adds the bits of the position, 0 or 1, to the token embeddings.",
       .reference = "defined by this project",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .max_positions = 0},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .formula = "x_p += scale·[b_0, b_1, …], b_j = ⌊p/2^j⌋ mod 2, j = 0 .. ⌈log2(pe_max_positions)⌉ − 1\n"
                  "fill: pad, in the first channels; tile, channel c holds digit c mod B; project, through a "
                  "trained matrix [B, d_m]",
       .known_for = "An ablation: exact in every number format, but neighbours can differ in many bits (1023 and 1024 "
                    "in eleven). Bits above the training length are constant in training."});
}

}  // namespace pe::encodings
