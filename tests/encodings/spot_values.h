/// @file
/// Common code of tests against numbers of papers. Include it in a test file.
#pragma once

#include "encodings/rotary/rotary.h"
#include "spot.h"

namespace pe::test {

using namespace pe::encodings;

/// q·k of one pair of tokens at given positions, after the encoding rotated them; no scale.
struct Score {
  std::unique_ptr<PositionalEncoding> encoding;
  std::vector<double> turned_q, turned_k;

  double operator()(const Tensor& q, const Tensor& k, std::int64_t m, std::int64_t n) {
    Span span = Span::whole(1, std::max(m, n) + 1);
    span.pe_len = pe_len;
    State state = begin_pass(*encoding, span);
    LayerContext context = layer_context(*encoding, state, 0);
    const std::int64_t width = q.numel();
    Heads heads{.q = q.view({1, 1, 1, width}).expand({1, 1, span.keys, width}),
                .k = k.view({1, 1, 1, width}).expand({1, 1, span.keys, width})};
    heads.v = heads.k;
    encoding->transform(context, heads);
    last_q = heads.q[0][0][m];
    last_k = heads.k[0][0][n];
    return at::dot(last_q, last_k).item<double>();
  }
  std::optional<std::int64_t> pe_len;
  Tensor last_q, last_k;
};

inline Tensor f8(bool query) {
  Tensor t = at::empty({8}, at::kDouble);
  for (int j = 0; j < 8; ++j) t[j] = query ? std::sin(0.1 * (j + 1)) : std::cos(0.2 * (j + 1));
  return t;
}

inline Score score(const std::string& config, std::int64_t width, std::int64_t train_length) {
  return {make_encoding(Json::parse(config),
                        {.width = width, .head_width = width, .train_length = train_length, .dtype = at::kDouble})};
}

inline std::vector<double> frequencies(const Score& score) {
  return dynamic_cast<Rotary&>(*score.encoding).frequencies({.pe_len = score.pe_len}).theta;
}

inline double attention_factor(const Score& score) {
  return dynamic_cast<Rotary&>(*score.encoding).frequencies({.pe_len = score.pe_len}).attention_factor;
}

/// The vector that an encoding adds to a token of zeros at a position, [d_m].
inline Tensor embedding(const std::string& config, std::int64_t width, std::int64_t position,
                        std::int64_t train_length = 8) {
  const auto encoding = make_encoding(
      Json::parse(config), {.width = width, .head_width = 2, .train_length = train_length, .dtype = at::kDouble});
  Span span = Span::whole(1, 1);
  span.first_position = position;
  State state = begin_pass(*encoding, span);
  return add_to_tokens(*encoding, at::zeros({1, 1, width}, at::kDouble), state)[0][0].detach();
}

}  // namespace pe::test
