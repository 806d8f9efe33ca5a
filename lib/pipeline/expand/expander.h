/// @file
/// How a pipeline file becomes a graph: what the expand_*.cpp files share, and nobody else includes.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "pipeline/expand/expand.h"
#include "pipeline/file/graph.h"
#include "pipeline/file/pipeline_file.h"
#include "pipeline/file/stage_description.h"
#include "pipeline/file/substitution.h"
#include "support/json.h"

namespace pe::pipeline {

/// "did you mean", or all there is where that is not too long.
std::string suggest_or_list(const std::string& word, const std::vector<std::string>& candidates);

/// A map node with one member, for what a flag sets.
support::Node single(const std::string& key, support::Node value);

/// Holds everything that a graph was made of, so that origins can be asked for later.
class Expander {
 public:
  Expander(const PipelineFile& file, StageCatalog& catalog, const ExpandOptions& options)
      : file_(file), catalog_(catalog), options_(options) {}

  Graph run();
  support::Origins origins(const Task& task) const;

 private:
  static constexpr std::size_t kMostStages = 2'000;
  static constexpr std::size_t kMostMistakes = 100;
  static constexpr std::size_t kMostTasks = 300'000;
  static constexpr std::int64_t kMostEdges = 600'000;
  static constexpr char kSeparator = '\x1f';   ///< between labels in a joined key

  /// One value given by `--set`.
  struct Flag {
    std::string target;    ///< before the first '.': a stage label, "vars", "axes", "resources"
    std::string key;       ///< after it
    std::string value;
    std::string name;      ///< what messages call it: "--set trunk.train.tokens"
  };

  /// The instances of a stage that have the same axes. A stage with `each` has one group per kind of producer.
  struct Group {
    std::vector<std::string> axes;
    std::unordered_map<std::string, std::size_t> by_labels;   ///< joined labels in the order of `axes` → task
    std::vector<std::set<std::string>> domain;                ///< labels that were meant, excluded ones too
  };

  /// The config that instances with the same labels share.
  struct Composed {
    std::vector<ExternalInput> externals;
    Json compute;   ///< that group as it was written, for other resources
    /// By cpus and gpus: paths absolute, `auto` of compute resolved. Never empty.
    std::map<std::pair<std::int64_t, std::int64_t>, support::Shared<Json>> resolved;
  };

  /// What instances with the same labels may use, and how they are tried again.
  struct Policy {
    Resources resources;
    support::Shared<RetryPolicy> retry;
    support::Shared<Json> checkpoint;
  };

  struct Stage {
    const StageNode* node = nullptr;
    std::shared_ptr<const StageDescription> description;
    bool broken = false;                       ///< a mistake was told; what follows from it is not
    std::vector<Group> groups;
    std::vector<std::size_t> tasks;
    std::vector<const Axis*> own_axes;         ///< after narrowing
    std::vector<std::string> config_axes;      ///< names that its config uses
    std::vector<std::string> policy_axes;      ///< names that its resources, retry and checkpoint use
    std::vector<Flag> flags;
    std::optional<Json> base;                  ///< its config below `set`, where no file's name holds a substitution
    std::unordered_map<std::string, Composed> configs;   ///< by the labels of config_axes
    std::unordered_map<std::string, Policy> policies;    ///< by the labels of policy_axes
  };

  /// What a reference means: the same for every instance for which it reads the same.
  struct Target {
    Stage* stage = nullptr;
    std::string output;
    std::string snapshot;
    const Reference* reference = nullptr;
  };
  struct Resolved {
    Reference reference;
    std::optional<Target> target;   ///< empty when it is a mistake, which was told
  };
  struct Link {
    const InputDescription* role = nullptr;
    const ReferenceText* text = nullptr;
    bool fixed = false;             ///< no substitution in it
    bool many = false;              ///< of `gather`
    std::unordered_map<std::string, std::unique_ptr<Resolved>> by_text;   ///< after substitution
  };

  // ---- what the flags lay over the file
  void read_flags();
  void take_scale();
  void take_sets();
  void narrow_axes();
  void check_unused();

  // ---- stages
  void describe_stages();
  std::vector<std::size_t> order_stages();
  void expand_stage(Stage& stage);
  std::vector<Link> links_of(Stage& stage);
  void check_roles(Stage& stage);
  void check_patterns(const Stage& stage, const std::vector<CellPattern>& patterns, const std::string& what,
                      const std::set<std::string>& bound);

