#include "kernels/product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/product_bf16.h"

namespace pe::kernels {
namespace {

using at::Tensor;

/// c (+)= a · b in bf16 where the config asks for it, else by our kernel where it is faster. That is narrow products,
/// which a library packs for longer than it multiplies. @return false where it is not.
bool by_own_kernel(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate) {
  const Bf16Table* bf16 = bf16_products_of(a);
  if (bf16 != nullptr && bf16_products_of(b) != nullptr && bf16_products_of(c) != nullptr && c.stride(1) == 1) {
    product_in_bf16(*bf16, a, b, c, accumulate);
    return true;
  }
  const auto gemm = cpu_table().gemm;
  if (gemm == nullptr || cpu_for(a) == nullptr || cpu_for(b) == nullptr || cpu_for(c) == nullptr) return false;
  const std::int64_t rows = a.size(0), depth = a.size(1), columns = b.size(1);
  if (std::min({rows, depth, columns}) > 256 || rows < 8 || c.stride(1) != 1) return false;
  const float *pa = a.data_ptr<float>(), *pb = b.data_ptr<float>();
  float* pc = c.data_ptr<float>();
  // Every thread packs the part of b that it reads, so threads share the longer side.
  const bool by_columns = columns > rows;
  const std::int64_t side = by_columns ? columns : rows, unit = by_columns ? 64 : 8;
  const std::int64_t grain =
      std::max<std::int64_t>(1, (std::int64_t{1} << 19) / (unit * depth * (by_columns ? rows : columns)));
  at::parallel_for(0, (side + unit - 1) / unit, grain, [&](std::int64_t first, std::int64_t last) {
    thread_local std::vector<float> scratch(static_cast<std::size_t>(kGemmScratch));
    const std::int64_t begin = first * unit, count = std::min(side, last * unit) - begin;
    if (by_columns) {
      gemm({rows, count, depth, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0)}, pa,
           pb + begin * b.stride(1), pc + begin, scratch.data(), accumulate);
    } else {
      gemm({count, columns, depth, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0)},
           pa + begin * a.stride(0), pb, pc + begin * c.stride(0), scratch.data(), accumulate);
    }
  });
  return true;
}

}  // namespace

void product_into(Tensor& to, const Tensor& a, const Tensor& b) {
  if (!by_own_kernel(a, b, to, false)) at::mm_out(to, a, b);
}

Tensor product(const Tensor& a, const Tensor& b) {
  Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  product_into(result, a, b);
  return result;
}

Tensor wide_product(const Tensor& a, const Tensor& b) {
  if (a.scalar_type() != at::kBFloat16) return product(a, b);
  return a.is_cuda() ? at::mm(a, b, at::kFloat) : at::mm(a.to(at::kFloat), b.to(at::kFloat));
}

Tensor wide_products(const Tensor& a, const Tensor& b, at::ScalarType type) {
  if (!a.is_cuda()) return at::bmm(a.to(at::kFloat), b.to(at::kFloat)).to(type);
  return a.scalar_type() == type ? at::bmm(a, b) : at::bmm(a, b, type);
}

Tensor sum_with_product(const Tensor& base, const Tensor& a, const Tensor& b) {
  Tensor sum = base.clone(at::MemoryFormat::Contiguous);
  if (!by_own_kernel(a, b, sum, true)) sum.addmm_(a, b);
  return sum;
}

void add_product(const Tensor& gradient, const Tensor& a, const Tensor& b) {
  if (!gradient.defined()) return;
  const bool widens = gradient.scalar_type() != a.scalar_type();
  if (widens && a.is_cuda()) {  // summed where the product is, so that it is never rounded to bf16
    Tensor sum = gradient;
    at::addmm_out(sum, gradient, a.t(), b, gradient.scalar_type());
  } else if (widens) {
    gradient.add_(at::mm(a.t(), b));
  } else if (!by_own_kernel(a.t(), b, gradient, true))
    gradient.addmm_(a.t(), b);
}

}  // namespace pe::kernels
