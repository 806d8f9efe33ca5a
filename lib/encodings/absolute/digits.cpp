#include "encodings/absolute/digits.h"

#include "support/text.h"

namespace pe::encodings {

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

}  // namespace pe::encodings
