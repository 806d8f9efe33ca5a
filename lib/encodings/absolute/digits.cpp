// Positions written out in digits, least significant first, added to token embeddings: binary and decimal, raw or
// brought to −1 … 1.
#include <string>

#include "encodings/absolute/absolute.h"
#include "encodings/registry.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

/// Where the digits go: the first channels; all channels, over and over; or through a learned matrix.
enum class DigitFill { kPad, kTile, kProject };

struct DigitOptions : AbsoluteOptions {
  std::int64_t positions = 65536;  ///< option `pe_max_positions`
  DigitFill fill = DigitFill::kPad;
  void describe(support::FieldVisitor& v);
};

class Digits : public AbsoluteEncoding {
 public:
  /// @param normalised 2·digit/(radix − 1) − 1 rather than the digit.
  Digits(const std::string& kind, std::int64_t radix, bool normalised, const DigitOptions& options, const Shape& shape);
  Facts facts() const override;

 protected:
  Tensor embed(const LayerContext& context, const Tensor& positions) override;
  double root_mean_square() const override;

 private:
  std::string kind_;
  std::int64_t radix_;
  bool normalised_;
  DigitFill fill_;
  std::int64_t digits_ = 0;
  std::int64_t bound_ = 1;  ///< radix to the power of digits
  Tensor projection_;       ///< [digits, d_m]
};

using support::cat;

void DigitOptions::describe(support::FieldVisitor& v) {
  v.field("pe_max_positions", positions,
          "Number of positions that the digits can represent, in training and in evaluation.",
          {.unit = "tokens", .min = 2, .max = 1e15});
  v.choice("fill", fill, {{"pad", DigitFill::kPad}, {"tile", DigitFill::kTile}, {"project", DigitFill::kProject}},
           "The digits fill the first channels with zeros after them, fill all channels repeatedly, or pass through a "
           "trained matrix.");
  AbsoluteOptions::describe(v);
}

Digits::Digits(const std::string& kind, std::int64_t radix, bool normalised, const DigitOptions& options,
               const Shape& shape)
    : AbsoluteEncoding(kind, shape, options), kind_(kind), radix_(radix), normalised_(normalised), fill_(options.fill) {
  while (bound_ < options.positions) {
    bound_ *= radix;
    ++digits_;
  }
  if (fill_ == DigitFill::kPad && digits_ > shape.width) {
    throw support::ConfigError(cat("encoding '", kind, "' writes ", digits_, " digits into ", shape.width, " channels"),
                               {}, "lower pe_max_positions, or set fill to project");
  }
  if (fill_ == DigitFill::kProject) projection_ = add_normal(kind, "projection", {digits_, shape.width}, 0, 0.02, true);
}

Facts Digits::facts() const {
  Facts facts = AbsoluteEncoding::facts();
  facts.learned |= projection_.defined();
  facts.max_positions = bound_;
  return facts;
}

Tensor Digits::embed(const LayerContext& context, const Tensor& positions) {
  if (positions.is_floating_point()) {
    throw support::ConfigError(
        cat("encoding '", kind_, "' writes out whole positions, and the position map gives fractions"));
  }
  const Span& span = context.span;
  // Contiguous positions are known here, and bounds may suffice; others are searched for their largest.
  const bool known = context.bounds && ((context.contiguous && !span.restart_positions) ||
                                        (context.bounds->first >= 0 && context.bounds->second < bound_));
  const std::int64_t first = known ? context.bounds->first : positions.min().item<std::int64_t>();
  const std::int64_t last = known ? context.bounds->second : positions.max().item<std::int64_t>();
  if (first < 0) throw RangeError(cat("position ", first, " has no digits in encoding '", kind_, "'"));
  if (last >= bound_) {
    throw RangeError(cat("position ", last, " does not fit the ", digits_, " digits of encoding '", kind_,
                         "', which reach ", bound_ - 1),
                     "raise pe_max_positions before training");
  }
  std::vector<Tensor> places;
  Tensor rest = positions;
  for (std::int64_t j = 0; j < digits_; ++j) {
    places.push_back(at::remainder(rest, radix_));
    rest = at::floor_divide(rest, radix_);
  }
  Tensor values = at::stack(places, -1).to(at::kDouble);  // [.., digits]
  if (normalised_) values = values * (2.0 / static_cast<double>(radix_ - 1)) - 1;
  values = values.to(table_type(shape_.dtype));
  if (fill_ == DigitFill::kProject) return at::matmul(values, projection_);
  const std::int64_t width = shape_.width;
  if (fill_ == DigitFill::kPad) return at::constant_pad_nd(values, {0, width - digits_});
  const Tensor which = at::remainder(at::arange(width, at::TensorOptions(at::kLong).device(values.device())), digits_);
  return values.index_select(-1, which);
}

