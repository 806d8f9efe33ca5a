/// @file
/// A text of very many pieces, in chunks: one string of them would be copied whenever it grows.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace pe::support {

class ChunkedText {
 public:
  /// Place for the next whole piece: pieces never span two chunks.
  std::string& end() {
    constexpr std::size_t kFull = 64 << 10;
    if (chunks_.empty() || chunks_.back().size() >= kFull) chunks_.emplace_back();
    return chunks_.back();
  }
  const std::vector<std::string>& chunks() const { return chunks_; }

 private:
  std::vector<std::string> chunks_;
};

}  // namespace pe::support
