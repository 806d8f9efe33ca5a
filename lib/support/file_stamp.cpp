#include "support/file_stamp.h"

#include <sys/stat.h>

#include <ctime>

#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::support {

namespace {

std::uint64_t nanoseconds(const struct timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

FileStamp stamp_of(const char* path) {
  FileStamp stamp;
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);   // never later than the clock that file systems take their times from
  stamp.looked_ns = nanoseconds(now);
  struct stat status {};
  if (::stat(path, &status) != 0) return stamp;
  stamp.exists = true;
  stamp.size = static_cast<std::uint64_t>(status.st_size);
  stamp.mtime_ns = nanoseconds(status.st_mtim);
  stamp.ctime_ns = nanoseconds(status.st_ctim);
  stamp.inode = static_cast<std::uint64_t>(status.st_ino);
  return stamp;
}

std::string read_file(const std::filesystem::path& path, std::uint64_t limit, FileRead& read) {
  read.path = path.string();
  read.stamp = stamp_of(path);
  std::string text = read_file(path, limit);
  read.sha256 = sha256_hex(text);
  return text;
}

FileRead hash_file(const std::filesystem::path& path) {
  constexpr int kTries = 3;
  FileRead read;
  read.path = path.string();
  for (int tries = 0; tries < kTries; ++tries) {
    read.stamp = stamp_of(path);
    read.sha256 = sha256_file(path);
    if (stamp_of(path) == read.stamp) return read;
  }
  throw IoError(cat("'", path.string(), "' changed each of the ", kTries,
                    " times it was hashed: is something still writing it?"));
}

}  // namespace pe::support
