/// @file
/// Opening and writing before the system's own, under both names of each call, the old and the one for large files. To
/// be included once, without _FILE_OFFSET_BITS, behind
///
///     int open_as(const char* name, const char* path, int flags, mode_t mode);
///     template <typename Write> ssize_t write_some(int fd, size_t count, Write&& real);   // real(count) writes
#pragma once

#include <fcntl.h>
#include <stdarg.h>

#include "support/interposed.h"

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open_as("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open_as("open64", path, flags, mode);
}
ssize_t write(int fd, const void* data, size_t count) {
  static const auto real = pe::test::next<ssize_t (*)(int, const void*, size_t)>("write");
  return write_some(fd, count, [&](size_t n) { return real(fd, data, n); });
}
ssize_t pwrite(int fd, const void* data, size_t count, off_t at) {
  static const auto real = pe::test::next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  return write_some(fd, count, [&](size_t n) { return real(fd, data, n, at); });
}
ssize_t pwrite64(int fd, const void* data, size_t count, off64_t at) {
  static const auto real = pe::test::next<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  return write_some(fd, count, [&](size_t n) { return real(fd, data, n, at); });
}

}  // extern "C"
