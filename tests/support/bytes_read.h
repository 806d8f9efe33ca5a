/// @file
/// How much was read from files.
#pragma once

#include <cstdint>
#include <string>

#include "support/files.h"

namespace pe::test {

/// Bytes that this process and the children it waited for have read by calls, pages of mapped files not counted.
inline std::int64_t bytes_read() {
  const std::string io = support::read_file("/proc/self/io");
  return std::stoll(io.substr(io.find("rchar:") + 6));
}

}  // namespace pe::test
