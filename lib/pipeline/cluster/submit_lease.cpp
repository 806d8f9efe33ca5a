#include "pipeline/cluster/submit_lease.h"

#include <chrono>
#include <thread>

#include "pipeline/cluster/job_leases.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

LeaseOptions options_of(const std::string& pipeline, Slurm& slurm) {
  LeaseOptions options;
  options.pipeline = pipeline;
  options.job_ended = job_ended_by(slurm);
  return options;
}

}  // namespace

SubmitLease::SubmitLease(const Store& store, const std::string& pipeline, Slurm& slurm,
                         const std::function<void(const std::string&)>& tell)
    : leases_(store.leases_folder(), options_of(pipeline, slurm)) {
  for (bool told = false;; told = true) {
    const Leases::Answer answer = leases_.acquire("submit-" + pipeline);
    if (answer.acquired) return;
    if (!told) {
      tell(support::cat("waiting for another `submit` of ", support::quote(pipeline), ", by ",
                        answer.holder ? answer.holder->describe() : "an owner that cannot be read"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

void SubmitLease::send_heartbeat() {
  if (leases_.send_heartbeats().empty()) return;
  throw support::IoError("another `submit` of this pipeline took over, since this one did not respond for two minutes",
                         "no more jobs were sent; `pe-pipeline status` shows the jobs of the other one");
}

}  // namespace pe::pipeline
