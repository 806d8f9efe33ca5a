#include "pipeline/expand.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "pipeline/policy.h"
#include "pipeline/substitution.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;
using support::ConfigError;
using support::Diagnostics;
using support::Mark;
using support::Node;
using support::Place;
using support::quote;

namespace {

constexpr char kSeparator = '\x1f';

std::string suggest_or_list(const std::string& word, const std::vector<std::string>& candidates) {
  std::string hint = support::suggestion(word, candidates);
  if (hint.empty() && !candidates.empty() && candidates.size() <= 40) {
    hint = cat("expected one of ", support::join(candidates, ", "));
  }
  return hint;
}

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

struct Stage {
  const StageNode* node = nullptr;
  std::shared_ptr<const StageDescription> description;
  bool broken = false;                       ///< a mistake was told; what follows from it is not
  std::vector<Group> groups;
  std::vector<std::size_t> tasks;
  std::vector<const Axis*> own_axes;         ///< after narrowing
  std::vector<std::string> config_axes;      ///< names that its config uses
  std::vector<std::string> path_fields;      ///< dotted paths of fields of type path
  std::vector<Flag> flags;
  std::unordered_map<std::string, Json> configs;   ///< by the labels of config_axes
};

/// A place for every reference that needs no substitution, parsed once.
struct Link {
  const InputDescription* role = nullptr;
  const ReferenceText* text = nullptr;
  std::optional<Reference> fixed;
};

void collect_path_fields(const support::Schema& schema, const std::string& prefix, std::vector<std::string>& out) {
  for (const support::Field& field : schema) {
    const std::string path = prefix.empty() ? field.name : cat(prefix, ".", field.name);
    if (field.type == support::FieldType::kGroup) collect_path_fields(field.fields, path, out);
    if (field.type == support::FieldType::kPath || field.type == support::FieldType::kPathList) out.push_back(path);
  }
}

Json* find_value(Json& config, const std::string& dotted) {
  Json* at = &config;
  for (const std::string& part : support::split(dotted, '.')) {
    if (!at->is_object()) return nullptr;
    const auto it = at->find(part);
    if (it == at->end()) return nullptr;
    at = &*it;
  }
  return at;
}

/// A map node with one member.
Node single(const std::string& key, Node value) {
  Node map;
  map.kind = Node::Kind::kMap;
  map.mark = value.mark;
  Mark key_mark;   // a flag's key has no line
  key_mark.source = value.mark.source;
  map.members.push_back({key, std::move(key_mark), std::move(value)});
  return map;
}

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

/// Holds everything that a graph was made of, so that origins can be asked for later.
class Expander {
 public:
  Expander(const PipelineFile& file, StageCatalog& catalog, const ExpandOptions& options)
      : file_(file), catalog_(catalog), options_(options) {}

  Graph run();
  support::Origins origins(const Task& task) const;

 private:
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
  std::vector<Link> links_of(Stage& stage, const std::vector<StageNode::Role>& roles);
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
  bool excluded(const Stage& stage, const std::vector<Binding>& bindings) const;
  Scope scope_of(const std::vector<Binding>& bindings, const std::string& stage) const;

  // ---- edges
  struct Target {
    Stage* stage = nullptr;
    std::string output;
    std::string snapshot;
    const Reference* reference = nullptr;
  };
  std::optional<Target> find_target(const Reference& reference, const Mark& mark, const InputDescription& role);
  enum class Join { kFound, kDropped, kMistake };
  Join join(const Target& target, const Mark& mark, const std::vector<Binding>& bindings, const std::string& reader,
            std::size_t* producer);
  std::vector<std::size_t> gather(const Target& target, const std::vector<Binding>& bindings);
  bool check_pins(const Target& target, const Mark& mark);
  Edge make_edge(const Target& target, std::size_t producer, const std::string& role) const;

  // ---- config
  const Node* config_file(const std::string& path, const Mark& mark);
  void check_config_file(const Node& file);
  std::optional<Json> compose(const Stage& stage, const Scope& scope, support::Origins* origins,
                              Diagnostics& diagnostics);
  Json checkpoint_policy(const Stage& stage, const Scope& scope, Diagnostics& diagnostics) const;
  void lay_checkpoint(const Stage& stage, const Scope& scope, Json& config, Diagnostics& diagnostics) const;
  bool declared_anywhere(const std::string& dotted) const;
  void finish_paths(const Stage& stage, Task& task);
  void finish_labels(const Stage& stage, Task& task);
  void finish_policy(const Stage& stage, const Scope& scope, Task& task);
  void finish_snapshots(const Stage& stage, const Scope& scope, Task& task);

  void report(Diagnostics& local);
  void report(std::string message, Place place, std::string hint = {});

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
  fs::path folder_;

  std::vector<Axis> axes_;                    ///< top level, after scale, sets and narrowing
  std::deque<Axis> own_axes_;                 ///< of stages
  std::map<std::string, std::set<std::string>> known_labels_;   ///< of every axis, before narrowing
  std::vector<std::string> axis_names_;       ///< every axis of the pipeline
  Node vars_;
  std::map<std::string, Resources> resources_;
  std::map<std::string, std::vector<std::pair<std::string, Node>>> resource_flags_;
  std::vector<Stage> stages_;
  std::map<std::string, std::size_t> by_label_;
  std::deque<AxisValue> extra_values_;        ///< of the axes `from` and `snapshot`
  std::map<std::string, std::optional<Node>> config_files_;
  std::vector<std::vector<Binding>> bindings_;   ///< of each task
  std::unordered_map<std::string, std::size_t> by_id_;
  std::map<std::string, std::unordered_map<std::string, std::vector<std::size_t>>> gather_index_;

