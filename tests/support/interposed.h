/// @file
/// Common code of a program or library that replaces the system's calls.
#pragma once

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include <string>

namespace pe::test {

/// The call behind ours.
template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

inline int refuse(int error) {
  errno = error;
  return -1;
}

/// Of an open file; empty when it has none.
inline std::string path_of(int fd) {
  char link[64], path[4096];
  ::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t count = ::readlink(link, path, sizeof path - 1);
  return count > 0 ? std::string(path, static_cast<std::size_t>(count)) : std::string();
}

}  // namespace pe::test
