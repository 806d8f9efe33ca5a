/// @file
/// Folders: what is in one, and one that goes when it is no longer needed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pe::support {

/// All names but "." and "..", sorted. None of a folder that is not there or cannot be read.
std::vector<std::string> names_in(const std::filesystem::path& folder);

/// A folder that is removed with all that is in it, unless it is to stay.
class ScratchFolder {
 public:
  /// Made if it is not there. @throws IoError
  explicit ScratchFolder(std::filesystem::path path);
  /// A new one in the system's folder for such, called "<name>-" and a few letters. @throws IoError
  static ScratchFolder temporary(const std::string& name);
  ScratchFolder(ScratchFolder&& other) noexcept;
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();

  const std::filesystem::path& path() const { return path_; }
  void keep() { keep_ = true; }

 private:
  std::filesystem::path path_;
  bool keep_ = false;
};

}  // namespace pe::support
