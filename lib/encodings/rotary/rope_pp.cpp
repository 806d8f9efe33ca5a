// RoPE++: the complex product of a rotated query and key has an imaginary part too, which RoPE ignores. A second
// attention head of the same query and key takes it for its logits.
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include "encodings/rotary/rotary_schedules.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

class RopePP : public Rotary {
 public:
  RopePP(const RotaryOptions& options, const Shape& shape) : Rotary("rope_pp", shape, options) {
    if (shape.query_heads % 2 != 0) {
      throw support::ConfigError(support::cat("encoding 'rope_pp' makes two attention heads of each query head; ",
                                              shape.query_heads, " heads are not pairs"),
                                 {}, "take an even number of heads");
    }
  }

  bool only_rotates() const override { return false; }
  void transform(LayerContext& context, Heads& heads) override {
    Rotary::transform(context, heads);
    heads.q = at::stack({heads.q, quarter_turn_back(heads.q)}, 2).flatten(1, 2);  // real and imaginary by turns
  }

 protected:
  Facts own_facts() const override { return {.rotates = true, .heads_per_query = 2}; }

 private:
  /// Rotates every pair by −π/2: (a, b) becomes (b, −a).
  Tensor quarter_turn_back(const Tensor& q) const {
    const std::int64_t half = q.size(-1) / 2;
    if (options_.layout == PairLayout::kHalf) return at::cat({q.narrow(-1, half, half), -q.narrow(-1, 0, half)}, -1);
    const Tensor pairs = q.unflatten(-1, {half, 2});
    return at::stack({pairs.select(-1, 1), -pairs.select(-1, 0)}, -1).flatten(-2);
  }
};

}  // namespace

EncodingEntry rope_pp_entry() {
  return with_options<RopePP, RotaryOptions>(
      {.name = "rope_pp",
       .summary = "RoPE with a second attention head per query, for the imaginary part of the rotated product.",
       .reference = "RoPE++, arXiv:2512.07525",
       .facts = {.rotates = true, .heads_per_query = 2},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .formula =
           "heads 2m and 2m + 1 share a query, and where G ≤ H/2 a key and a value\n"
           "logit of head 2m:     Σ_c [a_c·cos(d·θ_c) − b_c·sin(d·θ_c)]/√d_h   (rope)\n"
           "logit of head 2m + 1: Σ_c [a_c·sin(d·θ_c) + b_c·cos(d·θ_c)]/√d_h   (rope, query at the angle i·θ_c − π/2)",
       .known_for = "Keeps the part that a real product drops. Between equal contents, the logit of rope is largest at "
                    "distance 0 and falls; the second head starts at 0 and is then nearly constant. Published models "
                    "have 376M and 776M parameters.",
       .errata = {"With a separate projection for each head it would be rope: the quarter turn is a linear map, which "
                  "W_q can contain. So `heads` counts attention heads and W_q has half as many. The EH form of the "
                  "paper has the same `heads`; its EC form has twice the heads with `head_width` given and the same "
                  "key_value_heads."}});
}

}  // namespace pe::encodings
