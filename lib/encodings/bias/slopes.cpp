#include "encodings/bias/slopes.h"

#include "support/text.h"

namespace pe::encodings {

std::vector<double> alibi_slopes(std::int64_t heads) {
  const auto geometric = [](std::int64_t count) {
    std::vector<double> slopes(count);
    for (std::int64_t h = 0; h < count; ++h) {
      slopes[h] = std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(count));
    }
    return slopes;
  };
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<double> slopes = geometric(power);
  const std::vector<double> finer = geometric(2 * power);
  for (std::int64_t i = 0; static_cast<std::int64_t>(slopes.size()) < heads; i += 2) slopes.push_back(finer[i]);
  return slopes;
}

SlopeBias::SlopeBias(const std::string& kind, std::vector<double> slopes, const Shape& shape)
    : PositionalEncoding(shape), slopes_(std::move(slopes)) {
  if (static_cast<std::int64_t>(slopes_.size()) != shape.query_heads) {
    throw support::ConfigError(
        support::cat("encoding '", kind, "' has ", slopes_.size(), " slopes for ", shape.query_heads, " query heads"),
        {}, "give one slope for each head, or leave slopes empty");
  }
  powers_of_two_ = std::all_of(slopes_.begin(), slopes_.end(), [](double m) {
    int exponent;
    return m == 0 || std::abs(std::frexp(m, &exponent)) == 0.5;
  });
}

// −m(i − j) is m·j up to a constant of the row.
Channels SlopeBias::channels(LayerContext& context, const Heads& heads) {
  const at::ScalarType type = table_type(heads.q.scalar_type());
  const at::TensorOptions options = heads.q.options().dtype(type).requires_grad(false);
  const std::int64_t keys = context.span.keys, queries = context.span.queries;
  const Tensor place = at::arange(keys, options).view({1, 1, keys, 1});
  const Tensor m = slope_tensor(heads.q, type).view({1, -1, 1, 1});
  if (shape_.query_heads == shape_.key_value_heads) {
    return {.query = at::ones({1, 1, queries, 1}, options), .key = m * place, .query_pieces = 1, .key_pieces = 3};
  }
  // Heads that share keys differ in their slopes, so these are on the query's side. A place below 2^16 is two
  // numbers of eight bits.
  return {.query = m.expand({1, -1, queries, 1}),
          .key = place,
          .query_pieces = powers_of_two_ ? 1 : 3,
          .key_pieces = keys <= 65536 ? 2 : 3};
}

Tensor SlopeBias::table(LayerContext& context, std::int64_t n) {
  const at::ScalarType type = table_type(shape_.dtype);
  const Tensor d = at::arange(n, at::TensorOptions(type).device(context.span.device));
  return slope_tensor(d, type).unsqueeze(1) * -d;
}

Tensor SlopeBias::bias(const Rows& rows) {
  const at::ScalarType type = table_type(rows.q.scalar_type());
  const Tensor d = rows.distances().to(type);  // [rows,keys] or [B,1,rows,keys]
  return slope_tensor(rows.q, type).view({1, -1, 1, 1}) * -d;
}

Tensor SlopeBias::slope_tensor(const Tensor& like, at::ScalarType type) const {
  return at::tensor(slopes_, at::TensorOptions(at::kDouble)).to(like.options().dtype(type).requires_grad(false));
}

}  // namespace pe::encodings
