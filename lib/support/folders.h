/// @file
/// Folders: what is in one, and one that goes when it is no longer needed.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace pe::support {

/// All names but "." and "..", sorted. None of a folder that is not there. @throws IoError when it cannot be listed
std::vector<std::string> list_folder(const std::filesystem::path& folder);
/// The same for callers that do without: the names that were read before `error`.
std::vector<std::string> list_folder(const std::filesystem::path& folder, std::error_code& error);

/// Whether a name leads to something; links are followed. @throws IoError when that cannot be seen
bool is_there(const std::filesystem::path& path);

/// @throws ConfigError when a path is not UTF-8. Task files and records are JSON, and JSON cannot hold such a name: its
/// text there would name another file.
void require_utf8(const std::filesystem::path& path);

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
