#include "kernels/cuda_error.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>

#include "support/explain.h"
#include "support/text.h"

namespace pe::kernels {

using support::cat;
using support::Diagnostic;
using support::Error;

std::string cuda_words(int status) {
  // It is in the process where a GPU was opened, and this library does not link it.
  const auto words = reinterpret_cast<const char* (*)(int)>(::dlsym(RTLD_DEFAULT, "cudaGetErrorString"));
  return words == nullptr ? cat("CUDA error ", status) : words(status);
}

Error cuda_error(int status, const std::string& from) {
  // Of cudaError: wrong values, a launch that no GPU can do, a kernel that was not built for this one.
  constexpr int kOutOfMemory = 2, kMistakes[] = {1, 9, 98, 209};
  const std::string text = cat(cuda_words(status), " (CUDA error ", status, ", seen by ", from, ")");
  const bool mistake = std::find(std::begin(kMistakes), std::end(kMistakes), status) != std::end(kMistakes);
  if (mistake) return Error(support::kExitBug, Diagnostic{text, {}, {}, {}});
  if (status == kOutOfMemory) {
    return Error(support::kExitOutOfMemory, Diagnostic{"out of memory of the GPU: " + text, {}, {}, {}});
  }
  return Error(support::kExitDevice, Diagnostic{"a GPU or its driver failed: " + text, {}, {}, {}});
}

}  // namespace pe::kernels
