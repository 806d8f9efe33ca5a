#include "pipeline/cluster/allocation.h"

#include <algorithm>
#include <cstdlib>

#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

constexpr std::int64_t kMostStill = 3;  // attempts without a step, of a task that saves steps
constexpr std::int64_t kMostRestarts = 50;
// Slurm's signals before the end of a job's time are good to about a minute.
constexpr double kLeadSlack = 90;

std::optional<std::int64_t> count(const Environment& environment, const char* name) {
  const auto text = environment(name);
  const auto value = text ? support::parse_integer(*text) : std::nullopt;
  return value && *value > 0 ? value : std::nullopt;
}

}  // namespace

std::optional<std::string> own_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::optional<OwnJob> own_job(const Environment& environment) {
  const auto id = environment("SLURM_JOB_ID");
  if (!id || id->empty()) return std::nullopt;
  OwnJob job;
  job.job = *id;
  job.array_job = environment("SLURM_ARRAY_JOB_ID").value_or(*id);
  job.index = count(environment, "SLURM_ARRAY_TASK_ID").value_or(0);
  job.restarts = count(environment, "SLURM_RESTART_COUNT").value_or(0);
  job.node = environment("SLURMD_NODENAME").value_or("");
  job.cluster = environment("SLURM_CLUSTER_NAME").value_or("");
  return job;
}

std::string OwnJob::id() const { return cat(array_job, "_", index); }

Capacity allocated(Capacity machine, const Environment& environment) {
  if (!environment("SLURM_JOB_ID")) return machine;
  const std::int64_t nodes = count(environment, "SLURM_JOB_NUM_NODES").value_or(1);
  std::int64_t cpus = count(environment, "SLURM_CPUS_ON_NODE").value_or(machine.cpus);
  if (const auto each = count(environment, "SLURM_CPUS_PER_TASK")) cpus = std::min(cpus, *each);
  machine.cpus = cpus * nodes;
  // Megabytes in Slurm's sense, which are mebibytes; 0 is all of a node's.
  if (const auto node = count(environment, "SLURM_MEM_PER_NODE"))
    machine.mem_bytes = *node << 20;
  else if (const auto cpu = count(environment, "SLURM_MEM_PER_CPU"))
    machine.mem_bytes = (*cpu << 20) * cpus;
  machine.mem_bytes *= nodes;
  if (nodes > 1 && !machine.gpus.empty()) {
    // GPUs of the other nodes have the same numbers there; here they only count.
    const std::size_t here = machine.gpus.size();
    for (std::int64_t node = 1; node < nodes; ++node) {
      for (std::size_t i = 0; i < here; ++i) machine.gpus.push_back(cat(machine.gpus[i], "@", node));
    }
  }
  return machine;
}

StopDecision decide_after_stop(const StopFacts& facts) {
  using Kind = StopDecision::Kind;
  if (facts.cancelled) return {Kind::kEnd, "it was cancelled with `pe-pipeline cancel`"};
  if (!facts.row)
    return {Kind::kUnknown,
            "Slurm does not answer whether the job was cancelled; `pe-pipeline submit` continues from here"};
  if (facts.row->state != "RUNNING") {
    return {Kind::kEnd, cat("Slurm calls the job ", facts.row->state,
                            ": it was cancelled, its time limit was reached, or Slurm queues it again by itself")};
  }
  if (!facts.waits_for.empty()) return {Kind::kRequeue, cat("what is left to do is made by ", facts.waits_for)};
  if (facts.moved) return {Kind::kRequeue, "it continues from its saved state"};
  if (facts.restarts >= kMostRestarts)
    return {Kind::kGiveUp, cat("it was started ", facts.restarts + 1, " times, and saved nothing in the last one")};
  if (facts.keeps_steps && facts.still >= kMostStill)
    return {Kind::kGiveUp, cat(facts.still, " attempts in a row saved no step")};
  const double limit = facts.row->limit_s;
  // No warning comes in the first half of a job's time.
  const bool near_end = limit > 0 && facts.row->run_s > limit - std::min(facts.lead_s + kLeadSlack, limit / 2);
  if (near_end && !facts.keeps_steps) {
    return {Kind::kGiveUp,
            "its time is nearly over and nothing was saved: it would never come to an end; give it a longer "
            "`resources.time`"};
  }
  return {Kind::kRequeue, "it starts again"};
}

}  // namespace pe::pipeline
