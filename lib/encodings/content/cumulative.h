/// @file
/// Base of biases that sum a value of each token between a key and a query: FoX, CABLE, PaTH-FoX.
#pragma once

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

/// A linear map of the tokens, [B,S,d_m] → [B,H,S], at least float32. It reads context.x unchanged.
/// @param weight [H,d_m]. @param bias [H] or undefined. @throws ShapeError where x is missing.
Tensor token_scores(const LayerContext& context, const Tensor& weight, const Tensor& bias);

/// c_i of the query rows and c_j of the keys as [B,H,rows,1] and [B,H,1,keys], from running sums c [B,H,S].
struct RunningSums {
  Tensor query, key;
};
RunningSums running_sums(const Rows& rows, const Tensor& c);

}  // namespace pe::encodings
