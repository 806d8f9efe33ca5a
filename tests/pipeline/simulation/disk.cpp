// The system's calls, as the programs of a World see them. Calls of threads that are not a process of a world, and of
// files outside its disk, go straight on. Both names of each call are given, the old and the one for large files.
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "pipeline/simulation/world.h"
#include "support/interposed.h"

namespace fs = std::filesystem;
using pe::test::Choices;
using pe::test::next;
using pe::test::path_of;
using pe::test::Process;
using pe::test::refuse;
using pe::test::World;

namespace {

int real_unlink(const char* path) {
  static const auto real = next<int (*)(const char*)>("unlink");
  return real(path);
}
int real_link(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("link");
  return real(from, to);
}
int real_rename(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return real(from, to);
}

template <typename Stat>
int real_lstat(const char* path, Stat* out) {
  static const auto real = next<int (*)(const char*, Stat*)>("lstat");
  return real(path, out);
}

bool below(const fs::path& folder, const char* path) {
  const std::string& text = folder.native();
  return path && ::strncmp(path, text.c_str(), text.size()) == 0 &&
         (path[text.size()] == '/' || path[text.size()] == '\0');
}

std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// The process whose call this is, if it concerns the disk of its world.
Process* caller(const char* path) {
  Process* process = World::moving();
  return process && below(process->world.disk(), path) ? process : nullptr;
}

// ---- Unsynced changes -----------------------------------------------------------------------------------------------

struct Change {
  enum class Kind { kName, kRename, kUnlink, kMkdir, kRmdir } kind = Kind::kName;
  std::string path;   // the new name (kName, kMkdir), the removed one (kUnlink, kRmdir), or a rename's target
  std::string from;   // of a rename
  std::string grave;  // another name of the earlier file, or empty
  bool synced = false;
};

/// When files were written and named, on the clock of the world: the answers of `stat`.
struct Times {
  double modified = 0, changed = 0;
};
std::map<ino_t, Times> times;

double wall_time(const World& world) { return world.now() + 1.7e9; }

timespec spec_of(double seconds) {
  timespec spec{};
  spec.tv_sec = static_cast<time_t>(seconds);
  spec.tv_nsec = static_cast<long>((seconds - static_cast<double>(spec.tv_sec)) * 1e9);
  return spec;
}

void touch(ino_t inode, bool modified) {
  const double now = wall_time(World::moving()->world);
  Times& of = times[inode];
  of.changed = now;
  if (modified) of.modified = now;
}

void touch(const std::string& path, bool modified) {
  struct stat status {};
  if (World::moving() && real_lstat(path.c_str(), &status) == 0) touch(status.st_ino, modified);
}

struct Noted {
  fs::path disk;
  std::vector<Change> changes;
  std::map<ino_t, off_t> unsynced;  // files that were written → their size when they were last synced
  int graves = 0;
};
Noted noted;

/// Keeps the target of a name, so that the change can be undone.
std::string bury(const char* path) {
  struct stat status {};
  if (real_lstat(path, &status) != 0 || !S_ISREG(status.st_mode)) return "";
  const std::string grave = (noted.disk.parent_path() / "graves" / std::to_string(noted.graves++)).string();
  return real_link(path, grave.c_str()) == 0 ? grave : "";
}

void note(Change::Kind kind, std::string path, std::string from = {}, std::string grave = {}) {
  touch(parent(path), true);
  if (!from.empty()) touch(parent(from), true);
  touch(path, kind == Change::Kind::kMkdir);
  noted.changes.push_back({kind, std::move(path), std::move(from), std::move(grave), false});
}

void note_write(int fd, bool fresh = false) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return;
  touch(status.st_ino, true);
  if (fresh) noted.unsynced[status.st_ino] = 0;
  noted.unsynced.try_emplace(status.st_ino, status.st_size);
}

void note_sync(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return;
  noted.unsynced.erase(status.st_ino);
  if (!S_ISDIR(status.st_mode)) return;
  const std::string folder = path_of(fd);
  for (Change& change : noted.changes) change.synced = change.synced || parent(change.path) == folder;
}

