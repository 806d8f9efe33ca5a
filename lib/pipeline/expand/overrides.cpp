#include "pipeline/expand/overrides.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "pipeline/file/policy.h"
#include "pipeline/file/slurm_policy.h"
#include "support/suggest.h"
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

/// Lays the options over the file, one after the other.
class Overriding {
 public:
  Overriding(const PipelineFile& file, const ExpandOptions& options, Mistakes& mistakes)
      : options_(options), mistakes_(mistakes) {
    out_.file = file;
    out_.axes = file.axes;
    out_.vars = file.vars;
  }

  OverriddenPipeline apply() {
    learn_names();
    take_scale();
    check_sequential();
    take_sets();
    narrow_axes();
    check_names();
    check_vars();
    read_named_resources();
    check_unused();
    return std::move(out_);
  }

 private:
  void learn_names();
  void take_scale();
  void take_sets();
  void set_var(const Flag& flag, Node value);
  void set_axis(const Flag& flag, const Node& value);
  std::vector<Axis*> axes_named(const std::string& name);
  void check_sequential();
  void narrow_axes();
  void narrow(const std::vector<Axis*>& axes, const std::vector<std::string>& labels, const Place& place);
  void check_names();
  void check_vars();
  void read_named_resources();
  void check_unused();
  void check_values_are_read(const Axis& axis, const std::set<std::string>& read);

  const ExpandOptions& options_;
  Mistakes& mistakes_;
  OverriddenPipeline out_;
};

void Overriding::learn_names() {
  const auto know = [&](const Axis& axis) {
    if (std::find(out_.axis_names.begin(), out_.axis_names.end(), axis.name) == out_.axis_names.end()) {
      out_.axis_names.push_back(axis.name);
    }
    for (const AxisValue& value : axis.values) out_.known_labels[axis.name].insert(value.label);
  };
  for (const Axis& axis : out_.axes) know(axis);
  for (const StageDeclaration& stage : out_.file.stages) {
    for (const Axis& axis : stage.axes) know(axis);
  }
  for (const auto& scale : out_.file.scales) {
    for (const Axis& axis : scale.axes) {
      if (std::find(out_.axis_names.begin(), out_.axis_names.end(), axis.name) == out_.axis_names.end()) {
        out_.axis_names.push_back(axis.name);
      }
    }
  }
}

void Overriding::take_scale() {
  const PipelineFile::Scale* scale = nullptr;
  std::vector<std::string> names;
  for (const auto& candidate : out_.file.scales) {
    names.push_back(candidate.name);
    if (options_.scale.empty() ? candidate.is_default : candidate.name == options_.scale) scale = &candidate;
  }
  if (!options_.scale.empty() && !scale) {
    mistakes_.report(cat("no scale ", quote(options_.scale)), Place{cat("--scale ", options_.scale)},
                     names.empty() ? "the pipeline file has no `scales`" : support::suggestion(options_.scale, names));
    return;
  }
  if (!scale) return;
  if (scale->vars.is_map()) {
    if (out_.vars.is_null())
      out_.vars = scale->vars;
    else
      merge(out_.vars, scale->vars);
  }
  for (const Axis& axis : scale->axes) {
    for (const AxisValue& value : axis.values) out_.known_labels[axis.name].insert(value.label);
    const auto it =
        std::find_if(out_.axes.begin(), out_.axes.end(), [&](const Axis& known) { return known.name == axis.name; });
    if (it == out_.axes.end())
      out_.axes.push_back(axis);
    else
      *it = axis;
  }
}

