/// @file
/// "ab/abcd…": path of objects, and hints, of 64 digits in their folder. A look-up by this short name costs a third of
/// a whole path.
#pragma once

#include <algorithm>
#include <string_view>

namespace pe::pipeline {

class ShardName {
 public:
  /// Of 64 digits.
  explicit ShardName(std::string_view digits) {
    std::copy_n(digits.begin(), 2, text_);
    text_[2] = '/';
    std::copy_n(digits.begin(), 64, text_ + 3);
  }
  const char* c_str() const { return text_; }

 private:
  char text_[68] = {};
};

/// Whether a name is one of the 256 folders below objects/, tasks/ and plans/.
inline bool is_shard(std::string_view name) {
  return name.size() == 2 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace pe::pipeline
