#pragma once

#include <string>

#include "support/error.h"

namespace pe::kernels {

/// The status of a CUDA call as an Error with CUDA's words. Its exit code is `kExitOutOfMemory`, `kExitDevice`, or
/// `kExitBug` for a status that only a wrong call has.
/// @param from  the call, such as a kernel. An earlier call may have failed: CUDA says so later.
support::Error cuda_error(int status, const std::string& from);

/// "an illegal memory access was encountered"; "CUDA error 700" where CUDA's library is not loaded.
std::string cuda_words(int status);

}  // namespace pe::kernels
