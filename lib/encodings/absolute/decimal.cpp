// The decimal digits of the position, 0 to 9, least significant first. They drown the token at the start: that is the
// effect under study.
#include "encodings/absolute/digits.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class Decimal : public Digits {
 public:
  Decimal(const DigitOptions& options, const Shape& shape)
      : Digits("decimal", 10, /*normalised=*/false, options, shape) {}
};

}  // namespace

EncodingEntry decimal_entry() {
  return with_options<Decimal, DigitOptions>(
      {.name = "decimal",
       .summary = "Adds the decimal digits of the position, 0 to 9, to the token embeddings.",
       .reference = "defined by this project",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .max_positions = 0},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .formula = "x_p += scale·[d_0, d_1, …], d_j = ⌊p/10^j⌋ mod 10, as many digits as pe_max_positions − 1 has\n"
                  "fill: as for binary",
       .known_for = "An ablation: entries up to 9 next to token embeddings of standard deviation 0.02 hide the "
                    "token in their channels at the start of training. A comparison with decimal_norm shows that "
                    "effect."});
}

}  // namespace pe::encodings
