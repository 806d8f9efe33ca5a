// RoPE on a part of the channels, with frequencies that all make several turns within the training length.
#include <numbers>

#include "encodings/registry.h"
#include "encodings/rotary/rescaling.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

struct RopeIdOptions {
  double fraction = 0.5;
  double turns = 2;
  std::optional<std::int64_t> train_length;
  PairLayout layout = PairLayout::kHalf;
  void describe(support::FieldVisitor& v) {
    v.field("fraction", fraction, "Share of the channels of a head that are rotated, rounded down to an even number.",
            {.min = 0, .max = 1});
    v.field("turns", turns, "Number of turns of the slowest pair within the training length.", {.min = 1e-3});
    v.field("train_length", train_length, "Training length for the turns; auto: from the model.",
            {.unit = "tokens", .min = 2});
    v.choice("layout", layout, {{"half", PairLayout::kHalf}, {"interleaved", PairLayout::kInterleaved}},
             "Which channels form a pair: (i, i + n), or (2i, 2i + 1).");
  }
};

/// θ of the slowest pair; the others are between it and 1.
double slowest(const RopeIdOptions& options, std::int64_t length) {
  return 2 * std::numbers::pi * options.turns / static_cast<double>(length);
}

/// The base of the geometric sequence of n pairs from 1 down to the slowest.
double base_of(double slowest, std::int64_t pairs) {
  return pairs < 2 ? 1 / slowest : std::pow(slowest, -static_cast<double>(pairs) / static_cast<double>(pairs - 1));
}

class RopeId : public Rotary {
 public:
  RopeId(const RopeIdOptions& options, const Shape& shape)
      : Rotary("rope_id", shape, {.layout = options.layout}),
        pairs_(static_cast<std::int64_t>(options.fraction * static_cast<double>(shape.head_width)) / 2),
        slowest_(slowest(options, extended_length("rope_id", options.train_length, shape))) {
    if (slowest_ < 1) return;
    throw support::ConfigError(support::cat("encoding 'rope_id': ", options.turns, " turns within ",
                                            extended_length("rope_id", options.train_length, shape),
                                            " tokens are faster than 1 radian a token"),
                               {}, "lower turns");
  }

  FrequencySchedule schedule() const override {
    std::vector<double> theta(static_cast<std::size_t>(pairs_), 1.0);
    for (std::int64_t i = 1; i < pairs_; ++i) {
      theta[static_cast<std::size_t>(i)] = std::pow(slowest_, static_cast<double>(i) / static_cast<double>(pairs_ - 1));
    }
    return {.theta = theta, .base = base_of(slowest_, pairs_), .width = 2 * pairs_};
  }

 private:
  std::int64_t pairs_;
  double slowest_;
};

}  // namespace

EncodingEntry rope_id_entry() {
  return with_options<RopeId, RopeIdOptions>(
      {.name = "rope_id",
       .summary = "RoPE on half of the channels, with at least two turns of each pair within the training length.",
       .reference = "arXiv:2603.18017 (2026)",
       .facts = {.rotates = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .formula =
           "the first r = fraction·d_h channels of each head, rounded down to even, are turned; n = r/2\n"
           "θ_i = (2π·turns/L)^(i/(n−1)), i = 0 .. n − 1, so from 1 down to `turns` turns within L; the others stay",
       .known_for = "No pair has new angles beyond the training length, and half of the channels see only content.",
       .errata = {"The share and the frequencies of the paper were not available; the defaults are from this "
                  "project."}});
}

}  // namespace pe::encodings