void undo(const Change& change) {
  std::error_code ignored;
  switch (change.kind) {
    case Change::Kind::kName:
      real_unlink(change.path.c_str());
      break;
    case Change::Kind::kRename:
      if (real_rename(change.path.c_str(), change.from.c_str()) == 0 && !change.grave.empty())
        real_link(change.grave.c_str(), change.path.c_str());
      break;
    case Change::Kind::kUnlink:
      if (!change.grave.empty()) real_link(change.grave.c_str(), change.path.c_str());
      break;
    case Change::Kind::kMkdir:
      fs::remove_all(change.path, ignored);
      break;
    case Change::Kind::kRmdir:
      fs::create_directory(change.path, ignored);
      break;
  }
}

// ---- calls
// ------------------------------------------------------------------------------------------------------------

/// Whether the process missed this name lately, so that the server is not asked again.
bool is_late(Process& process, const char* path) {
  if (process.quiet > 0 || process.world.faults().late <= 0 || ::strstr(path, "/work/")) return false;
  const auto found = process.missed.find(path);
  if (found == process.missed.end()) return false;
  if (process.world.now() < found->second) {
    ++process.world.happened.late_names;
    return true;
  }
  process.missed.erase(found);
  return false;
}

void missed(Process& process, const char* path) {
  World& world = process.world;
  if (process.quiet == 0 && world.choices().chance(world.faults().late)) process.missed[path] = world.now() + 3;
}

int open_as(const char* name, const char* path, int flags, mode_t mode) {
  const auto real = next<int (*)(const char*, int, ...)>(name);
  Process* process = caller(path);
  if (!process) return real(path, flags, mode);
  const bool writes = (flags & (O_CREAT | O_TRUNC)) != 0;
  if (writes) {
    if (!process->world.step()) return refuse(EIO);
    if (const int error = process->world.failure()) return refuse(error);
  } else if (process->dead) {
    return refuse(EIO);
  } else if (is_late(*process, path)) {
    return refuse(ENOENT);
  } else if (const int error = process->world.faults().unread_files ? process->world.read_failure() : 0) {
    return refuse(error);
  }
  struct stat status {};
  const bool existed = real_lstat(path, &status) == 0;
  const int fd = real(path, flags, mode);
  if (fd < 0) {
    if (errno == ENOENT) {
      missed(*process, path);
      errno = ENOENT;
    }
    return fd;
  }
  if (writes && !existed) {
    process->missed.erase(path);
    note(Change::Kind::kName, path);
    note_write(fd, true);
  } else if ((flags & O_TRUNC) != 0) {
    note_write(fd, true);
  }
  return fd;
}

/// The process whose open file this is, if its world's disk holds it.
Process* caller(int fd) {
  Process* process = World::moving();
  return process && below(process->world.disk(), path_of(fd).c_str()) ? process : nullptr;
}

template <typename Write>
ssize_t write_some(int fd, size_t count, Write&& real) {
  Process* process = caller(fd);
  if (!process) return real(count);
  if (!process->world.step()) return refuse(EIO);
  if (const int error = process->world.failure()) return refuse(error);
  note_write(fd);
  return real(count);
}

int sync_as(const char* name, int fd) {
  const auto real = next<int (*)(int)>(name);
  Process* process = caller(fd);
  if (!process) return real(fd);
  if (!process->world.step()) return refuse(EIO);
  if (const int error = process->world.failure()) return refuse(error);
  note_sync(fd);
  return 0;  // the disk is memory
}

/// Times on the clock of the world, where the world knows the file.
template <typename Stat>
void set_times(Stat& status) {
  const auto found = times.find(status.st_ino);
  if (found == times.end()) return;
  status.st_mtim = spec_of(found->second.modified);
  status.st_ctim = spec_of(found->second.changed);
}

template <typename Stat>
int stat_as(const char* name, const char* path, Stat* out) {
  const auto real = next<int (*)(const char*, Stat*)>(name);
  Process* process = caller(path);
  if (!process) return real(path, out);
  if (const int error = process->world.faults().unread_files ? process->world.read_failure() : 0) return refuse(error);
  const int done = real(path, out);
  if (done == 0) set_times(*out);
  return done;
}

template <typename Stat>
int fstat_as(const char* name, int fd, Stat* out) {
  const auto real = next<int (*)(int, Stat*)>(name);
  const int done = real(fd, out);
  if (done == 0 && caller(fd)) set_times(*out);
  return done;
}

