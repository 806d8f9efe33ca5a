/// @file
/// Every operation of the plug-in against its definition in float64 (kernels/ops_plain.cpp), forward and backward, and
/// that two calls give the same bytes. On a GPU at the shapes of real models (kernels_gpu_test.cpp); on the CPU, by the
/// stand-in for the plug-in, at small ones, so that the checks themselves are checked.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pe::test {

struct KernelShapes {
  std::int64_t batch = 8, length = 1024;  ///< of tokens
  std::int64_t width = 768, inner = 3072, vocabulary = 65536, odd_vocabulary = 50257;
  std::int64_t heads = 12, kv_heads = 4, head_width = 64;
  std::int64_t weights = 10'000'000;  ///< of an optimizer's step
  std::int64_t positions = 64;        ///< that a gather reads
};

/// Each is a test case's body.
void check_norms(at::Device device, const KernelShapes& shapes);
void check_heads(at::Device device, const KernelShapes& shapes);
void check_rotations(at::Device device, const KernelShapes& shapes);
void check_swiglu(at::Device device, const KernelShapes& shapes);
void check_cross_entropy(at::Device device, const KernelShapes& shapes);
/// The loss with its factor known before (model/functions.h: training_loss) against the loss and then the factor, and
/// rows by blocks of 1,024 threads against 512: results, then times as messages.
void check_loss_routes(at::Device device, const KernelShapes& shapes);
/// Each product of a layer and of the head, forward and backward, by every algorithm that cuBLASLt offers: results,
/// then times as messages. Where one takes less time than LibTorch's, its line of lib/cuda/recorded_products.inc is a
/// message.
void check_product_routes(at::Device device, const KernelShapes& shapes);
/// Plain causal attention by its three routes, forward and backward: results against float64 and twice the same bytes,
/// then times as messages. Where one takes less time than LibTorch's, its line of lib/cuda/recorded_attention.inc is a
/// message.
void check_attention_routes(at::Device device, const KernelShapes& shapes);
void check_embedding_gradient(at::Device device, const KernelShapes& shapes);
void check_adam(at::Device device, const KernelShapes& shapes);
void check_weight_gradients(at::Device device, const KernelShapes& shapes);
void check_draws_and_gathers(at::Device device, const KernelShapes& shapes);

}  // namespace pe::test
