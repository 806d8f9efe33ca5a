/// @file
/// Which files a path, folder or glob stands for. The keys of `pe-pipeline` hash this list and readers read it, so the
/// files that are read are the files that are hashed.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace pe::support {

/// The files that path fields name, sorted bytewise: (name relative to the folder or glob root, path).
struct ListedFiles {
  std::vector<std::pair<std::string, std::filesystem::path>> files;
  std::vector<std::filesystem::path> folders;  ///< that were listed for it: a file that is added moves a time of these
  std::string missing;  ///< the first path that matches nothing, or empty
};

/// A name that exists is that name, even if it holds '*' or '['. Folders are entered, also linked ones, each once on a
/// way down. Names in them that begin with '.' are left out (caches, version control, unfinished downloads).
/// @throws IoError when a folder cannot be read. ConfigError when a pipe, a socket or a device is named or found.
ListedFiles list_files(const std::vector<std::string>& paths);

}  // namespace pe::support
