#include "pipeline/expand/expander.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;
using support::Diagnostics;
using support::Mark;
using support::Node;
using support::Place;

std::string suggest_or_list(const std::string& word, const std::vector<std::string>& candidates) {
  std::string hint = support::suggestion(word, candidates);
  if (hint.empty() && !candidates.empty() && candidates.size() <= 40) {
    hint = cat("expected one of ", support::join(candidates, ", "));
  }
  return hint;
}

Node single(const std::string& key, Node value) {
  Node map;
  map.kind = Node::Kind::kMap;
  map.mark = value.mark;
  Mark key_mark;   // a flag's key has no line
  key_mark.source = value.mark.source;
  map.members.push_back({key, std::move(key_mark), std::move(value)});
  return map;
}

void Expander::report(Diagnostics& local) {
  for (const support::Diagnostic& item : local.items()) {
    if (told_.size() > kMostMistakes) break;   // nobody reads on
    if (!told_.insert(cat(item.place.str(), "\n", item.message)).second) continue;
    const std::size_t at = diagnostics_.size();
    diagnostics_.add(item.message, item.place, item.hint);
    for (const std::string& context : item.context) diagnostics_.add_context(context, at);
  }
  local = Diagnostics();
}

void Expander::report(std::string message, Place place, std::string hint) {
  Diagnostics local;
  local.add(std::move(message), std::move(place), std::move(hint));
  report(local);
}
Graph Expander::run() {
  folder_ = options_.folder.empty() ? fs::current_path() : fs::absolute(options_.folder);
  graph_.name = file_.name;
  graph_.title = file_.title;
  graph_.file = file_.path.string();
  graph_.root = file_.root.string();
  graph_.files.push_back(fs::absolute(file_.path).lexically_normal().string());
  graph_.stage_labels = stage_labels();
  if (file_.stages.size() > kMostStages) {
    report(cat("a pipeline may have ", kMostStages, " stages, this one has ", file_.stages.size()),
           file_.stages[kMostStages].mark.place(), "stages that differ in a value are instances of one: use an axis");
    diagnostics_.throw_if_any();
  }
  read_flags();
  check_unused();
  describe_stages();
  const std::vector<std::size_t> order = order_stages();
  for (std::size_t index : order) {
    Stage& stage = stages_[index];
    if (!stage.broken) expand_stage(stage);
  }
  diagnostics_.throw_if_any();
  for (const Axis& axis : axes_) graph_.axes[axis.name] = axis.labels();
  for (const Stage& stage : stages_) {
    for (const Axis* axis : stage.own_axes) graph_.axes[axis->name] = axis->labels();
  }
  graph_.resources = resources_;
  return std::move(graph_);
}

support::Origins Expander::origins(const Task& task) const {
  support::Origins origins;
  const auto it = by_id_.find(task.id);
  const auto stage = by_label_.find(task.label);
  if (it == by_id_.end() || stage == by_label_.end()) return origins;
  Diagnostics ignored;
  // Composing reads nothing new: every config file is in the cache since the expansion.
  auto& self = const_cast<Expander&>(*this);
  const Scope scope = scope_of(bindings_[it->second], task.label);
  self.compose(self.stages_[stage->second], scope, &origins, ignored);
  return origins;
}

Graph expand(const PipelineFile& file, StageCatalog& catalog, const ExpandOptions& options) {
  auto expander = std::make_shared<Expander>(file, catalog, options);
  Graph graph = expander->run();
  graph.source = expander;
  return graph;
}

support::Origins Graph::origins_of(const Task& task) const {
  if (!source) return {};
  return std::static_pointer_cast<const Expander>(source)->origins(task);
}

}  // namespace pe::pipeline
