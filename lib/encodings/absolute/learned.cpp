// A trained vector for each position, added to the token embeddings; each member chooses the initial rows.
#include <string>

#include "encodings/absolute/absolute.h"
#include "encodings/registry.h"
#include "encodings/rotary/rotary_cache.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

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
  throw RangeError(cat("position ", last, " is beyond the ", rows_, " rows of encoding '", kind_, "' (max_positions)"),
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

struct LearnedOptions : LearnedTableOptions {
  double init_std = 0.02;
  void describe(support::FieldVisitor& v) {
    v.field("init_std", init_std, "Standard deviation of the initial table.", {.min = 0});
    LearnedTableOptions::describe(v);
    v.check(init_std > 0 || pe_scale != "matched", "pe_scale: matched needs an init_std above 0");
  }
};

/// A trained vector for each position, added to the token embeddings.
class LearnedPositions : public LearnedTable {
 public:
  LearnedPositions(const LearnedOptions& options, const Shape& shape)
      : LearnedTable("learned", options, shape), init_std_(options.init_std) {
    add_table();
  }

 protected:
  // Drawn by name and place, rows are the same however long the table is.
  Tensor initial_rows(std::int64_t begin, std::int64_t count) const override {
    const std::int64_t width = shape_.width;
    Tensor noise = at::empty({count, width}, at::kDouble);
    support::philox_normal(support::make_key({shape_.seed, support::fnv1a64("encoding.learned.table")}),
                           noise.mutable_data_ptr<double>(), static_cast<std::size_t>(count * width),
                           static_cast<std::size_t>(begin * width));
    return noise * init_std_;
  }
  double root_mean_square() const override { return init_std_; }

 private:
  double init_std_;
};

struct SinInitOptions : LearnedTableOptions {
  double base = 10000;
  void describe(support::FieldVisitor& v) {
    v.field("base", base, "Initial wavelengths grow from 2π to 2π·base tokens.", {.min = 1});
    LearnedTableOptions::describe(v);
  }
};

/// A trained vector for each position that starts as the sinusoid.
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

EncodingEntry learned_entry() {
  return with_options<LearnedPositions, LearnedOptions>(
      {.name = "learned",
       .aliases = {"learned_ape", "gpt2"},
       .summary = "Adds a trained vector for each position to the token embeddings.",
       .reference = "Radford et al. 2019 (GPT-2)",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .learned = true, .max_positions = 0},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .parameters = "train_length*width",
       .formula = "x_p += scale·P[p], P a trained table [max_positions, d_m], P ~ N(0, init_std²)",
       .known_for = "The encoding of GPT-2 and BERT. It is flexible within the table and undefined beyond it: rows "
                    "beyond the training length are untrained.",
       .errata = {"A toy study claims that learned positions always win, but its models differ in more than the "
                  "encoding: some had no residuals and no causal mask."}});
}

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
