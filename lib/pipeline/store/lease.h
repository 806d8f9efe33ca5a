/// @file
/// Leases: who works on a plan key. They prevent double work and nothing else: publishing is right without them, so a
/// lease may be broken, lost or ignored, and no result is ever wrong for it.
///
/// `leases/<plan key>` is a file of two lines:
///
///     0000000000000017 0000012345 00000000000001234567
///     {"host": …, "boot": …, "pid": …, "process_start": …, "run": …, …}
///
/// The first has a fixed width and is rewritten in place: a counter that the owner raises every 30 s, and the stage's
/// process. To acquire, a claim of the same form is written under a unique name and linked to the lease's name. The
/// claim's link count shows whether that worked, even where the reply of a network file system was lost. A lease is
/// stale immediately when its owner was a process of this host that is gone, or a job that has ended. Else it is stale
/// when nothing in it changed for 120 s of this process's clock: other hosts' clocks and file times are never compared.
/// It is broken by renaming it away, by one breaker at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/store/host.h"
#include "support/files.h"
#include "support/json.h"

namespace pe::pipeline {

struct LeaseOwner {
  HostIdentity where;
  std::int64_t pid = 0;
  std::uint64_t process_start = 0;
  std::int64_t stage_pid = 0;  ///< of the stage at work, or 0
  std::uint64_t stage_start = 0;
  std::string run, pipeline;
  /// As Slurm's environment says; empty outside of it. Numbers of jobs repeat: on another cluster, and on the same one
  /// after its controller lost its memory. The names of our jobs do not.
  std::string slurm_job, slurm_restart, slurm_cluster, slurm_name;
  double started = 0;  ///< unix seconds, for people

  /// "process 123 on host, running 'grid' since 2026-11-21T19:45:12Z".
  std::string describe() const;
};

Json to_json(const LeaseOwner& owner);
/// Empty when the bytes are no lease.
std::optional<LeaseOwner> parse_lease(std::string_view bytes);

struct LeaseOptions {
  HostIdentity where = this_host();  ///< tests take other machines' places
  std::string run, pipeline;
  double heartbeat_s = 30;
  double expiry_s = 120;        ///< Time without a heartbeat, for owners that cannot be queried otherwise.
  std::function<double()> now;  ///< Seconds on a clock that only goes forward; absent: the machine's.
  /// Whether the owner's job (of a cluster) is known to have ended.
  std::function<bool(const LeaseOwner&)> job_ended;
};

class Leases {
 public:
  Leases(std::filesystem::path folder, LeaseOptions options);
  /// Releases held leases.
  ~Leases();
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  struct Answer {
    bool acquired = false;
    std::optional<LeaseOwner> holder;  ///< who has it, when it was not acquired; empty for a damaged lease
    std::optional<LeaseOwner> broken;  ///< whose stale lease was broken for it
    std::string why;                   ///< it was stale
  };
  /// Tries once. @throws IoError when the folder cannot be written, or a stale lease may not be broken (another
  /// user's).
  Answer acquire(const std::string& key);
  /// Notes the stage's process in the lease; what fails is left out.
  void name_stage(const std::string& key, std::int64_t pid, std::uint64_t start);
  /// Whether the lease still exists under its name.
  bool holds(const std::string& key) const;
  void release(const std::string& key);

  /// Raises the counters that are due. Returns the keys whose lease another process broke meanwhile (this process was
  /// stopped for too long); they are no longer held.
  std::vector<std::string> send_heartbeats();

  std::size_t held() const { return held_.size(); }
  /// Whether the lease of `holder`, seen just now, has gone stale; `seen` names its bytes. For people and clean-up.
  static bool owner_is_gone(const LeaseOwner& owner, const HostIdentity& here);
  /// Every lease of a folder, by key; damaged ones have no owner.
  static std::map<std::string, std::optional<LeaseOwner>> list(const std::filesystem::path& folder);
  /// Removes remains of killed processes of this host: claims, and leases of tasks that are no longer wanted. Returns
  /// the owners of those leases.
  std::vector<LeaseOwner> sweep() const;

 private:
  struct OwnLease {
    support::Descriptor file;
    std::uint64_t inode = 0;
    std::int64_t counter = 0;
    std::int64_t stage_pid = 0;
    std::uint64_t stage_start = 0;
    double beat_s = 0;
  };
  struct Watch {
    std::uint64_t inode = 0;
    std::string bytes;
    double since_s = 0;
  };

  class Breaking;

  double now() const;
  std::filesystem::path path(const std::string& key) const { return folder_ / key; }
  std::string own_prefix(std::string_view what) const;
  std::filesystem::path own_name(std::string_view what);
  std::filesystem::path new_claim(support::Descriptor& file);
  std::optional<Watch> look(const std::string& key) const;
  bool stale(const std::string& key, const Watch& seen, const std::optional<LeaseOwner>& owner, std::string& why);
  /// `whose` for the message when it may not be broken. @throws IoError
  bool break_lease(const std::string& key, const Watch& seen, const std::string& whose);
  bool claim(const std::string& key);
  static std::string first_line(const OwnLease& held);

  std::filesystem::path folder_;
  LeaseOptions options_;
  std::string tail_;  ///< second line, the same for all
  std::map<std::string, OwnLease> held_;
  std::map<std::string, Watch> watched_;
  std::int64_t count_ = 0;
};

}  // namespace pe::pipeline
