/// @file
/// Lengths of documents by powers of two.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace pe::data {

class LengthHistogram {
 public:
  void add(std::uint64_t length);
  /// A line for each power of two that occurs, with a bar: "  up to 1,024 tokens   312  #####".
  std::string bars(const char* unit) const;
  /// On one line, the share that is no longer: "256 12.0 %, 512 40.1 %, 1,024 100.0 %".
  std::string shares() const;

 private:
  std::array<std::uint64_t, 65> counts_{};  // i: from 2^(i-1) + 1 to 2^i
};

}  // namespace pe::data
