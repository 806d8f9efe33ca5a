#include "pipeline/store/store_index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "pipeline/store/digits.h"
#include "pipeline/store/lease.h"
#include "pipeline/store/whole_write.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/folders.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;
using support::Descriptor;
using support::fault_point;
using support::throw_errno;

namespace {

constexpr std::size_t kTooManyIndexFiles = 16;
constexpr std::string_view kMergedEnding = "-merged.log";
constexpr const char* kMergedIndex = "0000000000000000-merged.log";  ///< sorts before every other

/// "<16 digits>-merged.log": of no process.
bool is_merged_index(std::string_view name) {
  return name.size() == 16 + kMergedEnding.size() && name.substr(16) == kMergedEnding;
}

}  // namespace

StoreIndex::StoreIndex(const StoreFolder& folder) : folder_(folder), content_(read_index(folder.root() / "index")) {
  if (content_.damaged != 0) {
    folder_.warn(cat("the index of '", folder_.root().string(), "' is damaged in ", content_.damaged,
                     " file(s); records answer in its place"));
  }
}

PackedResult StoreIndex::result(const ResultKey& key) const {
  const auto found = content_.results.find(PackedKey(key));
  return found == content_.results.end() ? PackedResult() : found->second;
}

std::optional<std::string> StoreIndex::hint(const std::string& plan_key) const {
  const auto found = content_.hints.find(PackedDigest(plan_key));
  if (found == content_.hints.end()) return std::nullopt;
  return found->second.hex();
}

void StoreIndex::add_result(const ResultKey& key, const Result& result) {
  fault_point("append index");
  PackedResult packed(result);
  append(encode_result(PackedKey(key), packed));
  content_.results[PackedKey(key)] = std::move(packed);
}

void StoreIndex::add_hint(const std::string& plan_key, const std::string& key) {
  append(encode_hint(PackedDigest(plan_key), PackedDigest(key)));
  content_.hints[PackedDigest(plan_key)] = PackedDigest(key);
}

void StoreIndex::forget(const ResultKey& key) {
  // In a file that is newer than all files of other processes, which may hold the result.
  if (file_ && !is_newest()) file_.close();
  append(encode_forgotten(PackedKey(key)), true);
  content_.results.erase(PackedKey(key));
}

/// Whether what file_ says is read after what all other files say.
bool StoreIndex::is_newest() const {
  const std::vector<std::string> names = support::list_folder(folder_.root() / "index");
  return !names.empty() && names.back() == name_;
}

void StoreIndex::append(const std::string& entry, bool sync, bool retried) {
  struct stat status {};
  // Another process may have merged it away, taking us for dead.
  if (file_ && ::fstat(file_.get(), &status) == 0 && status.st_nlink == 0) file_.close();
  if (!file_) begin_file();
  if (const int error = write(entry); error != 0) {
    // Merged away by another host, which a network file system reports only at the write: once more into a new file.
    if (error == ESTALE && !retried) return append(entry, sync, true);
    errno = error;
    throw_errno("append to", (folder_.root() / "index").string());
  }
  if (sync && folder_.durable() && ::fsync(file_.get()) != 0) throw_errno("sync", "the index");
}

void StoreIndex::begin_file() {
  const fs::path folder = folder_.root() / "index";
  support::make_folders(folder);
  auto now = static_cast<std::int64_t>(support::unix_time() * 1e6);
  // Later than every existing file, whatever the clocks of their hosts say: files are read in this order, and entries
  // that forget a key must come after its record.
  for (const std::string& name : support::list_folder(folder)) {
    if (name.size() <= 17 || name[16] != '-') continue;
    if (const auto theirs = number_in_name(std::string_view(name).substr(0, 16))) now = std::max(now, *theirs + 1);
  }
  char stamp[32];
  std::snprintf(stamp, sizeof stamp, "%016lld", static_cast<long long>(now));
  name_ = cat(stamp, "-", host_name(), "-", ::getpid(), ".log");
  const fs::path path = folder / name_;
  file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file_) throw_errno("create", path.string(), true);
  if (const int error = write(index_header()); error != 0) {
    errno = error;
    throw_errno("append to", path.string());
  }
}

/// 0, or what errno said.
int StoreIndex::write(const std::string& bytes) {
  // One write per entry: what a crash leaves is a torn tail, which readers ignore. An entry that could not be written
  // whole (full disk) leaves one in the middle, so nothing more may be appended to that file.
  if (write_whole(file_.get(), bytes)) return 0;
  const int error = errno;
  file_.close();
  return error;
}

void StoreIndex::tidy() {
  const fs::path folder = folder_.root() / "index";
  // Files that still have a writer are left alone: of live processes of this host, and of other hosts for ten minutes
  // after their last entry. Should one write again, it finds its file gone and begins another; an entry lost in between
  // costs a look-up.
  const auto in_use = [&](const std::string& name) {
    if (is_merged_index(name)) return false;
    const std::string mine = cat("-", host_name(), "-");
    const auto at = name.find(mine);
    if (at == 16) {
      const auto pid = std::atoll(name.c_str() + at + mine.size());
      return pid != ::getpid() && process_life(pid, 0) != ProcessLife::kGone;
    }
    struct stat status {};
    constexpr std::time_t kQuiet = 600;
    return name.size() > 16 && name[16] == '-' && ::stat((folder / name).c_str(), &status) == 0 &&
           std::time(nullptr) - status.st_mtime < kQuiet;
  };
  std::vector<std::string> names = support::list_folder(folder);
  const bool wasteful = content_.entries > 2 * (content_.results.size() + content_.hints.size()) + 1000;
  if (names.size() <= kTooManyIndexFiles && content_.damaged == 0 && !wasteful) return;
  Leases leases(folder_.root() / "leases", {});
  if (!leases.acquire(kMergedIndex).acquired) return;  // one at a time
  file_.close();
  for (const std::vector<std::string>& run : mergeable(names, in_use)) {
    const bool first = run.front() == names.front();
    const std::string merged = first ? kMergedIndex : cat(run.front().substr(0, 16), kMergedEnding);
    IndexContent content;
    for (const std::string& name : run) read_index_file(folder / name, content);
    // It takes their place in the order; after a crash before their removal, reading them again changes nothing.
    fault_point("write merged index");
    support::write_file_atomically(folder / merged, render_index(content, !first), folder_.durable());
    for (const std::string& name : run) {
      if (name == merged) continue;
      fault_point("remove index file");
      ::unlink((folder / name).c_str());
    }
  }
  content_ = read_index(folder);
}

}  // namespace pe::pipeline
