/// @file
/// The blocks `slurm` of a pipeline file and of its stages.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pipeline/file/pipeline_file.h"
#include "support/json.h"

namespace pe::pipeline {

/// How a stage's tasks go to Slurm. Never hashed, except `isa`, which replaces `compute.isa: auto`.
struct SlurmPolicy {
  std::map<std::string, std::string> partitions;  ///< by name of resources, else "default"
  std::string account, qos, constraint, reservation, isa;
  std::string memory = "per-node";  ///< how it is asked for: per-node, per-cpu, none
  std::string gpus = "gres";        ///< gres (--gres=gpu:N), per-node (--gpus-per-node=N)
  std::string gpu_type;             ///< "a100"; empty: any
  std::int64_t nodes = 1;
  std::vector<std::string> setup;    ///< lines of the batch script before anything else
  std::vector<std::string> options;  ///< passed to sbatch unchanged
  bool keep_environment = true;
  bool here = false;              ///< run by `submit` itself, where it is called
  std::string mode = "stage";     ///< of the file: stage, lane
  std::int64_t max_running = 0;   ///< Elements of an array that run concurrently; 0: any number.
  std::int64_t max_in_queue = 0;  ///< Jobs of this user, set by the file; 0: as many as Slurm takes.
  double signal_lead_s = 120;     ///< Time between the signal to a job and its end.
  double time_s = 0;              ///< for tasks whose resources name none; 0: the partition's

  /// The partition for a task with these resources; empty: the cluster's default.
  const std::string& partition(const std::string& resources) const;
};

using SlurmPolicies = std::map<std::string, SlurmPolicy>;  ///< by label of stage

/// Lays the members of a map over `policy`. Settings for a whole file are rejected for a stage.
void read_slurm(const support::Node& map, bool of_stage, SlurmPolicy& policy, support::Diagnostics& diagnostics);

/// Lays a value over the block of a file, as `--set slurm.KEY=VALUE` does.
void set_slurm(PipelineFile& file, const std::string& key, support::Node value);

/// Settings of the file for each of its stages.
SlurmPolicies slurm_policies(const PipelineFile& file, support::Diagnostics& diagnostics);

/// The `signal_lead` of a stage; null when neither its block nor the file's names one.
const support::Node* signal_lead_of(const PipelineFile& file, const std::string& stage);

/// All of it, so that equal texts are equal policies.
Json to_json(const SlurmPolicy& policy);

}  // namespace pe::pipeline