/// The next name of a folder that is being listed; an error before its end, now and then.
template <typename Entry>
Entry* entry_as(const char* name, DIR* folder) {
  const auto real = next<Entry* (*)(DIR*)>(name);
  Process* process = World::moving();
  if (process && process->world.faults().unread > 0 && below(process->world.disk(), path_of(::dirfd(folder)).c_str())) {
    if (const int error = process->world.read_failure()) {
      errno = error;
      return nullptr;
    }
  }
  return real(folder);
}

}  // namespace

namespace pe::test {

void note_unsynced(const fs::path& disk) {
  noted = Noted();
  noted.disk = disk;
  const fs::path graves = disk.parent_path() / "graves";
  fs::remove_all(graves);
  fs::create_directories(graves);
}

void lose_unsynced(Choices& choices) {
  const std::size_t from = choices.pick(noted.changes.size() + 1);
  for (std::size_t i = noted.changes.size(); i-- > from;) {
    if (!noted.changes[i].synced) undo(noted.changes[i]);
  }
  for (const auto& entry : fs::recursive_directory_iterator(noted.disk)) {
    struct stat status {};
    if (real_lstat(entry.path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const auto found = noted.unsynced.find(status.st_ino);
    if (found == noted.unsynced.end() || choices.pick(2) == 0) continue;
    times.erase(status.st_ino);  // another time than was seen before
    // Its length may have come to the disk before its bytes.
    ::chmod(entry.path().c_str(), 0644);
    const bool zeros = choices.pick(2) == 0;
    if (::truncate(entry.path().c_str(), found->second) == 0 && zeros &&
        ::truncate(entry.path().c_str(), status.st_size) != 0) {
      continue;
    }
    ::chmod(entry.path().c_str(), status.st_mode & 07777);
  }
  note_unsynced(fs::path(noted.disk));
}

}  // namespace pe::test

#include "support/interposed_files.h"

extern "C" {

int fsync(int fd) { return sync_as("fsync", fd); }
int fdatasync(int fd) { return sync_as("fdatasync", fd); }

int link(const char* from, const char* to) {
  Process* process = caller(to);
  if (!process) return real_link(from, to);
  if (!process->world.step()) return refuse(EIO);
  if (const int error = process->world.failure()) return refuse(error);
  const int done = real_link(from, to);
  if (done == 0) {
    process->missed.erase(to);
    note(Change::Kind::kName, to);
  }
  return done;
}
int rename(const char* from, const char* to) {
  Process* process = caller(to);
  if (!process) return real_rename(from, to);
  if (!process->world.step()) return refuse(EIO);
  if (const int error = process->world.failure()) return refuse(error);
  std::string grave = bury(to);
  const int done = real_rename(from, to);
  if (done == 0) {
    process->missed.erase(to);
    note(Change::Kind::kRename, to, from, std::move(grave));
  }
  return done;
}
int unlink(const char* path) {
  Process* process = caller(path);
  if (!process) return real_unlink(path);
  if (!process->world.step()) return refuse(EIO);
  if (const int error = process->world.failure()) return refuse(error);
  std::string grave = bury(path);
  const int done = real_unlink(path);
  if (done == 0) note(Change::Kind::kUnlink, path, "", std::move(grave));
  return done;
}
int unlinkat(int folder, const char* name, int flags) {
  static const auto real = next<int (*)(int, const char*, int)>("unlinkat");
  const std::string path = name[0] == '/'       ? std::string(name)
                           : folder == AT_FDCWD ? std::string()
                                                : path_of(folder) + "/" + name;
  Process* process = caller(path.c_str());
  if (!process) return real(folder, name, flags);
  if (!process->world.step()) return refuse(EIO);
  const bool is_folder = (flags & AT_REMOVEDIR) != 0;
  std::string grave = is_folder ? std::string() : bury(path.c_str());
  const int done = real(folder, name, flags);
  if (done == 0) note(is_folder ? Change::Kind::kRmdir : Change::Kind::kUnlink, path, "", std::move(grave));
  return done;
}
int mkdir(const char* path, mode_t mode) {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  Process* process = caller(path);
  if (!process) return real(path, mode);
  if (!process->world.step()) return refuse(EIO);
  if (const int error = process->world.failure()) return refuse(error);
  const int done = real(path, mode);
  if (done == 0) note(Change::Kind::kMkdir, path);
  return done;
}
int rmdir(const char* path) {
  static const auto real = next<int (*)(const char*)>("rmdir");
  Process* process = caller(path);
  if (!process) return real(path);
  if (!process->world.step()) return refuse(EIO);
  const int done = real(path);
  if (done == 0) note(Change::Kind::kRmdir, path);
  return done;
}
int access(const char* path, int mode) {
  static const auto real = next<int (*)(const char*, int)>("access");
  Process* process = caller(path);
  if (!process) return real(path, mode);
  if (process->dead) return refuse(EIO);
  if (is_late(*process, path)) return refuse(ENOENT);
  if (const int error = process->world.faults().unread_files ? process->world.read_failure() : 0) return refuse(error);
  const int answer = real(path, mode);
  if (answer != 0 && errno == ENOENT) {
    missed(*process, path);
    errno = ENOENT;
  }
  return answer;
}

int stat(const char* path, struct stat* out) { return stat_as("stat", path, out); }
int stat64(const char* path, struct stat64* out) { return stat_as("stat64", path, out); }
int lstat(const char* path, struct stat* out) { return stat_as("lstat", path, out); }
int lstat64(const char* path, struct stat64* out) { return stat_as("lstat64", path, out); }
int fstat(int fd, struct stat* out) { return fstat_as("fstat", fd, out); }
int fstat64(int fd, struct stat64* out) { return fstat_as("fstat64", fd, out); }
int utimensat(int folder, const char* path, const struct timespec* to, int flags) {
  static const auto real = next<int (*)(int, const char*, const struct timespec*, int)>("utimensat");
  Process* process = caller(path);
  if (process && process->dead) return refuse(EIO);
  const int done = real(folder, path, to, flags);
  if (process && done == 0 && !to) touch(std::string(path), true);
  return done;
}
DIR* opendir(const char* path) {
  static const auto real = next<DIR* (*)(const char*)>("opendir");
  Process* process = caller(path);
  if (!process) return real(path);
  const int error = process->dead ? EIO : process->world.read_failure();
  if (error == 0) return real(path);
  errno = error;
  return nullptr;
}
struct dirent* readdir(DIR* folder) {
  return entry_as<struct dirent>("readdir", folder);
}
struct dirent64* readdir64(DIR* folder) {
  return entry_as<struct dirent64>("readdir64", folder);
}

// ---- time
// ---------------------------------------------------------------------------------------------------------------

int clock_gettime(clockid_t clock, struct timespec* out) {
  static const auto real = next<int (*)(clockid_t, struct timespec*)>("clock_gettime");
  Process* process = World::moving();
  if (!process || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)) return real(clock, out);
  const double now = process->world.now() + (clock == CLOCK_REALTIME ? 1.7e9 : 0);
  out->tv_sec = static_cast<time_t>(now);
  out->tv_nsec = static_cast<long>((now - static_cast<double>(out->tv_sec)) * 1e9);
  return 0;
}
int clock_nanosleep(clockid_t clock, int flags, const struct timespec* wanted, struct timespec* left) {
  static const auto real = next<int (*)(clockid_t, int, const struct timespec*, struct timespec*)>("clock_nanosleep");
  Process* process = World::moving();
  if (!process || flags != 0) return real(clock, flags, wanted, left);
  process->world.sleep_until(process->world.now() + static_cast<double>(wanted->tv_sec) +
                             static_cast<double>(wanted->tv_nsec) * 1e-9);
  return 0;
}
int nanosleep(const struct timespec* wanted, struct timespec* left) {
  return clock_nanosleep(CLOCK_MONOTONIC, 0, wanted, left);
}
int usleep(useconds_t us) {
  static const auto real = next<int (*)(useconds_t)>("usleep");
  Process* process = World::moving();
  if (!process) return real(us);
  process->world.sleep_until(process->world.now() + us * 1e-6);
  return 0;
}

// ---- the environment
// ----------------------------------------------------------------------------------------------------

char* getenv(const char* name) {
  static const auto real = next<char* (*)(const char*)>("getenv");
  Process* process = World::moving();
  if (!process || ::strncmp(name, "SLURM", 5) != 0) return real(name);
  const auto found = process->variables.find(name);
  return found == process->variables.end() ? nullptr : found->second.data();
}

}  // extern "C"
