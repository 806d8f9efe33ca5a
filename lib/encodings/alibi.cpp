// ALiBi: a penalty proportional to distance, with a fixed slope for each head.
#include "encodings/registry.h"
#include "encodings/slopes.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

struct AlibiOptions {
  std::vector<double> slopes;
  void describe(support::FieldVisitor& v) {
    v.field("slopes", slopes, "One slope for each query head; empty: the paper's geometric ones.");
  }
};

class Alibi : public PositionalEncoding {
 public:
  Alibi(const AlibiOptions& options, const Shape& shape)
      : PositionalEncoding(shape), slopes_(options.slopes.empty() ? alibi_slopes(shape.query_heads) : options.slopes) {
    if (static_cast<std::int64_t>(slopes_.size()) != shape.query_heads) {
      throw support::ConfigError(support::cat("encoding 'alibi' has ", slopes_.size(), " slopes for ",
                                              shape.query_heads, " query heads"),
                                 {}, "give one slope for each head, or leave slopes empty");
    }
    powers_of_two_ = std::all_of(slopes_.begin(), slopes_.end(), [](double m) {
      int exponent;
      return m == 0 || std::abs(std::frexp(m, &exponent)) == 0.5;
    });
  }

  Traits traits(const Span& span) const override { return {.bias = BiasKind::kChannels}; }

  // −m(i − j) is m·j up to a constant of the row.
  Channels channels(LayerContext& context, const Heads& heads) override {
    const at::ScalarType type = table_type(heads.q.scalar_type());
    const at::TensorOptions options = heads.q.options().dtype(type);
    const std::int64_t keys = context.span.keys, queries = context.span.queries;
    const Tensor place = at::arange(keys, options).view({1, 1, keys, 1});
    const Tensor m = slope_tensor(heads.q, type).view({1, -1, 1, 1});
    if (shape_.query_heads == shape_.key_value_heads) {
      return {.query = at::ones({1, 1, queries, 1}, options), .key = m * place, .query_pieces = 1, .key_pieces = 3};
    }
    // Heads that share keys differ in their slopes, so these stand on the query's side. A place below 2^16 is two
    // numbers of eight bits.
    return {.query = m.expand({1, -1, queries, 1}), .key = place, .query_pieces = powers_of_two_ ? 1 : 3,
            .key_pieces = keys <= 65536 ? 2 : 3};
  }

  Tensor bias(const Rows& rows) override {
    const at::ScalarType type = table_type(rows.q.scalar_type());
    const Tensor d = rows.distances().to(type);   // [rows,keys] or [B,1,rows,keys]
    return slope_tensor(rows.q, type).view({1, -1, 1, 1}) * -d;
  }

 private:
  Tensor slope_tensor(const Tensor& like, at::ScalarType type) const {
    return torch::tensor(slopes_, at::TensorOptions(at::kDouble)).to(like.options().dtype(type));
  }

  std::vector<double> slopes_;
  bool powers_of_two_ = false;
};

}  // namespace

EncodingEntry alibi_entry() {
  return with_options<Alibi, AlibiOptions>(
      {.name = "alibi",
       .summary = "Subtracts from each logit its distance times a slope of the head.",
       .reference = "Press et al. 2021, arXiv:2108.12409",
       .family = Family::kBias,
       .acts_on = "logits",
       .formula = "logit(i,j) += −m_h·(i − j)\n"
                  "m_h = 2^(−8(h+1)/H) for H = 2^a heads; otherwise those of the largest power of two P ≤ H, then "
                  "every other one of 2P heads",
       .known_for = "Perplexity stays flat far beyond the training length; finding one fact far away does not, since "
                    "steep heads cannot see it.",
       .errata = {"With a number of heads that is no power of two the slopes are appended, so they do not fall from "
                  "head to head; many copies use the plain formula instead.",
                  "The penalty is not divided by √d_h.",
                  "In bfloat16 a bias of more than 256 loses whole distances: here it is float32, or three bfloat16 "
                  "channels."}});
}

}  // namespace pe::encodings
