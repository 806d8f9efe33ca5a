/// @file
/// Which objects were seen to be whole, so that gigabytes are read once and not by every process that uses them.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>

#include "pipeline/store/packed_result.h"
#include "support/file_stamp.h"

namespace pe::pipeline {

/// Proofs that objects hold what their names say: a file that was hashed, or just published, and whose stamp
/// (size, mtime, ctime, inode) is as it was then. Shared by processes through `<store>/memo/objects`, which holds the
/// large ones; may be deleted freely. A stamp cannot show a disk that loses bits. Such damage shows when a stage ends
/// with 3: then `Store::damaged` reads again. Any number of threads.
class ObjectMemo {
 public:
  explicit ObjectMemo(const std::filesystem::path& store);
  /// Writes what is new.
  ~ObjectMemo();
  ObjectMemo(const ObjectMemo&) = delete;
  ObjectMemo& operator=(const ObjectMemo&) = delete;

  /// Whether the file is known to hold the bytes of `digest`: one stat.
  bool known(const std::filesystem::path& file, const std::string& digest);
  /// The file was read and holds them; `before` is the look before the first byte.
  void note_read(const std::filesystem::path& file, const std::string& digest, const support::FileStamp& before);
  /// The file was hashed before it was linked here, and has not been written since.
  void note_published(const std::filesystem::path& file, const std::string& digest);
  void forget(const std::string& digest);
  void forget_all();
  /// Drops from the shared file what is not as `file_of` (a digest's file) looks now.
  void drop_stale(const std::function<std::filesystem::path(const std::string& digest)>& file_of);
  /// Adds new entries to the entries of other processes. Failing to write is no error: it only costs time.
  void save();

 private:
  void load();
  void save_locked();
  void write(const std::unordered_map<std::string, support::FileStamp>& all) const;

  std::filesystem::path path_;
  std::mutex mutex_;
  struct StampedDigest {
    support::FileStamp stamp;
    /// Published by this process: its attempt gives up a link, which moves the ctime of the same bytes.
    bool own = false;
  };
  std::unordered_map<PackedDigest, StampedDigest, PackedHash> known_;
  std::unordered_map<std::string, std::filesystem::path> fresh_;  ///< not saved yet: digest → file
  std::chrono::steady_clock::time_point saved_ = std::chrono::steady_clock::now();
  bool loaded_ = false;
};

}  // namespace pe::pipeline
