#include "pipeline/expand/expander.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "pipeline/file/policy.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::ConfigError;
using support::Diagnostics;
using support::Mark;
using support::Node;
using support::Place;
using support::quote;

namespace {

/// Lays one map over another: maps merge, the rest replaces.
void merge(Node& below, const Node& above) {
  if (!below.is_map() || !above.is_map()) {
    below = above;
    return;
  }
  for (const auto& member : above.members) {
    const auto it = std::find_if(below.members.begin(), below.members.end(),
                                 [&](const Node::Member& known) { return known.key == member.key; });
    if (it == below.members.end()) {
      below.members.push_back(member);
    } else {
      merge(it->value, member.value);
    }
  }
}

}  // namespace

void Expander::take_scale() {
  const PipelineFile::Scale* scale = nullptr;
  std::vector<std::string> names;
  for (const auto& candidate : file_.scales) {
    names.push_back(candidate.name);
    if (options_.scale.empty() ? candidate.is_default : candidate.name == options_.scale) scale = &candidate;
  }
  if (!options_.scale.empty() && !scale) {
    report(cat("no scale ", quote(options_.scale)), Place{cat("--scale ", options_.scale)},
           names.empty() ? "the pipeline file has no `scales`" : suggest_or_list(options_.scale, names));
    return;
  }
  if (!scale) return;
  if (scale->vars.is_map()) {
    if (vars_.is_null()) vars_ = scale->vars;
    else merge(vars_, scale->vars);
  }
  for (const Axis& axis : scale->axes) {
    for (const AxisValue& value : axis.values) known_labels_[axis.name].insert(value.label);
    const auto it = std::find_if(axes_.begin(), axes_.end(), [&](const Axis& known) { return known.name == axis.name; });
    if (it == axes_.end()) axes_.push_back(axis);
    else *it = axis;
  }
}

void Expander::take_sets() {
  for (const std::string& text : options_.set) {
    const std::size_t equals = text.find('=');
    const std::size_t dot = text.find('.');
    const std::string name = cat("--set ", text.substr(0, equals));
    if (equals == std::string::npos || dot == std::string::npos || dot == 0 || dot + 1 >= equals) {
      report(cat("a setting is STAGE.key=value, found ", quote(text)), Place{"--set"},
             "such as --set trunk.train.tokens=1e6, --set vars.NAME=value or --set axes.NAME=[a, b]");
      continue;
    }
    Flag flag{text.substr(0, dot), text.substr(dot + 1, equals - dot - 1), text.substr(equals + 1), name};
    Node value;
    const auto parse = [&] {
      try {
        value = support::parse_yaml_value(flag.value, name);
        return true;
      } catch (const ConfigError& error) {
        for (const auto& item : error.diagnostics()) report(item.message, item.place, item.hint);
        return false;
      }
    };
    if (flag.target == "vars") {
      if (!parse()) continue;
      std::vector<std::string> parts = support::split(flag.key, '.');
      Node* at = &vars_;
      std::vector<std::string> known;
      for (std::size_t i = 0; at && i < parts.size(); ++i) {
        Node* next = nullptr;
        known.clear();
        for (auto& member : at->members) {
          known.push_back(member.key);
          if (member.key == parts[i]) next = &member.value;
        }
        if (!next) report(cat("no var ", quote(flag.key)), Place{name}, suggest_or_list(parts[i], known));
        at = next;
      }
      if (at) *at = std::move(value);
    } else if (flag.target == "axes") {
      if (!parse()) continue;
      Diagnostics local;
      Mark mark = value.mark;
      auto axis = parse_axis(flag.key, mark, value, local);
      report(local);
      if (!axis) continue;
      for (const AxisValue& one : axis->values) known_labels_[axis->name].insert(one.label);
      bool found = false;
      for (Axis& known : axes_) {
        if (known.name == axis->name) {
          known.values = axis->values;
          found = true;
        }
      }
      for (StageNode& stage : file_.stages) {
        for (Axis& known : stage.axes) {
          if (known.name == axis->name) {
            known.values = axis->values;
            found = true;
          }
        }
      }
      if (!found) report(cat("no axis ", quote(flag.key)), Place{name}, suggest_or_list(flag.key, axis_names_));
    } else if (flag.target == "resources") {
      if (!parse()) continue;
      const std::size_t last = flag.key.rfind('.');
      if (last == std::string::npos) {
        report("a setting of resources is resources.NAME.key=value", Place{name}, "such as --set resources.cpu.cpus=2");
        continue;
      }
      resource_flags_[flag.key.substr(0, last)].emplace_back(flag.key.substr(last + 1), std::move(value));
    } else if (Stage* stage = find_stage(flag.target)) {
      stage->flags.push_back(std::move(flag));
    } else {
      report(cat("no stage ", quote(flag.target)), Place{name}, suggest_or_list(flag.target, stage_labels()));
    }
  }
}

