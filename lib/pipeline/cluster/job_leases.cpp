#include "pipeline/cluster/job_leases.h"

#include <chrono>
#include <memory>

#include "pipeline/cluster/allocation.h"
#include "support/text.h"

namespace pe::pipeline {

bool job_is_over(const LeaseOwner& owner, const std::vector<JobRow>& rows) {
  for (const JobRow& row : rows) {
    if (row.job != owner.slurm_job) continue;
    // Waiting to start again, it does not work now.
    return is_final(row.state) || row.state == "PENDING";
  }
  return false;
}

std::function<bool(const LeaseOwner&)> job_ended_by(Slurm& slurm) {
  using Clock = std::chrono::steady_clock;
  struct Asked {
    std::optional<std::vector<JobRow>> rows;
    Clock::time_point next{};
  };
  const auto asked = std::make_shared<Asked>();
  return [asked, &slurm](const LeaseOwner& owner) {
    if (owner.slurm_job.empty()) return false;
    // Of this very job, before it was queued again.
    if (const auto own = own_job(); own && own->job == owner.slurm_job)
      return support::parse_integer(owner.slurm_restart).value_or(0) < own->restarts;
    if (Clock::now() >= asked->next) {
      asked->rows = slurm.own_jobs();
      asked->next = Clock::now() + std::chrono::seconds(30);
    }
    return asked->rows && job_is_over(owner, *asked->rows);
  };
}

}  // namespace pe::pipeline
