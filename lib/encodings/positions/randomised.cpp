// Randomised positions: a sequence of T tokens gets T distinct positions out of many more, in order, so that training
// meets the positions of longer texts.
#include "encodings/positions/position_draws.h"
#include "encodings/registry.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using support::cat;

struct RandomisedOptions : DrawOptions {
  std::int64_t max_random_position = 2048;
  void describe(support::FieldVisitor& v) {
    v.field("max_random_position", max_random_position, "Positions are drawn from 0 up to this number, exclusive.",
            {.unit = "tokens", .min = 1});
    describe_draws(v);
  }
};

class RandomPositions : public PositionalEncoding {
 public:
  RandomPositions(const RandomisedOptions& options, const Shape& shape)
      : PositionalEncoding(shape), options_(options) {}

  Facts facts() const override {
    return {
        .shift_invariant = ShiftInvariance::kNever, .max_positions = options_.max_random_position, .stochastic = true};
  }
  Traits traits(const Span& span) const override { return {.maps_positions = options_.draws(span)}; }
  bool needs_causal_mask() const override { return false; }

  Tensor positions(int layer, const Span& span) const override {
    if (!options_.draws(span)) return default_positions(span);
    if (span.keys > options_.max_random_position) {
      throw RangeError(cat(span.keys, " distinct positions cannot be drawn from the ", options_.max_random_position,
                           " of encoding 'randomised' (max_random_position)"),
                       "raise max_random_position before training");
    }
    const std::int64_t sequences = options_.per_sample ? span.batch : 1;
    Tensor ids = at::empty({sequences, span.keys}, at::kLong);
    for (std::int64_t b = 0; b < sequences; ++b) {
      const std::int64_t sample = options_.per_sample ? sample_id(span, b) : 0;
      std::vector<std::uint64_t> drawn =
          support::Xoshiro(options_.key("randomised", shape_.seed, layer, span, sample))
              .sample(static_cast<std::uint64_t>(options_.max_random_position), static_cast<std::uint64_t>(span.keys));
      std::sort(drawn.begin(), drawn.end());
      std::copy(drawn.begin(), drawn.end(), ids.mutable_data_ptr<std::int64_t>() + b * span.keys);
    }
    return (options_.per_sample ? ids : ids.squeeze(0)).to(span.device);
  }

 private:
  RandomisedOptions options_;
};

}  // namespace

EncodingEntry randomised_entry() {
  return with_options<RandomPositions, RandomisedOptions>(
      {.name = "randomised",
       .aliases = {"randomized"},
       .summary = "Gives the tokens distinct random positions of a longer range, in order; for a stack.",
       .reference = "Ruoss et al. 2023, arXiv:2305.16843",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .max_positions = 0, .stochastic = true},
       .family = Family::kPositionMap,
       .acts_on = "positions",
       .formula = "positions = sort(T distinct numbers drawn from 0 .. max_random_position − 1), drawn for each pass",
       .known_for = "Trains the positions of long texts on short ones, in a stack with any other encoding. It helps "
                    "length generalisation on algorithmic tasks, at some cost in loss.",
       .errata = {"Some copies evaluate with positions 0, 1, 2, …; the original also draws in evaluations (`eval`)."}});
}

}  // namespace pe::encodings
