#include "pipeline/expand/expander.h"

#include <algorithm>
#include <utility>

#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::Diagnostics;
using support::quote;

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
      for (std::size_t i = 0; i < labels.size() && told_.size() < kMostMistakes; ++i) {
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
        if (entry.labels.size() < 16) {
          return std::find(entry.labels.begin(), entry.labels.end(), binding.value->label) != entry.labels.end();
        }
        auto& set = label_sets_[&entry];
        if (set.empty()) set.insert(entry.labels.begin(), entry.labels.end());
        return set.count(binding.value->label) > 0;
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

/// Told before anything is made, since a few lines of axes can ask for more tasks than there are atoms.
bool Expander::too_many(const Stage& stage, std::size_t seeds, const std::vector<const Axis*>& over) {
  std::size_t count = seeds;
  for (const Axis* axis : over) {
    if (__builtin_mul_overflow(count, axis->values.size(), &count)) count = static_cast<std::size_t>(1) << 62;
  }
  if (count <= kMostTasks - std::min(kMostTasks, graph_.tasks.size())) return false;
  std::vector<std::string> sizes;
  if (seeds > 1) sizes.push_back(cat(seeds, " of `each`"));
  for (const Axis* axis : over) sizes.push_back(cat(axis->values.size(), " ", axis->name));
  report(cat("stage ", quote(stage.node->label), " would bring the pipeline to more than ",
             support::with_commas(static_cast<std::int64_t>(kMostTasks)), " tasks: ", support::join(sizes, " x ")),
         stage.node->mark.place(), "take an axis out of `over`, or split the pipeline");
  return true;
}

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
  if (too_many(stage, seeds.size(), over)) {
    stage.broken = true;
    return {};
  }
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
      instance.bindings.reserve(seed.bindings.size() + over.size());
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
  std::vector<Link> links = links_of(stage);
  if (stage.broken) return;
  std::vector<Instance> instances = enumerate(stage);
  if (stage.broken) return;
  graph_.tasks.reserve(graph_.tasks.size() + instances.size());
  bindings_.reserve(bindings_.size() + instances.size());

  Scope scope = scope_of({}, node.label);
  std::string key;
  for (Instance& instance : instances) {
    scope.bindings = &instance.bindings;
    Task task;
    task.label = node.label;
    task.id = node.label;
    task.stage = stage.description;
    task.axes.reserve(instance.bindings.size());
    key.clear();
    for (const Binding& binding : instance.bindings) {
      task.id += task.axes.empty() ? '[' : ',';
      task.id += binding.axis;
      task.id += '=';
      task.id += binding.value->label;
      task.axes.emplace_back(binding.axis, binding.value->label);
      key += binding.value->label;
      key += kSeparator;
    }
    if (!task.axes.empty()) task.id += ']';

    bool dropped = false;
    if (!make_edges(stage, links, instance, scope, task, &dropped)) {
      stage.broken = true;
      if (edges_ > kMostEdges) return;
      continue;
    }
    if (dropped) {
      ++graph_.dropped;
      continue;
    }
    finish_policy(stage, scope, task);
    if (!finish_config(stage, scope, task)) {
      stage.broken = true;
      continue;
    }
    finish_labels(stage, task);
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

}  // namespace pe::pipeline
