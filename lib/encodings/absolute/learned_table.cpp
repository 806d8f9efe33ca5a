#include "encodings/absolute/learned_table.h"

#include "support/text.h"

namespace pe::encodings {

using support::cat;

void LearnedTableOptions::describe(support::FieldVisitor& v) {
  v.field("max_positions", max_positions, "Rows of the table; auto: the training length.",
          {.unit = "tokens", .min = 1});
  v.choice("overflow", overflow,
           {{"error", Overflow::kError},
            {"clamp", Overflow::kClamp},
            {"untrained", Overflow::kUntrained},
            {"interpolate", Overflow::kInterpolate}},
           "Rows of positions beyond the table: an error, the last row, initial rows, or the table stretched "
           "linearly over the length of the pass.");
  AbsoluteOptions::describe(v);
}

LearnedTable::LearnedTable(const std::string& kind, const LearnedTableOptions& options, const Shape& shape)
    : AbsoluteEncoding(kind, shape, options),
      kind_(kind),
      options_(options),
      rows_(options.max_positions.value_or(shape.train_length)) {
  if (rows_ < 1) throw support::ConfigError(cat("encoding '", kind, "' needs max_positions, the rows of its table"));
}

void LearnedTable::add_table() {
  table_ = add_parameter(kind_, "table", initial_rows(0, rows_), /*weight_decay=*/false);
}

Facts LearnedTable::facts() const {
  Facts facts{.shift_invariant = ShiftInvariance::kNever,
              .learned = true,
              .length_dependent = options_.overflow == Overflow::kInterpolate};
  if (options_.overflow == Overflow::kError) facts.max_positions = rows_;
  return facts;
}

Tensor LearnedTable::embed(const LayerContext& context, const Tensor& positions) {
  const Span& span = context.span;
  // Contiguous positions are known here; mapped positions must be searched for their largest.
  const bool runs = context.contiguous && !span.restart_positions;
  if (!runs && options_.overflow != Overflow::kInterpolate && context.bounds && context.bounds->first >= 0 &&
      context.bounds->second < rows_) {
    return lookup(table_, positions);
  }
  const std::int64_t last = runs ? span.first_position + span.keys - 1 : positions.max().item<std::int64_t>();
  const std::int64_t first =
      runs ? span.first_position + span.keys - span.queries : positions.min().item<std::int64_t>();
  if (first < 0) throw RangeError(cat("position ", first, " lies before the table of encoding '", kind_, "'"));
  if (options_.overflow == Overflow::kInterpolate) return stretched(span, positions, last);
  if (last < rows_) return runs ? table_.narrow(0, first, span.queries) : lookup(table_, positions);
  if (options_.overflow == Overflow::kClamp) return lookup(table_, positions.clamp(0, rows_ - 1));
  if (options_.overflow == Overflow::kUntrained) {
    const Tensor beyond = initial_rows(rows_, last + 1 - rows_).to(table_.options().requires_grad(false));
    return lookup(at::cat({table_, beyond}, 0), positions);
  }
  throw RangeError(
      cat("position ", last, " lies beyond the ", rows_, " rows of encoding '", kind_, "' (max_positions)"),
      "raise max_positions before training, or set overflow to clamp, untrained or interpolate");
}

Tensor LearnedTable::lookup(const Tensor& table, const Tensor& positions) const {
  if (positions.is_floating_point()) {
    throw support::ConfigError(
        cat("encoding '", kind_, "' has a row for each whole position, and the position map gives fractions"));
  }
  std::vector<std::int64_t> sizes = positions.sizes().vec();
  sizes.push_back(table.size(1));
  return table.index_select(0, positions.flatten()).view(sizes);
}

/// Place p·(L − 1)/(L′ − 1), end points aligned, between its two rows.
Tensor LearnedTable::stretched(const Span& span, const Tensor& positions, std::int64_t last) const {
  if (!span.pe_len) {
    throw support::ConfigError(
        cat("encoding '", kind_, "' with overflow: interpolate needs pe_len, the length that it works at"));
  }
  const std::int64_t length = *span.pe_len;
  if (last >= std::max(length, rows_)) {
    throw RangeError(cat("position ", last, " exceeds pe_len ", length, " of encoding '", kind_, "'"));
  }
  if (length <= rows_) return lookup(table_, positions);
  const Tensor place = positions.to(at::kDouble) * (static_cast<double>(rows_ - 1) / static_cast<double>(length - 1));
  const Tensor low = place.floor().to(at::kLong).clamp(0, rows_ - 1), high = (low + 1).clamp_max(rows_ - 1);
  const Tensor weight = (place - low).unsqueeze(-1).to(table_.scalar_type());
  return lookup(table_, low) * (1 - weight) + lookup(table_, high) * weight;
}

}  // namespace pe::encodings
