/// @file
/// Files of the kernel, as in /proc: they have no size, and may go at any time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace pe::support {

/// The first bytes of a file, at most `most`; empty if it cannot be read.
std::string read_kernel_file(const std::filesystem::path& path, std::size_t most = 4096);

}  // namespace pe::support
