// Training windows with the positions of a longer text: PoSE and CREAM.
#include "encodings/positions/training_windows.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "encodings/positions/position_draws.h"
#include "encodings/registry.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

struct PoseOptions : TrainingWindowOptions {
  void describe(support::FieldVisitor& v) { describe_target(v); }
};

/// PoSE: a training window is cut into two pieces, and the second is moved to a random place of a long text.
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

struct CreamOptions : TrainingWindowOptions {
  double mean = 9, spread = 3;
  void describe(support::FieldVisitor& v) {
    describe_target(v);
    v.field("mean", mean, "Mean of the half windows before which the middle ends.",
            {.unit = "half windows", .min = 2, .max = 1e6});
    v.field("spread", spread, "Their standard deviation.", {.unit = "half windows", .min = 0, .max = 1e6});
  }
};

/// CREAM: a training window's head and tail are at the ends of a long text, and its middle is at a random place, most
/// often near the text's middle.
class Cream : public TrainingWindow {
 public:
  Cream(const CreamOptions& options, const Shape& shape) : TrainingWindow("cream", options, shape), options_(options) {}

  std::vector<std::int64_t> draw(support::Xoshiro& random, std::int64_t count, std::int64_t target) const override {
    const std::int64_t windows = target / count, third = count / 3;
    const std::int64_t edge = random.below(2) == 0 ? third : std::min(4 * windows, third);
    const std::int64_t middle = count - 2 * edge;
    const double u1 = random.uniform(), u2 = random.uniform();
    const double normal = std::sqrt(-2 * std::log1p(-u1)) * std::cos(2 * std::numbers::pi * u2);
    const double halves =
        std::floor(std::clamp(options_.mean + options_.spread * normal, 2.0, 2.0 * static_cast<double>(windows)));
    const auto up_to = [&](std::int64_t n) {  // ⌊halves/2 · n⌋
      return static_cast<std::int64_t>(std::floor(halves / 2 * static_cast<double>(n)));
    };
    const std::int64_t least = edge + up_to(middle - 1), most = up_to(count) - edge - 1;
    const std::int64_t last =
        least + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most - least + 1)));
    std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t shift = t < edge ? 0 : t < count - edge ? last - (count - edge - 1) : target - count;
      ids[static_cast<std::size_t>(t)] = t + shift;
    }
    return ids;
  }

 private:
  CreamOptions options_;
};

}  // namespace

void TrainingWindowOptions::describe_target(support::FieldVisitor& v) {
  v.field("target", target, "Length of the text whose positions occur in training; auto: 8 times the training length.",
          {.unit = "tokens", .min = 1});
}

TrainingWindow::TrainingWindow(const std::string& kind, const TrainingWindowOptions& options, const Shape& shape)
    : PositionalEncoding(shape), kind_(kind), target_(options.target.value_or(8 * shape.train_length)) {
  if (target_ < 1) throw support::ConfigError(support::cat("encoding '", kind, "' needs target, the length to reach"));
}

Tensor TrainingWindow::positions(int layer, const Span& span) const {
  if (!span.training) return default_positions(span);
  if (span.keys > target_) {
    throw RangeError(support::cat("a training window of ", span.keys, " tokens is longer than the target of encoding '",
                                  kind_, "', ", target_, " tokens"),
                     "raise target");
  }
  Tensor ids = at::empty({span.batch, span.keys}, at::kLong);
  for (std::int64_t b = 0; b < span.batch; ++b) {
    support::Xoshiro random(draw_key(shape_.seed, kind_, span.step, 0, sample_id(span, b)));
    const std::vector<std::int64_t> drawn = draw(random, span.keys, target_);
    std::copy(drawn.begin(), drawn.end(), ids.mutable_data_ptr<std::int64_t>() + b * span.keys);
  }
  return ids.to(span.device);
}

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

EncodingEntry cream_entry() {
  return with_options<Cream, CreamOptions>(
      {.name = "cream",
       .summary = "Trains short windows with positions from the start, middle and end of a long text; for a stack.",
       .reference = "Wu et al. 2024, arXiv:2406.07138",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .stochastic = true},
       .family = Family::kPositionMap,
       .acts_on = "positions",
       .formula =
           "in training, for each sequence of T tokens: s = ⌊target/T⌋, M = T − 2e\n"
           "e = ⌊T/3⌋ or min(4s, ⌊T/3⌋), each in half of the draws; r = ⌊N(mean, spread²)⌋ within 2 .. 2s\n"
           "positions 0 .. e − 1, then M that end at U{e + ⌊(M − 1)r/2⌋ .. ⌊Tr/2⌋ − e − 1}, then the last e below "
           "target",
       .known_for = "PoSE with a word for the middle: positions in the middle of the long text are drawn most, "
                    "against models that forget the middle.",
       .errata = {"The released code takes the text of middle and tail from those places, too; here the text is "
                  "continuous.",
                  "Its mean and spread are numbers for 8 windows in the long text. For another factor, mean is about "
                  "1 + target/T."}});
}

}  // namespace pe::encodings
