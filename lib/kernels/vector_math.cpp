#include "kernels/vector_math.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/acos.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log10.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/trunc.h>
#include <c10/core/InferenceMode.h>

namespace pe::kernels {

bool resolve_vector_math() {
  const c10::InferenceMode no_graph;
  // Functions that ATen/cpu/vml.h passes to MKL; tests/end_to_end/vector_math_test.cpp compares them with the library's
  // exports.
  using Function = at::Tensor (*)(const at::Tensor&);
  constexpr Function kFunctions[] = {at::acos, at::asin,  at::atan, at::cos, at::erf,  at::erfc, at::erfinv, at::exp,
                                     at::log,  at::log10, at::log2, at::sin, at::sqrt, at::tan,  at::tanh,   at::trunc};
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor x = at::full({1}, 0.5, type);  // one element: no thread but this one takes part
    for (const Function function : kFunctions) function(x);
  }
  return true;
}

}  // namespace pe::kernels
