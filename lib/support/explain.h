/// @file
/// Exceptions of libraries and of the language as errors with exit codes.
#pragma once

#include <exception>
#include <functional>
#include <optional>

#include "support/error.h"

namespace pe::support {

/// Exit codes of failures outside the program: the same task may succeed elsewhere, or with more memory.
inline constexpr int kExitDevice = 79;        ///< A GPU or its driver failed.
inline constexpr int kExitOutOfMemory = 137;  ///< Memory ran out; a kernel that kills for memory leaves the same.

/// Says what an exception of a library means, such as of LibTorch: an Error with its exit code, or nothing where it
/// knows nothing of it.
using Explain = std::function<std::optional<Error>(const std::exception&)>;

/// Any exception as an Error: one of ours unchanged; else the Error of `explain`; else an IoError for exceptions of
/// std::filesystem, `kExitOutOfMemory` for std::bad_alloc, and `kExitBug` for the rest.
Error as_error(const std::exception& error, const Explain& explain = {});

}  // namespace pe::support
