/// @file
/// Numbers in names of files: steps of snapshots, attempts, times of index files.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pe::pipeline {

/// Number of a text of digits alone, at most 17 of them; else nothing.
inline std::optional<std::int64_t> number_in_name(std::string_view digits) {
  if (digits.empty() || digits.size() > 17 || digits.find_first_not_of("0123456789") != std::string_view::npos)
    return {};
  std::int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace pe::pipeline
