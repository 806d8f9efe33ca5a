// A trained vector for each position that starts as the sinusoid.
#include "encodings/absolute/learned_table.h"
#include "encodings/registry.h"
#include "encodings/rotary/rotary_cache.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

struct SinInitOptions : LearnedTableOptions {
  double base = 10000;
  void describe(support::FieldVisitor& v) {
    v.field("base", base, "Initial wavelengths grow from 2π to 2π·base tokens.", {.min = 1});
    LearnedTableOptions::describe(v);
  }
};

class SinInit : public LearnedTable {
 public:
  SinInit(const SinInitOptions& options, const Shape& shape)
      : LearnedTable("sininit", options, shape), base_(options.base) {
    if (shape.width % 2 != 0) {
      throw support::ConfigError(
          support::cat("encoding 'sininit' fills pairs of channels, and the width ", shape.width, " is not even"));
    }
    add_table();
  }

 protected:
  Tensor initial_rows(std::int64_t begin, std::int64_t count) const override {
    const Tensor theta = at::tensor(geometric_frequencies(base_, shape_.width), at::TensorOptions(at::kDouble));
    const Tensor angles = at::arange(begin, begin + count, at::kDouble).unsqueeze(1) * theta;
    return at::stack({angles.sin(), angles.cos()}, -1).flatten(-2);
  }
  double root_mean_square() const override { return std::sqrt(0.5); }

 private:
  double base_;
};

}  // namespace

EncodingEntry sininit_entry() {
  return with_options<SinInit, SinInitOptions>(
      {.name = "sininit",
       .summary = "Adds a trained vector for each position, which starts as the sinusoid, to the token embeddings.",
       .reference = "RanMo1990/PositionalEncodingExample",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .learned = true, .max_positions = 0},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .parameters = "train_length*width",
       .formula = "x_p += scale·P[p], P a trained table [max_positions, d_m] that starts as the sinusoid: "
                  "P[p][2c] = sin(p·θ_c), P[p][2c+1] = cos(p·θ_c), θ_c = base^(−2c/d_m)",
       .known_for = "A form between learned and sinusoidal: before the first step it is sinusoidal. Rows beyond the "
                    "training length keep the sinusoid (`overflow: untrained`).",
       .errata = {"The toy study that introduced it compared models that differ in more than the encoding. In its "
                  "table the fixed sinusoid wins at four layers."}});
}

}  // namespace pe::encodings
