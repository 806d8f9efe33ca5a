/// @file
/// Files outside the store that configs name: what paths match, what was in the files when they were hashed, and
/// whether that still holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/store/stamp_memo.h"
#include "support/file_listing.h"

namespace pe::pipeline {

/// The files that a path field names. A stage reads a list in the order given, so each path is a separate group.
struct ListedGroups {
  using Files = decltype(support::ListedFiles::files);
  std::vector<Files> groups;  ///< one for each path, in the order given
  std::string missing;        ///< the first path that matches nothing, or empty
};
ListedGroups list_groups(const std::vector<std::string>& paths);

/// Progress of hashing, reported before each file that has to be read.
struct HashingProgress {
  std::filesystem::path file;     ///< the next one
  std::uint64_t done_bytes = 0;   ///< hashed already
  std::uint64_t total_bytes = 0;  ///< of all files that have to be read
};
using HashingListener = std::function<void(const HashingProgress&)>;

/// Fills ExternalInput::content of every task.
void hash_externals(Graph& graph, StampMemo& memo, const HashingListener& listener = {});

/// The files of all paths, in the order of the paths; the files of a folder or a glob are sorted by name.
std::vector<std::string> paths_of(const ExternalContent& content);

/// Part of a key for them: [[name, sha256], …] of one path; of several a list of such, in the order given.
Json keyed_files(const std::vector<ExternalContent::Files>& groups);

/// Stamps of the files, without reading any: at the time of hashing, or now. Equal digests: nothing has changed. Empty:
/// some file was too young for its stamp to show a change.
std::string stamps_of(const ExternalContent& content);
std::string stamps_now(const std::vector<std::string>& paths);

/// Looks again at the paths in the task's config: by stat first, by content where a stat differs. @return the first
/// path that has changed since its key was made. Empty when none has. @throws IoError when that cannot be seen
std::string changed_external(const Task& task);

}  // namespace pe::pipeline
