// Abacus: digits are marked by their place in the number, so that those of one weight look alike wherever the number stands.
#include "encodings/position_draws.h"
#include "encodings/registry.h"
#include "encodings/token_reader.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using support::cat;

struct AbacusOptions {
  std::int64_t rows = 1024;
  std::int64_t shift = 100;
  void describe(support::FieldVisitor& v) {
    v.field("rows", rows, "Rows of the table: 0 for what is no digit, then places.", {.min = 2});
    v.field("shift", shift, "In training all places of a batch are moved by a number drawn below it; 1: none is.",
            {.unit = "digits", .min = 1});
  }
};

class Abacus : public PositionalEncoding, public ReadsTokens {
 public:
  Abacus(const AbacusOptions& options, const Shape& shape)
      : PositionalEncoding(shape), options_(options),
        table_(add_normal("abacus", "table", {options.rows, shape.width}, 0, 0.02, /*weight_decay=*/false)) {}

  Facts facts() const override {
    return {.shift_invariant = ShiftInvariance::kNever, .learned = true, .stochastic = options_.shift > 1};
  }
  Traits traits(const Span& span) const override { return {.adds_to_tokens = true}; }
  bool needs_causal_mask() const override { return false; }

  Json reads() const override { return {{"reads", "digits"}}; }
  Tensor positions_by(const Tensor& numbers, int layer, const Span& span) const override { return positions(layer, span); }

  Tensor add_to_tokens(LayerContext& context, const Tensor& x) override {
    const Span& span = context.span;
    Tensor place = numbers_of(context.state).select(-1, 0).narrow(1, span.keys - span.queries, span.queries);
    if (span.training && options_.shift > 1) {
      support::Xoshiro random(draw_key(shape_.seed, "abacus", span.step, 0, 0));
      const auto moved = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(options_.shift)));
      place = at::where(place.gt(0), place + moved, place);
    }
    if (const auto last = place.max().item<std::int64_t>(); last >= options_.rows) {
      throw RangeError(cat("digit ", last, " of a number lies beyond the ", options_.rows, " rows of encoding 'abacus'"),
                       "raise rows before training");
    }
    const Tensor rows = table_.index_select(0, place.flatten()).view({place.size(0), place.size(1), shape_.width});
    return x + rows.to(x.scalar_type());
  }

 private:
  AbacusOptions options_;
  Tensor table_;   // [rows, d_m]
};

}  // namespace

EncodingEntry abacus_entry() {
  return with_options<Abacus, AbacusOptions>(
      {.name = "abacus",
       .summary = "Adds a trained vector for each digit's place in its number; for a stack, beside what tells order.",
       .reference = "McLeish et al. 2024, arXiv:2405.17399",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .learned = true, .stochastic = true},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .parameters = "rows*width",
       .formula = "x_t += P[a_t], a_t = 0 off digits, else the place in the run of digits, from 1, + k\n"
                  "k drawn from 0 .. shift − 1 for each batch in training, 0 in evaluations",
       .known_for = "Addition at six times the digits of training in its paper, with looped transformers; with it models find "
                    "digits of one weight without counting.",
       .errata = {"Numbers have to be written with the least significant digit first, or places name no weight.",
                  "Digits are what a tokenizer gives an id of its own; joined ones have no place."}});
}

}  // namespace pe::encodings
