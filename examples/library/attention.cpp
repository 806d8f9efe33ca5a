// Positional encodings of pe-pipeline in your program: four ways, from least to most of our code.
#include <ATen/ATen.h>

#include <cmath>
#include <cstdio>

#include "encodings/attention/attend.h"
#include "encodings/registry.h"

using namespace pe::encodings;

int main() {
  const std::int64_t batch = 2, tokens = 16, heads = 4, head_width = 8, width = 32;
  const Shape shape{.width = width,
                    .layers = 1,
                    .query_heads = heads,
                    .key_value_heads = heads,
                    .head_width = head_width,
                    .train_length = tokens};
  const Span span = Span::whole(batch, tokens);

  // 1. Add to token embeddings.
  const auto sinusoidal = make_encoding("sinusoidal", shape);
  State state = begin_pass(*sinusoidal, span);
  const Tensor x = add_to_tokens(*sinusoidal, at::zeros({batch, tokens, width}), state);
  std::printf("x[0, 1, 0] = %.6f\n", x[0][1][0].item<double>());

  // 2. Rotate q and k, and continue with your attention. Options are JSON, as in a config.
  const auto rope = make_encoding({{"kind", "rope"}, {"base", 500000.0}}, shape);
  state = begin_pass(*rope, span);
  LayerContext context = layer_context(*rope, state, /*layer=*/0);
  Heads turned{.q = at::ones({batch, heads, tokens, head_width}), .k = at::ones({batch, heads, tokens, head_width})};
  rope->transform(context, turned);
  std::printf("q·k over 5 tokens = %.6f\n", at::dot(turned.q[0][0][10], turned.k[0][0][5]).item<double>());

  // 3. A bias for a length: [heads, distances].
  const auto t5 = make_encoding("t5", shape);
  state = begin_pass(*t5, span);
  LayerContext biased = layer_context(*t5, state, 0);
  const Tensor table = t5->table(biased, tokens);
  std::printf("bias table: %ld heads, %ld distances, %ld learned numbers\n", static_cast<long>(table.size(0)),
              static_cast<long>(table.size(1)), static_cast<long>(t5->parameters().at(0).value.numel()));

  // 4. The whole attention, by the cheapest exact route, with gradients for q, k, v and the encoding's parameters.
  const auto whole = make_encoding({{"stack", {"rope", "alibi", "ssmax"}}}, shape);
  state = begin_pass(*whole, span);
  LayerContext attention = layer_context(*whole, state, 0);
  const Tensor q = at::ones({batch, heads, tokens, head_width}).requires_grad_(true), v = at::randn_like(q);
  const Tensor out = attend(*whole, attention, {.q = q, .k = q, .v = v, .scale = 1 / std::sqrt(double(head_width))});
  out.sum().backward();
  std::printf("route: %s; gradient of ssmax's s: %ld numbers\n", route_name(*whole, span, at::kFloat, true).c_str(),
              static_cast<long>(whole->parameters().at(0).value.grad().numel()));
  return 0;
}
