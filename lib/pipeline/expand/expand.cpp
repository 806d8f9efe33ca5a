#include "pipeline/expand/expand.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "pipeline/expand/config_builder.h"
#include "pipeline/expand/edge_resolver.h"
#include "pipeline/expand/instances.h"
#include "pipeline/expand/mistakes.h"
#include "pipeline/expand/overrides.h"
#include "pipeline/expand/policies.h"
#include "pipeline/expand/stages.h"
#include "pipeline/file/slurm_policy.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;
using support::Diagnostics;

namespace {

constexpr std::size_t kMostStages = 2'000;

/// One expansion: stage by stage, producers first. Afterwards the graph looks its origins up here.
class Expansion : public OriginSource {
 public:
  Expansion(const PipelineFile& file, StageCatalog& catalog, const ExpandOptions& options)
      : options_(options),
        source_(apply_overrides(file, options_, mistakes_)),
        stages_(source_, catalog, mistakes_),
        policies_(source_, stages_),
        composer_(source_, options_, stages_, policies_),
        joiner_(stages_, graph_.tasks, mistakes_),
        enumerator_(source_, joiner_, bindings_, mistakes_) {}

  Graph expand();
  support::Origins origins_of(const Task& task) const override;

 private:
  void expand_stage(Stage& stage);
  /// The task of an instance. Nothing when a mistake was reported, which breaks the stage, or when a producer is
  /// excluded.
  std::optional<Task> task_of(Stage& stage, std::vector<Link>& links, Instance& instance, const Scope& scope);
  void add(Stage& stage, Instance& instance, Task task);
  void check_leads(const SlurmPolicies& policies, support::Diagnostics& diagnostics) const;
  /// Releases objects that only served to join and compose: the graph, and this with it, stays as long as a run.
  void finish();
  std::optional<std::vector<Binding>> bindings_of(const Task& task) const;

  const ExpandOptions options_;
  Mistakes mistakes_;
  const OverriddenPipeline source_;
  Graph graph_;
  std::vector<std::vector<Binding>> bindings_;  ///< of each task, until all are there
  std::unordered_set<std::string> ids_;         ///< likewise
  /// The values of each task's axes, task after task, and the first value of each task, by the hash of its id.
  std::vector<const AxisValue*> values_;
  std::vector<std::pair<std::size_t, std::uint32_t>> places_;
  Stages stages_;
  Policies policies_;
  ConfigBuilder composer_;
  EdgeResolver joiner_;
  InstanceEnumerator enumerator_;
};

Graph Expansion::expand() {
  for (const std::size_t index : stages_.in_order(mistakes_)) {
    Stage& stage = stages_.all()[index];
    if (!stage.broken) expand_stage(stage);
  }
  const PipelineFile& file = source_.file;
  support::Diagnostics of_slurm;  // only `submit` uses it, but every command reports its mistakes
  const SlurmPolicies policies = slurm_policies(file, of_slurm);
  if (of_slurm.empty()) check_leads(policies, of_slurm);
  mistakes_.report(of_slurm);
  const auto judges = [](const Stage& stage) {
    return stage.description && std::any_of(stage.description->outputs.begin(), stage.description->outputs.end(),
                                            [](const auto& output) { return output.kind == artifact::Kind::kReport; });
  };
  if (file.sequential && std::none_of(stages_.all().begin(), stages_.all().end(), judges))
    mistakes_.report(
        cat("'sequential': no stage makes a report that judges claim ", support::quote(file.sequential->claim)),
        file.sequential->place, "it needs a stage pe-report");
  mistakes_.throw_if_any();
  graph_.excluded = enumerator_.excluded();
  graph_.name = file.name;
  graph_.title = file.title;
  graph_.file = file.path.string();
  graph_.root = file.root.string();
  graph_.files.push_back(file.read);
  graph_.files.back().path = fs::absolute(file.path).lexically_normal().string();
  graph_.files.insert(graph_.files.end(), composer_.files().begin(), composer_.files().end());
  graph_.stage_labels = source_.stage_labels();
  for (const Axis& axis : source_.axes) graph_.axes[axis.name] = axis.labels();
  for (const StageDeclaration& stage : file.stages) {
    for (const Axis& axis : stage.axes) graph_.axes[axis.name] = axis.labels();
  }
  graph_.resources = source_.resources;
  graph_.environment = file.environment;
  graph_.sequential = file.sequential;
  finish();
  return std::move(graph_);
}

/// Slurm sends its signal before a job ends, not before it begins. The default lead is cut to half of the time.
void Expansion::check_leads(const SlurmPolicies& policies, support::Diagnostics& diagnostics) const {
  for (const StageDeclaration& stage : source_.file.stages) {
    const support::Node* lead = signal_lead_of(source_.file, stage.label);
    const Stage* expanded = lead ? stages_.find(stage.label) : nullptr;
    if (!expanded) continue;
    const SlurmPolicy& policy = policies.at(stage.label);
    for (const std::size_t i : expanded->tasks) {
      const double own_s = graph_.tasks[i].resources.time_s, time_s = own_s > 0 ? own_s : policy.time_s;
      if (time_s <= 0 || policy.signal_lead_s < time_s) continue;
      diagnostics.add(cat("'signal_lead' is ", support::short_duration(policy.signal_lead_s), ", but ",
                          graph_.tasks[i].id, " has ", support::short_duration(time_s)),
                      lead->place(), "Slurm sends its signal that long before the end");
      break;
    }
  }
}

void Expansion::finish() {
  const std::hash<std::string> hash;
  for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
    places_.emplace_back(hash(graph_.tasks[i].id), static_cast<std::uint32_t>(values_.size()));
    for (const Binding& binding : bindings_[i]) values_.push_back(binding.value);
  }
  std::sort(places_.begin(), places_.end());
  bindings_ = {};
  ids_ = {};
  for (Stage& stage : stages_.all()) stage.groups = {};
  joiner_.finish();
  composer_.finish();
}

