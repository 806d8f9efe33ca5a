/// @file
/// The plug-in's kernels run on the CPU: the same bodies and the same choice among them as on a GPU, by loops in place of
/// warps and grids, attention by simt.h. What remains unproved without a GPU are the loops of lib/cuda/kernels.cu and the
/// instructions of lib/cuda/attention.cu.
#pragma once

#include <c10/util/BFloat16.h>

#include <cmath>
#include <vector>

#include "cuda/launchers.h"
#include "kernels/dispatch.h"

namespace pe::test {

struct OnHost {
  using Half = c10::BFloat16;

  /// How often something ran on rows with a rotation.
  static inline int turned = 0;

  template <typename Body>
  static int rows(const Body& body, std::int64_t rows, void*) {
    for (std::int64_t row = 0; row < rows; ++row) {
      float lanes[cuda::kLanes], next[cuda::kLanes];
      for (int lane = 0; lane < cuda::kLanes; ++lane) lanes[lane] = body.partial(row, lane);
      for (int half = cuda::kLanes / 2; half > 0; half /= 2) {   // as __shfl_xor_sync does
        for (int lane = 0; lane < cuda::kLanes; ++lane) next[lane] = lanes[lane] + lanes[lane ^ half];
        std::copy(std::begin(next), std::end(next), lanes);
      }
      for (int lane = 0; lane < cuda::kLanes; ++lane) body.finish(row, lane, lanes[lane]);
    }
    return 0;
  }

  template <typename Body>
  static int cells(const Body& body, std::int64_t rows, std::int64_t columns, void*) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column) body(row, column);
    return 0;
  }
};

inline int host_split_heads(const void* packed, const float* weight, float eps, const PeCudaTurn* turn, void* out, float* rstd,
                            const PeCudaHeads* shape, std::int64_t tokens, bool bf16, void* stream) {
  OnHost::turned += turn != nullptr && turn->pairs > 0;
  return cuda::Launchers<OnHost>::split_heads(packed, weight, eps, turn, out, rstd, shape, tokens, bf16, stream);
}

template <typename Value>
void host_cross_entropy(Value* logits, const std::int64_t* targets, float* loss, std::int64_t rows, std::int64_t vocabulary,
                        bool gradient) {
  for (std::int64_t r = 0; r < rows; ++r, logits += vocabulary) {
    double total = 0;
    for (std::int64_t i = 0; i < vocabulary; ++i) total += std::exp(static_cast<double>(static_cast<float>(logits[i])));
    loss[r] = targets[r] < 0 ? 0 : static_cast<float>(std::log(total) - static_cast<double>(static_cast<float>(logits[targets[r]])));
    for (std::int64_t i = 0; gradient && i < vocabulary; ++i) {
      const double p = std::exp(static_cast<double>(static_cast<float>(logits[i]))) / total - (i == targets[r] ? 1 : 0);
      logits[i] = static_cast<Value>(static_cast<float>(targets[r] < 0 ? 0 : p));
    }
  }
}

/// Enters attention, by simt.h (cuda_attention_test.cpp, which has compiled it anyway).
void fill_attention(PeCudaTable& table);

inline const PeCudaTable& host_plugin() {
  static const PeCudaTable table = [] {
    PeCudaTable made{};
    made.current_stream = [](int) -> void* { return nullptr; };
    cuda::Launchers<OnHost>::fill(made);
    fill_attention(made);
    made.split_heads = host_split_heads;
    // These two have kernels of their own, which are no bodies; naive loops stand for them.
    made.embedding_gradient = [](const std::int64_t* ids, const std::int64_t* order, const void* rows, bool bf16, float* gradient,
                                 std::int64_t count, std::int64_t width, float scale, void*) {
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t j = 0; j < width; ++j) {
          const std::int64_t from = order[i] * width + j;
          gradient[ids[order[i]] * width + j] += scale * (bf16 ? static_cast<float>(static_cast<const c10::BFloat16*>(rows)[from])
                                                               : static_cast<const float*>(rows)[from]);
        }
      }
      return 0;
    };
    made.cross_entropy = [](void* logits, bool bf16, const std::int64_t* targets, float* loss, std::int64_t rows,
                            std::int64_t vocabulary, bool gradient, void*) {
      if (bf16) host_cross_entropy(static_cast<c10::BFloat16*>(logits), targets, loss, rows, vocabulary, gradient);
      else host_cross_entropy(static_cast<float*>(logits), targets, loss, rows, vocabulary, gradient);
      return 0;
    };
    return made;
  }();
  return table;
}

/// While it lives, tensors on the CPU go to the plug-in's kernels.
class StandIn {
 public:
  StandIn() { kernels::stand_in_for_plugin(&host_plugin()); }
  ~StandIn() { kernels::stand_in_for_plugin(nullptr); }
  StandIn(const StandIn&) = delete;
};

}  // namespace pe::test
