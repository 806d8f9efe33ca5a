/// @file
/// The content-addressed store. Objects are immutable files named by their SHA-256; records say which objects a key
/// leads to and are written last, so that a result either exists whole or not at all. Nothing is ever modified in
/// place; names for people are a view outside the store (view.h).
///
///     VERSION                         format number
///     objects/ab/abcdef…              mode 0444; name = file digest
///     tasks/ab/<task key>.json        record of a task: the commit point
///     tracks/<trajectory key>/<step>.json   record of a snapshot
///     work/<plan key>/aNN/            private folder of an attempt
///     runs/<run id>/                  frozen plan, journal, summary (journal.h, status.h)
///     used/<id>/plan.json             results that the last run with nothing to do found (maintenance/uses.h)
///     leases/<plan key>               who works on it now (lease.h)
///     roots/<name>.json               what `gc` must keep: pins (pin.h)
///     trash/<date>/                   what was dropped or found damaged, until `gc` deletes it
///     memo/                           what makes the second look cheap (record_cache.h); may be deleted freely
///
/// Any number of runs, users and hosts share a store. Where its folder has the set-group-id bit, it is a group's: what
/// this process and its stages make there is writable for the group.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/store/objects.h"
#include "pipeline/store/packed_result.h"
#include "pipeline/store/past_task.h"
#include "pipeline/store/record.h"
#include "pipeline/store/records.h"
#include "pipeline/store/store_folder.h"

namespace pe::pipeline {

namespace fs = std::filesystem;

enum class ClosedRuns { kLeftOut, kIncluded };

class Store {
 public:
  /// Opens a store, or makes an empty one. @throws IoError when it cannot be read or made. Also when VERSION is newer
  /// than this program knows; both end `pe-pipeline` with exit code 4.
  explicit Store(const fs::path& root, StoreOptions options = {});
  ~Store();
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;

  const fs::path& root() const;

  // ---- reading --------------------------------------------------------------------------------------------------
  /// From the cache of records where it is up to date, else from the record. One whose objects are gone is found too:
  /// ask `complete`. One that cannot be read counts as missing, with a warning, unless `strict`.
  /// @throws IoError when `strict` and it cannot be read
  std::optional<Result> find(const ResultKey& key, bool strict = false) const;
  /// The same for those who keep very many; none when there is none.
  PackedResult find_packed(const ResultKey& key, bool strict = false) const;
  /// The whole record. Empty when there is none; a damaged one counts as none and is named in `warnings`. `strict` as
  /// in `find`.
  std::optional<Record> read(const ResultKey& key, bool strict = false) const;
  /// Whether every object (members too) is there with its size: one stat each, nothing rehashed. `strict` as in `find`.
  bool complete(const Result& result, bool strict = false) const;
  /// The same, output by output; outputs that are here lose their mark `absent`.
  Presence presence(Result& result, bool strict = false) const;
  /// @throws IoError when that cannot be seen
  bool has_object(const std::string& digest) const;
  /// Gives an object the present time, since `gc` drops old objects that no record names yet. False where it is gone.
  /// Another user's file keeps its time.
  bool make_young(const std::string& digest);
  fs::path object_path(const std::string& digest) const;
  fs::path record_path(const ResultKey& key) const;
  /// The task or trajectory key that a plan key last led to (record_cache.h). A hint, never the truth. @throws IoError
  std::optional<std::string> hint(const std::string& plan_key) const;
  /// Steps of a trajectory that have records, ascending. @throws IoError
  std::vector<std::int64_t> steps(const std::string& trajectory_key) const;
  /// Keys of all records, sorted. @throws IoError when one cannot be listed
  std::vector<ResultKey> keys() const;
  /// Records whose key, plan key, or an output's object or content digest begins with `prefix` (at least 4 digits).
  std::vector<ResultKey> matching(const std::string& prefix) const;

  /// Of all records, for explanations and estimates. Their texts live as long as the store. @throws IoError as `keys`
  std::vector<PastTask> past_tasks() const;
  /// Brings the cache of records up to date, for this process and the next. @throws IoError as `keys`
  void refresh_cache() const;

  // ---- writing --------------------------------------------------------------------------------------------------
  /// Checks a closed output (artifact_check), hashes it and moves it into objects/. Files of a collection move one by
  /// one, its manifest last. An artifact that names its result version and its key must agree with `expected`.
  /// @throws ArtifactError when it is no whole artifact of its kind, or another's. IoError.
  OutputRecord publish_output(const StageOutput& produced, const artifact::Recipe* expected = nullptr) const;
  /// The commit point. `standing` is for a record that exists; see PublishResult. Like `publish_output`, it may be
  /// called on another thread, concurrently with all other functions.
  PublishResult commit(const Record& record, Standing standing = Standing::kStays) const;
  void set_hint(const std::string& plan_key, const std::string& key);
  /// Moves a record to the trash. False when there was none.
  bool forget(const ResultKey& key);
  /// Moves a damaged object to the trash, so that its producer runs again.
  void discard_object(const std::string& digest);
  /// Moves a file or folder of the store to trash/<date>/. Where it is now; empty when it was gone already.
  fs::path move_to_trash(const fs::path& path);
  /// Copies an object to a file that is not there yet. @throws ArtifactError when its bytes are not what its name says
  void export_object(const std::string& digest, const fs::path& to) const;
  /// Takes a copy of a file of another store. @throws ArtifactError when its bytes do not have `digest`.
  void import_object(const fs::path& from, const std::string& digest);
  /// Reads the objects of an output through. Returns the digests that are missing, do not match, or cannot be read from
  /// the medium any more (EIO). May be called on other threads. `go_on` is called for every block. When it returns
  /// false, the digests found so far are returned. @throws IoError when one cannot be read for another reason, which
  /// says nothing of its bytes
  std::vector<std::string> damaged(const OutputRecord& output, Reread reread = Reread::kAll,
                                   const std::function<bool(std::uint64_t bytes)>& go_on = {}) const;
  /// Whether all of its objects were published by this process, or read by any, and have not changed since
  /// (stamp_memo.h): one stat each.
  bool is_verified(const OutputRecord& output) const;

  /// Removes wrong entries from the caches of memo/: gone or changed files, dropped objects.
  void tidy_memos() const;

  /// Where a reader finds an artifact: the object itself, or for a collection `folder`, made and filled with links to
  /// the members and the manifest.
  fs::path materialise(const OutputRecord& output, const fs::path& folder) const;

  // ---- attempts -------------------------------------------------------------------------------------------------
  fs::path work_folder(const std::string& plan_key) const;
  /// Makes the next work/<plan key>/aNN. `number` counts from 1.
  fs::path new_attempt(const std::string& plan_key, int* number = nullptr);
  /// Attempt folders that exist, oldest first. @throws IoError
  std::vector<fs::path> attempts(const std::string& plan_key) const;

  // ---- runs -----------------------------------------------------------------------------------------------------
  fs::path runs_folder() const { return root() / "runs"; }
  /// Run ids, oldest first. `closed`: folders that another user has closed to this one. @throws IoError
  std::vector<std::string> runs(ClosedRuns closed = ClosedRuns::kLeftOut) const;

  fs::path leases_folder() const { return root() / "leases"; }

  bool durable() const;
  /// Warnings from reading: damaged records. For people; each once.
  std::vector<std::string> take_warnings() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pe::pipeline