void Overriding::take_sets() {
  for (const std::string& text : options_.set) {
    const std::size_t equals = text.find('=');
    const std::size_t dot = text.find('.');
    const std::string name = cat("--set ", text.substr(0, equals));
    if (equals == std::string::npos || dot == std::string::npos || dot == 0 || dot + 1 >= equals) {
      mistakes_.report(cat("a setting is STAGE.key=value, found ", quote(text)), Place{"--set"},
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
        for (const auto& item : error.diagnostics()) mistakes_.report(item.message, item.place, item.hint);
        return false;
      }
    };
    if (flag.target == "vars") {
      if (!parse()) continue;
      set_var(flag, std::move(value));
    } else if (flag.target == "axes") {
      if (!parse()) continue;
      set_axis(flag, value);
    } else if (flag.target == "slurm") {
      if (!parse()) continue;
      set_slurm(out_.file, flag.key, std::move(value));
    } else if (flag.target == "resources") {
      if (!parse()) continue;
      const std::size_t last = flag.key.rfind('.');
      if (last == std::string::npos) {
        mistakes_.report("a setting of resources is resources.NAME.key=value", Place{name},
                         "such as --set resources.cpu.cpus=2");
        continue;
      }
      out_.resource_flags[flag.key.substr(0, last)].emplace_back(flag.key.substr(last + 1), std::move(value));
    } else if (out_.file.find_stage(flag.target)) {
      out_.stage_flags[flag.target].push_back(std::move(flag));
    } else {
      mistakes_.report(cat("no stage ", quote(flag.target)), Place{name},
                       support::suggestion(flag.target, out_.stage_labels()));
    }
  }
}

void Overriding::set_var(const Flag& flag, Node value) {
  std::vector<std::string> parts = support::split(flag.key, '.');
  Node* at = &out_.vars;
  std::vector<std::string> known;
  for (std::size_t i = 0; at && i < parts.size(); ++i) {
    Node* next = nullptr;
    known.clear();
    for (auto& member : at->members) {
      known.push_back(member.key);
      if (member.key == parts[i]) next = &member.value;
    }
    if (!next)
      mistakes_.report(cat("no var ", quote(flag.key)), Place{flag.name}, support::suggestion(parts[i], known));
    at = next;
  }
  if (at) *at = std::move(value);
}

/// axes.NAME gives all labels; axes.NAME.LABEL adds one, or gives it another value (none: the label itself).
void Overriding::set_axis(const Flag& flag, const Node& value) {
  const std::size_t dot = flag.key.find('.');
  const std::string name = flag.key.substr(0, dot);
  const bool one_label = dot != std::string::npos;
  Diagnostics local;
  Mark mark = value.mark;
  const bool empty = value.is_scalar() && support::trim(value.text).empty();
  auto axis =
      parse_axis(name, mark, one_label ? single(flag.key.substr(dot + 1), empty ? Node{} : value) : value, local);
  mistakes_.report(local);
  if (!axis) return;
  for (const AxisValue& one : axis->values) out_.known_labels[axis->name].insert(one.label);
  const std::vector<Axis*> axes = axes_named(axis->name);
  for (Axis* known : axes) {
    if (!one_label) {
      known->values = axis->values;
      continue;
    }
    const AxisValue& added = axis->values.front();
    const auto there = std::find_if(known->values.begin(), known->values.end(),
                                    [&](const AxisValue& each) { return each.label == added.label; });
    if (there == known->values.end())
      known->values.push_back(added);
    else
      *there = added;
  }
  if (axes.empty())
    mistakes_.report(cat("no axis ", quote(name)), Place{flag.name}, support::suggestion(name, out_.axis_names));
}

/// All axes of this name: the pipeline's and the stages'.
std::vector<Axis*> Overriding::axes_named(const std::string& name) {
  std::vector<Axis*> found;
  const auto take = [&](std::vector<Axis>& axes) {
    for (Axis& axis : axes) {
      if (axis.name == name) found.push_back(&axis);
    }
  };
  take(out_.axes);
  for (StageDeclaration& stage : out_.file.stages) take(stage.axes);
  return found;
}

void Overriding::narrow_axes() {
  std::map<std::string, std::pair<std::vector<std::string>, Place>> wanted;  // a repeated axis has all its labels
  for (const std::string& text : options_.axis) {
    const std::size_t equals = text.find('=');
    const Place place{cat("--axis ", text)};
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      mistakes_.report(cat("an axis is narrowed by NAME=label,label, found ", quote(text)), place);
      continue;
    }
    const std::string name = text.substr(0, equals);
    if (axes_named(name).empty()) {
      mistakes_.report(cat("no axis ", quote(name)), place, support::suggestion(name, out_.axis_names));
      continue;
    }
    auto& [labels, first] = wanted.try_emplace(name, std::vector<std::string>(), place).first->second;
    for (const std::string& label : support::split(std::string_view(text).substr(equals + 1), ','))
      labels.emplace_back(support::trim(label));
  }
  for (const auto& [name, given] : wanted) narrow(axes_named(name), given.first, given.second);
}

