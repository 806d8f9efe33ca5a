#include "pipeline/expand/edge_resolver.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::Diagnostics;
using support::Mark;
using support::quote;

std::vector<Link> EdgeResolver::links_of(Stage& stage) {
  std::vector<Link> links;
  for (const auto* roles : {&stage.node->needs, &stage.node->gather}) {
    for (const auto& role : *roles) {
      const artifact::InputRole* input = stage.description->find_input(role.name);
      if (!input) continue;
      for (const auto& text : role.references) {
        // The mistakes of a broken producer were reported; its outputs are not known.
        const Stage* producer = stages_.find(text.text.substr(0, text.text.find_first_of(".@[")));
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
      const Stage* producer = stages_.find(text.text.substr(0, text.text.find_first_of(".@[")));
      if (!producer || producer->broken) stage.broken = true;
    }
  }
  return links;
}

/// Target of a link for one instance; null for a mistake, which was reported.
const Target* EdgeResolver::resolve(Link& link, const Scope& scope) {
  Diagnostics local;
  std::optional<std::string> text;
  if (!link.fixed) {
    text = substitute_text(link.text->text, link.text->mark, scope, local);
    mistakes_.report(local);
    if (!text) return nullptr;
  }
  auto& known = link.by_text[link.fixed ? std::string() : *text];
  if (!known) {
    known = std::make_unique<Link::Resolution>();
    auto reference = parse_reference(link.fixed ? link.text->text : *text, link.text->mark, local);
    mistakes_.report(local);
    if (reference) {
      known->reference = std::move(*reference);
      known->target = find_target(known->reference, link.text->mark, *link.role);
      if (known->target && link.many && !check_pins(*known->target, link.text->mark)) known->target.reset();
    }
  }
  return known->target ? &*known->target : nullptr;
}

std::optional<Target> EdgeResolver::find_target(const Reference& reference, const Mark& mark,
                                                const artifact::InputRole& role) {
  Target target;
  target.stage = stages_.find(reference.stage);
  target.reference = &reference;
  if (!target.stage || target.stage->broken || !target.stage->description) return std::nullopt;
  const StageDescription& producer = *target.stage->description;
  const StageDeclaration& node = *target.stage->node;
  const std::string expected(artifact::kind_name(role.kind));
  if (!reference.output.empty()) {
    const artifact::OutputRole* output = producer.find_output(reference.output);
    if (!output) {
      mistakes_.report(cat("stage ", quote(node.label), " has no output ", quote(reference.output)), mark.place(),
                       support::suggestion(reference.output, producer.output_names()));
      return std::nullopt;
    }
    if (output->kind != role.kind) {
      mistakes_.report(cat("output ", quote(output->name), " of stage ", quote(node.label), " is ",
                           artifact::kind_name(output->kind), "; input ", quote(role.name), " takes ", expected),
                       mark.place());
      return std::nullopt;
    }
    target.output = output->name;
  } else {
    std::vector<std::string> fitting;
    for (const artifact::OutputRole& output : producer.outputs) {
      if (output.kind == role.kind && !output.is_volatile) fitting.push_back(output.name);
    }
    if (fitting.size() != 1) {
      std::vector<std::string> all;
      for (const artifact::OutputRole& output : producer.outputs) {
        all.push_back(cat(output.name, " (", artifact::kind_name(output.kind), ")"));
      }
      mistakes_.report(fitting.empty() ? cat("stage ", quote(node.label), " has no output of kind ", expected,
                                             ", which input ", quote(role.name), " takes")
                                       : cat("stage ", quote(node.label), " has several outputs of kind ", expected),
                       mark.place(),
                       fitting.empty()
                           ? cat("its outputs are ", support::join(all, ", "))
                           : cat("name one: ", node.label, ".", support::join(fitting, cat(" or ", node.label, "."))));
      return std::nullopt;
    }
    target.output = fitting.front();
  }
  std::vector<std::string> snapshots;
  for (const auto& [label, point] : node.snapshots) snapshots.push_back(label);
  if (reference.snapshot.empty() && !snapshots.empty()) {
    mistakes_.report(
        cat("stage ", quote(node.label), " has snapshots and must be named with one"), mark.place(),
        cat("such as ", node.label, "@", snapshots.back(), "; there are ", support::join(snapshots, ", ")));
    return std::nullopt;
  }
  if (!reference.snapshot.empty() &&
      std::find(snapshots.begin(), snapshots.end(), reference.snapshot) == snapshots.end()) {
    mistakes_.report(snapshots.empty()
                         ? cat("stage ", quote(node.label), " has no snapshots")
                         : cat("stage ", quote(node.label), " has no snapshot ", quote(reference.snapshot)),
                     mark.place(),
                     snapshots.empty() ? cat("leave out '@", reference.snapshot, "'")
                                       : support::suggestion(reference.snapshot, snapshots));
    return std::nullopt;
  }
  target.snapshot = reference.snapshot;
  return target;
}

bool EdgeResolver::check_pins(const Target& target, const Mark& mark) {
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
      mistakes_.report(cat("stage ", quote(target.stage->node->label), " has no axis ", quote(axis)), mark.place(),
                       axes.empty() ? "it has one instance" : support::suggestion(axis, {axes.begin(), axes.end()}));
      good = false;
    } else if (!labels.count(label)) {
      mistakes_.report(
          cat("axis ", quote(axis), " of stage ", quote(target.stage->node->label), " has no label ", quote(label)),
          mark.place(), support::suggestion(label, {labels.begin(), labels.end()}));
      good = false;
    }
  }
  return good;
}

