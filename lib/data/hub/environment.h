#pragma once

#include <cstdlib>
#include <string>

namespace pe::data {

/// A variable of the environment; "" where it is not set.
inline std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace pe::data
