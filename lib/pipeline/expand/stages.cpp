#include "pipeline/expand/stages.h"

#include <algorithm>

#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::ConfigError;
using support::quote;

namespace {

void check_roles(Stage& stage, Mistakes& mistakes) {
  const StageDeclaration& node = *stage.node;
  const StageDescription& description = *stage.description;
  std::map<std::string, std::string> filled;
  const auto check = [&](const std::vector<StageDeclaration::Role>& roles, const std::string& how) {
    for (const auto& role : roles) {
      const artifact::InputRole* input = description.find_input(role.name);
      if (!input) {
        mistakes.report(cat(description.program, " has no input ", quote(role.name)), role.mark.place(),
                        description.inputs.empty() ? "it takes no inputs"
                                                   : support::suggestion(role.name, description.input_names()));
        stage.broken = true;
        continue;
      }
      if (how == "gather" && !input->many) {
        mistakes.report(
            cat("input ", quote(role.name), " of ", description.program, " takes one artifact; `gather` gives many"),
            role.mark.place(), "use `needs` for one, or `each` for one instance per artifact");
        stage.broken = true;
      }
      if (const auto [it, fresh] = filled.emplace(role.name, how); !fresh) {
        mistakes.report(cat("input ", quote(role.name), " of stage ", quote(node.label), " is filled twice: by `",
                            it->second, "` and by `", how, "`"),
                        role.mark.place());
        stage.broken = true;
      }
    }
  };
  check(node.needs, "needs");
  check(node.gather, "gather");
  check(node.each, "each");
  for (const artifact::InputRole& input : description.inputs) {
    if (input.optional || filled.count(input.name)) continue;
    mistakes.report(cat("input ", quote(input.name), " (", artifact::kind_name(input.kind), ") of stage ",
                        quote(node.label), " is left empty"),
                    node.mark.place(),
                    cat("`", input.many ? "gather" : "needs", ": {", input.name, ": STAGE}` fills it"));
    stage.broken = true;
  }
}

void check_outputs(Stage& stage, Mistakes& mistakes) {
  const StageDescription& description = *stage.description;
  for (const auto& [role, name] : stage.node->outputs) {
    if (description.find_output(role)) continue;
    mistakes.report(cat(description.program, " has no output ", quote(role)), stage.node->outputs_mark.place(),
                    support::suggestion(role, description.output_names()));
  }
  if (!stage.node->snapshots.empty() && !description.trajectory) {
    mistakes.report(cat(description.program, " has no trajectory to take snapshots of"),
                    stage.node->snapshot_marks.front().place(), "take `snapshots` out");
    stage.broken = true;
  }
  if (stage.node->budgets && !description.branch) {
    mistakes.report(cat(description.program, " has no setting for its end, so it takes no budgets"),
                    stage.node->budgets->mark.place(), "pe-branch-decay does");
    stage.broken = true;
  }
}

}  // namespace

Stages::Stages(const OverriddenPipeline& source, StageCatalog& catalog, Mistakes& mistakes) : source_(source) {
  stages_.resize(source.file.stages.size());
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    Stage& stage = stages_[i];
    stage.node = &source.file.stages[i];
    stage.index = i;
    by_label_[stage.node->label] = i;
    try {
      stage.description = catalog.find(stage.node->run, source.file.root, stage.node->run_mark.place());
    } catch (const ConfigError& error) {
      for (const auto& item : error.diagnostics()) mistakes.report(item.message, item.place, item.hint);
      stage.broken = true;
      continue;
    }
    check_roles(stage, mistakes);
    check_outputs(stage, mistakes);
  }
}

Stage* Stages::find(const std::string& label) { return const_cast<Stage*>(std::as_const(*this).find(label)); }

const Stage* Stages::find(const std::string& label) const {
  const auto it = by_label_.find(label);
  return it == by_label_.end() ? nullptr : &stages_[it->second];
}

std::vector<std::size_t> Stages::in_order(Mistakes& mistakes) {
  std::vector<std::set<std::size_t>> needs(stages_.size());
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const StageDeclaration& node = *stages_[i].node;
    for (const auto* roles : {&node.needs, &node.gather, &node.each}) {
      for (const auto& role : *roles) {
        for (const auto& reference : role.references) {
          const std::string label = reference.text.substr(0, reference.text.find_first_of(".@["));
          const auto it = by_label_.find(label);
          if (it == by_label_.end()) {
            mistakes.report(has_substitution(label)
                                ? cat("reference ", quote(reference.text), ": the stage must be named literally")
                                : cat("unknown stage ", quote(label)),
                            reference.mark.place(), support::suggestion(label, source_.stage_labels()));
            stages_[i].broken = true;
          } else {
            needs[i].insert(it->second);
          }
        }
      }
    }
  }
  std::vector<std::size_t> order;
  std::vector<bool> placed(stages_.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      if (placed[i]) continue;
      const bool ready = std::all_of(needs[i].begin(), needs[i].end(), [&](std::size_t need) { return placed[need]; });
      if (!ready) continue;
      placed[i] = true;
      order.push_back(i);
      moved = true;
      break;  // go back to the first in the file that may come now
    }
  }
  if (order.size() == stages_.size()) return order;
  // Every stage left needs another one that is left: walking along those must come round.
  std::size_t at = 0;
  while (placed[at]) ++at;
  std::vector<std::size_t> path;
  for (;;) {
    const auto seen = std::find(path.begin(), path.end(), at);
    if (seen != path.end()) {
      path.erase(path.begin(), seen);
      break;
    }
    path.push_back(at);
    for (std::size_t need : needs[at]) {
      if (!placed[need]) {
        at = need;
        break;
      }
    }
  }
  std::vector<std::string> names;
  for (auto it = path.rbegin(); it != path.rend(); ++it) names.push_back(stages_[*it].node->label);
  names.push_back(names.front());
  mistakes.report(cat("the stages form a cycle: ", support::join(names, " -> ")),
                  stages_[path.front()].node->mark.place(), "a stage can only read what comes before it");
  return order;
}

}  // namespace pe::pipeline
