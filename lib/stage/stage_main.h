/// @file
/// Common code of all stages: flags, config reading, `--describe`, `--check`, logging, exit codes.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "artifact/stage_parts.h"
#include "artifact/workspace.h"
#include "support/config.h"

namespace pe::stage {

using artifact::Branch;
using artifact::InputRole;
using artifact::OutputRole;
using artifact::Revision;
using artifact::Trajectory;

struct StageInfo {
  std::string name;  ///< "train"; the program is pe-train
  int version = 1;   ///< result version: raised when the same config and inputs would give other contents
  std::vector<Revision> revisions = {};
  std::string summary;
  std::vector<InputRole> inputs;
  std::vector<OutputRole> outputs;
  bool resumes = false;      ///< continues from the work folder of an earlier attempt
  bool takes_ranks = false;  ///< several processes can share its work (config key compute.ranks)
  std::optional<Trajectory> trajectory;
  std::optional<Branch> branch;
  /// Arithmetic over config keys (pipeline/plan/cost.h): {"tokens": "train.tokens"}; of models "parameters", "flops" of
  /// a token forward and backward, and the key of their "encoding"; of token shards their "vocabulary".
  Json costs = Json::object();
  /// Shown by --help after the fields.
  std::string epilogue;
  /// Flags of this stage alone, which its main takes before `run`: name and meaning, for --help.
  std::vector<std::pair<std::string, std::string>> flags = {};
  /// The results as text, from the finished outputs. Printed where a person runs the stage by hand, and not for a
  /// task.json, whose standard output is a log. Null: none.
  std::function<std::string(const artifact::Workspace& workspace)> results;
  /// Called on rank 0 as soon as the order is known: asks the system to read files that the body needs, and does not
  /// wait. Called again when `prepare` re-executes the program. May be null.
  std::function<void(const artifact::Workspace& workspace)> prefetch;
  /// Called before anything else with the bound config's Json, in stages that use LibTorch: sets threads, instruction
  /// sets and determinism (it may re-execute the program). Null elsewhere.
  std::function<void(const Json& config, int argc, char** argv)> prepare;
  /// Machine and libraries of the stage, such as {"libtorch": "2.8.0", "device": "NVIDIA H200"}; goes into records.
  /// Called after `prepare`, before the body. Null in stages with the same bytes on any machine.
  std::function<Json(const Json& config)> machine;
  /// Explains exceptions of the libraries that the stage uses (support/explain.h); nothing: the exception is a mistake
  /// of ours. `config` is null before the order was read. Null in stages that do not use LibTorch.
  std::function<std::optional<support::Error>(const std::exception& error, const Json& config)> explain;
  /// The labels of the inputs and the pipeline's title are written into the config keys `labels` and `title`, for
  /// stages that print them. Such a stage finds Input::labels filled, too.
  bool takes_labels = false;
  /// Input::labels is filled, and in the stage's keys: its results are made again where a label or a stage is renamed.
  bool reads_labels = false;
};

int run_stage(int argc, char** argv, const StageInfo& info, const support::Schema& schema,
              const std::function<void(const Json& config)>& check,
              const std::function<void(const Json& config, artifact::Workspace& workspace)>& body);

/// Runs a stage; returns its exit code. `body` gets the filled config and the workspace.
template <typename Config>
int run(int argc, char** argv, const StageInfo& info, void (*body)(const Config&, artifact::Workspace&)) {
  return run_stage(
      argc, argv, info, support::schema_of<Config>(), [](const Json& config) { support::make_config<Config>(config); },
      [body](const Json& config, artifact::Workspace& workspace) {
        body(support::make_config<Config>(config), workspace);
      });
}

}  // namespace pe::stage
