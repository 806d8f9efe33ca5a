/// @file
/// Parts of data: one trains models, one chooses between them, one tests them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace pe::artifact {

/// The numbers are part of files and of the keys of random draws.
enum class Split : std::uint64_t { kTrain = 0, kValidation = 1, kTest = 2 };
inline constexpr std::array<Split, 3> kAllSplits{Split::kTrain, Split::kValidation, Split::kTest};

/// "train", "validation", "test"
constexpr std::string_view split_name(Split split) {
  switch (split) {
    case Split::kTrain:
      return "train";
    case Split::kValidation:
      return "validation";
    case Split::kTest:
      return "test";
  }
  return "?";
}

}  // namespace pe::artifact
