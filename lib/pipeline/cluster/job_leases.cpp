#include "pipeline/cluster/job_leases.h"

#include <chrono>
#include <map>
#include <memory>

#include "pipeline/cluster/allocation.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

bool is_of_cluster(const LeaseOwner& owner, const std::string& cluster) {
  return owner.slurm_cluster.empty() || owner.slurm_cluster == cluster;
}

}  // namespace

bool job_is_over(const LeaseOwner& owner, const std::string& cluster, const std::vector<JobRow>& rows) {
  if (!is_of_cluster(owner, cluster)) return false;
  for (const JobRow& row : rows) {
    if (row.job != owner.slurm_job) continue;
    if (!owner.slurm_name.empty() && row.name != owner.slurm_name) continue;
    // Waiting to start again, it does not work now.
    return is_final(row.state) || row.state == "PENDING";
  }
  return false;
}

std::function<bool(const LeaseOwner&)> job_ended_by(Slurm& slurm) {
  using Clock = std::chrono::steady_clock;
  struct ClusterQueue {
    std::string cluster;
    std::optional<std::vector<JobRow>> rows;
    Clock::time_point at{};                         // when the question was asked
    std::map<std::string, Clock::time_point> seen;  // lease owner → first look at its lease
    Clock::time_point next{};
  };
  const auto asked = std::make_shared<ClusterQueue>();
  return [asked, &slurm](const LeaseOwner& owner) {
    if (owner.slurm_job.empty()) return false;
    // A lease of this very job, before it was queued again.
    const auto own = own_job();
    if (own && own->job == owner.slurm_job && is_of_cluster(owner, own->cluster))
      return support::parse_integer(owner.slurm_restart).value_or(0) < own->restarts;
    // An older answer may know the job from before its start: waiting in the queue.
    const std::string who = support::cat(owner.slurm_cluster, " ", owner.slurm_job, " ", owner.slurm_restart, " ",
                                         owner.pid, " ", owner.started);
    const Clock::time_point seen = asked->seen.try_emplace(who, Clock::now()).first->second;
    if (Clock::now() >= asked->next) {
      asked->at = Clock::now();
      asked->cluster = slurm.cluster();
      asked->rows = slurm.own_jobs();
      asked->next = Clock::now() + std::chrono::seconds(30);
    }
    return asked->rows && asked->at >= seen && job_is_over(owner, asked->cluster, *asked->rows);
  };
}

}  // namespace pe::pipeline
