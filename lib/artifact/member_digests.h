/// @file
/// Stamps of the members of a collection at the time when their digests were taken. The publisher then hashes only
/// members that may have changed since. The note is next to the collection as `<folder>.closed` and may be deleted
/// freely.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "support/file_stamp.h"

namespace pe::artifact {

class MemberDigests {
 public:
  /// SHA-256 of a member, and looks at it before and after it was hashed. Not noted when a later write might leave the
  /// same stamp.
  void add(const std::string& name, const std::string& sha256, const support::FileStamp& before,
           const support::FileStamp& after);
  /// Failing is no error: it only costs time.
  void write(const std::filesystem::path& folder) const;

  /// The note of a folder; empty where it has none, on another machine, and after a restart of the machine.
  static MemberDigests read(const std::filesystem::path& folder);
  /// The stamp and digest of a member when it was closed, if the file at `path` is unchanged.
  std::optional<support::FileRead> unchanged(const std::string& name, const std::filesystem::path& path) const;

 private:
  struct MemberDigest {
    std::string sha256;
    support::FileStamp stamp;
  };
  std::map<std::string, MemberDigest> members_;
};

}  // namespace pe::artifact