void Expander::narrow_axes() {
  for (const std::string& text : options_.axis) {
    const std::size_t equals = text.find('=');
    const Place place{cat("--axis ", text)};
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      report(cat("an axis is narrowed by NAME=label,label, found ", quote(text)), place);
      continue;
    }
    const std::string name = text.substr(0, equals);
    const std::vector<std::string> labels = support::split(std::string_view(text).substr(equals + 1), ',');
    bool found = false;
    const auto narrow = [&](Axis& axis) {
      if (axis.name != name) return;
      found = true;
      bool good = true;
      for (const std::string& label : labels) {
        if (axis.find(label)) continue;
        report(cat("axis ", quote(name), " has no label ", quote(label)), place, suggest_or_list(label, axis.labels()));
        good = false;
      }
      if (!good) return;   // an axis without labels would only bring more messages
      std::erase_if(axis.values, [&](const AxisValue& value) {
        return std::find(labels.begin(), labels.end(), value.label) == labels.end();
      });
    };
    for (Axis& axis : axes_) narrow(axis);
    for (StageNode& stage : file_.stages) {
      for (Axis& axis : stage.axes) narrow(axis);
    }
    if (!found) report(cat("no axis ", quote(name)), place, suggest_or_list(name, axis_names_));
  }
}

void Expander::read_flags() {
  axes_ = file_.axes;
  vars_ = file_.vars;
  const auto know = [&](const Axis& axis) {
    if (std::find(axis_names_.begin(), axis_names_.end(), axis.name) == axis_names_.end()) {
      axis_names_.push_back(axis.name);
    }
    for (const AxisValue& value : axis.values) known_labels_[axis.name].insert(value.label);
  };
  for (const Axis& axis : axes_) know(axis);
  for (const StageNode& stage : file_.stages) {
    for (const Axis& axis : stage.axes) know(axis);
  }
  for (const auto& scale : file_.scales) {
    for (const Axis& axis : scale.axes) {
      if (std::find(axis_names_.begin(), axis_names_.end(), axis.name) == axis_names_.end()) {
        axis_names_.push_back(axis.name);
      }
    }
  }
  stages_.resize(file_.stages.size());
  for (std::size_t i = 0; i < file_.stages.size(); ++i) by_label_[file_.stages[i].label] = i;
  take_scale();
  take_sets();
  narrow_axes();
  for (std::size_t i = 0; i < file_.stages.size(); ++i) {
    stages_[i].node = &file_.stages[i];
    for (const Axis& axis : file_.stages[i].axes) {
      const bool taken = std::any_of(axes_.begin(), axes_.end(), [&](const Axis& top) { return top.name == axis.name; });
      if (taken) {
        report(cat("axis ", quote(axis.name), " of stage ", quote(file_.stages[i].label), " exists at the top"),
               axis.mark.place(), "a stage's own axes add to those of the file");
      }
      if (vars_.find(axis.name)) {
        report(cat(quote(axis.name), " is an axis and a var"), axis.mark.place(),
               "axes and vars share one namespace: rename one");
      }
      stages_[i].own_axes.push_back(&axis);
    }
  }
  if (has_substitution(vars_)) {
    const std::function<void(const Node&)> tell = [&](const Node& node) {
      if (node.is_scalar() && has_substitution(node.text)) {
        report("a var holds a substitution", node.place(), "$(…) is for the values of stages");
      }
      for (const Node& item : node.items) tell(item);
      for (const auto& member : node.members) tell(member.value);
    };
    tell(vars_);
  }
  for (const auto& member : file_.resources.members) {
    Resources resources;
    resources.name = member.key;
    Diagnostics local;
    read_resources(member.value, resources, local);
    const auto flags = resource_flags_.find(member.key);
    if (flags != resource_flags_.end()) {
      for (const auto& [key, value] : flags->second) read_resources(single(key, value), resources, local);
    }
    report(local);
    resources_[member.key] = std::move(resources);
  }
  for (const auto& [name, values] : resource_flags_) {
    if (resources_.count(name) || by_label_.count(name)) continue;
    std::vector<std::string> known = stage_labels();
    for (const auto& [key, value] : resources_) known.push_back(key);
    report(cat("no resources ", quote(name)), Place{cat("--set resources.", name)}, suggest_or_list(name, known));
  }
}

void Expander::check_unused() {
  std::set<std::string> used, over;
  for (const StageNode& stage : file_.stages) {
    collect_names(stage.set, used);
    for (const Node& file : stage.config_files) collect_names(file, used);
    for (const auto& [label, point] : stage.snapshots) collect_names(point, used);
    for (const Node* node : {&stage.resources, &stage.retry, &stage.checkpoint, &stage.slurm}) collect_names(*node, used);
    for (const auto* roles : {&stage.needs, &stage.gather, &stage.each}) {
      for (const auto& role : *roles) {
        for (const auto& reference : role.references) collect_names(reference.text, used);
      }
    }
    for (const auto& [role, name] : stage.outputs) collect_names(name, used);
    for (const auto& [axis, mark] : stage.over) over.insert(axis);
    for (const Axis& axis : stage.axes) {
      const bool bound = std::any_of(stage.over.begin(), stage.over.end(),
                                     [&](const auto& entry) { return entry.first == axis.name; });
      if (!bound) {
        report(cat("axis ", quote(axis.name), " of stage ", quote(stage.label), " is bound by nobody"),
               axis.mark.place(), cat("add it to the stage's `over`, or take it out"));
      }
    }
  }
  for (const Axis& axis : axes_) {
    if (!over.count(axis.name)) {
      report(cat("axis ", quote(axis.name), " is bound by nobody"), axis.mark.place(),
             "add it to the `over` of a stage, or take it out");
    }
  }
  for (const auto& member : vars_.members) {
    if (!used.count(member.key)) {
      report(cat("var ", quote(member.key), " is not used"), member.key_mark.place(),
             cat("use it as $(", member.key, "), or take it out"));
    }
  }
}

}  // namespace pe::pipeline