namespace {

/// The cell of a group that pins and bindings name.
struct NamedCell {
  const std::string* lacking = nullptr;  ///< an axis that neither names
  bool foreign = false;                  ///< a label that the group never had
  std::size_t pinned = 0;                ///< axes that are pinned
};

/// @param key gets the labels of the cell; it is reused, since a grid has many cells
NamedCell cell_in(const Group& group, const decltype(Reference::pins)& pins, const std::vector<Binding>& bindings,
                  std::string& key) {
  key.clear();
  NamedCell cell;
  for (std::size_t i = 0; i < group.axes.size(); ++i) {
    const std::string* label = nullptr;
    for (const auto& [axis, pin] : pins) {
      if (axis == group.axes[i]) label = &pin;
    }
    if (label) {
      ++cell.pinned;
    } else {
      for (const Binding& binding : bindings) {
        if (binding.axis == group.axes[i]) label = &binding.value->label;
      }
    }
    if (!label) {
      cell.lacking = &group.axes[i];
      return cell;
    }
    cell.foreign = cell.foreign || !group.domain[i].count(*label);
    key += *label;
    key += kLabelSeparator;
  }
  return cell;
}

}  // namespace

/// The instance that agrees on all axes that both have.
EdgeResolver::Match EdgeResolver::match(const Target& target, const Mark& mark, const std::vector<Binding>& bindings,
                                        const std::string& reader, std::size_t* producer) {
  if (!check_pins(target, mark)) return Match::kMistake;
  std::string open;
  std::vector<std::size_t> found;
  bool bound = false, strange = false;
  std::string key;
  for (const Group& group : target.stage->groups) {
    const NamedCell cell = cell_in(group, target.reference->pins, bindings, key);
    if (cell.lacking) {
      if (open.empty()) open = *cell.lacking;
      continue;
    }
    if (cell.pinned != target.reference->pins.size()) continue;  // a pinned axis that this group lacks
    bound = true;
    if (cell.foreign) {
      strange = true;
      continue;
    }
    if (const auto it = group.by_labels.find(key); it != group.by_labels.end()) found.push_back(it->second);
  }
  const std::string& label = target.stage->node->label;
  if (found.size() == 1) {
    *producer = found.front();
    return Match::kFound;
  }
  if (found.size() > 1) {
    mistakes_.report(cat("reference to ", quote(label), " fits several instances, such as ", tasks_[found[0]].id,
                         " and ", tasks_[found[1]].id),
                     mark.place(), cat("pin one: '", label, "[axis=label]'"));
    return Match::kMistake;
  }
  if (!bound && !open.empty()) {
    mistakes_.report(
        cat("stage ", quote(reader), " lacks axis ", quote(open), " of stage ", quote(label)), mark.place(),
        cat("pin it: '", label, "[", open, "=…]', take all with `gather`, or make an instance for each with `each`"));
    return Match::kMistake;
  }
  if (strange && bound) {
    // The axes have the same name and other labels, so nothing was excluded: this cell was never intended.
    bool any = false;
    for (const Group& group : target.stage->groups) any = any || !group.by_labels.empty();
    if (any) {
      std::vector<std::string> named;
      for (const Binding& binding : bindings) named.push_back(cat(binding.axis, "=", binding.value->label));
      mistakes_.report(
          cat("stage ", quote(label), " has no instance for ", reader, "[", support::join(named, ","), "]"),
          mark.place(), "both stages have an axis of that name, with different labels");
      return Match::kMistake;
    }
  }
  return Match::kDropped;
}

