// Abacus: digits are marked by their place in the number, so that digits of one weight look alike in all numbers.
#include "encodings/attention/token_reader.h"
#include "encodings/positions/position_draws.h"
#include "encodings/registry.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using support::cat;

struct AbacusOptions {
  std::int64_t rows = 1024;
  std::int64_t shift = 100;
  void describe(support::FieldVisitor& v) {
    v.field("rows", rows,
            "Rows of the table. Row 0 is for tokens that are not digits; each further row is for one place.",
            {.min = 2});
    v.field("shift", shift, "In training, a random number below this one is added to all places of a batch; 1: none.",
            {.unit = "digits", .min = 1});
  }
};

class Abacus : public PositionalEncoding, public ReadsTokens {
 public:
  Abacus(const AbacusOptions& options, const Shape& shape)
      : PositionalEncoding(shape),
        options_(options),
        table_(add_normal("abacus", "table", {options.rows, shape.width}, 0, 0.02, /*weight_decay=*/false)) {}

  Facts facts() const override {
    return {.shift_invariant = ShiftInvariance::kNever, .learned = true, .max_positions = options_.rows};
  }
  Traits traits(const Span& span) const override { return {.adds_to_tokens = true}; }
  bool needs_causal_mask() const override { return false; }

  Json reads() const override { return {{"reads", "digits"}}; }

  Tensor add_to_tokens(LayerContext& context, const Tensor& x) override {
    const Span& span = context.span;
    Tensor place = numbers_of(context.state).select(-1, 0).narrow(1, span.keys - span.queries, span.queries);
    if (span.training && options_.shift > 1) {
      support::Xoshiro random(draw_key(shape_.seed, "abacus", span.step, 0, 0));
      const auto moved = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(options_.shift)));
      place = at::where(place.gt(0), place + moved, place);
    }
    if (const auto last = place.max().item<std::int64_t>(); last >= options_.rows) {
      throw RangeError(cat("place ", last, " of a digit exceeds the ", options_.rows, " rows of encoding 'abacus'"),
                       "raise rows before training");
    }
    const Tensor rows = table_.index_select(0, place.flatten()).view({place.size(0), place.size(1), shape_.width});
    return x + rows.to(x.scalar_type());
  }

 private:
  AbacusOptions options_;
  Tensor table_;  // [rows, d_m]
};

}  // namespace

EncodingEntry abacus_entry() {
  return with_options<Abacus, AbacusOptions>(
      {.name = "abacus",
       .summary = "Adds a trained vector for the place of each digit in its number; for a stack.",
       .reference = "McLeish et al. 2024, arXiv:2405.17399",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .learned = true, .max_positions = 0},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .parameters = "rows*width",
       .formula = "x_t += P[a_t], P ~ N(0, 0.02²); a_t = 0 where t is no digit, else k + its place in the run of "
                  "digits, from 1\n"
                  "k ~ U{0 .. shift − 1} for each batch in training, 0 in evaluations",
       .known_for = "Its paper trains addition on 20 digits and reaches 100 digits. Digits of the same place have the "
                    "same vector, so the model need not count.",
       .errata = {"Numbers must start with the least significant digit; otherwise a place does not determine the "
                  "weight of a digit.",
                  "Tokens of several digits have no place: it is for tokenizers that give each digit a separate id."}});
}

}  // namespace pe::encodings
