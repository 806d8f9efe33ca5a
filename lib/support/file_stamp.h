/// @file
/// The stamp of a file when it was read, so that a later look can show whether the file has changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace pe::support {

/// The result of one stat. Equal stamps of a settled file mean equal bytes. The time of the last status change (ctime)
/// moves even where a program sets the modification time back, such as rsync, tar or cp -p.
struct FileStamp {
  bool exists = false;
  std::uint64_t size = 0, mtime_ns = 0, ctime_ns = 0, inode = 0;
  std::uint64_t looked_ns = 0;  ///< when; not part of equality

  /// False when the file was modified less than two seconds before the look: file systems count time in ticks, so the
  /// next write may leave the same stamp.
  bool settled() const { return mtime_ns + 2'000'000'000u <= looked_ns; }
  friend bool operator==(const FileStamp& a, const FileStamp& b) {
    return a.exists == b.exists && a.size == b.size && a.mtime_ns == b.mtime_ns && a.ctime_ns == b.ctime_ns &&
           a.inode == b.inode;
  }
};

/// Whether a path that exists is on NFS or SMB. There stat may be a minute old, another host can replace a file that is
/// mapped, and EIO may mean a server that does not answer.
bool is_on_network(const std::filesystem::path& path);

/// On NFS and SMB the file is opened for it, which asks the server: their plain stat may be a minute old.
FileStamp stamp_of(const char* path);
inline FileStamp stamp_of(const std::filesystem::path& path) { return stamp_of(path.c_str()); }

/// A file that was read: a look before the first byte, and the digest of the bytes.
struct FileRead {
  std::string path;
  FileStamp stamp;
  std::string sha256;  ///< hex; empty where a part of the file was all that mattered
};

/// `read_file` (files.h), noted down.
std::string read_file(const std::filesystem::path& path, std::uint64_t limit, FileRead& read);

/// SHA-256 of a whole file with its stamp: the stamp belongs to the bytes that were hashed.
/// @throws IoError when it cannot be read, or changes whenever it is read.
FileRead hash_file(const std::filesystem::path& path);

}  // namespace pe::support