std::vector<std::size_t> EdgeResolver::gather(const Target& target, const std::vector<Binding>& bindings) {
  std::vector<std::size_t> found;
  for (const Group& group : target.stage->groups) {
    std::vector<std::pair<std::size_t, const std::string*>> wanted;
    bool possible = true;
    for (const auto& [axis, pin] : target.reference->pins) {
      const auto it = std::find(group.axes.begin(), group.axes.end(), axis);
      if (it == group.axes.end())
        possible = false;
      else
        wanted.emplace_back(static_cast<std::size_t>(it - group.axes.begin()), &pin);
    }
    if (!possible) continue;
    for (const Binding& binding : bindings) {
      const auto it = std::find(group.axes.begin(), group.axes.end(), binding.axis);
      if (it == group.axes.end()) continue;
      const auto index = static_cast<std::size_t>(it - group.axes.begin());
      const bool pinned =
          std::any_of(wanted.begin(), wanted.end(), [&](const auto& entry) { return entry.first == index; });
      if (!pinned) wanted.emplace_back(index, &binding.value->label);
    }
    // One index per way of asking: readers of one stage all ask alike.
    std::string how = cat(target.stage->node->label, kLabelSeparator, &group - target.stage->groups.data());
    std::string key;
    for (const auto& [index, label] : wanted) {
      how += cat(kLabelSeparator, index);
      key += *label;
      key += kLabelSeparator;
    }
    auto [it, fresh] = gather_index_.try_emplace(how);
    if (fresh) {
      for (std::size_t task : target.stage->tasks) {
        const auto& axes = tasks_[task].axes;
        if (axes.size() != group.axes.size()) continue;
        bool same = true;
        for (std::size_t i = 0; i < axes.size(); ++i) same = same && axes[i].first == group.axes[i];
        if (!same) continue;
        std::string own;
        for (const auto& [index, label] : wanted) {
          own += axes[index].second;
          own += kLabelSeparator;
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

Edge EdgeResolver::make_edge(const Target& target, std::size_t producer, const std::string& role) {
  Edge edge;
  edge.role = role;
  edge.producer = producer;
  edge.output = target.output;
  edge.snapshot = target.snapshot;
  ++edges_;
  return edge;
}

bool EdgeResolver::make_edges(const Stage& stage, std::vector<Link>& links, std::optional<Edge> each,
                              const std::vector<Binding>& bindings, const Scope& scope, Task& task, bool* dropped) {
  const StageDeclaration& node = *stage.node;
  const StageDescription& description = *stage.description;
  if (each) task.inputs.push_back(std::move(*each));
  std::set<std::string> gathered;
  for (Link& link : links) {
    const Target* target = resolve(link, scope);
    if (!target) return false;
    if (link.many) {
      const std::vector<std::size_t> found = gather(*target, bindings);
      task.inputs.reserve(task.inputs.size() + found.size());
      for (const std::size_t producer : found) {
        task.inputs.push_back(make_edge(*target, producer, link.role->name));
        gathered.insert(link.role->name);
      }
      if (edges_ > kMostEdges) {
        mistakes_.report(cat("stage ", quote(node.label), " would bring the pipeline to more than ",
                             support::with_commas(kMostEdges), " edges"),
                         link.text->mark.place(),
                         "gather less per instance: pin an axis, or give the stage fewer separate axes");
        return false;
      }
      continue;
    }
    std::size_t producer = 0;
    switch (match(*target, link.text->mark, bindings, node.label, &producer)) {
      case Match::kFound:
        task.inputs.push_back(make_edge(*target, producer, link.role->name));
        break;
      case Match::kDropped:
        *dropped = true;
        return true;
      case Match::kMistake:
        return false;
    }
  }
  for (const auto& role : node.gather) {
    if (gathered.count(role.name)) continue;
    const artifact::InputRole* input = description.find_input(role.name);
    if (input && !input->optional) {
      mistakes_.report(
          cat("input ", quote(role.name), " of ", task.id, " is left empty: nothing matches what it gathers"),
          role.mark.place());
      return false;
    }
  }
  const auto role_rank = [&](const std::string& role) {
    for (std::size_t i = 0; i < description.inputs.size(); ++i) {
      if (description.inputs[i].name == role) return i;
    }
    return description.inputs.size();
  };
  const auto before = [&](const Edge& a, const Edge& b) {
    return a.role != b.role && role_rank(a.role) < role_rank(b.role);
  };
  if (!std::is_sorted(task.inputs.begin(), task.inputs.end(), before)) {
    std::stable_sort(task.inputs.begin(), task.inputs.end(), before);
  }
  return true;
}

}  // namespace pe::pipeline
