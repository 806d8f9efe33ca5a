#pragma once

#include <string_view>

namespace pe::cli {

/// Writes a text to standard output and flushes it. @throws IoError, such as on a full disk.
void print(std::string_view text);

}  // namespace pe::cli
