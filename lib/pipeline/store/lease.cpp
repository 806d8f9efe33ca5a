#include "pipeline/store/lease.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "pipeline/store/host.h"
#include "pipeline/store/whole_write.h"
#include "support/clock.h"
#include "support/environment.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/file_stamp.h"
#include "support/folders.h"
#include "support/json_fields.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;
using support::Descriptor;
using support::fault_point;
using support::field_or;
using support::text_in;
using support::throw_errno;

namespace {

constexpr std::size_t kFirstLine = 16 + 1 + 10 + 1 + 20 + 1;

/// The number that a field of fixed width holds; empty when it is none.
std::optional<std::uint64_t> fixed(std::string_view text) {
  if (text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return std::strtoull(std::string(text).c_str(), nullptr, 10);
}

}  // namespace

std::string LeaseOwner::describe() const {
  std::string text =
      slurm_job.empty() ? cat("process ", pid, " on ", where.host) : cat("job ", slurm_job, " on ", where.host);
  if (!pipeline.empty()) text += cat(", running ", support::quote(pipeline));
  if (started > 0) text += cat(" since ", support::utc_text(started));
  return text;
}

Json to_json(const LeaseOwner& owner) {
  Json json{{"schema", "pe-lease/1"},
            {"host", owner.where.host},
            {"machine", owner.where.machine},
            {"boot", owner.where.boot},
            {"pids", owner.where.pids},
            {"pid", owner.pid},
            {"process_start", owner.process_start},
            {"run", owner.run},
            {"pipeline", owner.pipeline},
            {"started", owner.started}};
  if (!owner.slurm_job.empty()) {
    json["slurm_job"] = owner.slurm_job;
    json["slurm_restart"] = owner.slurm_restart;
    json["slurm_cluster"] = owner.slurm_cluster;
    json["slurm_name"] = owner.slurm_name;
  }
  return json;
}

std::optional<LeaseOwner> parse_lease(std::string_view bytes) {
  if (bytes.size() <= kFirstLine || bytes[16] != ' ' || bytes[27] != ' ' || bytes[48] != '\n') return std::nullopt;
  const auto counter = fixed(bytes.substr(0, 16));
  const auto stage = fixed(bytes.substr(17, 10));
  const auto stage_start = fixed(bytes.substr(28, 20));
  const Json json = support::parse_json(bytes.substr(kFirstLine));
  if (!counter || !stage || !stage_start || !json.is_object()) return std::nullopt;
  LeaseOwner owner;
  owner.where = {text_in(json, "host"), text_in(json, "machine"), text_in(json, "boot"), text_in(json, "pids")};
  owner.pid = field_or(json, "pid", std::int64_t{0});
  owner.process_start = field_or(json, "process_start", std::uint64_t{0});
  owner.stage_pid = static_cast<std::int64_t>(*stage);
  owner.stage_start = *stage_start;
  owner.run = text_in(json, "run");
  owner.pipeline = text_in(json, "pipeline");
  owner.slurm_job = text_in(json, "slurm_job");
  owner.slurm_restart = text_in(json, "slurm_restart");
  owner.slurm_cluster = text_in(json, "slurm_cluster");
  owner.slurm_name = text_in(json, "slurm_name");
  owner.started = field_or(json, "started", 0.0);
  if (owner.where.host.empty() || owner.pid <= 0) return std::nullopt;
  return owner;
}

Leases::Leases(fs::path folder, LeaseOptions options) : folder_(std::move(folder)), options_(std::move(options)) {
  LeaseOwner self;
  self.where = options_.where;
  self.pid = ::getpid();
  self.process_start = process_start(self.pid);
  self.run = options_.run;
  self.pipeline = options_.pipeline;
  self.slurm_job = support::variable("SLURM_JOB_ID");
  self.slurm_restart = support::variable("SLURM_RESTART_COUNT");
  self.slurm_cluster = support::variable("SLURM_CLUSTER_NAME");
  self.slurm_name = support::variable("SLURM_JOB_NAME");
  self.started = support::unix_time();
  tail_ = support::json_text(to_json(self));
  tail_.pop_back();  // each claim adds its number, so that no two leases are the same bytes
}

Leases::~Leases() {
  while (!held_.empty()) release(std::string(held_.begin()->first));
}

double Leases::now() const {
  if (options_.now) return options_.now();
  return support::steady_s();
}

/// How names of this process begin: `sweep` finds their owner by it. Containers of one host may share its name and
/// count processes from 1, so the process number space is part of it.
std::string Leases::own_prefix(std::string_view what) const {
  std::string pids;
  for (const char c : options_.where.pids) {
    if (c >= '0' && c <= '9') pids += c;
  }
  return cat(".", what, ".", options_.where.host, ".", pids.empty() ? "0" : pids, ".");
}

fs::path Leases::own_name(std::string_view what) { return folder_ / cat(own_prefix(what), ::getpid(), ".", ++count_); }

/// Makes a new file under a unique name; an existing file has another owner, whatever its name.
fs::path Leases::new_claim(Descriptor& file) {
  constexpr int kTries = 100;
  for (int tries = 0; tries < kTries; ++tries) {
    const fs::path name = own_name("claim");
    // On a network a heartbeat goes to the server immediately: others count a silent owner as gone.
    const int synced = support::is_on_network(folder_) ? O_DSYNC : 0;
    file = Descriptor(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | synced, 0666));
    if (file) return name;
    if (errno == ENOENT)
      support::make_folders(folder_);
    else if (errno != EEXIST)
      throw_errno("create", name.string(), true);
  }
  errno = EEXIST;
  throw_errno("create a claim in", folder_.string(), true);
}

