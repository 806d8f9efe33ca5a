/// @file
/// Appending to files of our own: leases, journals, the index.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace pe::pipeline {

/// Writes all of it, going on after a short write. False, with errno set, when the rest cannot be written; what was
/// written stays.
inline bool write_whole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = ENOSPC;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace pe::pipeline
