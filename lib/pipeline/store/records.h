/// @file
/// The records of a store: one file each, written last of all. A result without a record does not exist.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/store/objects.h"
#include "pipeline/store/record.h"
#include "pipeline/store/store_folder.h"

namespace pe::pipeline {

/// The fate of a record that the key has already.
enum class Standing {
  kStays,     ///< Other contents are a conflict.
  kReplaced,  ///< It goes to the trash, and the new one replaces it in one step; outputs of the same bytes keep it.
  kReplacedIfKnown,  ///< As kReplaced for a record whose bytes are not all here (Presence::kKnown), else as kStays.
};

/// How publishing a record ended.
struct PublishResult {
  bool existed = false;    ///< The key had a record already, with the same contents.
  bool conflict = false;   ///< It had one with other contents: the first stays, this one is kept next to it.
  std::string known_from;  ///< origin_of the record of other contents, where its bytes are not here
  std::filesystem::path conflict_file;
  std::filesystem::path replaced;  ///< where in the trash the record is whose place this one took; else empty
  ResultKey key;
  std::string task;  ///< that made the one that holds now
  Result result;     ///< what it says
};

/// `read` and `place` may be called on any thread, concurrently with all other functions.
class Records {
 public:
  Records(const StoreFolder& folder, const Objects& objects) : folder_(folder), objects_(objects) {}

  /// Empty when there is none. A damaged one counts as none, with a warning. One that cannot be read does so too,
  /// unless `strict`. @throws IoError when `strict` and it cannot be read
  std::optional<Record> read(const ResultKey& key, bool strict = false) const;
  /// Whether there is one now: one look at its name. @throws IoError when that cannot be seen
  bool exists(const ResultKey& key) const;
  /// The commit point. `standing` is for a record that exists and whose objects are there; see Published. @throws
  /// IoError
  PublishResult place(const Record& record, Standing standing = Standing::kStays) const;
  /// Moves it to the trash.
  void drop(const ResultKey& key) const;

  /// Steps of a trajectory that have records, ascending. @throws IoError
  std::vector<std::int64_t> steps(const std::string& trajectory_key) const;
  /// Keys of all, sorted. @throws IoError when a folder of records cannot be listed
  std::vector<ResultKey> keys() const;

 private:
  bool holds(const Record& existing, Presence presence, const Record& record, Standing standing,
             PublishResult& published) const;
  std::filesystem::path keep_conflict(const Record& record) const;
  std::filesystem::path replace(const std::filesystem::path& fresh, const std::filesystem::path& path) const;

  const StoreFolder& folder_;
  const Objects& objects_;
};

}  // namespace pe::pipeline