/// With the axes of the scale, and before the flags narrow them.
void Overriding::check_sequential() {
  const auto& sequential = out_.file.sequential;
  if (!sequential || sequential->axis.empty()) return;
  std::vector<std::string> names;
  for (const Axis& axis : out_.axes) {
    names.push_back(axis.name);
    if (axis.name == sequential->axis && std::ssize(axis.values) < sequential->most)
      mistakes_.report(cat("'sequential.most' is ", sequential->most, ", but axis ", quote(axis.name), " has ",
                           axis.values.size(), " labels"),
                       sequential->place, "name as many seeds in 'axes'");
  }
  if (std::find(names.begin(), names.end(), sequential->axis) == names.end())
    mistakes_.report(cat("'sequential': no axis ", quote(sequential->axis)), sequential->place,
                     support::suggestion(sequential->axis, names));
}

/// Stages may have axes of one name with different labels: each axis keeps its own labels among `labels`.
void Overriding::narrow(const std::vector<Axis*>& axes, const std::vector<std::string>& labels, const Place& place) {
  std::vector<std::string> known;
  for (const Axis* axis : axes) {
    for (const std::string& label : axis->labels()) {
      if (std::find(known.begin(), known.end(), label) == known.end()) known.push_back(label);
    }
  }
  const std::string& name = axes.front()->name;
  bool good = true;
  for (const std::string& label : labels) {
    if (std::find(known.begin(), known.end(), label) != known.end()) continue;
    mistakes_.report(cat("axis ", quote(name), " has no label ", quote(label)), place,
                     cat(support::suggestion(label, known), "; --axis keeps labels that are there, --set axes.", name,
                         ".", label, "=VALUE adds one"));
    good = false;
  }
  if (!good) return;  // an axis without labels would only bring more messages
  for (Axis* axis : axes) {
    std::erase_if(axis->values, [&](const AxisValue& value) {
      return std::find(labels.begin(), labels.end(), value.label) == labels.end();
    });
  }
}

void Overriding::check_names() {
  for (const StageDeclaration& stage : out_.file.stages) {
    for (const Axis& axis : stage.axes) {
      const bool taken =
          std::any_of(out_.axes.begin(), out_.axes.end(), [&](const Axis& top) { return top.name == axis.name; });
      if (taken) {
        mistakes_.report(cat("axis ", quote(axis.name), " of stage ", quote(stage.label), " exists at the top"),
                         axis.mark.place(), "a stage's own axes are added to the file's axes");
      }
      if (out_.vars.find(axis.name)) {
        mistakes_.report(cat(quote(axis.name), " is an axis and a var"), axis.mark.place(),
                         "axes and vars share one namespace: rename one");
      }
    }
  }
}

void Overriding::check_vars() {
  if (has_substitution(out_.vars)) {
    const std::function<void(const Node&)> tell = [&](const Node& node) {
      if (node.is_scalar() && has_substitution(node.text)) {
        mistakes_.report("a var holds a substitution", node.place(), "$(…) is for the values of stages");
      }
      for (const Node& item : node.items) tell(item);
      for (const auto& member : node.members) tell(member.value);
    };
    tell(out_.vars);
  }
}

void Overriding::read_named_resources() {
  for (const auto& member : out_.file.resources.members) {
    Resources resources;
    resources.name = member.key;
    Diagnostics local;
    read_resources(member.value, resources, local);
    const auto flags = out_.resource_flags.find(member.key);
    if (flags != out_.resource_flags.end()) {
      for (const auto& [key, value] : flags->second) read_resources(single(key, value), resources, local);
    }
    mistakes_.report(local);
    out_.resources[member.key] = std::move(resources);
  }
  for (const auto& [name, values] : out_.resource_flags) {
    if (out_.resources.count(name) || out_.file.find_stage(name)) continue;
    std::vector<std::string> known = out_.stage_labels();
    for (const auto& [key, value] : out_.resources) known.push_back(key);
    mistakes_.report(cat("no resources ", quote(name)), Place{cat("--set resources.", name)},
                     support::suggestion(name, known));
  }
}

