/// @file
/// Digests of files, remembered with the stat, so that gigabytes are hashed once.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>

#include "support/file_stamp.h"

namespace pe::pipeline {

/// SHA-256 of files, by path, size, mtime, ctime and inode (`support::FileStamp`). A file that was modified within two
/// seconds of being hashed is hashed again next time.
class ContentMemo {
 public:
  /// Reads `<store>/memo/content`; a missing or damaged one is empty.
  explicit ContentMemo(const std::filesystem::path& store);
  /// The known digest of the current file; empty when it would have to be read.
  std::optional<support::FileRead> known(const std::filesystem::path& file) const;
  /// The same, read where it is not known. Saves now and then, so that an interrupt loses seconds of work and not
  /// hours.
  /// @throws IoError when the file cannot be read.
  support::FileRead digest(const std::filesystem::path& file);
  /// Drops what holds no longer: files that are gone from a folder that is there, and files that look different now.
  void drop_stale();
  /// Writes what is new. Failing to write is no error: it only costs time.
  void save();

 private:
  struct StampedDigest {
    support::FileStamp stamp;
    std::string sha256;
  };
  std::filesystem::path path_;
  std::unordered_map<std::string, StampedDigest> known_;
  std::chrono::steady_clock::time_point saved_ = std::chrono::steady_clock::now();
  bool changed_ = false;
};

}  // namespace pe::pipeline
