/// @file
/// Memory of some work at its peak, beyond the memory that the process had before.
#pragma once

#include <malloc.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace pe::test {

/// Bytes of a line such as "VmHWM:   1234 kB" of /proc/self/status.
inline std::int64_t status_bytes(const std::string& name) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return -1;
}

template <typename Body>
std::int64_t peak_growth(Body&& body) {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // the high-water mark begins anew
  const std::int64_t before = status_bytes("VmRSS");
  body();
  return status_bytes("VmHWM") - before;
}

}  // namespace pe::test
