/// @file
/// The weights of a Hugging Face folder: `model.safetensors`, or several files that `model.safetensors.index.json`
/// lists.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "interop/safetensors.h"

namespace pe::interop {

/// Tensor → file of an index. @throws ArtifactError where it is none, or names a file outside its folder.
std::map<std::string, std::string> parse_weight_index(std::string_view text, const std::string& where);

class WeightFiles {
 public:
  /// Maps every file and checks its header. @throws ArtifactError; also where a tensor is in two files, and where index
  /// and files differ. A folder with pickle files alone is refused: they run code when they are read.
  explicit WeightFiles(const std::filesystem::path& folder);
  /// Tensors of one file of another form, whose header was checked.
  WeightFiles(support::MappedFile file, std::vector<SafetensorsEntry> tensors, std::string where);

  /// Null when there is no such tensor.
  const SafetensorsEntry* find(const std::string& name) const;
  std::vector<std::string> names() const;  ///< sorted
  /// @throws ArtifactError when it is missing or no real number
  std::vector<float> read(const std::string& name) const;
  const std::string& where() const { return where_; }

 private:
  struct Place {
    std::size_t file = 0;
    SafetensorsEntry entry;
  };
  void add_file(const std::filesystem::path& path);
  std::string where_;
  std::vector<support::MappedFile> files_;
  std::map<std::string, Place> tensors_;
};

}  // namespace pe::interop