std::string Leases::first_line(const OwnLease& held) {
  char line[80];
  std::snprintf(line, sizeof line, "%016llu %010llu %020llu\n",
                static_cast<unsigned long long>(held.counter) % 10'000'000'000'000'000ULL,
                static_cast<unsigned long long>(held.stage_pid) % 10'000'000'000ULL,
                static_cast<unsigned long long>(held.stage_start));
  return line;
}

/// The current lease; empty when there is none. Its number alone does not identify it: file systems use the numbers of
/// deleted files again.
std::optional<Leases::Watch> Leases::look(const std::string& key) const {
  const Descriptor fd(::open(path(key).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT || errno == ESTALE) return std::nullopt;
    throw_errno("read", path(key).string());
  }
  Watch watch;
  struct stat status {};
  if (::fstat(fd.get(), &status) == 0) watch.inode = status.st_ino;
  char buffer[4096];
  const ssize_t count = ::read(fd.get(), buffer, sizeof buffer);
  // Unreadable now: an owner that cannot be queried, judged like any other by changes.
  if (count > 0) watch.bytes.assign(buffer, static_cast<std::size_t>(count));
  return watch;
}

bool Leases::owner_is_gone(const LeaseOwner& owner, const HostIdentity& here) {
  if (owner.where.host != here.host || owner.where.machine != here.machine) return false;
  if (owner.where.boot != here.boot) return true;   // this machine has started again since
  if (owner.where.pids != here.pids) return false;  // another container of it, whose processes we do not see
  // A hidden process shows only by its heartbeats.
  return process_life(owner.pid, owner.process_start) == ProcessLife::kGone;
}

bool Leases::stale(const std::string& key, const Watch& seen, const std::optional<LeaseOwner>& owner,
                   std::string& why) {
  if (owner && owner_is_gone(*owner, options_.where)) {
    why = "its process is gone";
    return true;
  }
  if (owner && !owner->slurm_job.empty() && options_.job_ended && options_.job_ended(*owner)) {
    why = "its job has ended";
    return true;
  }
  Watch& watch = watched_[key];
  if (watch.inode != seen.inode || watch.bytes != seen.bytes) {
    watch = seen;
    watch.since_s = now();
    return false;
  }
  if (now() - watch.since_s < options_.expiry_s) return false;
  why = cat("it gave no sign for ", support::short_duration(now() - watch.since_s));
  return true;
}

