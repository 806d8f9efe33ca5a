/// @file
/// Attention without a term that is added to scores.
#pragma once

#include "cuda/attention/tiles.h"

namespace pe::cuda {

/// Nothing is added.
struct Plain {
  static constexpr bool kAdds = false, kScans = false, kSoftmax = true, kSumsByQuery = false, kSumsByKey = false;
  PE_SIZE static int floats(int) { return 0; }

  template <typename W, int strips>
  struct OfQueries {
    PE_BODY void begin(W&, const PeCudaAttention&, int, int, int) {}
    PE_BODY static void fetch(W&, const PeCudaAttention&, int, int, int, int, int) {}
  };
  template <typename W>
  struct OfKeys {
    PE_BODY static void fetch(W&, const PeCudaAttention&, int, int, int, int, int) {}
  };
};

}  // namespace pe::cuda
