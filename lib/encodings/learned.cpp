// A trained vector for each position, added to the token embeddings.
#include "encodings/absolute.h"
#include "encodings/registry.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using support::cat;

// What a position beyond the table gets: an error; the last row; the noise that an untrained row would hold; or the
// table stretched over the length in hand. Nothing wraps around.
enum class Overflow { kError, kClamp, kUntrained, kInterpolate };

struct LearnedOptions : AbsoluteOptions {
  std::optional<std::int64_t> max_positions;
  double init_std = 0.02;
  Overflow overflow = Overflow::kError;
  void describe(support::FieldVisitor& v) {
    v.field("max_positions", max_positions, "Rows of the table; auto: the training length.",
            {.unit = "tokens", .min = 1});
    v.field("init_std", init_std, "Standard deviation of the initial table.", {.min = 0});
    v.choice("overflow", overflow,
             {{"error", Overflow::kError}, {"clamp", Overflow::kClamp}, {"untrained", Overflow::kUntrained},
              {"interpolate", Overflow::kInterpolate}},
             "What positions beyond the table get: an error, the last row, rows of initial noise, or the table "
             "stretched linearly over the length of the pass.");
    AbsoluteOptions::describe(v);
  }
};

class Learned : public AbsoluteEncoding {
 public:
  Learned(const LearnedOptions& options, const Shape& shape)
      : AbsoluteEncoding("learned", shape, options), options_(options),
        rows_(options.max_positions.value_or(shape.train_length)) {
    if (rows_ < 1) throw support::ConfigError("encoding 'learned' needs max_positions, the rows of its table");
    table_ = add_normal("learned", "table", {rows_, shape.width}, 0, options.init_std, false);
  }

  Facts facts() const override {
    Facts facts{.shift_invariant = ShiftInvariance::kNever, .learned = true,
                .length_dependent = options_.overflow == Overflow::kInterpolate};
    if (options_.overflow == Overflow::kError) facts.max_positions = rows_;
    return facts;
  }

 protected:
  Tensor embed(const LayerContext& context, const Tensor& positions) override {
    const Span& span = context.span;
    // Positions that run are known here; those that a map made must be asked for their largest.
    const bool runs = context.contiguous && !span.restart_positions;
    const std::int64_t last = runs ? span.first_position + span.keys - 1 : positions.max().item<std::int64_t>();
    const std::int64_t first =
        runs ? span.first_position + span.keys - span.queries : positions.min().item<std::int64_t>();
    if (first < 0) throw RangeError(cat("position ", first, " lies before the table of encoding 'learned'"));
    if (options_.overflow == Overflow::kInterpolate) return stretched(span, positions, last);
    if (last < rows_) return runs ? table_.narrow(0, first, span.queries) : lookup(table_, positions);
    if (options_.overflow == Overflow::kClamp) return lookup(table_, positions.clamp(0, rows_ - 1));
    if (options_.overflow == Overflow::kUntrained) return lookup(with_noise(last + 1), positions);
    throw RangeError(cat("position ", last, " lies beyond the ", rows_, " rows of encoding 'learned' (max_positions)"),
                     "raise max_positions before training, or set overflow to clamp, untrained or interpolate");
  }
  double root_mean_square() const override { return options_.init_std; }

 private:
  static Tensor lookup(const Tensor& table, const Tensor& positions) {
    if (positions.is_floating_point()) {
      throw support::ConfigError(
          "encoding 'learned' has a row for each whole position, and the position map gives fractions");
    }
    std::vector<std::int64_t> sizes = positions.sizes().vec();
    sizes.push_back(table.size(1));
    return table.index_select(0, positions.flatten()).view(sizes);
  }

  /// The rows that a longer table would have started with: drawn by name, they are where they would have been.
  Tensor with_noise(std::int64_t rows) const {
    const std::int64_t extra = rows - rows_, width = shape_.width;
    Tensor noise = at::empty({extra, width}, at::kDouble);
    support::philox_normal(support::make_key({shape_.seed, support::fnv1a64("encoding.learned.table")}),
                           noise.mutable_data_ptr<double>(), static_cast<std::size_t>(extra * width),
                           static_cast<std::size_t>(rows_ * width));
    return at::cat({table_, (noise * options_.init_std).to(table_.options())}, 0);
  }

  /// Place p·(L − 1)/(L′ − 1), end points aligned, between its two rows.
  Tensor stretched(const Span& span, const Tensor& positions, std::int64_t last) const {
    if (!span.pe_len) {
      throw support::ConfigError(
          "encoding 'learned' with overflow: interpolate needs pe_len, the length that it works at");
    }
    const std::int64_t length = *span.pe_len;
    if (last >= std::max(length, rows_)) {
      throw RangeError(cat("position ", last, " lies beyond pe_len ", length, " of encoding 'learned'"));
    }
    if (length <= rows_) return lookup(table_, positions);
    const Tensor place = positions.to(at::kDouble) * (static_cast<double>(rows_ - 1) / static_cast<double>(length - 1));
    const Tensor low = place.floor().to(at::kLong).clamp(0, rows_ - 1), high = (low + 1).clamp_max(rows_ - 1);
    const Tensor weight = (place - low).unsqueeze(-1).to(table_.scalar_type());
    return lookup(table_, low) * (1 - weight) + lookup(table_, high) * weight;
  }

  LearnedOptions options_;
  std::int64_t rows_;
  Tensor table_;   // [L_max, d_m]
};

}  // namespace

EncodingEntry learned_entry() {
  return with_options<Learned, LearnedOptions>(
      {.name = "learned",
       .aliases = {"learned_ape", "gpt2"},
       .summary = "Adds a trained vector for each position to the token embeddings.",
       .reference = "Radford et al. 2019 (GPT-2)",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .learned = true, .max_positions = 0},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .parameters = "train_length*width",
       .formula = "x_p += scale·P[p], P a trained table [max_positions, d_m], P ~ N(0, init_std²)",
       .known_for = "GPT-2's and BERT's encoding: flexible within the table, and nothing beyond it, since rows that "
                    "training never reached are noise.",
       .errata = {"The claim of a toy study that learned positions always win rests on models that differ in more than "
                  "the encoding: some had no residuals and no causal mask."}});
}

}  // namespace pe::encodings
