#include "pipeline/expander.h"

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

}  // namespace pe::pipeline