std::optional<std::vector<Binding>> Expansion::bindings_of(const Task& task) const {
  const std::size_t hash = std::hash<std::string>()(task.id);
  for (auto place = std::lower_bound(places_.begin(), places_.end(), std::pair{hash, std::uint32_t{0}});
       place != places_.end() && place->first == hash; ++place) {
    std::vector<Binding> bindings;
    for (const auto& [axis, label] : task.axes) {
      const std::size_t at = place->second + bindings.size();
      if (at >= values_.size() || values_[at]->label != label) break;  // another task's
      bindings.push_back({axis, values_[at]});
    }
    if (bindings.size() == task.axes.size()) return bindings;
  }
  return std::nullopt;
}

support::Origins Expansion::origins_of(const Task& task) const {
  const auto bindings = bindings_of(task);
  const Stage* stage = stages_.find(task.label);
  if (!bindings || !stage) return {};
  return composer_.origins_of(*stage, source_.scope_of(*bindings, task.label));
}

void Expansion::expand_stage(Stage& stage) {
  std::vector<Link> links = joiner_.links_of(stage);
  if (stage.broken) return;
  std::vector<Instance> instances = enumerator_.instances_of(stage);
  if (stage.broken) return;
  graph_.tasks.reserve(graph_.tasks.size() + instances.size());
  bindings_.reserve(bindings_.size() + instances.size());
  Scope scope = source_.scope_of({}, stage.node->label);
  for (Instance& instance : instances) {
    scope.bindings = &instance.bindings;
    if (auto task = task_of(stage, links, instance, scope)) add(stage, instance, std::move(*task));
    if (joiner_.too_many_edges()) return;
  }
}

std::optional<Task> Expansion::task_of(Stage& stage, std::vector<Link>& links, Instance& instance, const Scope& scope) {
  Task task;
  task.label = stage.node->label;
  task.stage = stage.description;
  task.axes.reserve(instance.bindings.size());
  for (const Binding& binding : instance.bindings) task.axes.emplace_back(binding.axis, binding.value->label);
  task.id = task_id(task.label, task.axes);
  bool dropped = false;
  if (!joiner_.make_edges(stage, links, std::move(instance.each), instance.bindings, scope, task, &dropped)) {
    stage.broken = true;
    return std::nullopt;
  }
  if (dropped) {
    ++graph_.dropped;
    return std::nullopt;
  }
  policies_.give(stage, scope, task, mistakes_);
  if (!composer_.compose(stage, scope, graph_.tasks, task, mistakes_)) {
    stage.broken = true;
    return std::nullopt;
  }
  give_horizon(stage, graph_.tasks, task, mistakes_);
  place_snapshots(stage, scope, task, mistakes_);
  for (const auto& [role, name] : stage.node->outputs) {
    Diagnostics local;
    if (auto text = substitute_text(name, stage.node->outputs_mark, scope, local))
      task.output_names[role] = std::move(*text);
    mistakes_.report(local);
  }
  return task;
}

void Expansion::add(Stage& stage, Instance& instance, Task task) {
  const std::size_t index = graph_.tasks.size();
  if (!ids_.insert(task.id).second) {
    mistakes_.report(cat("two instances are called ", task.id), stage.node->mark.place(),
                     "list a stage once in `each`");
    stage.broken = true;
    return;
  }
  std::string labels;
  for (const Binding& binding : instance.bindings) {
    labels += binding.value->label;
    labels += kLabelSeparator;
  }
  stage.groups[instance.group].by_labels.emplace(std::move(labels), index);
  stage.tasks.push_back(index);
  graph_.tasks.push_back(std::move(task));
  bindings_.push_back(std::move(instance.bindings));
}

}  // namespace

std::string variant_of(const ExpandOptions& options) {
  std::vector<std::string> words;
  if (!options.scale.empty()) words.push_back("--scale " + options.scale);
  for (const std::string& axis : options.axis) words.push_back("--axis " + axis);
  for (const std::string& set : options.set) words.push_back("--set " + set);
  return support::join(words, " ");
}

Graph expand(const PipelineFile& file, StageCatalog& catalog, const ExpandOptions& options) {
  if (file.stages.size() > kMostStages) {
    Diagnostics diagnostics;
    diagnostics.add(cat("a pipeline may have ", kMostStages, " stages, this one has ", file.stages.size()),
                    file.stages[kMostStages].mark.place(),
                    "stages that differ in a value are instances of one: use an axis");
    diagnostics.throw_if_any();
  }
  auto expansion = std::make_shared<Expansion>(file, catalog, options);
  Graph graph = expansion->expand();
  graph.variant = variant_of(options);
  ExpandOptions whole = options;
  whole.axis.clear();
  graph.settings = variant_of(whole);
  graph.source = std::move(expansion);
  return graph;
}

}  // namespace pe::pipeline
