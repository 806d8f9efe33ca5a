// BiPE: a trained vector for the place in a sentence, and rotations or slopes by the number of the sentence.
#include "encodings/attention/stack.h"
#include "encodings/attention/token_reader.h"
#include "encodings/bias/slopes.h"
#include "encodings/registry.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

enum class InterSegment { kRope, kAlibi };

struct BipeOptions {
  InterSegment inter = InterSegment::kRope;
  std::vector<std::string> separators = {"\n", "."};
  std::optional<std::int64_t> intra_positions;
  double base = 10000;
  void describe(support::FieldVisitor& v) {
    v.choice("inter", inter, {{"rope", InterSegment::kRope}, {"alibi", InterSegment::kAlibi}},
             "Between segments: rotations, or slopes 96 times the slopes of alibi, both by the numbers of the "
             "segments.");
    v.field("separators", separators,
            "Endings of a segment: a token whose text ends with one of these is the last of its segment.");
    v.field("intra_positions", intra_positions,
            "Rows of the table of places; auto: the training length. Later places of a segment share the last row.",
            {.unit = "tokens", .min = 1});
    v.field("base", base, "Base of the rotations.", {.min = 1});
  }
};

/// Positions are numbers of segments; each token also gets its place in the segment.
class Segments : public PositionalEncoding, public ReadsTokens {
 public:
  Segments(const BipeOptions& options, const Shape& shape)
      : PositionalEncoding(shape), separators_(options.separators) {
    const std::int64_t rows = options.intra_positions.value_or(shape.train_length);
    if (rows < 1) throw support::ConfigError("encoding 'bipe' needs intra_positions, the rows of its table");
    table_ = add_normal("bipe", "table", {rows, shape.width}, 0, 0.02, /*weight_decay=*/false);
  }

  Facts facts() const override { return {.shift_invariant = ShiftInvariance::kNever, .learned = true}; }
  Traits traits(const Span& span) const override { return {.adds_to_tokens = true, .maps_positions = true}; }
  bool needs_causal_mask() const override { return false; }

  Json reads() const override { return {{"reads", "segments"}, {"separators", separators_}}; }
  std::int64_t channels() const override { return 2; }
  Tensor positions_by(const Tensor& numbers, int layer, const Span& span) const override {
    const Tensor segment = numbers.select(-1, 1);
    return segment.size(0) == 1 ? segment.squeeze(0) : segment;
  }

  Tensor add_to_tokens(LayerContext& context, const Tensor& x) override {
    const Span& span = context.span;
    const Tensor places = numbers_of(context.state).select(-1, 0).narrow(1, span.keys - span.queries, span.queries);
    const Tensor place = places.clamp_max(table_.size(0) - 1);
    const Tensor rows = table_.index_select(0, place.flatten()).view({place.size(0), place.size(1), shape_.width});
    return x + rows.to(x.scalar_type());
  }

 private:
  std::vector<std::string> separators_;
  Tensor table_;  // [P, d_m]
};

std::unique_ptr<PositionalEncoding> make_bipe(const Json& given, const Shape& shape) {
  const auto options = support::make_config<BipeOptions>(given, "encoding 'bipe'");
  std::vector<StackMember> members;
  members.push_back({"bipe", std::make_unique<Segments>(options, shape)});
  if (options.inter == InterSegment::kRope) {
    members.push_back({"rope", make_encoding({{"kind", "rope"}, {"base", options.base}}, shape)});
  } else {
    std::vector<double> steep = alibi_slopes(shape.query_heads);
    for (double& slope : steep) slope *= 96;
    members.push_back({"alibi", std::make_unique<SlopeBias>("bipe", std::move(steep), shape)});
  }
  return make_stack(std::move(members), shape);
}

}  // namespace

EncodingEntry bipe_entry() {
  return {
      .name = "bipe",
      .summary =
          "Adds a trained vector for the place of a token in its sentence, and rotates by the number of the sentence.",
      .reference = "He et al. 2024, arXiv:2401.16421",
      .facts = {.shift_invariant = ShiftInvariance::kNever, .rotates = true, .learned = true},
      .family = Family::kCombination,
      .acts_on = "token embeddings, positions, q and k",
      .parameters = "train_length*width",
      .formula =
          "x_t += P[min(place of t in its segment, intra_positions − 1)], P ~ N(0, 0.02²), places from 0\n"
          "a segment ends with the token whose text ends with a separator\n"
          "then rope, or alibi with 96 times its slopes, with the numbers of the segments for positions",
      .known_for = "Its paper reports length extrapolation: longer texts have more sentences, but hardly longer ones.",
      .errata = {"The released code splits texts at two ids: a separate full stop and a newline. A full stop in one "
                 "token with its word ends a segment only in this project.",
                 "Within a segment, order comes from the added vectors alone, and segments longer than the table share "
                 "its last row."},
      .fields = support::schema_of<BipeOptions>(),
      .make = make_bipe};
}

}  // namespace pe::encodings
