#include "pipeline/expand/instances.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::Diagnostics;
using support::quote;

namespace {

/// `exclude` and `only` of a stage, with the labels of long entries ready for looking up.
class CellFilter {
 public:
  explicit CellFilter(const StageDeclaration& node) : node_(node) {
    for (const auto* patterns : {&node.exclude, &node.only}) {
      for (const CellPattern& pattern : *patterns) {
        for (const AxisPattern& entry : pattern) {
          if (entry.labels.size() >= 16) sets_[&entry].insert(entry.labels.begin(), entry.labels.end());
        }
      }
    }
  }

  bool excludes(const std::vector<Binding>& bindings) const {
    const auto matching = [&](const CellPattern& pattern) { return matches(pattern, bindings); };
    if (std::any_of(node_.exclude.begin(), node_.exclude.end(), matching)) return true;
    return !node_.only.empty() && std::none_of(node_.only.begin(), node_.only.end(), matching);
  }

 private:
  bool matches(const CellPattern& pattern, const std::vector<Binding>& bindings) const {
    return std::all_of(pattern.begin(), pattern.end(), [&](const AxisPattern& entry) {
      for (const Binding& binding : bindings) {
        if (binding.axis != entry.axis) continue;
        const auto set = sets_.find(&entry);
        if (set != sets_.end()) return set->second.count(binding.value->label) > 0;
        return std::find(entry.labels.begin(), entry.labels.end(), binding.value->label) != entry.labels.end();
      }
      return false;
    });
  }

  const StageDeclaration& node_;
  std::unordered_map<const AxisPattern*, std::unordered_set<std::string_view>> sets_;
};

}  // namespace

const Axis* InstanceEnumerator::find_axis(const StageDeclaration& stage, const std::string& name) const {
  for (const auto* axes : {&stage.axes, &source_.axes}) {
    for (const Axis& axis : *axes) {
      if (axis.name == name) return &axis;
    }
  }
  return nullptr;
}

void InstanceEnumerator::check_patterns(const Stage& stage, const std::vector<CellPattern>& patterns,
                                        const std::string& what, const std::set<std::string>& bound) {
  for (const CellPattern& pattern : patterns) {
    for (const auto& [axis, axis_mark, labels, label_marks] : pattern) {
      if (!bound.count(axis)) {
        mistakes_.report(cat(quote(what), " of stage ", quote(stage.node->label), " names axis ", quote(axis),
                             ", which no instance of it has"),
                         axis_mark.place(), support::suggestion(axis, {bound.begin(), bound.end()}));
        continue;
      }
      const auto known = known_labels_.find(axis);
      if (known == known_labels_.end()) continue;
      for (std::size_t i = 0; i < labels.size() && !mistakes_.enough(); ++i) {
        if (known->second.count(labels[i])) continue;
        mistakes_.report(cat(quote(what), " of stage ", quote(stage.node->label), ": axis ", quote(axis),
                             " has no label ", quote(labels[i])),
                         label_marks[i].place(),
                         support::suggestion(labels[i], {known->second.begin(), known->second.end()}));
      }
    }
  }
}

/// Told before anything is made, since a few lines of axes can ask for more tasks than there are atoms.
bool InstanceEnumerator::too_many(const Stage& stage, std::size_t seeds, const std::vector<const Axis*>& axes) {
  std::size_t count = seeds;
  for (const Axis* axis : axes) {
    if (__builtin_mul_overflow(count, axis->values.size(), &count)) count = static_cast<std::size_t>(1) << 62;
  }
  if (count <= kMostTasks - std::min(kMostTasks, bindings_.size())) return false;
  std::vector<std::string> sizes;
  if (seeds > 1) sizes.push_back(cat(seeds, " of `each`"));
  for (const Axis* axis : axes) sizes.push_back(cat(axis->values.size(), " ", axis->name));
  mistakes_.report(
      cat("stage ", quote(stage.node->label), " would bring the pipeline to more than ",
          support::with_commas(static_cast<std::int64_t>(kMostTasks)), " tasks: ", support::join(sizes, " x ")),
      stage.node->mark.place(), "take an axis out of `over`, or split the pipeline");
  return true;
}

/// The axes of `over`.
std::vector<const Axis*> InstanceEnumerator::axes_over(Stage& stage) {
  const StageDeclaration& node = *stage.node;
  std::vector<const Axis*> axes;
  for (const auto& [name, mark] : node.over) {
    const Axis* axis = find_axis(node, name);
    if (!axis) {
      std::vector<std::string> known;
      for (const Axis& top : source_.axes) known.push_back(top.name);
      for (const Axis& own : node.axes) known.push_back(own.name);
      mistakes_.report(cat("unknown axis ", quote(name), " in 'over' of stage ", quote(node.label)), mark.place(),
                       known.empty() ? "the file has no `axes`" : support::suggestion(name, known));
      stage.broken = true;
      continue;
    }
    axes.push_back(axis);
  }
  return axes;
}

