#include "support/file_listing.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "support/error.h"
#include "support/folders.h"
#include "support/text.h"

namespace pe::support {

namespace fs = std::filesystem;

namespace {

bool has_wildcard(const std::string& text) { return text.find_first_of("*?[") != std::string::npos; }

/// The folder before the first part with a wildcard.
fs::path glob_root(const std::string& pattern) {
  fs::path root;
  for (const fs::path& part : fs::path(pattern)) {
    if (has_wildcard(part.string())) break;
    root /= part;
  }
  return root;
}

/// Reading a pipe waits for ever, and a device has no end: neither is content that a key can name.
[[noreturn]] void refuse(const fs::path& path, fs::file_type type) {
  const char* kind = type == fs::file_type::fifo        ? "a pipe"
                     : type == fs::file_type::socket    ? "a socket"
                     : type == fs::file_type::block     ? "a device"
                     : type == fs::file_type::character ? "a device"
                     : type == fs::file_type::not_found ? "a link to a missing file"
                                                        : "nothing that can be looked at";
  throw ConfigError(cat("input ", quote(path.string()), " is ", kind, ", expected a file or a folder"), {},
                    "only files and folders of files can be inputs");
}

void list_tree(const fs::path& folder, const fs::path& base, std::set<std::pair<dev_t, ino_t>>& above,
               ListedFiles& listed) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) throw_errno("look at", folder.string());
  if (!above.insert({status.st_dev, status.st_ino}).second) return;  // a link to a folder that holds it
  listed.folders.push_back(folder);
  for (const std::string& name : list_folder(folder)) {
    if (name.starts_with('.')) continue;
    const fs::path path = folder / name;
    std::error_code error;  // one look at each: folders of inputs are large
    const fs::file_type type = fs::status(path, error).type();
    if (type == fs::file_type::not_found && !fs::is_symlink(path)) continue;  // removed meanwhile
    if (type == fs::file_type::none) throw IoError(cat("cannot look at ", quote(path.string()), ": ", error.message()));
    if (type == fs::file_type::directory) {
      list_tree(path, base, above, listed);
    } else if (type == fs::file_type::regular) {
      listed.files.emplace_back(path.lexically_relative(base).string(), path);
    } else {
      refuse(path, type);
    }
  }
  above.erase({status.st_dev, status.st_ino});
}

/// A file, or what a folder holds. Without a base, names are relative to the folder itself.
void list_path(const fs::path& path, const fs::path& base, ListedFiles& listed) {
  std::error_code ignored;
  const fs::file_type type = fs::status(path, ignored).type();
  if (type == fs::file_type::directory) {
    std::set<std::pair<dev_t, ino_t>> above;
    list_tree(path, base.empty() ? path : base, above, listed);
  } else if (type != fs::file_type::regular) {
    refuse(path, type);
  } else {
    listed.files.emplace_back(base.empty() ? path.filename().string() : path.lexically_relative(base).string(), path);
  }
}

/// As glob(7), part by part. A folder that cannot be read is an error: glob(3) would leave its files out.
std::vector<fs::path> matches_of(const std::string& pattern, ListedFiles& listed) {
  std::vector<fs::path> found{fs::path()};
  for (const fs::path& part : fs::path(pattern)) {
    std::vector<fs::path> longer;
    for (const fs::path& folder : found) {
      if (!has_wildcard(part.string())) {
        longer.push_back(folder / part);
        continue;
      }
      const fs::path place = folder.empty() ? "." : folder;
      if (!is_there(place) || !fs::is_directory(place)) continue;
      listed.folders.push_back(place);
      for (const std::string& name : list_folder(place)) {
        if (::fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0) longer.push_back(folder / name);
      }
    }
    found = std::move(longer);
  }
  std::erase_if(found, [](const fs::path& path) { return !is_there(path) && !fs::is_symlink(path); });
  return found;
}

/// False when nothing matches.
bool list_glob(const std::string& pattern, ListedFiles& listed) {
  const std::vector<fs::path> found = matches_of(pattern, listed);
  const fs::path root = glob_root(pattern);
  for (const fs::path& path : found) {
    // With a pattern that is relative and begins with a wildcard the names are the paths themselves.
    list_path(path, root.empty() ? fs::path(".") : root, listed);
  }
  return !found.empty();
}

}  // namespace

ListedFiles list_files(const std::vector<std::string>& paths) {
  ListedFiles listed;
  for (const std::string& text : paths) {
    bool found = true;
    if (is_there(text)) {
      list_path(text, {}, listed);
    } else {
      found = has_wildcard(text) && list_glob(text, listed);
    }
    if (!found && listed.missing.empty()) listed.missing = text;
  }
  std::sort(listed.files.begin(), listed.files.end());
  return listed;
}

}  // namespace pe::support
