// CREAM: a training window's head and tail are at the ends of a long text, and its middle is near the text's middle.
#include <numbers>

#include "encodings/positions/training_windows.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct CreamOptions : TrainingWindowOptions {
  std::int64_t edge = 32;
  double spread = 1.0 / 6;
  void describe(support::FieldVisitor& v) {
    describe_target(v);
    v.field("edge", edge,
            "Number of tokens in head and tail in half of the draws; a third of the window in the others.",
            {.unit = "tokens", .min = 1});
    v.field("spread", spread, "Standard deviation of the start of the middle, as a share of the skipped part.",
            {.min = 1e-3, .max = 10});
  }
};

class Cream : public TrainingWindow {
 public:
  Cream(const CreamOptions& options, const Shape& shape) : TrainingWindow("cream", options, shape), options_(options) {}

  std::vector<std::int64_t> draw(support::Xoshiro& random, std::int64_t count, std::int64_t target) const override {
    const std::int64_t third = count / 3, edge = random.below(2) == 0 ? std::min(options_.edge, third) : third;
    double place = -1;  // of the middle, from 0 to 1
    while (place < 0 || place > 1) {
      const double u1 = random.uniform(), u2 = random.uniform();
      const double normal = std::sqrt(-2 * std::log1p(-u1)) * std::cos(2 * std::numbers::pi * u2);
      place = 0.5 + options_.spread * normal;
    }
    const auto skipped = static_cast<std::int64_t>(std::floor(place * static_cast<double>(target - count) + 0.5));
    std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
    for (std::int64_t t = 0; t < count; ++t) {
      ids[static_cast<std::size_t>(t)] = t < edge ? t : t < count - edge ? t + skipped : t + target - count;
    }
    return ids;
  }

 private:
  CreamOptions options_;
};

}  // namespace

EncodingEntry cream_entry() {
  return with_options<Cream, CreamOptions>(
      {.name = "cream",
       .summary = "Trains short windows with positions from the start, middle and end of a long text; for a stack.",
       .reference = "Wu et al. 2024, arXiv:2406.07138",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .stochastic = true},
       .family = Family::kPositionMap,
       .acts_on = "positions",
       .formula =
           "in training, for each sequence of T tokens: e = min(edge, ⌊T/3⌋) or ⌊T/3⌋, each in half of the draws\n"
           "g ~ N(½, spread²) within [0, 1]\n"
           "positions 0 .. e − 1, then T − 2e from e + ⌊g·(target − T) + ½⌋, then the last e below target",
       .known_for = "PoSE with a word for the middle: positions in the middle of the long text are drawn most, "
                    "against models that forget the middle.",
       .errata = {"No code of the authors was available; the draws follow the idea of the paper."}});
}

}  // namespace pe::encodings