std::vector<InstanceEnumerator::Seed> InstanceEnumerator::seeds_of(Stage& stage) {
  const StageDeclaration& node = *stage.node;
  std::vector<Seed> seeds;
  if (node.each.empty()) {
    seeds.emplace_back();
  } else {
    const auto& role = node.each.front();
    const artifact::InputRole& input = *stage.description->find_input(role.name);
    for (const auto& text : role.references) {
      if (has_substitution(text.text)) {
        mistakes_.report(cat("reference ", quote(text.text), " in `each` holds a substitution"), text.mark.place(),
                         "an `each` instance has the axes of the stages that it names");
        stage.broken = true;
        continue;
      }
      Diagnostics local;
      const auto reference = parse_reference(text.text, text.mark, local);
      mistakes_.report(local);
      const auto target = reference ? joiner_.find_target(*reference, text.mark, input) : std::nullopt;
      if (!target || !joiner_.check_pins(*target, text.mark)) {
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
      for (std::size_t producer : joiner_.gather(*target, {})) {
        Seed seed;
        seed.bindings.push_back({"from", from});
        if (snapshot) seed.bindings.push_back({"snapshot", snapshot});
        for (const Binding& binding : bindings_[producer]) {
          if (binding.axis != "from" && binding.axis != "snapshot") seed.bindings.push_back(binding);
        }
        seed.each = joiner_.make_edge(*target, producer, role.name);
        seeds.push_back(std::move(seed));
      }
    }
  }
  return seeds;
}

/// The group of a seed, which has the same axes; made when there is none yet.
std::size_t InstanceEnumerator::group_of(Stage& stage, const Seed& seed, const std::vector<const Axis*>& axes) {
  std::vector<std::string> names;
  for (const Binding& binding : seed.bindings) names.push_back(binding.axis);
  for (const Axis* axis : axes) names.push_back(axis->name);
  std::size_t group = 0;
  while (group < stage.groups.size() && stage.groups[group].axes != names) ++group;
  if (group == stage.groups.size()) {
    stage.groups.push_back({names, {}, {}});
    stage.groups.back().domain.resize(names.size());
    for (std::size_t i = 0; i < axes.size(); ++i) {
      for (const AxisValue& value : axes[i]->values) {
        stage.groups[group].domain[seed.bindings.size() + i].insert(value.label);
      }
    }
  }
  for (std::size_t i = 0; i < seed.bindings.size(); ++i) {
    stage.groups[group].domain[i].insert(seed.bindings[i].value->label);
  }
  return group;
}

std::vector<Instance> InstanceEnumerator::instances_of(Stage& stage) {
  const StageDeclaration& node = *stage.node;
  const std::vector<const Axis*> axes = axes_over(stage);
  if (stage.broken) return {};
  std::vector<Seed> seeds = seeds_of(stage);
  if (stage.broken) return {};
  std::vector<Instance> instances;
  if (too_many(stage, seeds.size(), axes)) {
    stage.broken = true;
    return {};
  }
  const CellFilter filter(node);
  std::set<std::string> bound;
  for (const Axis* axis : axes) bound.insert(axis->name);
  for (Seed& seed : seeds) {
    for (const Binding& binding : seed.bindings) {
      const bool twice =
          std::any_of(axes.begin(), axes.end(), [&](const Axis* axis) { return axis->name == binding.axis; });
      if (twice) {
        mistakes_.report(cat("axis ", quote(binding.axis), " of stage ", quote(node.label),
                             " is given by `each` and also listed in `over`"),
                         node.mark.place(), "take it out of `over`");
        stage.broken = true;
        return {};
      }
      bound.insert(binding.axis);
    }
    const std::size_t group = group_of(stage, seed, axes);
    // Odometer over the axes, the last one fastest.
    std::vector<std::size_t> at(axes.size(), 0);
    const bool empty = std::any_of(axes.begin(), axes.end(), [](const Axis* axis) { return axis->values.empty(); });
    while (!empty) {
      Instance instance;
      instance.bindings.reserve(seed.bindings.size() + axes.size());
      instance.bindings = seed.bindings;
      for (std::size_t i = 0; i < axes.size(); ++i)
        instance.bindings.push_back({axes[i]->name, &axes[i]->values[at[i]]});
      if (filter.excludes(instance.bindings)) {
        ++excluded_;
      } else {
        instance.each = seed.each;
        instance.group = group;
        instances.push_back(std::move(instance));
      }
      std::size_t i = axes.size();
      while (i > 0 && ++at[i - 1] == axes[i - 1]->values.size()) at[--i] = 0;
      if (i == 0) break;
    }
  }
  if (node.each.empty() || !seeds.empty()) {
    check_patterns(stage, node.exclude, "exclude", bound);
    check_patterns(stage, node.only, "only", bound);
  }
  return instances;
}

}  // namespace pe::pipeline
