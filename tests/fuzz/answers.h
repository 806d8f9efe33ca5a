/// @file
/// Common code of all fuzz targets.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "support/error.h"

namespace pe::fuzz {

/// An Error is an answer; anything else that leaves a reader is a mistake and ends the fuzzer.
template <typename Body>
void expect_answer(Body&& body) {
  try {
    body();
  } catch (const support::Error& error) {
    if (error.exit_code() == support::kExitBug) throw;
  }
}

/// A file of this process with such an ending.
inline std::string put(std::string_view bytes, const std::string& ending) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("pe-fuzz-" + std::to_string(::getpid()) + ending)).string();
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace pe::fuzz
