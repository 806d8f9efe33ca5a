#pragma once

#include <cstdlib>
#include <string>

namespace pe::support {

/// A variable of the environment; empty where it is not set.
inline std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace pe::support
