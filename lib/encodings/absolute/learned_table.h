/// @file
/// A trained vector for each position, added to the token embeddings; each member chooses the initial rows.
#pragma once

#include <string>

#include "encodings/absolute/absolute.h"

namespace pe::encodings {

/// Rule for a position that exceeds the table: an error; the last row; the initial row of a longer table; or the table
/// stretched over the current length. Nothing wraps around.
enum class Overflow { kError, kClamp, kUntrained, kInterpolate };

struct LearnedTableOptions : AbsoluteOptions {
  std::optional<std::int64_t> max_positions;
  Overflow overflow = Overflow::kError;
  void describe(support::FieldVisitor& v);
};

class LearnedTable : public AbsoluteEncoding {
 public:
  Facts facts() const override;

 protected:
  /// The member calls `add_table` when it knows its rows.
  LearnedTable(const std::string& kind, const LearnedTableOptions& options, const Shape& shape);
  void add_table();

  /// Rows begin .. begin + count − 1 as they start, [count,d_m] float64, however long the table is.
  virtual Tensor initial_rows(std::int64_t begin, std::int64_t count) const = 0;
  Tensor embed(const LayerContext& context, const Tensor& positions) final;

  std::string kind_;

 private:
  Tensor lookup(const Tensor& table, const Tensor& positions) const;
  Tensor stretched(const Span& span, const Tensor& positions, std::int64_t last) const;

  LearnedTableOptions options_;
  std::int64_t rows_;
  Tensor table_;  // [L_max, d_m]
};

}  // namespace pe::encodings
