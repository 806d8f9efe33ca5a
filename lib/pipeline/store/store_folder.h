/// @file
/// The folder of a store: the paths in it, how it is begun and opened, and state that all its parts share: syncing, the
/// trash, and warnings.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "pipeline/store/record.h"

namespace pe::pipeline {

/// The format of a store, in its file VERSION. Others are refused.
inline constexpr int kStoreVersion = 2;

struct StoreOptions {
  bool durable = true;  ///< false (`--durability=off`): no fsync; for tests and throw-away stores
  bool create = true;   ///< false: a store that is not there is an empty one, and nothing is written

  /// False: hints come from the cache of records as it was written, without a look at all records. For the thousands of
  /// short processes of an array.
  bool lists_records = true;
};

/// The file of a record in the store `root`.
std::filesystem::path record_path(const std::filesystem::path& root, const ResultKey& key);

class StoreFolder {
 public:
  /// Opens a store, or makes an empty one. @throws IoError when it cannot be read or made, or when VERSION is newer
  /// than this program knows.
  StoreFolder(const std::filesystem::path& root, StoreOptions options);

  const std::filesystem::path& root() const { return root_; }
  bool durable() const { return options_.durable; }
  bool lists_records() const { return options_.lists_records; }

  std::filesystem::path object(const std::string& digest) const;
  std::filesystem::path record(const ResultKey& key) const { return record_path(root_, key); }

  /// Makes the folder of a record or an object, and syncs its name before any use. In a store that fills, all sibling
  /// folders are made too: 256 of them cost as much as one sync. Any thread.
  void make_folder_of(const std::filesystem::path& path) const;
  /// Syncs the folder that holds `path`, where the store is durable.
  void sync_folder_of(const std::filesystem::path& path) const;
  /// Moves a file or folder to trash/<date>/. Where it is now; empty when it was gone already.
  std::filesystem::path move_to_trash(const std::filesystem::path& path) const;
  /// A new name there for `path`, in a folder that is made.
  std::filesystem::path name_in_trash(const std::filesystem::path& path) const;

  /// Adds a warning; each once. Any thread.
  void warn(const std::string& text) const;
  std::vector<std::string> take_warnings() const;

 private:
  void open_or_begin() const;

  std::filesystem::path root_;
  StoreOptions options_;
  mutable std::mutex warnings_mutex_;
  mutable std::vector<std::string> warnings_;
  mutable std::set<std::string> warned_;
  mutable std::mutex folders_mutex_;  // held until a new folder's name is synced: another thread may need it
  mutable std::map<std::string, int> folders_made_;       // by this process, below objects/ and tasks/
  mutable std::unordered_set<std::string> synced_names_;  // folders whose names this process knows to be synced
};

}  // namespace pe::pipeline
