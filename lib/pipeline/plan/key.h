/// @file
/// Keys. A *plan key* names work before anything has run: the recipe, with each input as its producer's plan key. A
/// *task key* addresses a result: the same document with the content digest of each input. Both are SHA-256 over
/// deterministic CBOR of a typed document, so order, white space and the spelling of numbers cannot move them.
///
/// The document of a task:
///     {"stage": "train", "version": 3, "config": {hashed part}, "inputs": {"data": [{"digest": "…"}]},
///      "externals": {"path": [["name", "sha256"], …]}, "build": "…"}
/// An input snapshot also has its "step". An input has "labels" where task.json has them: a stage must not read
/// anything that is not in its key (StageDescription::reads_labels). `build` exists under `code: build`. A field of
/// type path is absent from `config` and appears under `externals`: of several paths a list each, in the order given. A
/// trajectory whose horizon is free has no horizon in `config`, and its results are addressed by (key, step).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "support/json.h"

namespace pe::pipeline {

/// One input as a task key sees it, in the order of Task::inputs.
struct InputDigest {
  std::string role;
  std::string digest;      ///< content digest, hex
  std::int64_t step = -1;  ///< of a snapshot, else -1
};

/// True when the horizon does not shape the steps before it, so that it is in no key.
bool horizon_is_free(const Task& task);

/// The stage's revisions that a hashed config meets, which its key therefore holds: name → number.
std::map<std::string, int> revisions_of(const StageDescription& stage, const Json& hashed_config);

/// The document whose hash is the task key; for a trajectory, the key that its steps share.
Json task_preimage(const Graph& graph, const Task& task, const std::vector<InputDigest>& inputs);

/// The inputs in a task key: role → [{"digest", "step" of a snapshot, "labels" where the stage reads them}].
Json input_roles(const Graph& graph, const Task& task, const std::vector<InputDigest>& inputs);

/// sha256 of the document, hex.
std::string task_key_of(const Json& preimage);

/// The document of the plan key: inputs are {"plan": producer's plan key, "output": role, "step": n, "labels": {…}}.
Json plan_preimage(const Graph& graph, const Task& task);

/// Keys of many tasks: what tasks share is encoded once. Gives the hashes of `task_preimage` and `plan_preimage`,
/// without making the documents.
class KeyMaker {
 public:
  KeyMaker();
  ~KeyMaker();
  /// The producers' plan keys must be there.
  std::string plan_key(const Graph& graph, const Task& task);
  std::string task_key(const Graph& graph, const Task& task, const std::vector<InputDigest>& inputs);
  /// The hashed part of the config, in deterministic CBOR: equal bytes are equal configs. Lives as long as this.
  const std::string& config(const Task& task);
  /// The encoded files that the config names; empty when it names none.
  const std::string& externals(const Task& task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The maker of `compute_plan_keys`, with all that it encoded, else a new one.
std::shared_ptr<KeyMaker> keys_of(const Graph& graph);

/// Fills Task::plan_key of every task, producers first. External inputs must have been hashed (externals.h). A task
/// with snapshots gets its trajectory key.
void compute_plan_keys(Graph& graph);

}  // namespace pe::pipeline
