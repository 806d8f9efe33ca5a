#pragma once

#include <filesystem>

#include "support/environment.h"

namespace pe::data {

using support::variable;

/// The folder that a variable names; "" where it is not set or the path is not absolute. The current folder may be
/// another person's, whose cache and token must not be used.
inline std::filesystem::path absolute_folder(const char* name) {
  std::filesystem::path folder = variable(name);
  return folder.is_absolute() ? folder : std::filesystem::path();
}

/// $HF_HOME, else ~/.cache/huggingface; "" without either.
inline std::filesystem::path hugging_face_home() {
  if (std::filesystem::path folder = absolute_folder("HF_HOME"); !folder.empty()) return folder;
  const std::filesystem::path home = absolute_folder("HOME");
  return home.empty() ? home : home / ".cache/huggingface";
}

}  // namespace pe::data
