/// @file
/// Plain causal attention by its definition.
#pragma once

#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <vector>

#include "encodings/attention/attend_plain.h"

namespace pe::test {

/// In float64: output, and gradients of q, k and v. @param above the gradient of the output
inline std::vector<at::Tensor> plain_by_definition(const encodings::PlainHeads& heads, const at::Tensor& above) {
  const auto precise = [](const at::Tensor& t) { return t.detach().to(at::kDouble).requires_grad_(true); };
  const at::Tensor q = precise(heads.q), k = precise(heads.k), v = precise(heads.v);
  const std::int64_t share = q.size(1) / k.size(1);
  const at::Tensor later = at::ones({q.size(2), q.size(2)}, q.options().dtype(at::kBool)).triu(1);
  const at::Tensor logits = at::matmul(q, k.repeat_interleave(share, 1).transpose(2, 3)) * heads.scale;
  const at::Tensor weights = at::softmax(logits.masked_fill(later, -std::numeric_limits<double>::infinity()), -1);
  const at::Tensor out = at::matmul(weights, v.repeat_interleave(share, 1));
  const std::vector<at::Tensor> gradients = torch::autograd::grad({out}, {q, k, v}, {above.to(at::kDouble)});
  return {out.detach(), gradients[0], gradients[1], gradients[2]};
}

}  // namespace pe::test