/// Held while a lease is looked at a last time and renamed away. Without it, a slow breaker could rename a lease that
/// another one has just acquired, and for a moment a third could acquire the free name. Freed by the kernel whatever
/// happens. Where the file system knows no locks on folders, the look after the rename must do.
class Leases::Breaking {
 public:
  explicit Breaking(const fs::path& folder) : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    constexpr int kTries = 100;  // of a millisecond: breaking takes microseconds
    for (int tries = 0; folder_ && tries < kTries; ++tries) {
      if (::flock(folder_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
      ::usleep(1000);
    }
    alone_ = static_cast<bool>(!folder_);
  }
  /// False: another process holds it.
  bool alone() const { return alone_; }

 private:
  Descriptor folder_;
  bool alone_ = true;
};

bool Leases::break_lease(const std::string& key, const Watch& seen, const std::string& whose) {
  const fs::path away = own_name("broken");
  const Breaking breaking(folder_);
  if (!breaking.alone()) return false;
  const auto still = look(key);
  if (!still || still->inode != seen.inode || still->bytes != seen.bytes) return false;
  fault_point("break lease");
  // Only one breaker's rename succeeds; a lost reply reads as a failure, and the next look shows the truth.
  if (::rename(path(key).c_str(), away.c_str()) != 0) {
    const int error = errno;
    if (::access(away.c_str(), F_OK) != 0) {
      if (error == ENOENT || error == ESTALE) return false;
      throw support::IoError(cat("cannot break the stale lease '", path(key).string(), "' of ", whose, ": ",
                                 std::strerror(error), "; the owner of the file or of its folder can remove it"));
    }
  }
  const auto moved = look(away.filename().string());
  if (moved && (moved->inode != seen.inode || moved->bytes != seen.bytes)) {
    // Someone broke it and acquired it since we looked: theirs goes back, unless a third one is there already.
    fault_point("put lease back");
    if (::link(away.c_str(), path(key).c_str()) != 0) errno = 0;
    ::unlink(away.c_str());
    return false;
  }
  fault_point("remove broken lease");
  ::unlink(away.c_str());
  watched_.erase(key);
  return true;
}

bool Leases::claim(const std::string& key) {
  OwnLease held;
  fault_point("write claim");
  const fs::path name = new_claim(held.file);
  const std::string text = first_line(held) + tail_ + cat(",\"claim\":", count_, "}\n");
  if (!support::write_whole(held.file.get(), text)) {
    const int error = errno;
    ::unlink(name.c_str());
    errno = error;
    throw_errno("write", name.string(), true);
  }
  fault_point("link lease");
  const int linked = ::link(name.c_str(), path(key).c_str());
  const int error = errno;
  struct stat status {};
  const bool known = ::fstat(held.file.get(), &status) == 0;
  const bool ours = known ? status.st_nlink == 2 : linked == 0;
  fault_point("remove claim");
  ::unlink(name.c_str());
  if (!ours) {
    if (linked != 0 && error != EEXIST && error != ENOENT && error != ESTALE) {
      errno = error;
      throw_errno("lease", path(key).string(), true);
    }
    return false;
  }
  held.inode = status.st_ino;
  held.beat_s = now();
  held_[key] = std::move(held);
  watched_.erase(key);
  return true;
}

Leases::Answer Leases::acquire(const std::string& key) {
  Answer answer;
  if (held_.count(key) != 0) {
    answer.acquired = true;
    return answer;
  }
  // A few times, since it may be freed, broken or taken by another between two steps.
  for (int tries = 0; tries < 4; ++tries) {
    const auto seen = look(key);
    if (seen) {
      answer.holder = parse_lease(seen->bytes);
      std::string why;
      if (!stale(key, *seen, answer.holder, why)) return answer;
      const auto owner = answer.holder;
      const std::string whose = cat(owner ? owner->describe() : "an owner that cannot be read", " (", why, ")");
      if (!break_lease(key, *seen, whose)) continue;
      answer.broken = owner ? *owner : LeaseOwner();
      answer.why = why;
    }
    if (claim(key)) {
      answer.acquired = true;
      answer.holder.reset();
      return answer;
    }
  }
  return answer;
}

void Leases::name_stage(const std::string& key, std::int64_t pid, std::uint64_t start) {
  const auto found = held_.find(key);
  if (found == held_.end() || pid <= 0) return;
  OwnLease& held = found->second;
  held.stage_pid = pid;
  held.stage_start = start;
  const std::string line = first_line(held);
  if (::pwrite(held.file.get(), line.data(), line.size(), 0) < 0) errno = 0;
}

bool Leases::holds(const std::string& key) const {
  const auto found = held_.find(key);
  if (found == held_.end()) return false;
  struct stat status {};
  if (::stat(path(key).c_str(), &status) != 0) return errno != ENOENT && errno != ESTALE;
  return status.st_ino == found->second.inode;
}

void Leases::release(const std::string& key) {
  const auto found = held_.find(key);
  if (found == held_.end()) return;
  const bool ours = holds(key);
  const bool fresh = now() - found->second.beat_s < options_.expiry_s / 2;
  const OwnLease held = std::move(found->second);  // open to the end: its number is its own until then
  held_.erase(found);
  if (!ours) return;
  if (fresh) {
    // No other process can have judged it stale yet.
    fault_point("release lease");
    ::unlink(path(key).c_str());
    return;
  }
  try {
    const auto seen = look(key);
    if (seen && seen->inode == held.inode) break_lease(key, *seen, "our own");
  } catch (const support::IoError&) {
    // It goes stale by itself.
  }
}

std::vector<std::string> Leases::send_heartbeats() {
  std::vector<std::string> lost;
  const double time = now();
  for (auto& [key, held] : held_) {
    if (time - held.beat_s < options_.heartbeat_s) continue;
    if (!holds(key)) {
      lost.push_back(key);
      continue;
    }
    ++held.counter;
    const std::string line = first_line(held);
    fault_point("beat");
    // A heartbeat that fails is tried again with the next one; only after four of them is the lease in danger.
    if (::pwrite(held.file.get(), line.data(), line.size(), 0) < 0) errno = 0;
    held.beat_s = time;
  }
  for (const std::string& key : lost) held_.erase(key);
  return lost;
}

std::map<std::string, std::optional<LeaseOwner>> Leases::list(const fs::path& folder) {
  std::map<std::string, std::optional<LeaseOwner>> all;
  for (const std::string& name : support::list_folder(folder)) {
    if (name[0] == '.') continue;
    try {
      all[name] = parse_lease(support::read_file(folder / name, 1 << 16));
    } catch (const support::IoError&) {
      if (support::is_there(folder / name)) all[name] = std::nullopt;  // else given back meanwhile
    }
  }
  return all;
}

std::vector<LeaseOwner> Leases::sweep() const {
  const std::string own[] = {own_prefix("claim"), own_prefix("broken")};
  for (const std::string& name : support::list_folder(folder_)) {
    for (const std::string& prefix : own) {
      if (name.rfind(prefix, 0) != 0) continue;
      const auto pid = std::atoll(name.c_str() + prefix.size());
      if (pid != ::getpid() && process_life(pid, 0) == ProcessLife::kGone) ::unlink((folder_ / name).c_str());
    }
  }
  std::vector<LeaseOwner> gone;
  int number = 0;
  for (const auto& [key, owner] : list(folder_)) {
    if (!owner || !owner_is_gone(*owner, options_.where)) continue;
    const Breaking breaking(folder_);
    const auto seen = breaking.alone() ? look(key) : std::nullopt;
    if (!seen || !parse_lease(seen->bytes) || !owner_is_gone(*parse_lease(seen->bytes), options_.where)) continue;
    const fs::path away = folder_ / cat(own_prefix("broken"), ::getpid(), ".swept-", ++number);
    if (::rename(path(key).c_str(), away.c_str()) != 0) continue;
    const auto moved = look(away.filename().string());
    if (moved && moved->bytes != seen->bytes && ::link(away.c_str(), path(key).c_str()) != 0)
      errno = 0;  // a third one is there already
    ::unlink(away.c_str());
    gone.push_back(*owner);
  }
  return gone;
}

}  // namespace pe::pipeline
