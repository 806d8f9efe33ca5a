#include "encodings/absolute/absolute.h"

#include <cmath>

#include "support/text.h"

namespace pe::encodings {

void AbsoluteOptions::describe(support::FieldVisitor& v) {
  v.field("pe_scale", pe_scale,
          "Factor of the encoding: a number, 'learned' (one number, starting at 1/√width), or 'matched' (to the "
          "RMS that token embeddings start with).");
  const auto number = support::parse_real(pe_scale);
  v.check(pe_scale == "learned" || pe_scale == "matched" || (number && std::isfinite(*number)),
          "pe_scale is a finite number, 'learned' or 'matched'");
}

AbsoluteEncoding::AbsoluteEncoding(const std::string& kind, const Shape& shape, const AbsoluteOptions& options)
    : PositionalEncoding(shape), options_(options) {
  if (options.pe_scale == "learned") {
    learned_scale_ = add_constant(kind, "scale", {}, 1 / std::sqrt(static_cast<double>(shape.width)), false);
  }
}

Tensor AbsoluteEncoding::add_to_tokens(LayerContext& context, const Tensor& x) {
  const Span& span = context.span;
  Tensor added = embed(context, context.positions.narrow(-1, span.keys - span.queries, span.queries));
  if (learned_scale_.defined()) {
    added = added * learned_scale_;
  } else {
    const double scale = options_.pe_scale == "matched" ? shape_.token_std / root_mean_square()
                                                        : *support::parse_real(options_.pe_scale);
    if (scale != 1) added = added * scale;
  }
  // In bfloat16 the slow channels of neighbours would be equal: the sum is rounded, not its terms.
  return (x.to(table_type(x.scalar_type())) + added).to(x.scalar_type());
}

}  // namespace pe::encodings
