#include "support/file_stamp.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <unordered_map>

#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::support {

namespace {

std::uint64_t nanoseconds(const struct timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
}

/// A network file system answers stat from memory, for up to a minute after a change elsewhere. Opening a file asks the
/// server.
bool is_network_device(const char* path, dev_t device) {
  constexpr std::array<std::uint32_t, 3> kMagic = {NFS_SUPER_MAGIC, 0xFF534D42u /* CIFS */, 0xFE534D42u /* SMB2 */};
  thread_local std::unordered_map<dev_t, bool> known;
  const auto [at, fresh] = known.try_emplace(device, false);
  if (!fresh) return at->second;
  struct statfs system {};
  if (::statfs(path, &system) != 0) return false;
  const auto magic = static_cast<std::uint32_t>(system.f_type);
  return at->second = std::find(kMagic.begin(), kMagic.end(), magic) != kMagic.end();
}

/// As fstat says it of the open file; what stat said stays where the file cannot be opened.
void ask_server(const char* path, struct stat& status) {
  const Descriptor file(::open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat now {};
  if (file && ::fstat(file.get(), &now) == 0) status = now;
}

}  // namespace

bool is_on_network(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && is_network_device(path.c_str(), status.st_dev);
}

FileStamp stamp_of(const char* path) {
  FileStamp stamp;
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);  // never later than the clock that file systems take their times from
  stamp.looked_ns = nanoseconds(now);
  struct stat status {};
  if (::stat(path, &status) != 0) return stamp;
  const bool readable = S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
  if (readable && is_network_device(path, status.st_dev)) ask_server(path, status);
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
