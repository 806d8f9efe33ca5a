#include "kernels/product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "cuda/plugin.h"
#include "kernels/dispatch.h"
#include "kernels/product_bf16.h"
#include "support/error.h"
#include "support/explain.h"
#include "support/text.h"

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

std::vector<PeCudaProduct>* watched = nullptr;

/// From a stored row of a matrix to the next, and whether those are its columns.
struct Storage {
  std::int64_t step = 0;
  bool turned = false;
};

std::optional<Storage> storage_of(const Tensor& x) {
  if (reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % pe_cuda_product_alignment != 0) return std::nullopt;
  if (x.stride(1) == 1 && x.stride(0) >= x.size(1)) return Storage{x.stride(0), false};
  if (x.stride(0) == 1 && x.stride(1) >= x.size(0)) return Storage{x.stride(1), true};
  return std::nullopt;
}

struct RecordedProduct {
  PeCudaProduct of;
  PeCudaAlgorithm by;
};

/// None where the plug-in cannot compute a · b (+ c), or the build has no algorithm for it.
/// @param type, step  of the result and of c: from a row to the next
std::optional<RecordedProduct> find_record(const Tensor& a, const Tensor& b, at::ScalarType type, std::int64_t step,
                                           bool adds) {
  const PeCudaTable* plugin = plugin_for(a);
  const bool wide = type == at::kFloat;
  if (plugin == nullptr || plugin->recorded_product == nullptr || a.scalar_type() != at::kBFloat16 ||
      b.scalar_type() != at::kBFloat16 || (!wide && type != at::kBFloat16) || a.numel() == 0 || b.numel() == 0)
    return std::nullopt;
  const auto stored_a = storage_of(a), stored_b = storage_of(b);
  if (!stored_a || !stored_b) return std::nullopt;
  RecordedProduct found{{a.size(0), b.size(1), a.size(1), stored_a->step, stored_b->step, step, stored_a->turned,
                         stored_b->turned, wide, adds},
                        {}};
  if (watched != nullptr) {
    watched->push_back(found.of);
    return std::nullopt;
  }
  return plugin->recorded_product(&found.of, &found.by) ? std::optional(found) : std::nullopt;
}

/// to = a · b (+ c). @param c has the strides of `to`; null: none.
void by_record(const RecordedProduct& record, const Tensor& to, const Tensor& a, const Tensor& b, const Tensor* c) {
  const auto& [of, by] = record;
  const PeCudaTable* plugin = plugin_for(a);
  const Tensor workspace = at::empty({static_cast<std::int64_t>(by.workspace)}, a.options().dtype(at::kByte));
  const int status =
      plugin->product(&of, &by, a.const_data_ptr(), b.const_data_ptr(), c == nullptr ? nullptr : c->const_data_ptr(),
                      to.mutable_data_ptr(), workspace.mutable_data_ptr(), stream_of(plugin, a));
  if (status == 0) return;
  throw support::Error(support::kExitDevice,
                       {support::cat("a GPU or its driver failed: cuBLASLt ends a product of [", of.rows, ", ",
                                     of.depth, "] and [", of.depth, ", ", of.columns, "] with cuBLAS status ", status),
                        {},
                        {},
                        {}});
}

/// to = a · b, or to += a · b with `adds`, by the plug-in; false where it has no algorithm for that.
bool by_recorded_algorithm(const Tensor& to, const Tensor& a, const Tensor& b, bool adds) {
  if (plugin_for(a) == nullptr) return false;
  const auto stored = storage_of(to);
  if (!stored || stored->turned) return false;
  const auto record = find_record(a, b, to.scalar_type(), stored->step, adds);
  if (record) by_record(*record, to, a, b, adds ? &to : nullptr);
  return record.has_value();
}

}  // namespace

void watch_products(std::vector<PeCudaProduct>* seen) { watched = seen; }

void product_into(Tensor& to, const Tensor& a, const Tensor& b) {
  if (!by_own_kernel(a, b, to, false) && !by_recorded_algorithm(to, a, b, false)) at::mm_out(to, a, b);
}

Tensor product(const Tensor& a, const Tensor& b) {
  Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  product_into(result, a, b);
  return result;
}

Tensor wide_product(const Tensor& a, const Tensor& b) {
  if (a.scalar_type() != at::kBFloat16) return product(a, b);
  if (const auto record = find_record(a, b, at::kFloat, b.size(1), false)) {
    const Tensor result = at::empty({a.size(0), b.size(1)}, a.options().dtype(at::kFloat));
    by_record(*record, result, a, b, nullptr);
    return result;
  }
  return a.is_cuda() ? at::mm(a, b, at::kFloat) : at::mm(a.to(at::kFloat), b.to(at::kFloat));
}

Tensor wide_products(const Tensor& a, const Tensor& b, at::ScalarType type) {
  if (!a.is_cuda()) return at::bmm(a.to(at::kFloat), b.to(at::kFloat)).to(type);
  return a.scalar_type() == type ? at::bmm(a, b) : at::bmm(a, b, type);
}

Tensor sum_with_product(const Tensor& base, const Tensor& a, const Tensor& b) {
  if (base.scalar_type() == at::kBFloat16 && base.is_contiguous() && storage_of(base)) {
    if (const auto record = find_record(a, b, at::kBFloat16, base.size(1), true)) {
      const Tensor result = at::empty(base.sizes(), base.options());  // base is read where it is, and not copied first
      by_record(*record, result, a, b, &base);
      return result;
    }
  }
  Tensor sum = base.clone(at::MemoryFormat::Contiguous);
  if (!by_own_kernel(a, b, sum, true)) sum.addmm_(a, b);
  return sum;
}

void add_product(const Tensor& gradient, const Tensor& a, const Tensor& b) {
  if (!gradient.defined()) return;
  const bool widens = gradient.scalar_type() != a.scalar_type();
  if (widens && by_recorded_algorithm(gradient, a.t(), b, true)) return;
  if (widens && a.is_cuda()) {  // summed where the product is, so that it is never rounded to bf16
    Tensor sum = gradient;
    at::addmm_out(sum, gradient, a.t(), b, gradient.scalar_type());
  } else if (widens) {
    gradient.add_(at::mm(a.t(), b));
  } else if (!by_own_kernel(a.t(), b, gradient, true))
    gradient.addmm_(a.t(), b);
}

}  // namespace pe::kernels
