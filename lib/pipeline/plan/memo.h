/// @file
/// What makes the second look cheap: contents of input files by (size, mtime, inode), and whole plans by the digest of
/// everything they were made from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pipeline/expand/expand.h"
#include "pipeline/file/graph.h"
#include "pipeline/plan/plan.h"
#include "support/file_listing.h"
#include "support/files.h"

namespace pe::pipeline {

/// SHA-256 of files, remembered by path, size, mtime and inode. A file changed within the last two seconds is hashed
/// again next time, since its mtime cannot tell two writes apart.
class ContentMemo {
 public:
  /// Reads `<store>/memo/content`; a missing or damaged one is empty.
  explicit ContentMemo(const std::filesystem::path& store);
  /// @throws IoError when the file cannot be read.
  std::string digest(const std::filesystem::path& file);
  /// Writes what is new. Failing to write is no error: it only costs time.
  void save();

 private:
  struct Known {
    std::uint64_t size, mtime_ns, inode;
    std::string sha256;
  };
  std::filesystem::path path_;
  std::unordered_map<std::string, Known> known_;
  bool changed_ = false;
};

/// What the store's index and its folders of records look like from outside: every record that is added or dropped, by a
/// program or by hand, makes an index file longer or moves a folder's time. Equal and not empty: the same records. Empty:
/// nothing can be said.
std::string index_mark(const std::filesystem::path& store);

using support::ListedFiles;
using support::list_files;

/// Fills ExternalInput::files and `missing` of every task.
void hash_externals(Graph& graph, ContentMemo& memo);

/// A finished plan, packed: enough to see that there is nothing to do without reading YAML, JSON, a description or the
/// store's index.
///
///     <store>/memo/plan-<id>         files it was made from (stat, digest), then every object that it needs, then tasks
///     <store>/memo/plan-<id>.index   what the index looked like when every record was last seen to be there
class PlanMemo {
 public:
  struct Entry {
    std::string_view id;
    std::string_view plan_key;
    std::string_view key;                    ///< task or trajectory key
    std::int64_t step = -1;                  ///< of a snapshot
  };

  /// The memo of this pipeline and these options, if every file that it depends on is as it was: one stat each; a small
  /// file whose stat differs is hashed. `store` is the store's folder.
  static std::optional<PlanMemo> find(const std::filesystem::path& store, const std::filesystem::path& pipeline_file,
                                      const ExpandOptions& options);

  std::string_view pipeline_name() const { return name_; }
  std::size_t task_count() const { return task_count_; }   ///< tasks of the graph; entries count snapshots singly
  std::vector<Entry> entries() const;

  /// True when no record was added or dropped since `renew` (the index files are the same) and every object is there, with
  /// its size where it is a file: one stat each. False says nothing: ask `everything_present`.
  bool objects_stand() const;
  /// True when the store has every record and every object.
  bool everything_present(const StoreView& store) const;
  /// To be called when `everything_present` said yes of a store that was opened after this memo was found: the next
  /// `objects_stand` then needs no index. Failing to write is no error.
  void renew() const;

  /// Remembers a plan of the whole pipeline in which everything is there; any other is not remembered.
  /// Failing to write is no error: it only costs time.
  static void remember(const std::filesystem::path& store, const std::filesystem::path& pipeline_file,
                       const ExpandOptions& options, const Graph& graph, const Plan& plan, const StageCatalog& catalog);

 private:
  support::MappedFile file_;   ///< what the views below look into
  std::filesystem::path store_, path_;
  std::string index_;          ///< of the store's index folder, when this memo was found
  std::string_view objects_;   ///< 40 bytes each: digest, then size or all ones
  std::string_view packed_entries_;
  std::size_t task_count_ = 0;
  std::string_view name_;
};

}  // namespace pe::pipeline
