/// @file
/// Attention with an encoding. It takes the cheapest route, by fused kernels or in rows, that is exact for the
/// encoding. Stages S2 to S8 run here.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

enum class Route {
  kAuto,
  kReference,  ///< explicit logits for all rows together; the definition
  kFused,      ///< a fused kernel: bare, with extra channels, or with an additive mask
  kChunked,    ///< ranges of rows, computed again for the gradient; never a T×S tensor for all rows
};

/// Attention of all query rows, for probes and `pe-score`. Needs the reference route.
struct AttentionMatrices {
  Tensor logits;   ///< [B,H,T,S] after scale, bias and rewriting; −inf where masked
  Tensor weights;  ///< [B,H,T,S]
};

/// Attention of a range of query rows. Valid during the call.
struct AttentionRows {
  const Rows& rows;       ///< q and k after S2 among them
  const Tensor& logits;   ///< [B,H,rows,keys] after scale, bias and rewriting; −inf where masked
  const Tensor& weights;  ///< [B,H,rows,keys]
};
using RowHook = std::function<void(const AttentionRows& rows)>;

struct AttendOptions {
  Route route = Route::kAuto;
  std::int64_t chunk_rows = 0;  ///< most query rows at a time on the chunked route; 0: 128 on a CPU, 1,024 on a GPU
  std::int64_t mask_bytes = std::int64_t{256} << 20;  ///< a larger mask is not made; the rows go in chunks
  AttentionMatrices* matrices = nullptr;              ///< not null: the reference route, and filled
  /// Not null: ranges of rows go through the definition in order, without gradients, and it is called for each. Never a
  /// T×S tensor for all rows.
  const RowHook* row_hook = nullptr;
};

/// Attention. q [B,H,T,d_h] (fewer heads where the encoding makes several of each: projected_heads()), k and v
/// [B,G,S,d_h]; query row r sees keys 0 .. S − T + r of its document, or without Span::causal all of its document.
/// @return [B,H,T,d_h], dtype of q.
/// @throws ShapeError when shapes disagree with the span; ConfigError when a forced route cannot carry the encoding.
Tensor attend(PositionalEncoding& encoding, LayerContext& context, Heads heads, const AttendOptions& options = {});

/// The route that `attend` takes in layer 0, as text for logs: "fused", "fused, extra channels", "fused, additive
/// mask", "chunked", "reference". On a GPU "fused" names whose kernel it is.
/// @param needs_grad whether gradients will be asked for (parameters of a bias included).
std::string route_name(PositionalEncoding& encoding, const Span& span, at::ScalarType dtype, bool needs_grad,
                       const AttendOptions& options = {});

}  // namespace pe::encodings
