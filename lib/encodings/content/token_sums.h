/// @file
/// Sums over the tokens before each token that stop at the start of its document.
#pragma once

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

/// Row t holds row t − back of x, zeros where that is before the document. @param x [B,S,N].
Tensor earlier_rows(const Span& span, const Tensor& x, std::int64_t back);

/// y_t[n] = Σ_m taps[n, K − 1 − m]·x_{t−m}[n]: each channel for itself, the last tap on the token's own.
/// @param x [B,S,N]. @param taps [N,K].
Tensor causal_convolution(const Span& span, const Tensor& x, const Tensor& taps);

/// Σ_{s ≤ t} x_s. @param x [B,S,N].
Tensor running_total(const Span& span, const Tensor& x);

}  // namespace pe::encodings
