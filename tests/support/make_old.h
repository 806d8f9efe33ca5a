/// @file
/// Files that look as if nothing had changed for a while, so that their stamps can be trusted.
#pragma once

#include <chrono>
#include <filesystem>

namespace pe::test {

/// Sets the times of everything below `folder`, except symbolic links, back by two days.
inline void make_old(const std::filesystem::path& folder) {
  const auto before = std::filesystem::file_time_type::clock::now() - std::chrono::hours(48);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_symlink()) std::filesystem::last_write_time(entry.path(), before);
  }
}

}  // namespace pe::test
