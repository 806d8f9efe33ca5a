#include "pipeline/store/store_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "pipeline/store/group_rights.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;
using support::IoError;

namespace {

constexpr int kFewFolders = 4;

/// Whether a store was begun here; if not, `names` lists the folder. Another host may be making it just now: over a
/// network a name can be listed a while before its file opens.
bool is_made(const fs::path& folder, std::vector<std::string>& names) {
  for (int tries = 0; !support::is_there(folder / "VERSION"); ++tries) {
    names = support::list_folder(folder);
    if (std::find(names.begin(), names.end(), "VERSION") == names.end()) return false;
    if (tries == 240) break;  // reading it says why
    ::usleep(250000);
  }
  return true;
}

}  // namespace

StoreFolder::StoreFolder(const fs::path& root, StoreOptions options)
    : root_(fs::absolute(root).lexically_normal()), options_(options) {
  if (!root_.has_filename()) root_ = root_.parent_path();
  if (options_.create) share_with_group(root_);
  open_or_begin();
  if (!options_.create) return;
  for (const char* name : {"objects", "tasks", "tracks", "work", "runs", "leases"}) {
    const fs::path sub = root_ / name;
    if (!support::is_there(sub)) support::make_folders(sub);
  }
  struct stat work {
  }, objects{};
  if (::stat((root_ / "work").c_str(), &work) == 0 && ::stat((root_ / "objects").c_str(), &objects) == 0 &&
      work.st_dev != objects.st_dev) {
    warn(cat("'", (root_ / "work").string(),
             "' is on another file system than 'objects': outputs are copied when they are published, and need room on "
             "both"));
  }
  // Syncs their names and the store's name, also existing ones: their maker may have died before the sync.
  if (options_.durable) {
    support::sync_path(root_);
    support::sync_path(root_.parent_path());
  }
}

void StoreFolder::open_or_begin() const {
  const fs::path version_file = root_ / "VERSION";
  std::vector<std::string> names;
  if (is_made(root_, names)) {
    const std::string text = support::read_file(version_file, 4096);
    std::string why;
    const auto version = support::parse_integer(support::trim(text), support::Suffixes::kNone, &why);
    if (!version)
      throw IoError(cat("'", version_file.string(), "' holds ", support::quote(support::trim(text)),
                        ", expected the number of a store format"));
    if (*version != kStoreVersion) {
      throw IoError(cat("the store '", root_.string(), "' has format ", *version, "; this pe-pipeline knows format ",
                        kStoreVersion, ": use the program that made it, or another --store"));
    }
    return;
  }
  // Remains of a lock, the plan memo or an interrupted creation are allowed; any other file means that the folder has
  // another use. Judged by the look that found no VERSION: by now another run may have written it.
  for (const std::string& name : names) {
    if (name == "run.lock" || name == "memo" || name == "lost+found" || name.rfind("VERSION.tmp.", 0) == 0) continue;
    throw IoError(cat("'", root_.string(), "' is not a store: it holds '", name,
                      "' but no file VERSION; name a store or an empty folder with --store"));
  }
  if (!options_.create) return;
  support::make_folders(root_);
  support::write_file_atomically(version_file, cat(kStoreVersion, "\n"), options_.durable);
}

fs::path StoreFolder::object(const std::string& digest) const {
  return root_ / "objects" / digest.substr(0, 2) / digest;
}

fs::path record_path(const fs::path& root, const ResultKey& key) {
  if (key.is_snapshot()) return root / "tracks" / key.key / (std::to_string(key.step) + ".json");
  return root / "tasks" / key.key.substr(0, 2) / (key.key + ".json");
}

void StoreFolder::make_folder_of(const fs::path& path) const {
  const fs::path folder = path.parent_path(), parent = folder.parent_path();
  const std::lock_guard lock(folders_mutex_);
  const bool there = ::access(folder.c_str(), F_OK) == 0;
  if (there && (!options_.durable || synced_names_.count(folder.native()) != 0)) return;
  if (!there) {
    support::make_folders(folder);
    if (!options_.durable) return;
    if (folder.filename().native().size() == 2 && ++folders_made_[parent.native()] == kFewFolders) {
      for (int i = 0; i < 256; ++i) {
        const auto byte = static_cast<std::uint8_t>(i);
        support::make_folders(parent / support::to_hex(&byte, 1));
      }
    }
  }
  // Also of an existing folder: its maker may be about to sync its name, or have died before. One sync serves all
  // names.
  const std::vector<std::string> names = support::list_folder(parent);
  support::sync_path(parent);
  for (const std::string& name : names) synced_names_.insert((parent / name).native());
}

void StoreFolder::sync_folder_of(const fs::path& path) const {
  if (options_.durable) support::sync_path(path.parent_path());
}

fs::path StoreFolder::name_in_trash(const fs::path& path) const {
  const fs::path folder = root_ / "trash" / support::utc_date(support::unix_time());
  support::make_folders(folder);
  return support::unique_sibling(folder / path.filename());
}

fs::path StoreFolder::move_to_trash(const fs::path& path) const {
  const fs::path to = name_in_trash(path);
  support::fault_point("trash");
  if (::rename(path.c_str(), to.c_str()) != 0) {
    if (errno == ENOENT) return {};
    if (errno != EXDEV) support::throw_errno("move to the trash", path.string());
    // `work/` on another file system.
    std::error_code error;
    fs::copy(path, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks, error);
    if (error) throw IoError(cat("cannot move to the trash '", path.string(), "': ", error.message()));
    support::remove_tree(path);
  }
  // A rename is on disk when both folders are. A record that came back would lack the objects that went after it.
  sync_folder_of(to);
  sync_folder_of(path);
  return to;
}

void StoreFolder::warn(const std::string& text) const {
  const std::lock_guard lock(warnings_mutex_);
  if (warned_.insert(text).second) warnings_.push_back(text);
}

std::vector<std::string> StoreFolder::take_warnings() const {
  const std::lock_guard lock(warnings_mutex_);
  return std::exchange(warnings_, {});
}

}  // namespace pe::pipeline
