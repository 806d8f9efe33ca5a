#include "support/folders.h"

#include <dirent.h>
#include <stdlib.h>

#include <algorithm>
#include <utility>

#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::support {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  if (DIR* dir = ::opendir(folder.c_str())) {
    while (const dirent* entry = ::readdir(dir)) {
      std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(std::move(name));
    }
    ::closedir(dir);
  }
  std::sort(names.begin(), names.end());
  return names;
}

ScratchFolder::ScratchFolder(fs::path path) : path_(std::move(path)) { make_folders(path_); }

ScratchFolder ScratchFolder::temporary(const std::string& name) {
  std::string pattern = (fs::temp_directory_path() / cat(name, "-XXXXXX")).string();
  if (!::mkdtemp(pattern.data())) throw IoError(cat("cannot make a folder like ", quote(pattern)));
  return ScratchFolder(pattern);
}

ScratchFolder::ScratchFolder(ScratchFolder&& other) noexcept
    : path_(std::move(other.path_)), keep_(std::exchange(other.keep_, true)) {}

ScratchFolder::~ScratchFolder() {
  if (keep_) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace pe::support