  Graph graph_;
  Diagnostics diagnostics_;
  std::unordered_set<std::string> told_;
};

// ---- mistakes -------------------------------------------------------------------------------------------------------

void Expander::report(Diagnostics& local) {
  for (const support::Diagnostic& item : local.items()) {
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

// ---- flags ----------------------------------------------------------------------------------------------------------

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

// ---- stages ---------------------------------------------------------------------------------------------------------

void Expander::describe_stages() {
  for (Stage& stage : stages_) {
    try {
      stage.description = catalog_.find(stage.node->run, file_.root, stage.node->run_mark.place());
    } catch (const ConfigError& error) {
      for (const auto& item : error.diagnostics()) report(item.message, item.place, item.hint);
      stage.broken = true;
      continue;
    }
    collect_path_fields(stage.description->fields, "", stage.path_fields);
    std::set<std::string> names;
    collect_names(stage.node->set, names);
    collect_names(stage.node->checkpoint, names);
    for (const Node& file : stage.node->config_files) collect_names(file, names);
    stage.config_axes.assign(names.begin(), names.end());
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

void Expander::check_patterns(const Stage& stage, const std::vector<CellPattern>& patterns, const std::string& what,
                              const std::set<std::string>& bound) {
  for (const CellPattern& pattern : patterns) {
    for (const auto& [axis, axis_mark, labels, label_marks] : pattern) {
      if (!bound.count(axis)) {
        report(cat(quote(what), " of stage ", quote(stage.node->label), " names axis ", quote(axis),
                   ", which no instance of it has"),
               axis_mark.place(), suggest_or_list(axis, {bound.begin(), bound.end()}));
        continue;
      }
      const auto known = known_labels_.find(axis);
      if (known == known_labels_.end()) continue;
      for (std::size_t i = 0; i < labels.size(); ++i) {
        if (known->second.count(labels[i])) continue;
        report(cat(quote(what), " of stage ", quote(stage.node->label), ": axis ", quote(axis), " has no label ",
                   quote(labels[i])),
               label_marks[i].place(), suggest_or_list(labels[i], {known->second.begin(), known->second.end()}));
      }
    }
  }
}

bool Expander::excluded(const Stage& stage, const std::vector<Binding>& bindings) const {
  const auto matches = [&](const CellPattern& pattern) {
    return std::all_of(pattern.begin(), pattern.end(), [&](const auto& entry) {
      for (const Binding& binding : bindings) {
        if (binding.axis != entry.axis) continue;
        return std::find(entry.labels.begin(), entry.labels.end(), binding.value->label) != entry.labels.end();
      }
      return false;
    });
  };
  const StageNode& node = *stage.node;
  if (std::any_of(node.exclude.begin(), node.exclude.end(), matches)) return true;
  return !node.only.empty() && std::none_of(node.only.begin(), node.only.end(), matches);
}

Scope Expander::scope_of(const std::vector<Binding>& bindings, const std::string& stage) const {
  return {&bindings, vars_.is_map() ? &vars_ : nullptr, &axis_names_, cat("stage ", quote(stage))};
}

std::vector<Link> Expander::links_of(Stage& stage, const std::vector<StageNode::Role>& roles) {
  std::vector<Link> links;
  for (const auto& role : roles) {
    const InputDescription* input = stage.description->find_input(role.name);
    if (!input) continue;
    for (const auto& text : role.references) {
      Link link{input, &text, {}};
      if (!has_substitution(text.text)) {
        Diagnostics local;
        link.fixed = parse_reference(text.text, text.mark, local);
        report(local);
        if (!link.fixed) {
          stage.broken = true;
          continue;
        }
      }
      links.push_back(std::move(link));
    }
  }
  return links;
}

// ---- edges ----------------------------------------------------------------------------------------------------------

std::optional<Expander::Target> Expander::find_target(const Reference& reference, const Mark& mark,
                                                      const InputDescription& role) {
  Target target;
  target.stage = find_stage(reference.stage);
  target.reference = &reference;
  if (!target.stage || target.stage->broken || !target.stage->description) return std::nullopt;
  const StageDescription& producer = *target.stage->description;
  const StageNode& node = *target.stage->node;
  const std::string expected(artifact::kind_name(role.kind));
  if (!reference.output.empty()) {
    const OutputDescription* output = producer.find_output(reference.output);
    if (!output) {
      report(cat("stage ", quote(node.label), " has no output ", quote(reference.output)), mark.place(),
             suggest_or_list(reference.output, producer.output_names()));
      return std::nullopt;
    }
    if (output->kind != role.kind) {
      report(cat("output ", quote(output->name), " of stage ", quote(node.label), " is ",
                 artifact::kind_name(output->kind), "; input ", quote(role.name), " takes ", expected),
             mark.place());
      return std::nullopt;
    }
    target.output = output->name;
  } else {
    std::vector<std::string> fitting;
    std::vector<std::string> all;
    for (const OutputDescription& output : producer.outputs) {
      all.push_back(cat(output.name, " (", artifact::kind_name(output.kind), ")"));
      if (output.kind == role.kind && !output.is_volatile) fitting.push_back(output.name);
    }
    if (fitting.size() != 1) {
      report(fitting.empty() ? cat("stage ", quote(node.label), " has no output of kind ", expected, ", which input ",
                                   quote(role.name), " takes")
                             : cat("stage ", quote(node.label), " has several outputs of kind ", expected),
             mark.place(),
             fitting.empty() ? cat("its outputs are ", support::join(all, ", "))
                             : cat("name one: ", node.label, ".", support::join(fitting, cat(" or ", node.label, "."))));
      return std::nullopt;
    }
    target.output = fitting.front();
  }
  std::vector<std::string> snapshots;
  for (const auto& [label, point] : node.snapshots) snapshots.push_back(label);
  if (reference.snapshot.empty() && !snapshots.empty()) {
    report(cat("stage ", quote(node.label), " has snapshots and must be named with one"), mark.place(),
           cat("such as ", node.label, "@", snapshots.back(), "; there are ", support::join(snapshots, ", ")));
    return std::nullopt;
  }
  if (!reference.snapshot.empty() &&
      std::find(snapshots.begin(), snapshots.end(), reference.snapshot) == snapshots.end()) {
    report(snapshots.empty() ? cat("stage ", quote(node.label), " has no snapshots")
                             : cat("stage ", quote(node.label), " has no snapshot ", quote(reference.snapshot)),
           mark.place(),
           snapshots.empty() ? cat("leave out '@", reference.snapshot, "'")
                             : suggest_or_list(reference.snapshot, snapshots));
    return std::nullopt;
  }
  target.snapshot = reference.snapshot;
  return target;
}

bool Expander::check_pins(const Target& target, const Mark& mark) {
  bool good = true;
  for (const auto& [axis, label] : target.reference->pins) {
    std::set<std::string> axes, labels;
    for (const Group& group : target.stage->groups) {
      for (std::size_t i = 0; i < group.axes.size(); ++i) {
        axes.insert(group.axes[i]);
        if (group.axes[i] == axis) labels.insert(group.domain[i].begin(), group.domain[i].end());
      }
    }
    if (!axes.count(axis)) {
      report(cat("stage ", quote(target.stage->node->label), " has no axis ", quote(axis)), mark.place(),
             axes.empty() ? "it has one instance" : suggest_or_list(axis, {axes.begin(), axes.end()}));
      good = false;
    } else if (!labels.count(label)) {
      report(cat("axis ", quote(axis), " of stage ", quote(target.stage->node->label), " has no label ", quote(label)),
             mark.place(), suggest_or_list(label, {labels.begin(), labels.end()}));
      good = false;
    }
  }
  return good;
}

/// The instance that agrees on all axes that both have.
Expander::Join Expander::join(const Target& target, const Mark& mark, const std::vector<Binding>& bindings,
                              const std::string& reader, std::size_t* producer) {
  if (!check_pins(target, mark)) return Join::kMistake;
  std::string open;
  std::vector<std::size_t> found;
  bool bound = false, strange = false;
  std::string key;
  for (const Group& group : target.stage->groups) {
    key.clear();
    bool usable = true, foreign = false;
    std::string lacking;
    std::size_t pinned = 0;
    for (std::size_t i = 0; i < group.axes.size() && usable; ++i) {
      const std::string* label = nullptr;
      for (const auto& [axis, pin] : target.reference->pins) {
        if (axis == group.axes[i]) label = &pin;
      }
      if (label) {
        ++pinned;
      } else {
        for (const Binding& binding : bindings) {
          if (binding.axis == group.axes[i]) label = &binding.value->label;
        }
      }
      if (!label) {
        lacking = group.axes[i];
        usable = false;
      } else {
        foreign = foreign || !group.domain[i].count(*label);
        key += *label;
        key += kSeparator;
      }
    }
    if (!usable) {
      if (open.empty()) open = lacking;
      continue;
    }
    if (pinned != target.reference->pins.size()) continue;   // a pinned axis that this group lacks
    bound = true;
    if (foreign) {
      strange = true;
      continue;
    }
    if (const auto it = group.by_labels.find(key); it != group.by_labels.end()) found.push_back(it->second);
  }
  const std::string& label = target.stage->node->label;
  if (found.size() == 1) {
    *producer = found.front();
    return Join::kFound;
  }
  if (found.size() > 1) {
    report(cat("reference to ", quote(label), " fits several instances, such as ", graph_.tasks[found[0]].id, " and ",
               graph_.tasks[found[1]].id),
           mark.place(), cat("pin one: '", label, "[axis=label]'"));
    return Join::kMistake;
  }
  if (!bound && !open.empty()) {
    report(cat("stage ", quote(reader), " lacks axis ", quote(open), " of stage ", quote(label)), mark.place(),
           cat("pin it: '", label, "[", open, "=…]', take all with `gather`, or make an instance for each with `each`"));
    return Join::kMistake;
  }
  if (strange && bound) {
    // The axes have the same name and other labels, so nothing was excluded: nobody ever meant this cell.
    bool any = false;
    for (const Group& group : target.stage->groups) any = any || !group.by_labels.empty();
    if (any) {
      std::vector<std::string> cell;
      for (const Binding& binding : bindings) cell.push_back(cat(binding.axis, "=", binding.value->label));
      report(cat("stage ", quote(label), " has no instance for ", reader, "[", support::join(cell, ","), "]"),
             mark.place(), "the two stages give an axis of one name other labels");
      return Join::kMistake;
    }
  }
  return Join::kDropped;
}

/// All instances that agree on the axes both have and on the pins.
std::vector<std::size_t> Expander::gather(const Target& target, const std::vector<Binding>& bindings) {
  std::vector<std::size_t> found;
  for (const Group& group : target.stage->groups) {
    std::vector<std::pair<std::size_t, const std::string*>> wanted;
    bool possible = true;
    for (const auto& [axis, pin] : target.reference->pins) {
      const auto it = std::find(group.axes.begin(), group.axes.end(), axis);
      if (it == group.axes.end()) possible = false;
      else wanted.emplace_back(static_cast<std::size_t>(it - group.axes.begin()), &pin);
    }
    if (!possible) continue;
    for (const Binding& binding : bindings) {
      const auto it = std::find(group.axes.begin(), group.axes.end(), binding.axis);
      if (it == group.axes.end()) continue;
      const auto index = static_cast<std::size_t>(it - group.axes.begin());
      const bool pinned = std::any_of(wanted.begin(), wanted.end(), [&](const auto& entry) { return entry.first == index; });
      if (!pinned) wanted.emplace_back(index, &binding.value->label);
    }
    // One index per way of asking: readers of one stage all ask alike.
    std::string how = cat(target.stage->node->label, kSeparator, &group - target.stage->groups.data());
    std::string key;
    for (const auto& [index, label] : wanted) {
      how += cat(kSeparator, index);
      key += *label;
      key += kSeparator;
    }
    auto [it, fresh] = gather_index_.try_emplace(how);
    if (fresh) {
      for (std::size_t task : target.stage->tasks) {
        const auto& axes = graph_.tasks[task].axes;
        if (axes.size() != group.axes.size()) continue;
        bool same = true;
        for (std::size_t i = 0; i < axes.size(); ++i) same = same && axes[i].first == group.axes[i];
        if (!same) continue;
        std::string own;
        for (const auto& [index, label] : wanted) {
          own += axes[index].second;
          own += kSeparator;
        }
        it->second[own].push_back(task);
      }
    }
    if (const auto hit = it->second.find(key); hit != it->second.end()) {
      found.insert(found.end(), hit->second.begin(), hit->second.end());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

Edge Expander::make_edge(const Target& target, std::size_t producer, const std::string& role) const {
  Edge edge;
  edge.role = role;
  edge.producer = producer;
  edge.output = target.output;
  edge.snapshot = target.snapshot;
  const Task& task = graph_.tasks[producer];
  for (const auto& [axis, label] : task.axes) edge.labels.emplace(axis, label);
  edge.labels.emplace("stage", task.label);
  if (!target.snapshot.empty()) edge.labels.emplace("snapshot", target.snapshot);
  return edge;
}

// ---- config ---------------------------------------------------------------------------------------------------------

const Node* Expander::config_file(const std::string& path, const Mark& mark) {
  const auto [it, fresh] = config_files_.try_emplace(path);
  if (fresh) {
    const fs::path full = fs::path(path).is_absolute() ? fs::path(path) : file_.root / path;
    std::error_code error;
    if (!fs::is_regular_file(full, error)) {
      std::vector<std::string> near;
      const fs::path folder = full.parent_path();
      for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        near.push_back((fs::path(path).parent_path() / entry->path().filename()).string());
      }
      std::sort(near.begin(), near.end());
      report(cat("no config file ", quote(path)), mark.place(), support::suggestion(path, near));
    } else {
      try {
        it->second = support::read_yaml(full);
        graph_.files.push_back(full.lexically_normal().string());
        check_config_file(*it->second);
      } catch (const ConfigError& error_in_file) {
        for (const auto& item : error_in_file.diagnostics()) report(item.message, item.place, item.hint);
        it->second.reset();
      }
    }
  }
  return it->second ? &*it->second : nullptr;
}

bool Expander::declared_anywhere(const std::string& dotted) const {
  for (const Stage& stage : stages_) {
    if (!stage.description) return true;   // what the missing stage declares is not known; it was told already
    if (support::find_field(stage.description->fields, dotted)) return true;
    // An option of a variant stands below the variant's own path.
    for (std::size_t dot = dotted.rfind('.'); dot != std::string::npos && dot > 0; dot = dotted.rfind('.', dot - 1)) {
      const support::Field* field = support::find_field(stage.description->fields, dotted.substr(0, dot));
      if (field && field->type == support::FieldType::kVariant) return true;
    }
  }
  return false;
}

/// A key of a config file must be declared by some stage of the pipeline.
void Expander::check_config_file(const Node& file) {
  if (file.is_null()) return;
  if (!file.is_map()) {
    report(cat("expected a map in a config file, found ", file.found()), file.place());
    return;
  }
  const std::function<void(const Node&, const std::string&)> walk = [&](const Node& map, const std::string& prefix) {
    for (const auto& member : map.members) {
      const std::string path = prefix.empty() ? member.key : cat(prefix, ".", member.key);
      if (!declared_anywhere(path)) {
        std::vector<std::string> known;
        for (const Stage& stage : stages_) {
          if (!stage.description) continue;
          for (std::string& candidate : support::field_paths(stage.description->fields)) {
            known.push_back(std::move(candidate));
          }
        }
        // Inside a group the last word is what was mistyped.
        std::string hint = support::suggestion(path, known);
        if (hint.rfind("did you mean", 0) != 0) hint = "no stage of this pipeline declares it";
        report(cat("unknown key ", quote(path), " in a config file"), member.key_mark.place(), hint);
        continue;
      }
      if (!member.value.is_map()) continue;
      const bool is_group = std::any_of(stages_.begin(), stages_.end(), [&](const Stage& stage) {
        if (!stage.description) return false;
        const support::Field* field = support::find_field(stage.description->fields, path);
        return field && field->type == support::FieldType::kGroup;
      });
      if (is_group) walk(member.value, path);
    }
  };
  walk(file, "");
}

Json Expander::checkpoint_policy(const Stage& stage, const Scope& scope, Diagnostics& diagnostics) const {
  Json checkpoint = Json::object();
  if (!file_.default_checkpoint.is_null()) read_checkpoint(file_.default_checkpoint, checkpoint, diagnostics);
  if (stage.node->checkpoint.is_null()) return checkpoint;
  if (const auto value = substitute(stage.node->checkpoint, scope, diagnostics)) {
    read_checkpoint(*value, checkpoint, diagnostics);
  }
  return checkpoint;
}

/// A stage hears of the policy through its config, below whatever files and sets say; only fields that no key holds.
void Expander::lay_checkpoint(const Stage& stage, const Scope& scope, Json& config, Diagnostics& diagnostics) const {
  const Json policy = checkpoint_policy(stage, scope, diagnostics);
  for (const auto& [name, field_name] : {std::pair{"every_s", "every"}, std::pair{"keep", "keep"}}) {
    const support::Field* field = support::find_field(stage.description->fields, cat("checkpoint.", field_name));
    if (field && !field->options.hashed && policy.contains(name)) config["checkpoint"][field_name] = policy[name];
  }
}

std::optional<Json> Expander::compose(const Stage& stage, const Scope& scope, support::Origins* origins,
                                      Diagnostics& diagnostics) {
  const StageDescription& description = *stage.description;
  Json config = support::defaults(description.fields);
  const std::string owner = cat("stage ", quote(stage.node->label), " (", description.program, ")");
  const std::size_t before = diagnostics.size();
  bool good = true;
  lay_checkpoint(stage, scope, config, diagnostics);
  const support::OverlayOptions foreign{[](const std::string&) { return true; }, owner};
  const auto lay_file = [&](const Node& name) {
    const auto path = substitute_text(name.text, name.mark, scope, diagnostics);
    const Node* file = path ? config_file(*path, name.mark) : nullptr;
    if (!file) {
      good = false;
    } else if (file->is_map()) {
      support::overlay(description.fields, *file, config, origins, diagnostics, foreign);
    }
  };
  for (const Node& name : file_.default_config) lay_file(name);
  for (const Node& name : stage.node->config_files) lay_file(name);
  const support::OverlayOptions strict{{}, owner};
  if (stage.node->set.is_map()) {
    const auto set = substitute(stage.node->set, scope, diagnostics);
    if (set) support::overlay(description.fields, *set, config, origins, diagnostics, strict);
  }
  for (const Flag& flag : stage.flags) {
    const support::Field* field = support::find_field(description.fields, flag.key);
    const bool is_path = field && (field->type == support::FieldType::kPath || field->type == support::FieldType::kPathList);
    const auto absolute = [&](std::string text) {
      return text.empty() || fs::path(text).is_absolute() ? text : (folder_ / text).lexically_normal().string();
    };
    Node value;
    if (is_path && (flag.value.empty() || flag.value.front() != '[')) {
      value = support::literal_node(absolute(flag.value), flag.name);
    } else {
      try {
        value = support::parse_yaml_value(flag.value, flag.name);
      } catch (const ConfigError& error) {
        for (const auto& item : error.diagnostics()) diagnostics.add(item.message, item.place, item.hint);
        continue;
      }
      if (is_path) {
        for (Node& item : value.items) item.text = absolute(item.text);
      }
    }
    support::overlay(description.fields, single(flag.key, std::move(value)), config, origins, diagnostics, strict);
  }
  if (!good || diagnostics.size() != before) return std::nullopt;
  return config;
}

void Expander::finish_paths(const Stage& stage, Task& task) {
  for (const std::string& dotted : stage.path_fields) {
    Json* value = find_value(task.config, dotted);
    if (!value) continue;
    std::vector<std::string> paths;
    const auto absolute = [&](Json& item) {
      if (!item.is_string()) return;
      const std::string text = item.get<std::string>();
      if (text.empty()) return;
      const fs::path path = fs::path(text).is_absolute() ? fs::path(text) : file_.root / text;
      paths.push_back(path.lexically_normal().string());
      item = paths.back();
    };
    if (value->is_array()) {
      for (Json& item : *value) absolute(item);
    } else {
      absolute(*value);
    }
    const support::Field* field = support::find_field(stage.description->fields, dotted);
    if (!paths.empty() && field && field->options.hashed) task.externals.push_back({dotted, std::move(paths), {}, {}});
  }
}

/// A stage that prints labels gets them as config, so that they are in its key and in no other's.
void Expander::finish_labels(const Stage& stage, Task& task) {
  const StageDescription& description = *stage.description;
  if (!description.takes_labels) return;
  if (support::find_field(description.fields, "title") && task.config["title"].is_string() &&
      task.config["title"].get_ref<const std::string&>().empty()) {
    task.config["title"] = file_.title.empty() ? file_.name : file_.title;
  }
  if (support::find_field(description.fields, "labels")) {
    Json labels = Json::array();
    for (const auto& role : stage.node->gather) {
      for (const Edge& edge : task.inputs) {
        if (edge.role != role.name) continue;
        std::string line = cat(edge.role, " stage=", edge.labels.at("stage"));
        for (const auto& [axis, label] : edge.labels) {
          if (axis != "stage") line += cat(",", axis, "=", label);
        }
        labels.push_back(std::move(line));
      }
    }
    task.config["labels"] = std::move(labels);
  }
  if (!file_.claims.empty() && support::find_field(description.fields, "claims")) {
    Json& claims = task.config["claims"];
    if (claims.is_null() || (claims.is_string() && claims.get_ref<const std::string&>().empty())) claims = file_.claims;
  }
}

void Expander::finish_policy(const Stage& stage, const Scope& scope, Task& task) {
  Diagnostics local;
  const StageNode& node = *stage.node;
  const Node& wanted = node.resources.is_null() ? file_.default_resources : node.resources;
  if (!wanted.is_null()) {
    if (const auto value = substitute(wanted, scope, local)) {
      if (value->is_scalar()) {
        const auto it = resources_.find(value->text);
        if (it == resources_.end()) {
          std::vector<std::string> names;
          for (const auto& [name, resources] : resources_) names.push_back(name);
          local.add(cat("no resources ", quote(value->text)), value->place(),
                    names.empty() ? "the file has no `resources`" : suggest_or_list(value->text, names));
        } else {
          task.resources = it->second;
        }
      } else {
        read_resources(*value, task.resources, local);
      }
    }
  }
  if (const auto flags = resource_flags_.find(node.label); flags != resource_flags_.end()) {
    for (const auto& [key, value] : flags->second) read_resources(single(key, value), task.resources, local);
  }
  if (!file_.default_retry.is_null()) read_retry(file_.default_retry, task.retry, local);
  if (!node.retry.is_null()) {
    if (const auto value = substitute(node.retry, scope, local)) read_retry(*value, task.retry, local);
  }
  task.checkpoint = checkpoint_policy(stage, scope, local);
  report(local);
  task.allow_partial = node.allow_partial;
  task.record_divergence = file_.on_diverge == "record";
  task.exact_numerics = file_.numerics == "exact";
  task.hash_build = file_.code == "build";
}

void Expander::finish_snapshots(const Stage& stage, const Scope& scope, Task& task) {
  const StageNode& node = *stage.node;
  if (node.snapshots.empty()) return;
  const TrajectoryDescription& trajectory = *stage.description->trajectory;
  const auto integer = [&](const std::string& key) -> std::int64_t {
    const Json* value = find_value(task.config, key);
    if (!value || !value->is_number()) return 0;
    return value->is_number_integer() ? value->get<std::int64_t>() : static_cast<std::int64_t>(value->get<double>());
  };
  std::int64_t tokens_per_step = 1;
  for (const std::string& key : trajectory.tokens_per_step) {
    const std::int64_t factor = integer(key);
    if (factor <= 0 || __builtin_mul_overflow(tokens_per_step, factor, &tokens_per_step)) {
      report(cat("the snapshots of stage ", quote(node.label), " need ", quote(key), " to be positive and not absurd"),
             node.snapshot_marks.front().place());
      return;
    }
  }
  const std::int64_t horizon = integer(trajectory.horizon);
  if (horizon <= 0) {
    report(cat("the snapshots of stage ", quote(node.label), " need ", quote(trajectory.horizon), " to be positive"),
           node.snapshot_marks.front().place(), cat("set ", trajectory.horizon));
    return;
  }
  const std::int64_t horizon_steps = horizon / tokens_per_step + (horizon % tokens_per_step != 0);
  for (std::size_t i = 0; i < node.snapshots.size(); ++i) {
    const auto& [label, written] = node.snapshots[i];
    Diagnostics local;
    const auto point = substitute(written, scope, local);
    std::optional<std::int64_t> step;
    const std::string what = cat("snapshot ", quote(label));
    if (point && point->is_scalar()) {
      const auto fraction = support::parse_real(point->text);
      if (!fraction || !(*fraction >= 0 && *fraction <= 1)) {
        local.add(cat(what, " must be a fraction from 0 to 1, found ", point->found()), point->place(),
                  "a point in tokens is {tokens: 1M}, one in steps {step: 1000}");
      } else {
        // Half up; the small number undoes what binary fractions lose, as in the training's own schedule.
        step = static_cast<std::int64_t>(std::floor(*fraction * static_cast<double>(horizon_steps) + 0.5 + 1e-9));
      }
    } else if (point && point->is_map() && point->members.size() == 1 &&
               (point->members[0].key == "tokens" || point->members[0].key == "step")) {
      const auto& member = point->members[0];
      std::string why;
      const auto value = member.value.is_scalar()
                             ? support::parse_integer(member.value.text, support::Suffixes::kCount, &why) : std::nullopt;
      if (!value || *value < 0) {
        local.add(cat(what, ": ", quote(member.key), " must be an integer from 0, found ", member.value.found()),
                  member.value.place(), "such as 300M or 2.4e9");
      } else {
        step = member.key == "step" ? *value : *value / tokens_per_step + (*value % tokens_per_step != 0);
      }
    } else if (point) {
      local.add(cat(what, " must be a fraction, {tokens: N} or {step: N}, found ", point->found()), point->place());
    }
    if (step && *step > horizon_steps) {
      local.add(cat(what, " is at step ", *step, ", beyond the horizon of ", horizon_steps, " steps (", trajectory.horizon,
                    " = ", horizon, " at ", tokens_per_step, " tokens a step)"),
                written.place());
      step.reset();
    }
    report(local);
    if (step) task.snapshots.push_back({label, *step});
  }
  std::stable_sort(task.snapshots.begin(), task.snapshots.end(),
                   [](const SnapshotPoint& a, const SnapshotPoint& b) { return a.step < b.step; });
}

// ---- instances ------------------------------------------------------------------------------------------------------

std::vector<Expander::Instance> Expander::enumerate(Stage& stage) {
  const StageNode& node = *stage.node;
  std::vector<const Axis*> over;
  for (const auto& [name, mark] : node.over) {
    const Axis* axis = find_axis(stage, name);
    if (!axis) {
      std::vector<std::string> known;
      for (const Axis& top : axes_) known.push_back(top.name);
      for (const Axis* own : stage.own_axes) known.push_back(own->name);
      report(cat("unknown axis ", quote(name), " in 'over' of stage ", quote(node.label)), mark.place(),
             known.empty() ? "the file has no `axes`" : suggest_or_list(name, known));
      stage.broken = true;
      continue;
    }
    over.push_back(axis);
  }
  if (stage.broken) return {};

  // Where an instance begins: nothing, or one artifact of a producer.
  struct Seed {
    std::vector<Binding> bindings;
    std::optional<Edge> each;
  };
  std::vector<Seed> seeds;
  if (node.each.empty()) {
    seeds.emplace_back();
  } else {
    const auto& role = node.each.front();
    const InputDescription& input = *stage.description->find_input(role.name);
    for (const auto& text : role.references) {
      if (has_substitution(text.text)) {
        report(cat("reference ", quote(text.text), " in `each` holds a substitution"), text.mark.place(),
               "an `each` instance takes its axes from what it names");
        stage.broken = true;
        continue;
      }
      Diagnostics local;
      const auto reference = parse_reference(text.text, text.mark, local);
      report(local);
      const auto target = reference ? find_target(*reference, text.mark, input) : std::nullopt;
      if (!target || !check_pins(*target, text.mark)) {
        stage.broken = true;
        continue;
      }
      extra_values_.push_back({target->stage->node->label, {}});
      const AxisValue* from = &extra_values_.back();
      known_labels_["from"].insert(from->label);
      const AxisValue* snapshot = nullptr;
      if (!target->snapshot.empty()) {
        extra_values_.push_back({target->snapshot, {}});
        snapshot = &extra_values_.back();
        known_labels_["snapshot"].insert(snapshot->label);
      }
      for (std::size_t producer : gather(*target, {})) {
        Seed seed;
        seed.bindings.push_back({"from", from});
        if (snapshot) seed.bindings.push_back({"snapshot", snapshot});
        for (const Binding& binding : bindings_[producer]) {
          if (binding.axis != "from" && binding.axis != "snapshot") seed.bindings.push_back(binding);
        }
        seed.each = make_edge(*target, producer, role.name);
        seeds.push_back(std::move(seed));
      }
    }
    if (stage.broken) return {};
  }

  std::vector<Instance> instances;
  std::set<std::string> bound;
  for (const Axis* axis : over) bound.insert(axis->name);
  for (Seed& seed : seeds) {
    for (const Binding& binding : seed.bindings) {
      const bool twice = std::any_of(over.begin(), over.end(), [&](const Axis* axis) { return axis->name == binding.axis; });
      if (twice) {
        report(cat("axis ", quote(binding.axis), " of stage ", quote(node.label), " comes with `each` and stands in `over`"),
               node.mark.place(), "take it out of `over`");
        stage.broken = true;
        return {};
      }
      bound.insert(binding.axis);
    }
    // The group of this seed: instances with the same axes.
    std::vector<std::string> names;
    for (const Binding& binding : seed.bindings) names.push_back(binding.axis);
    for (const Axis* axis : over) names.push_back(axis->name);
    std::size_t group = 0;
    while (group < stage.groups.size() && stage.groups[group].axes != names) ++group;
    if (group == stage.groups.size()) {
      stage.groups.push_back({names, {}, {}});
      stage.groups.back().domain.resize(names.size());
      for (std::size_t i = 0; i < over.size(); ++i) {
        for (const AxisValue& value : over[i]->values) {
          stage.groups[group].domain[seed.bindings.size() + i].insert(value.label);
        }
      }
    }
    for (std::size_t i = 0; i < seed.bindings.size(); ++i) {
      stage.groups[group].domain[i].insert(seed.bindings[i].value->label);
    }
    // Odometer over the axes, the last one fastest.
    std::vector<std::size_t> at(over.size(), 0);
    const bool empty = std::any_of(over.begin(), over.end(), [](const Axis* axis) { return axis->values.empty(); });
    while (!empty) {
      Instance instance;
      instance.bindings = seed.bindings;
      for (std::size_t i = 0; i < over.size(); ++i) instance.bindings.push_back({over[i]->name, &over[i]->values[at[i]]});
      if (!excluded(stage, instance.bindings)) {
        instance.each = seed.each;
        instance.group = group;
        instances.push_back(std::move(instance));
      }
      std::size_t i = over.size();
      while (i > 0 && ++at[i - 1] == over[i - 1]->values.size()) at[--i] = 0;
      if (i == 0) break;
    }
  }
  if (node.each.empty() || !seeds.empty()) {
    check_patterns(stage, node.exclude, "exclude", bound);
    check_patterns(stage, node.only, "only", bound);
  }
  return instances;
}

void Expander::expand_stage(Stage& stage) {
  const StageNode& node = *stage.node;
  const StageDescription& description = *stage.description;
  std::vector<Link> needs = links_of(stage, node.needs);
  std::vector<Link> gathers = links_of(stage, node.gather);
  if (stage.broken) return;
  // A producer that is broken was told of; what it would have given is not known.
  for (const auto* links : {&needs, &gathers}) {
    for (const Link& link : *links) {
      const std::string label = link.text->text.substr(0, link.text->text.find_first_of(".@["));
      if (Stage* producer = find_stage(label); !producer || producer->broken) stage.broken = true;
    }
  }
  for (const auto& role : node.each) {
    for (const auto& text : role.references) {
      Stage* producer = find_stage(text.text.substr(0, text.text.find_first_of(".@[")));
      if (!producer || producer->broken) stage.broken = true;
    }
  }
  if (stage.broken) return;
  // Fixed references mean the same for every instance.
  std::vector<std::optional<Target>> need_targets(needs.size()), gather_targets(gathers.size());
  for (std::size_t i = 0; i < needs.size(); ++i) {
    if (needs[i].fixed && !(need_targets[i] = find_target(*needs[i].fixed, needs[i].text->mark, *needs[i].role))) {
      stage.broken = true;
    }
  }
  for (std::size_t i = 0; i < gathers.size(); ++i) {
    if (!gathers[i].fixed) continue;
    gather_targets[i] = find_target(*gathers[i].fixed, gathers[i].text->mark, *gathers[i].role);
    if (!gather_targets[i] || !check_pins(*gather_targets[i], gathers[i].text->mark)) stage.broken = true;
  }
  std::vector<Instance> instances = enumerate(stage);
  if (stage.broken) return;
  graph_.tasks.reserve(graph_.tasks.size() + instances.size());

  const auto role_rank = [&](const std::string& role) {
    for (std::size_t i = 0; i < description.inputs.size(); ++i) {
      if (description.inputs[i].name == role) return i;
    }
    return description.inputs.size();
  };

  std::string key;
  for (Instance& instance : instances) {
    const Scope scope = scope_of(instance.bindings, node.label);
    Task task;
    task.label = node.label;
    task.id = node.label;
    key.clear();
    for (const Binding& binding : instance.bindings) {
      task.id += task.axes.empty() ? "[" : ",";
      task.id += binding.axis;
      task.id += '=';
      task.id += binding.value->label;
      task.axes.emplace_back(binding.axis, binding.value->label);
      key += binding.value->label;
      key += kSeparator;
    }
    if (!task.axes.empty()) task.id += ']';

    // Edges.
    bool dropped = false, mistaken = false;
    if (instance.each) task.inputs.push_back(std::move(*instance.each));
    for (std::size_t i = 0; i < needs.size() && !dropped && !mistaken; ++i) {
      const Link& link = needs[i];
      std::optional<Reference> own;
      std::optional<Target> target = need_targets[i];
      if (!link.fixed) {
        Diagnostics local;
        const auto text = substitute_text(link.text->text, link.text->mark, scope, local);
        if (text) own = parse_reference(*text, link.text->mark, local);
        report(local);
        if (own) target = find_target(*own, link.text->mark, *link.role);
      }
      if (!target) {
        mistaken = true;
        break;
      }
      std::size_t producer = 0;
      switch (join(*target, link.text->mark, instance.bindings, node.label, &producer)) {
        case Join::kFound: task.inputs.push_back(make_edge(*target, producer, link.role->name)); break;
        case Join::kDropped: dropped = true; break;
        case Join::kMistake: mistaken = true; break;
      }
    }
    if (dropped) {
      ++graph_.dropped;
      continue;
    }
    std::set<std::string> gathered;
    for (std::size_t i = 0; i < gathers.size() && !mistaken; ++i) {
      const Link& link = gathers[i];
      std::optional<Reference> own;
      std::optional<Target> target = gather_targets[i];
      if (!link.fixed) {
        Diagnostics local;
        const auto text = substitute_text(link.text->text, link.text->mark, scope, local);
        if (text) own = parse_reference(*text, link.text->mark, local);
        report(local);
        if (own) target = find_target(*own, link.text->mark, *link.role);
        if (target && !check_pins(*target, link.text->mark)) target.reset();
      }
      if (!target) {
        mistaken = true;
        break;
      }
      for (std::size_t producer : gather(*target, instance.bindings)) {
        task.inputs.push_back(make_edge(*target, producer, link.role->name));
        gathered.insert(link.role->name);
      }
    }
    for (const auto& role : node.gather) {
      if (mistaken || gathered.count(role.name)) continue;
      const InputDescription* input = description.find_input(role.name);
      if (input && !input->optional) {
        report(cat("input ", quote(role.name), " of ", task.id, " is left empty: nothing matches what it gathers"),
               role.mark.place());
        mistaken = true;
      }
    }
    if (mistaken) {
      stage.broken = true;
      continue;
    }
    std::stable_sort(task.inputs.begin(), task.inputs.end(), [&](const Edge& a, const Edge& b) {
      return a.role != b.role && role_rank(a.role) < role_rank(b.role);
    });

    // Config: instances that agree on the axes it uses share one.
    std::string signature;
    for (const std::string& name : stage.config_axes) {
      if (const AxisValue* value = scope.find(name)) signature += value->label;
      signature += kSeparator;
    }
    auto config = stage.configs.find(signature);
    if (config == stage.configs.end()) {
      Diagnostics local;
      auto composed = compose(stage, scope, nullptr, local);
      local.add_context(cat("while reading stage ", quote(node.label), " (", node.mark.place().str(), ")"));
      report(local);
      if (!composed) {
        stage.broken = true;
        continue;
      }
      config = stage.configs.emplace(signature, std::move(*composed)).first;
    }
    task.config = config->second;
    task.stage = stage.description;
    finish_policy(stage, scope, task);
    resolve_compute(description, task.resources, options_.isa, task.config);
    finish_labels(stage, task);
    finish_paths(stage, task);
    finish_snapshots(stage, scope, task);
    for (const auto& [role, name] : node.outputs) {
      Diagnostics local;
      if (auto text = substitute_text(name, node.outputs_mark, scope, local)) task.output_names[role] = std::move(*text);
      report(local);
    }

    const std::size_t index = graph_.tasks.size();
    if (!by_id_.emplace(task.id, index).second) {
      report(cat("two instances are called ", task.id), node.mark.place(), "list a stage once in `each`");
      stage.broken = true;
      continue;
    }
    stage.groups[instance.group].by_labels.emplace(key, index);
    stage.tasks.push_back(index);
    graph_.tasks.push_back(std::move(task));
    bindings_.push_back(std::move(instance.bindings));
  }
}

Graph Expander::run() {
  folder_ = options_.folder.empty() ? fs::current_path() : fs::absolute(options_.folder);
  graph_.name = file_.name;
  graph_.title = file_.title;
  graph_.file = file_.path.string();
  graph_.root = file_.root.string();
  graph_.files.push_back(fs::absolute(file_.path).lexically_normal().string());
  graph_.stage_labels = stage_labels();
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
  self.compose(stages_[stage->second], scope, &origins, ignored);
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
