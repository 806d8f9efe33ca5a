/// @file
/// Digests of files, remembered with the stamps that the files had, so that gigabytes are read once and not by every
/// process.
#pragma once

#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "support/file_stamp.h"

namespace pe::pipeline {

/// SHA-256 of files, by path, size, both times and inode (`support::FileStamp`). Processes share it through a file in
/// `<store>/memo/`, which may be deleted freely; a damaged one counts as empty. A stamp cannot show a disk that loses
/// bits. Failing to write is no error: it only costs time. Any number of threads.
class StampMemo {
 public:
  /// Of files that people may edit. One that was modified within two seconds of being hashed is hashed again.
  static StampMemo of_inputs(const std::filesystem::path& store);
  /// Of objects, which are never written again. Processes share digests of objects from a mebibyte on. Hashing a
  /// smaller object takes no longer than the look-up.
  static StampMemo of_objects(const std::filesystem::path& store);
  /// Writes what is new.
  ~StampMemo();
  StampMemo(const StampMemo&) = delete;
  StampMemo& operator=(const StampMemo&) = delete;

  /// The digest of the present file, after one stat. Empty when the file would have to be read.
  std::optional<support::FileRead> known(const std::filesystem::path& file) const;
  /// The same, read where it is not known. Saves now and then, so that an interrupt loses seconds of work and not
  /// hours.
  /// @throws IoError when the file cannot be read.
  support::FileRead digest(const std::filesystem::path& file);
  /// The file was read, after the look that `read` holds.
  void note_read(const support::FileRead& read);
  /// The file was hashed before it was linked here, and has not been written since. Its attempt gives up a link later,
  /// which moves the time of the last status change.
  void note_published(const std::filesystem::path& file, const std::string& sha256);
  void forget(const std::filesystem::path& file);
  void forget_all();
  /// Drops from the shared file what holds no longer: files that are gone from a folder that is there, and files that
  /// look different now.
  void drop_stale();
  /// Adds new entries to the entries of other processes.
  void save();

 private:
  struct StampedDigest {
    support::FileStamp stamp;
    std::string sha256;
    bool own = false;    ///< published by this process
    bool fresh = false;  ///< not saved yet
  };
  using Known = std::unordered_map<std::string, StampedDigest>;

  StampMemo(std::filesystem::path path, bool of_objects) : path_(std::move(path)), of_objects_(of_objects) {}
  void load() const;
  void note(const std::filesystem::path& file, StampedDigest known);
  void save_locked();
  Known read() const;
  void write(const Known& all) const;

  std::filesystem::path path_;
  bool of_objects_;
  mutable std::mutex mutex_;
  mutable Known known_;
  mutable bool loaded_ = false;
  std::chrono::steady_clock::time_point saved_ = std::chrono::steady_clock::now();
};

}  // namespace pe::pipeline