// Over all digits alike; numbers below the bound have them so.
double Digits::root_mean_square() const {
  const double r = static_cast<double>(radix_);
  const double square = normalised_ ? (r + 1) / (3 * (r - 1)) : (r - 1) * (2 * r - 1) / 6;
  const double share = fill_ == DigitFill::kPad    ? static_cast<double>(digits_) / static_cast<double>(shape_.width)
                       : fill_ == DigitFill::kTile ? 1
                                                   : static_cast<double>(digits_) * 0.02 * 0.02;
  return std::sqrt(square * share);
}

}  // namespace

EncodingEntry binary_entry() {
  return with_options<Digits, DigitOptions>(
      {.name = "binary",
       .summary = "Adds the bits of the position, 0 or 1, to the token embeddings.",
       .reference = "defined by this project",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .max_positions = 0},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .formula = "x_p += scale·[b_0, b_1, …], b_j = ⌊p/2^j⌋ mod 2, j = 0 .. ⌈log2(pe_max_positions)⌉ − 1\n"
                  "fill: pad, in the first channels; tile, channel c holds digit c mod B; project, through a "
                  "trained matrix [B, d_m]",
       .known_for = "An ablation: exact in every number format, but neighbours can differ in many bits (1023 and 1024 "
                    "in eleven). Bits above the training length are constant in training."},
      "binary", 2, /*normalised=*/false);
}

EncodingEntry binary_norm_entry() {
  return with_options<Digits, DigitOptions>(
      {.name = "binary_norm",
       .summary = "Adds the bits of the position, −1 or 1, to the token embeddings.",
       .reference = "defined by this project",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .max_positions = 0},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .formula = "as binary with 2·b_j − 1 in place of b_j",
       .known_for = "Bits that are centred at 0. With `fill: tile` every position has the same norm, as with a "
                    "sinusoid."},
      "binary_norm", 2, /*normalised=*/true);
}

EncodingEntry decimal_entry() {
  return with_options<Digits, DigitOptions>(
      {.name = "decimal",
       .summary = "Adds the decimal digits of the position, 0 to 9, to the token embeddings.",
       .reference = "defined by this project",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .max_positions = 0},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .formula = "x_p += scale·[d_0, d_1, …], d_j = ⌊p/10^j⌋ mod 10, as many digits as pe_max_positions − 1 has\n"
                  "fill: as for binary",
       .known_for = "An ablation: entries up to 9 next to token embeddings of standard deviation 0.02 hide the "
                    "token in their channels at the start of training. A comparison with decimal_norm shows that "
                    "effect."},
      "decimal", 10, /*normalised=*/false);
}

EncodingEntry decimal_norm_entry() {
  return with_options<Digits, DigitOptions>(
      {.name = "decimal_norm",
       .summary = "Adds the decimal digits of the position, scaled to −1 … 1, to the token embeddings.",
       .reference = "defined by this project",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .max_positions = 0},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .formula = "as decimal with 2·d_j/9 − 1 in place of d_j",
       .known_for = "Decimal digits at the scale of a sinusoid (mean square 11/27); compare with decimal."},
      "decimal_norm", 10, /*normalised=*/true);
}

}  // namespace pe::encodings
