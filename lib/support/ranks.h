/// @file
/// Several processes of one stage that share its work: which of them this one is, and how they find each other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pe::support {

struct Ranks {
  std::int64_t rank = 0;
  std::int64_t count = 1;
  std::int64_t local = 0;  ///< Rank on this machine; selects the GPU.
  std::string from;        ///< the variable that says so: "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"
  std::string host;        ///< Host of rank 0; empty under mpirun, which has its own exchange.
  int port = 0;            ///< Port on which rank 0 listens while all start.
  std::string start;       ///< job, step and restart under srun: ranks of another start are turned away
  bool is_first() const { return rank == 0; }
};

using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// Ranks from the environment, by the first of these that exists: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
/// MASTER_PORT (torchrun and our own launcher set them); OMPI_COMM_WORLD_* (mpirun). For srun they are SLURM_PROCID,
/// SLURM_STEP_NUM_TASKS, SLURM_LOCALID, SLURM_STEP_NODELIST and SLURM_JOB_ID (a batch script by itself is no rank). One
/// process alone without them.
/// @throws ConfigError naming the variable that is missing or no number.
Ranks ranks_from(const Lookup& environment);

/// Ranks of this process at its start.
const Ranks& own_ranks();

/// "node[08-10,12],login" as five names. @throws ConfigError for brackets that do not close and ranges that fall.
std::vector<std::string> expand_hosts(const std::string& list);

/// Rank 0 sends `text` to every other rank over TCP; their argument is ignored. @return rank 0's text.
/// @throws Error (69) naming host and port when not all have come within `timeout_s`.
std::string broadcast_text(const Ranks& ranks, const std::string& text, double timeout_s);

/// Sequences that a GPU takes at a time where `compute.micro_batch` is `auto`: the largest divisor of a rank's `part`
/// of a batch with at most 32,768 tokens, at least 1. No machine changes it. @param length tokens of a sequence.
std::int64_t gpu_micro_batch(std::int64_t part, std::int64_t length);

/// A port of this machine that is free now.
int free_port();

}  // namespace pe::support
