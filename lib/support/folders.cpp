#include "support/folders.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::support {

namespace fs = std::filesystem;

std::vector<std::string> list_folder(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names = list_folder(folder, error);
  if (!error) return names;
  errno = error.value();
  throw_errno("list", folder.string());
}

std::vector<std::string> list_folder(const fs::path& folder, std::error_code& error) {
  std::vector<std::string> names;
  error.clear();
  DIR* dir = ::opendir(folder.c_str());
  if (!dir) {
    if (errno != ENOENT) error.assign(errno, std::generic_category());
    return names;
  }
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(dir);
    if (!entry) break;
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  if (errno != 0) error.assign(errno, std::generic_category());
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

bool is_there(const fs::path& path) {
  if (::access(path.c_str(), F_OK) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw_errno("look at", path.string());
}

void require_utf8(const fs::path& path) {
  std::string_view rest = path.native();
  if (find_invalid_utf8(rest) == std::string_view::npos) return;
  std::string shown;
  for (auto at = find_invalid_utf8(rest); at != std::string_view::npos; at = find_invalid_utf8(rest)) {
    shown += cat(rest.substr(0, at), fmt::format("\\x{:02x}", static_cast<unsigned char>(rest[at])));
    rest.remove_prefix(at + 1);
  }
  throw ConfigError(cat("the name '", shown, rest, "' is not UTF-8"), {},
                    "rename it: records and task files are JSON, which holds UTF-8 alone");
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
