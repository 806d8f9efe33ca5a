// Randomised positions that are real numbers: T uniform draws from [0, max_position), in order.
#include "encodings/positions/position_draws.h"
#include "encodings/registry.h"
#include "support/random.h"

namespace pe::encodings {
namespace {

struct RfsOptions : DrawOptions {
  double max_position = 2048;
  void describe(support::FieldVisitor& v) {
    v.field("max_position", max_position, "Positions are drawn from 0 up to this number.",
            {.unit = "tokens", .min = 1});
    describe_draws(v);
  }
};

class Rfs : public PositionalEncoding {
 public:
  Rfs(const RfsOptions& options, const Shape& shape) : PositionalEncoding(shape), options_(options) {}

  Facts facts() const override { return {.shift_invariant = ShiftInvariance::kNever, .stochastic = true}; }
  Traits traits(const Span& span) const override { return {.maps_positions = options_.draws(span)}; }
  bool needs_causal_mask() const override { return false; }

  Tensor positions(int layer, const Span& span) const override {
    if (!options_.draws(span)) return default_positions(span);
    const std::int64_t sequences = options_.per_sample ? span.batch : 1;
    Tensor all = at::empty({sequences, span.keys}, at::kDouble);
    for (std::int64_t b = 0; b < sequences; ++b) {
      const std::int64_t sample = options_.per_sample ? sample_id(span, b) : 0;
      support::Xoshiro random(options_.key("rfs", shape_.seed, layer, span, sample));
      double* drawn = all.mutable_data_ptr<double>() + b * span.keys;
      for (std::int64_t t = 0; t < span.keys; ++t) drawn[t] = random.uniform() * options_.max_position;
      std::sort(drawn, drawn + span.keys);
    }
    return (options_.per_sample ? all : all.squeeze(0)).to(span.device);
  }

 private:
  RfsOptions options_;
};

}  // namespace

EncodingEntry rfs_entry() {
  return with_options<Rfs, RfsOptions>(
      {.name = "rfs",
       .summary = "Gives the tokens random real positions of a long range, uniform and in order; for a stack.",
       .reference = "arXiv:2602.14050 (2026)",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .stochastic = true},
       .family = Family::kPositionMap,
       .acts_on = "positions",
       .formula =
           "positions = sort(T uniform draws from [0, max_position)), drawn for each pass; the t-th of T has the mean "
           "max_position·t/(T + 1)",
       .known_for =
           "Randomised positions without a grid, so any length fits into the range. It suits encodings that accept "
           "fractions, such as rotary ones, alibi and fire.",
       .errata = {"Encodings with a table of whole positions or distances (learned, t5, kerple, bam, sandwich) and "
                  "resonance reject fractions."}});
}

}  // namespace pe::encodings