  // ---- instances
  struct Instance {
    std::vector<Binding> bindings;
    std::optional<Edge> each;      ///< the artifact that an `each` instance is made for
    std::size_t group = 0;
  };
  std::vector<Instance> enumerate(Stage& stage);
  bool too_many(const Stage& stage, std::size_t seeds, const std::vector<const Axis*>& over);
  bool excluded(const Stage& stage, const std::vector<Binding>& bindings) const;
  Scope scope_of(const std::vector<Binding>& bindings, const std::string& stage) const;

  // ---- edges
  const Target* resolve(Link& link, const Scope& scope);
  std::optional<Target> find_target(const Reference& reference, const support::Mark& mark, const InputDescription& role);
  enum class Join { kFound, kDropped, kMistake };
  Join join(const Target& target, const support::Mark& mark, const std::vector<Binding>& bindings, const std::string& reader,
            std::size_t* producer);
  std::vector<std::size_t> gather(const Target& target, const std::vector<Binding>& bindings);
  bool check_pins(const Target& target, const support::Mark& mark);
  Edge make_edge(const Target& target, std::size_t producer, const std::string& role);
  bool make_edges(Stage& stage, std::vector<Link>& links, Instance& instance, const Scope& scope, Task& task,
                  bool* dropped);

  // ---- config
  const support::Node* config_file(const std::string& path, const support::Mark& mark);
  void check_config_file(const support::Node& file);
  std::optional<Json> compose(Stage& stage, const Scope& scope, support::Origins* origins,
                              support::Diagnostics& diagnostics);
  Json checkpoint_policy(const Stage& stage, const Scope& scope, support::Diagnostics& diagnostics) const;
  void lay_checkpoint(const Stage& stage, const Scope& scope, Json& config, support::Diagnostics& diagnostics) const;
  bool declared_anywhere(const std::string& dotted) const;
  bool finish_config(Stage& stage, const Scope& scope, Task& task);
  void lay_claims(const Stage& stage, Json& config) const;
  std::vector<ExternalInput> finish_paths(const Stage& stage, Json& config) const;
  void finish_labels(const Stage& stage, Task& task);
  void finish_policy(Stage& stage, const Scope& scope, Task& task);
  Policy make_policy(const Stage& stage, const Scope& scope);
  /// The labels that the scope has for some axes, as one text.
  static std::string signature(const std::vector<std::string>& axes, const Scope& scope);
  void finish_snapshots(const Stage& stage, const Scope& scope, Task& task);

  void report(support::Diagnostics& local);
  void report(std::string message, support::Place place, std::string hint = {});

  Stage* find_stage(const std::string& label) {
    const auto it = by_label_.find(label);
    return it == by_label_.end() ? nullptr : &stages_[it->second];
  }
  std::vector<std::string> stage_labels() const {
    std::vector<std::string> labels;
    for (const StageNode& stage : file_.stages) labels.push_back(stage.label);
    return labels;
  }
  const Axis* find_axis(const Stage& stage, const std::string& name) const {
    for (const Axis* axis : stage.own_axes) {
      if (axis->name == name) return axis;
    }
    for (const Axis& axis : axes_) {
      if (axis.name == name) return &axis;
    }
    return nullptr;
  }

  PipelineFile file_;
  StageCatalog& catalog_;
  ExpandOptions options_;
  std::filesystem::path folder_;

  std::vector<Axis> axes_;                    ///< top level, after scale, sets and narrowing
  std::map<std::string, std::set<std::string>> known_labels_;   ///< of every axis, before narrowing
  std::vector<std::string> axis_names_;       ///< every axis of the pipeline
  support::Node vars_;
  std::map<std::string, Resources> resources_;
  std::map<std::string, std::vector<std::pair<std::string, support::Node>>> resource_flags_;
  std::vector<Stage> stages_;
  std::map<std::string, std::size_t> by_label_;
  std::deque<AxisValue> extra_values_;        ///< of the axes `from` and `snapshot`
  std::map<std::string, std::optional<support::Node>> config_files_;
  std::vector<std::vector<Binding>> bindings_;   ///< of each task
  /// Of each task as a producer, by snapshot: what its readers are told of it.
  std::vector<std::vector<std::pair<std::string, support::Shared<std::map<std::string, std::string>>>>> labels_;
  std::int64_t edges_ = 0;
  std::unordered_map<std::string, std::size_t> by_id_;
  std::map<std::string, std::unordered_map<std::string, std::vector<std::size_t>>> gather_index_;

  /// The labels of a long entry of `exclude` or `only`, for looking up.
  mutable std::unordered_map<const void*, std::unordered_set<std::string_view>> label_sets_;

  Graph graph_;
  support::Diagnostics diagnostics_;
  std::unordered_set<std::string> told_;
};

}  // namespace pe::pipeline