void Overriding::check_unused() {
  std::set<std::string> used, values, over;
  for (const Node& config : out_.file.default_config) collect_names(config, used, &values);
  for (const Node* node : {&out_.file.default_resources, &out_.file.default_retry, &out_.file.default_checkpoint})
    collect_names(*node, used, &values);
  for (const StageDeclaration& stage : out_.file.stages) {
    collect_names(stage.set, used, &values);
    for (const Node& file : stage.config_files) collect_names(file, used, &values);
    for (const auto& [label, point] : stage.snapshots) collect_names(point, used, &values);
    for (const Node* node : {&stage.resources, &stage.retry, &stage.checkpoint}) collect_names(*node, used, &values);
    for (const auto* roles : {&stage.needs, &stage.gather, &stage.each}) {
      for (const auto& role : *roles) {
        for (const auto& reference : role.references) collect_names(reference.text, used, &values);
      }
    }
    for (const auto& [role, name] : stage.outputs) collect_names(name, used, &values);
    for (const auto& [axis, mark] : stage.over) over.insert(axis);
    for (const Axis& axis : stage.axes) {
      const bool bound = std::any_of(stage.over.begin(), stage.over.end(),
                                     [&](const auto& entry) { return entry.first == axis.name; });
      if (!bound) {
        mistakes_.report(cat("stage ", quote(stage.label), " does not use its axis ", quote(axis.name)),
                         axis.mark.place(), "add it to the stage's `over`, or take it out");
      }
    }
  }
  for (const Axis& axis : out_.axes) {
    if (!over.count(axis.name)) {
      mistakes_.report(cat("no stage uses axis ", quote(axis.name)), axis.mark.place(),
                       "add it to the `over` of a stage, or take it out");
    }
  }
  for (const StageDeclaration& stage : out_.file.stages) {
    for (const Axis& axis : stage.axes) check_values_are_read(axis, values);
  }
  for (const Axis& axis : out_.axes) check_values_are_read(axis, values);
  for (const auto& member : out_.vars.members) {
    if (!used.count(member.key)) {
      mistakes_.report(cat("var ", quote(member.key), " is not used"), member.key_mark.place(),
                       cat("use it as $(", member.key, "), or take it out"));
    }
  }
}

/// A value that no stage reads changes nothing: the label alone would decide. A number may only explain a word, as in
/// {half: 0.5}, where labels name snapshots or entries of vars.
void Overriding::check_values_are_read(const Axis& axis, const std::set<std::string>& read) {
  if (read.count(axis.name)) return;
  for (const AxisValue& entry : axis.values) {
    const Node& value = entry.value;
    if (value.is_null() || (value.is_scalar() && value.text == entry.label)) continue;
    if (value.is_scalar() && support::parse_real(value.text) && !support::parse_real(entry.label)) continue;
    mistakes_.report(cat("axis ", quote(axis.name), ": no stage reads the value of ", quote(entry.label), ", which is ",
                         value.found()),
                     value.mark.place(),
                     cat("$(", axis.name, ") is the label; write $(", axis.name, ".value) for the value"));
    return;
  }
}

}  // namespace

std::vector<std::string> OverriddenPipeline::stage_labels() const {
  std::vector<std::string> labels;
  for (const StageDeclaration& stage : file.stages) labels.push_back(stage.label);
  return labels;
}

Scope OverriddenPipeline::scope_of(const std::vector<Binding>& bindings, const std::string& stage) const {
  return {&bindings, vars.is_map() ? &vars : nullptr, &axis_names, cat("stage ", quote(stage))};
}

OverriddenPipeline apply_overrides(const PipelineFile& file, const ExpandOptions& options, Mistakes& mistakes) {
  return Overriding(file, options, mistakes).apply();
}

Node single(const std::string& key, Node value) {
  Node map;
  map.kind = Node::Kind::kMap;
  map.mark = value.mark;
  Mark key_mark;  // a flag's key has no line
  key_mark.source = value.mark.source;
  map.members.push_back({key, std::move(key_mark), std::move(value)});
  return map;
}

}  // namespace pe::pipeline
