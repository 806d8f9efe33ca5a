/// @file
/// Matrix products, each by our own kernel, by the plug-in with an algorithm that the build holds, or by LibTorch,
/// whichever is faster for the shape. The choice depends only on the build, shapes, strides, dtype, device and
/// `compute`, so that equal products are computed alike in every run.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

struct PeCudaProduct;

namespace pe::kernels {

/// a · b. @param a [m, k]. @param b [k, n]; both with any strides.
at::Tensor product(const at::Tensor& a, const at::Tensor& b);

/// a · b with sums that are not rounded to a narrower type: fp32 for bf16 factors, else as `product`.
at::Tensor wide_product(const at::Tensor& a, const at::Tensor& b);

/// `wide_product` of batches of matrices [n, m, k] and [n, k, p], both bf16 or fp16. Each sum is rounded once, to
/// `type`: fp32 or the type of the factors.
at::Tensor wide_products(const at::Tensor& a, const at::Tensor& b, at::ScalarType type);

/// `product` into `to`, [m, n] with columns side by side.
void product_into(at::Tensor& to, const at::Tensor& a, const at::Tensor& b);

/// base + a · b, summed inside the product. @param base [m, n].
at::Tensor sum_with_product(const at::Tensor& base, const at::Tensor& a, const at::Tensor& b);

/// gradient += aᵀ · b; nothing where `gradient` is undefined. In fp32 for bf16 factors, and on a GPU without a rounding
/// between the product and the sum. @param a [rows, m]. @param b [rows, n].
void add_product(const at::Tensor& gradient, const at::Tensor& a, const at::Tensor& b);

/// For benchmarks: products that the plug-in could compute are entered here and go to LibTorch. Null: it ends.
void watch_products(std::vector<PeCudaProduct>* seen);

}  // namespace pe::kernels
