// PoSE: a training window is cut into two pieces, and the second is moved to a random place of a long text.
#include "encodings/positions/training_windows.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct PoseOptions : TrainingWindowOptions {
  void describe(support::FieldVisitor& v) { describe_target(v); }
};

class Pose : public TrainingWindow {
 public:
  Pose(const PoseOptions& options, const Shape& shape) : TrainingWindow("pose", options, shape) {}

  std::vector<std::int64_t> draw(support::Xoshiro& random, std::int64_t count, std::int64_t target) const override {
    const auto below = [&](std::int64_t n) {
      return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(n)));
    };
    const std::int64_t first = 1 + below((count + 1) / 2), skipped = below(target - count + 1);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
    for (std::int64_t t = 0; t < count; ++t) ids[static_cast<std::size_t>(t)] = t < first ? t : t + skipped;
    return ids;
  }
};

}  // namespace

EncodingEntry pose_entry() {
  return with_options<Pose, PoseOptions>(
      {.name = "pose",
       .summary =
           "Trains short windows with the positions of a long text: two parts, the second one shifted; for a stack.",
       .reference = "Zhu et al. 2023, arXiv:2309.10400",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .stochastic = true},
       .family = Family::kPositionMap,
       .acts_on = "positions",
       .formula = "in training, for each sequence of T tokens: a ~ U{1..⌈T/2⌉}, u ~ U{0..target − T}\n"
                  "positions 0 .. a − 1, then a + u .. T − 1 + u; evaluations count 0, 1, 2, …",
       .known_for =
           "Tunes a rotary model for long texts at the cost of short ones: over many draws, all distances up to the "
           "target occur.",
       .errata = {"The released code also takes the text of the second piece from a later place; here the text is "
                  "continuous."}});
}

}  // namespace pe::encodings
