/// @file
/// A pipeline after expansion: every instance of every stage, with its complete config and its edges. Nothing here has
/// looked at the store yet.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/file/sequential.h"
#include "pipeline/file/stage_description.h"
#include "pipeline/file/task_id.h"
#include "support/config.h"
#include "support/file_stamp.h"
#include "support/json.h"
#include "support/shared.h"

namespace pe::pipeline {

/// Resources of a task. Never hashed, except for the values that `compute: auto` takes from it when planning.
struct Resources {
  std::string name;  ///< as the pipeline file names it, or empty
  std::int64_t cpus = 1;
  std::int64_t mem_bytes = 2LL << 30;
  double gpus = 0;    ///< a whole number, or below 1 a share of one GPU
  double time_s = 0;  ///< 0: no limit
  std::vector<std::string> pools;
  std::int64_t pack = 1;  ///< small tasks in one slot of a cluster
};

struct RetryPolicy {
  int max = 1;
  std::vector<std::string> on{"transient", "oom", "node", "network"};
  double backoff_s = 0;
  double oom_mem = 1.5;
};

/// A point of a trajectory that is a separate artifact.
struct SnapshotPoint {
  std::string label;
  std::int64_t step = 0;
};

/// One artifact that a task reads.
struct Edge {
  std::string role;          ///< of the reader
  std::size_t producer = 0;  ///< index into Graph::tasks; smaller than the reader's
  std::string output;        ///< role of the producer
  std::string snapshot;      ///< snapshot label, or empty
};

/// Contents of the paths of an external input when they were hashed.
struct ExternalContent {
  /// (name relative to folder or glob root, sha256), sorted
  using Files = std::vector<std::pair<std::string, std::string>>;
  std::vector<Files> groups;             ///< one for each path, in the order given; keys hold them
  std::string missing;                   ///< the first path that matches nothing, or empty
  std::vector<support::FileRead> reads;  ///< every file of every group, in its state of hashing
};

/// A file or folder outside the store that a config field of type path names (design: hashed by content).
struct ExternalInput {
  std::string field;                              ///< dotted path of the field
  std::vector<std::string> paths;                 ///< absolute, as they will be given to the stage
  support::SharedValue<ExternalContent> content;  ///< filled by hash_externals (plan/externals.h)
};

struct Task {
  std::string id;     ///< "trunk[encoding=rope,seed=42]"; for people, never hashed
  std::string label;  ///< "trunk"
  AxisLabels axes;    ///< in `over` order
  std::shared_ptr<const StageDescription> stage;
  support::SharedValue<Json> config;     ///< complete; `auto` of compute resolved; paths absolute
  std::vector<Edge> inputs;              ///< by role in declared order, then in reference order
  std::vector<SnapshotPoint> snapshots;  ///< by step; empty for a stage without
  std::vector<ExternalInput> externals;
  Resources resources;
  support::SharedValue<RetryPolicy> retry;
  support::SharedValue<Json> checkpoint;  ///< {"every_s": 600, "keep": 2}, or null
  bool allow_partial = false;
  bool record_divergence = true;                    ///< on_diverge: record.
  bool isa_is_auto = false;                         ///< `compute.isa` was `auto`, and is the planning machine's.
  bool exact_numerics = true;                       ///< Numerics: exact; else `compute` is in no key.
  bool hash_build = false;                          ///< `code: build`, or nothing said of a program without a build id.
  std::map<std::string, std::string> output_names;  ///< Role → friendly name for the view in out/.
  std::string plan_key;                             ///< Hex; for a trajectory its trajectory key.
  bool is_trajectory() const { return !snapshots.empty(); }
};

/// Labels of an artifact for its reader: axis → label of its producer, "stage" and, of a snapshot, "snapshot".
std::map<std::string, std::string> labels_of(const Task& producer, const std::string& snapshot);

class KeyMaker;

/// Origin of a graph; it lives as long as it can be queried.
class OriginSource {
 public:
  virtual ~OriginSource() = default;
  virtual support::Origins origins_of(const Task& task) const = 0;
};

/// All tasks in an order in which producers come before readers.
struct Graph {
  std::string name;  ///< of the pipeline
  std::string title;
  std::string file;      ///< Path of the pipeline file as the user gave it.
  std::string root;      ///< Absolute: the folder that relative paths of the file begin at.
  std::string variant;   ///< Scale, axes and values of the command line.
  std::string settings;  ///< `variant` without the axes that were narrowed
  std::vector<Task> tasks;
  std::size_t excluded = 0;               ///< cells that `exclude` and `only` leave out
  std::size_t dropped = 0;                ///< cells that went with an excluded parent
  std::vector<std::string> stage_labels;  ///< in file order
  Json axes = Json::object();             ///< axis → list of labels, in order
  std::map<std::string, Resources> resources;
  std::vector<std::string> environment;  ///< Further environment variables of stages, by name.
  std::optional<Sequential> sequential;  ///< How seeds are added; its axis may be narrowed.
  std::vector<support::FileRead> files;  ///< The pipeline file and every config file, in their state of reading.
  /// Where each config value of a task came from; computed on demand.
  support::Origins origins_of(const Task& task) const { return source ? source->origins_of(task) : support::Origins(); }
  std::shared_ptr<const OriginSource> source;  ///< of the expansion; null for a graph made otherwise
  std::shared_ptr<KeyMaker> keys;              ///< of compute_plan_keys (key.h), for those who need keys after it
};

std::map<std::string, std::string> labels_of(const Graph& graph, const Edge& edge);

/// Id of the artifact that an edge reads: "trunk[seed=42]@b25".
std::string producer_id(const Graph& graph, const Edge& edge);

}  // namespace pe::pipeline
