/// @file
/// The cache of records: one row a record, so that nothing opens thousands of them. The records are the truth. A row
/// holds while its record's file has the stamp that it had when it was read; another record is read again. A damaged
/// file counts as empty.
///
///     <store>/memo/records    tables of rows and of hints, with a checksum; then the rows (past_task.h), each with its
///
/// It is written whole, under a temporary name. Of several writers the last one wins, and loses no truth.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pipeline/store/past_task.h"
#include "pipeline/store/records.h"
#include "pipeline/store/store_folder.h"
#include "support/file_stamp.h"
#include "support/files.h"

namespace pe::pipeline {

class RecordCache {
 public:
  RecordCache(const StoreFolder& folder, const Records& records);
  /// Writes what is new, if reading these records again would cost more.
  ~RecordCache();
  RecordCache(const RecordCache&) = delete;
  RecordCache& operator=(const RecordCache&) = delete;

  /// None when there is no such record. `strict` as in `Records::read`.
  PackedResult find(const ResultKey& key, bool strict);
  /// Of all records that have a preimage, as the last refresh of this process found them. Their texts live as long as
  /// this. @throws IoError as `Records::keys`
  std::vector<PastTask> past_tasks();
  /// The key that a plan key last led to: what was set last, or the newest record that names the plan key. Never the
  /// truth. @throws IoError as `Records::keys`
  std::optional<std::string> hint(const std::string& plan_key);
  void set_hint(const std::string& plan_key, const std::string& key);
  /// Lists all records, reads those without a row, and writes the file when anything has changed. Failing to write is
  /// no error: it only costs time. @throws IoError as `Records::keys`
  void refresh();

 private:
  struct RowEntry {
    PackedKey key;
    std::uint64_t size = 0, mtime_ns = 0, ctime_ns = 0, inode = 0;  // of the record's file
    std::uint64_t at = 0, length = 0;                               // of the row
    bool is_of(const support::FileStamp& stamp) const;
  };
  struct HintEntry {
    PackedDigest plan_key, key;
    std::uint64_t time_ns = 0;
  };
  /// The file; empty where it is missing or damaged.
  struct File {
    explicit File(const std::filesystem::path& path);
    std::string_view row(const RowEntry& entry) const;

    support::MappedFile mapped;
    std::string_view rows;
    std::vector<RowEntry> entries;  // by key
    std::vector<HintEntry> hints;
  };
  struct FreshRow {
    RowEntry entry;
    std::shared_ptr<const std::string> text;
  };
  struct Row {
    std::string_view text;
    std::shared_ptr<const std::string> owner;  // none: the file
  };

  const RowEntry* entry_in_file(const PackedKey& key) const;
  Row row(const ResultKey& key, bool strict);
  void note_hint(const HintEntry& hint);
  void save();

  const StoreFolder& folder_;
  const Records& records_;
  std::filesystem::path path_;
  File file_;
  std::unordered_map<PackedKey, FreshRow, PackedHash> fresh_;  // read by this process
  std::unordered_map<PackedDigest, HintEntry, PackedHash> hints_;
  std::size_t unsaved_ = 0, saved_rows_ = 0;
  std::vector<PackedKey> all_;  // of the records that the last refresh found, sorted
  bool complete_ = false;       // after a refresh
};

}  // namespace pe::pipeline
