#include "encodings/attention/toeplitz.h"

#include <torch/csrc/autograd/custom_function.h>

namespace pe::encodings {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// With u = [t_{end−1} … t_1 t_0 0 … 0], row i of the matrix is u from index end − 1 − i on. The rows in falling order
// are the windows of u: an unfold and a flip.
class ToeplitzFunction : public torch::autograd::Function<ToeplitzFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& table, std::int64_t begin, std::int64_t end,
                        std::int64_t keys) {
    context->saved_data["begin"] = begin;
    context->saved_data["end"] = end;
    context->saved_data["n"] = table.size(1);
    const std::int64_t rows = end - begin;
    const Tensor padded =
        at::constant_pad_nd(table.narrow(1, 0, end).flip(1), {0, std::max<std::int64_t>(0, rows - 1)});
    return padded.unfold(1, keys, 1).narrow(1, 0, rows).flip(1);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const std::int64_t begin = context->saved_data["begin"].toInt(), end = context->saved_data["end"].toInt(),
                       n = context->saved_data["n"].toInt();
    const Tensor& g = gradients[0];  // [H, rows, keys]
    const std::int64_t heads = g.size(0), rows = end - begin, keys = g.size(2), width = keys + rows - 1;
    // Each row one place further right than the row before: reading a buffer of row length `keys + rows` with row
    // length one less shifts it just so, and columns then hold diagonals.
    const Tensor flat = at::constant_pad_nd(g.flip(1), {0, rows}).reshape({heads, rows * (keys + rows)});
    const Tensor diagonals = flat.narrow(1, 0, rows * width).reshape({heads, rows, width}).sum(1);  // of u
    const std::int64_t used = std::min(end, width);
    Tensor out = at::zeros({heads, n}, g.options());
    out.narrow(1, end - used, used).copy_(diagonals.narrow(1, 0, used).flip(1));
    return {out, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor toeplitz(const Tensor& table, std::int64_t begin, std::int64_t end, std::int64_t keys) {
  return ToeplitzFunction::apply(table, begin, end, keys);
}

}  // namespace pe::encodings
