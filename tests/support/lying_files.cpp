// A library to preload (LD_PRELOAD) that makes the file system lie, as network and full ones do, to one program and in
// one folder. PE_LIES says how:
// "under=/folder;seed=7;one_in=50;kinds=eio,enospc,estale,replayed,short,late;late_ms=300"
//
//     eio, enospc, estale   a call fails and has done nothing
//     replayed              a link or mkdir is done, and its reply lost: asked again, the server says that it exists
//     short                 a write takes only half
//     late                  a name that was missed once stays missed for a while, as network file systems remember it
// Both names of each call are given here, the old and the one for large files.
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <string>

#include "support/interposed.h"

namespace {

using pe::test::next;
using pe::test::refuse;

struct Lies {
  std::string under, kinds;
  unsigned long seed = 1, one_in = 50, late_ms = 0;
  std::mutex mutex;
  std::map<std::string, double> missed;  // names that were not there → when that was

  Lies() {
    const char* given = ::getenv("PE_LIES");
    std::string text = given ? given : "";
    while (!text.empty()) {
      const auto end = text.find(';');
      const std::string part = text.substr(0, end);
      text = end == std::string::npos ? "" : text.substr(end + 1);
      const auto equals = part.find('=');
      if (equals == std::string::npos) continue;
      const std::string name = part.substr(0, equals), value = part.substr(equals + 1);
      if (name == "under") under = value;
      if (name == "kinds") kinds = "," + value + ",";
      if (name == "seed") seed = ::strtoul(value.c_str(), nullptr, 10) * 2654435761UL + 1;
      if (name == "one_in") one_in = ::strtoul(value.c_str(), nullptr, 10);
      if (name == "late_ms") late_ms = ::strtoul(value.c_str(), nullptr, 10);
    }
  }
  bool tells(const char* kind) const { return kinds.find("," + std::string(kind) + ",") != std::string::npos; }
  bool concerns(const char* path) const {
    return path && !under.empty() && ::strncmp(path, under.c_str(), under.size()) == 0;
  }
  bool concerns(int fd) const {
    const std::string path = pe::test::path_of(fd);
    return !path.empty() && concerns(path.c_str());
  }
  bool now() {
    const std::lock_guard lock(mutex);
    seed = seed * 6364136223846793005UL + 1442695040888963407UL;
    return one_in != 0 && (seed >> 33) % one_in == 0;
  }
  /// A process sees the files that it makes itself.
  void made(const char* path) {
    const std::lock_guard lock(mutex);
    missed.erase(path);
  }
  void missing(const char* path) {
    const std::lock_guard lock(mutex);
    missed.emplace(path, clock_ms());
  }
  static double clock_ms() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
  }
};

Lies& lies() {
  static Lies* all = new Lies;
  return *all;
}

/// errno of a failure that this call shall have, or 0.
int failure() {
  Lies& l = lies();
  if (!l.tells("eio") && !l.tells("enospc") && !l.tells("estale")) return 0;
  if (!l.now()) return 0;
  if (l.tells("enospc")) return ENOSPC;
  return l.tells("estale") ? ESTALE : EIO;
}

/// Whether a name was missed lately, so that the server is not asked again.
bool is_late(const char* path) {
  Lies& l = lies();
  // Work folders are written by our own stages, on this host: their files exist.
  if (l.late_ms == 0 || !l.tells("late") || ::strstr(path, "/store/work/")) return false;
  const std::lock_guard lock(l.mutex);
  const auto found = l.missed.find(path);
  if (found == l.missed.end()) return false;
  if (Lies::clock_ms() - found->second < static_cast<double>(l.late_ms)) return true;
  l.missed.erase(found);
  return false;
}

int open_as(const char* name, const char* path, int flags, mode_t mode) {
  const auto real = next<int (*)(const char*, int, ...)>(name);
  if (!lies().concerns(path)) return real(path, flags, mode);
  if ((flags & O_CREAT) == 0 && is_late(path)) return refuse(ENOENT);
  if ((flags & O_DIRECTORY) == 0) {
    if (const int error = failure(); error != 0 && (error != ENOSPC || (flags & O_CREAT) != 0)) return refuse(error);
  }
  const int fd = real(path, flags, mode);
  if (fd >= 0 && (flags & O_CREAT) != 0) lies().made(path);
  if (fd < 0 && errno == ENOENT) {
    lies().missing(path);
    errno = ENOENT;
  }
  return fd;
}

template <typename Write>
ssize_t write_some(int fd, size_t count, Write&& real) {
  Lies& l = lies();
  if (!l.concerns(fd)) return real(count);
  if (l.tells("short") && count > 1 && l.now()) return real(count / 2);
  if (const int error = failure()) {
    if (count > 1 && error == ENOSPC) return real(count / 2) >= 0 ? refuse(error) : -1;  // the disk took a part
    return refuse(error);
  }
  return real(count);
}

}  // namespace

#include "support/interposed_files.h"

extern "C" {

int fsync(int fd) {
  static const auto real = next<int (*)(int)>("fsync");
  if (lies().concerns(fd)) {
    if (const int error = failure()) return refuse(error);
  }
  return real(fd);
}
int link(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("link");
  if (!lies().concerns(to)) return real(from, to);
  if (const int error = failure()) return refuse(error);
  const int done = real(from, to);
  if (done == 0) lies().made(to);
  if (done == 0 && lies().tells("replayed") && lies().now()) return refuse(EEXIST);
  return done;
}
int rename(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  if (!lies().concerns(to)) return real(from, to);
  if (const int error = failure()) return refuse(error);
  const int done = real(from, to);
  if (done == 0) lies().made(to);
  return done;
}
int mkdir(const char* path, mode_t mode) {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  if (!lies().concerns(path)) return real(path, mode);
  if (const int error = failure()) return refuse(error);
  const int done = real(path, mode);
  if (done == 0 && lies().tells("replayed") && lies().now()) return refuse(EEXIST);
  return done;
}
int access(const char* path, int mode) {
  static const auto real = next<int (*)(const char*, int)>("access");
  if (!lies().concerns(path)) return real(path, mode);
  if (is_late(path)) return refuse(ENOENT);
  const int answer = real(path, mode);
  if (answer != 0 && errno == ENOENT) {
    lies().missing(path);
    errno = ENOENT;
  }
  return answer;
}

}  // extern "C"
