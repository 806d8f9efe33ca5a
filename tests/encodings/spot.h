/// @file
/// Four tokens on which published formulas are worked out by hand, and functions that read single numbers from an
/// encoding.
#pragma once

#include <boost/test/unit_test.hpp>

#include "fixture.h"

namespace pe::test {

/// Four tokens, one head of width 2.
struct FourTokens {
  Tensor q = numbers({1, 0, 0, 1, 1, 1, 1, -1}, {1, 1, 4, 2});
  Tensor k = numbers({1, 1, 0, 1, -1, 1, 2, 0}, {1, 1, 4, 2});
  Tensor v = numbers({1, 0, 0, 1, 1, 1, 2, -1}, {1, 1, 4, 2});
  Tensor x;  ///< [1,4,2] where the encoding reads tokens
  encodings::Shape shape{.width = 2,
                         .layers = 1,
                         .query_heads = 1,
                         .key_value_heads = 1,
                         .head_width = 2,
                         .train_length = 4,
                         .dtype = at::kDouble};
  encodings::AttentionMatrices matrices;
  Tensor out;

  void run(encodings::PositionalEncoding& encoding) {
    encodings::State state = encodings::begin_pass(encoding, encodings::Span::whole(1, 4));
    encodings::LayerContext context = encodings::layer_context(encoding, state, 0, x);
    out = encodings::attend(encoding, context, {.q = q, .k = k, .v = v, .scale = 1 / std::sqrt(2.0)},
                            {.matrices = &matrices});
  }
  void run(const std::string& config) { run(*encodings::make_encoding(Json::parse(config), shape)); }
  Tensor weights(std::int64_t row) const { return matrices.weights[0][0][row]; }
  Tensor logits(std::int64_t row) const { return matrices.logits[0][0][row].narrow(0, 0, row + 1); }
};

inline void check(const Tensor& found, std::vector<double> expected, double unit = 1e-6) {
  const Tensor flat = found.detach().flatten();
  BOOST_REQUIRE_EQUAL(flat.numel(), static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double got = flat[i].item<double>();
    BOOST_TEST(std::abs(got - expected[i]) <= unit, "element " << i << ": expected " << expected[i] << ", got " << got);
  }
}

inline void check_near(double found, double expected, double unit = 1e-6) {
  BOOST_TEST(std::abs(found - expected) <= unit, "expected " << expected << ", got " << found);
}

/// Writes a parameter of the first layer, or the model's.
inline void set(encodings::PositionalEncoding& encoding, const std::string& short_name, const Tensor& value) {
  at::NoGradGuard no_grad;
  for (const encodings::Parameter& p : encoding.parameters()) {
    if (p.short_name == short_name && p.layer <= 0) return (void)Tensor(p.value).copy_(value.view_as(p.value));
  }
  BOOST_FAIL("no parameter " << short_name);
}

/// Bias of a query at position i and keys at positions 0 .. i, [H, i + 1].
inline Tensor bias_row(encodings::PositionalEncoding& encoding, std::int64_t i) {
  const encodings::Span span{.batch = 1, .queries = 1, .keys = i + 1};
  encodings::State state = encodings::begin_pass(encoding, span);
  encodings::LayerContext context = encodings::layer_context(encoding, state, 0);
  const std::int64_t heads = encoding.shape().query_heads, width = encoding.shape().head_width;
  encodings::AttentionMatrices matrices;
  const Tensor zero = at::zeros({1, heads, i + 1, width}, at::kDouble);
  encodings::attend(encoding, context, {.q = zero.narrow(2, 0, 1), .k = zero, .v = zero}, {.matrices = &matrices});
  return matrices.logits.view({heads, i + 1});
}

}  // namespace pe::test
