#include "pipeline/expand/expander.h"

#include <algorithm>
#include <utility>

#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::ConfigError;
using support::Diagnostics;
using support::Node;
using support::quote;

void Expander::describe_stages() {
  for (Stage& stage : stages_) {
    try {
      stage.description = catalog_.find(stage.node->run, file_.root, stage.node->run_mark.place());
    } catch (const ConfigError& error) {
      for (const auto& item : error.diagnostics()) report(item.message, item.place, item.hint);
      stage.broken = true;
      continue;
    }
    std::set<std::string> names;
    collect_names(stage.node->set, names);
    collect_names(stage.node->checkpoint, names);
    for (const Node& file : stage.node->config_files) collect_names(file, names);
    stage.config_axes.assign(names.begin(), names.end());
    names.clear();
    for (const Node* node : {&stage.node->resources, &stage.node->retry, &stage.node->checkpoint}) {
      collect_names(*node, names);
    }
    for (const Node* node : {&file_.default_resources, &file_.default_retry, &file_.default_checkpoint}) {
      collect_names(*node, names);
    }
    stage.policy_axes.assign(names.begin(), names.end());
    check_roles(stage);
    const StageDescription& description = *stage.description;
    for (const auto& [role, name] : stage.node->outputs) {
      if (description.find_output(role)) continue;
      report(cat(description.program, " has no output ", quote(role)), stage.node->outputs_mark.place(),
             suggest_or_list(role, description.output_names()));
    }
    if (!stage.node->snapshots.empty() && !description.trajectory) {
      report(cat(description.program, " has no trajectory to take snapshots of"),
             stage.node->snapshot_marks.front().place(), "take `snapshots` out");
      stage.broken = true;
    }
  }
}

void Expander::check_roles(Stage& stage) {
  const StageNode& node = *stage.node;
  const StageDescription& description = *stage.description;
  std::map<std::string, std::string> filled;
  const auto check = [&](const std::vector<StageNode::Role>& roles, const std::string& how) {
    for (const auto& role : roles) {
      const InputDescription* input = description.find_input(role.name);
      if (!input) {
        report(cat(description.program, " has no input ", quote(role.name)), role.mark.place(),
               description.inputs.empty() ? "it takes no inputs" : suggest_or_list(role.name, description.input_names()));
        stage.broken = true;
        continue;
      }
      if (how == "gather" && !input->many) {
        report(cat("input ", quote(role.name), " of ", description.program, " takes one artifact; `gather` gives many"),
               role.mark.place(), "use `needs` for one, or `each` for one instance per artifact");
        stage.broken = true;
      }
      if (const auto [it, fresh] = filled.emplace(role.name, how); !fresh) {
        report(cat("input ", quote(role.name), " of stage ", quote(node.label), " is filled twice: by `", it->second,
                   "` and by `", how, "`"),
               role.mark.place());
        stage.broken = true;
      }
    }
  };
  check(node.needs, "needs");
  check(node.gather, "gather");
  check(node.each, "each");
  for (const InputDescription& input : description.inputs) {
    if (input.optional || filled.count(input.name)) continue;
    report(cat("input ", quote(input.name), " (", artifact::kind_name(input.kind), ") of stage ", quote(node.label),
               " is left empty"),
           node.mark.place(), cat("`", input.many ? "gather" : "needs", ": {", input.name, ": STAGE}` fills it"));
    stage.broken = true;
  }
}

/// Producers before readers; among those that are ready, the order of the file.
std::vector<std::size_t> Expander::order_stages() {
  std::vector<std::set<std::size_t>> needs(stages_.size());
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const StageNode& node = *stages_[i].node;
    for (const auto* roles : {&node.needs, &node.gather, &node.each}) {
      for (const auto& role : *roles) {
        for (const auto& reference : role.references) {
          const std::string label = reference.text.substr(0, reference.text.find_first_of(".@["));
          const auto it = by_label_.find(label);
          if (it == by_label_.end()) {
            report(has_substitution(label) ? cat("reference ", quote(reference.text), ": the stage must be named literally")
                                           : cat("unknown stage ", quote(label)),
                   reference.mark.place(), suggest_or_list(label, stage_labels()));
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
      break;   // go back to the first in the file that may come now
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
  report(cat("the stages form a cycle: ", support::join(names, " -> ")), stages_[path.front()].node->mark.place(),
         "a stage can only read what comes before it");
  return order;
}

/// Every reference of `needs` and `gather`; those that hold no substitution are looked up once and for all.
std::vector<Expander::Link> Expander::links_of(Stage& stage) {
  std::vector<Link> links;
  for (const auto* roles : {&stage.node->needs, &stage.node->gather}) {
    for (const auto& role : *roles) {
      const InputDescription* input = stage.description->find_input(role.name);
      if (!input) continue;
      for (const auto& text : role.references) {
        // A producer that is broken was told of; what it would have given is not known.
        const Stage* producer = find_stage(text.text.substr(0, text.text.find_first_of(".@[")));
        if (!producer || producer->broken) {
          stage.broken = true;
          continue;
        }
        Link link;
        link.role = input;
        link.text = &text;
        link.fixed = !has_substitution(text.text);
        link.many = roles == &stage.node->gather;
        if (link.fixed && !resolve(link, {})) stage.broken = true;
        links.push_back(std::move(link));
      }
    }
  }
  for (const auto& role : stage.node->each) {
    for (const auto& text : role.references) {
      const Stage* producer = find_stage(text.text.substr(0, text.text.find_first_of(".@[")));
      if (!producer || producer->broken) stage.broken = true;
    }
  }
  return links;
}

}  // namespace pe::pipeline
