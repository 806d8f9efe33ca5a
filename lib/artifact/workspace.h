/// @file
/// A stage's named inputs and outputs, its work folder, and its progress line. Made from `task.json`
/// (`pe-task/1`) or from flags; a stage sees no difference.
///
/// task.json:
///     {"schema": "pe-task/1", "stage": "train", "version": 8, "key": "<hex task key or empty>", "config": {complete},
///      "inputs": {"data": [{"path": "…", "kind": "token-shards", "digest": "<content digest>",
///                           "labels": {"seed": "42"}}]},
///      "outputs": {"model": "<temporary path>", "metrics": "<temporary path>"},
///      "snapshots": [{"label": "b25", "step": 100, "outputs": {"model": "<path>", "metrics": "<path>"}}],
///      "earlier": {"label": "b12", "step": 50, "outputs": {"model": "<path>", "metrics": "<path>"}},
///      "missing": {"data": [{"producer": "trunk[seed=7]", "labels": {"seed": "7"}, "reason": "failed"}]},
///      "work": "<folder>", "resume": "<folder of an earlier attempt>" or null, "events_fd": 3 or null}
/// Also: "build_id", for people; "build" where `code: build` binds the program; "checkpoint"; "status" of a diverged
/// input. An input or output of a collection kind is a folder with a `manifest.json` (artifact/collection.h); any other
/// is a file. With snapshots the requested ones are written, and `outputs` is empty; `earlier`: the store has one
/// before all of them.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "artifact/kind.h"
#include "support/json.h"
#include "support/progress.h"

namespace pe::artifact {

struct Input {
  std::filesystem::path path;
  Kind kind;
  std::string digest;                         ///< content digest; empty when a person named the path
  std::map<std::string, std::string> labels;  ///< axis → label, and "stage" → stage label; of stages that read labels
};

struct Snapshot {
  std::string label;
  std::int64_t step = 0;
  std::map<std::string, std::filesystem::path> outputs;  ///< role → path
};

/// Record of the making of an artifact: written to `/pe/made_by`, outside the content digest.
struct Recipe {
  std::string stage;
  int version = 0;
  std::string task_key;  ///< empty when run by hand
  Json config;           ///< complete
  Json inputs;           ///< role → list of content digests
};

class Workspace {
 public:
  std::map<std::string, std::vector<Input>> inputs;
  std::map<std::string, std::filesystem::path> outputs;
  std::vector<Snapshot> snapshots;              ///< ordered by step
  std::optional<Snapshot> earlier;              ///< made before; to resume from where no work folder is left
  std::filesystem::path work;                   ///< private to this attempt; exists
  std::optional<std::filesystem::path> resume;  ///< work folder of an earlier attempt; may equal `work`
  Recipe recipe;
  support::Progress* progress = nullptr;  ///< never null while a stage runs

  /// The only input of a role. @throws ArtifactError when there is none or more than one.
  const Input& input(const std::string& role) const;
  bool has_input(const std::string& role) const;
  /// All inputs of a role, in the order given; empty when none.
  const std::vector<Input>& all_inputs(const std::string& role) const;
  /// Path of an output. @throws Error (bug) when the stage has no such role.
  const std::filesystem::path& output(const std::string& role) const;
  bool has_output(const std::string& role) const { return outputs.count(role) != 0; }
};

}  // namespace pe::artifact
