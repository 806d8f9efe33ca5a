#include "pipeline/file/budgets.h"

#include <algorithm>
#include <cmath>

#include "pipeline/file/pipeline_file.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::Diagnostics;
using support::Node;
using support::quote;

namespace {

constexpr const char* kForms = "write [1/8, 1/4, 1/2, 1], or {ends: [0.25, 1], share: 0.1}";
constexpr const char* kRole = "init";  ///< of what a training continues from, in every stage

/// "1/8" or "0.125".
std::optional<double> fraction_of(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return support::parse_real(text);
  const auto above = support::parse_integer(support::trim(text.substr(0, slash))),
             below = support::parse_integer(support::trim(text.substr(slash + 1)));
  if (!above || !below || *below <= 0) return std::nullopt;
  return static_cast<double>(*above) / static_cast<double>(*below);
}

/// "b25", "b12.5": the share in per cent, to a thousandth.
std::string label_of(double end) { return cat("b", support::shortest(std::round(end * 1e5) / 1e3)); }

Node scalar(double value, const support::Mark& mark) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.text = support::shortest(value);
  node.mark = mark;
  return node;
}

/// `stage.output[axis=label]` with the snapshot of the instance's own budget.
std::string at_budget(const std::string& reference) {
  const std::size_t pins = std::min(reference.find('['), reference.size());
  return cat(reference.substr(0, pins), "@$(", kBudgetAxis, ")", reference.substr(pins));
}

void add_snapshot(StageDeclaration& trunk, const Budgets::One& budget, double share, const std::string& branch,
                  Diagnostics& diagnostics) {
  const double point = budget.end * (1 - share);
  for (const auto& [label, written] : trunk.snapshots) {
    if (label != budget.label) continue;
    const auto same = written.is_scalar() ? support::parse_real(written.text) : std::nullopt;
    if (same == point) return;  // another stage branches off there too, or the file says it as well
    diagnostics.add(cat("snapshot ", quote(label), " of stage ", quote(trunk.label), " is at ",
                        written.is_scalar() ? written.text : "another point", ", but the budgets of stage ",
                        quote(branch), " need it at ", support::shortest(point)),
                    budget.mark.place(), "give the snapshot another label");
    return;
  }
  trunk.snapshots.emplace_back(budget.label, scalar(point, budget.mark));
  trunk.snapshot_marks.push_back(budget.mark);
}

void spread(PipelineFile& file, StageDeclaration& stage, Diagnostics& diagnostics) {
  const Budgets& budgets = *stage.budgets;
  const auto role = std::find_if(stage.needs.begin(), stage.needs.end(),
                                 [](const StageDeclaration::Role& r) { return r.name == kRole; });
  if (role == stage.needs.end()) {
    diagnostics.add(cat("stage ", quote(stage.label), " has budgets, but needs no ", quote(kRole)),
                    budgets.mark.place(), "`needs: {init: STAGE}` names the training whose budgets they are");
    return;
  }
  ReferenceText& reference = role->references.front();
  if (reference.text.find('@') != std::string::npos) {
    diagnostics.add(cat("reference ", quote(reference.text), " of stage ", quote(stage.label),
                        " names a snapshot, and so do its budgets"),
                    reference.mark.place(), "leave out the snapshot, or the budgets");
    return;
  }
  const std::string of = reference.text.substr(0, reference.text.find_first_of(".["));
  for (StageDeclaration& trunk : file.stages) {  // an unknown stage is reported when references are resolved
    if (trunk.label != of) continue;
    for (const Budgets::One& budget : budgets.all) add_snapshot(trunk, budget, budgets.share, stage.label, diagnostics);
  }
  reference.text = at_budget(reference.text);
  Axis axis{kBudgetAxis, {}, budgets.mark};
  for (const Budgets::One& budget : budgets.all) axis.values.push_back({budget.label, scalar(budget.end, budget.mark)});
  stage.axes.push_back(std::move(axis));
  const auto is_it = [](const auto& entry) { return entry.first == kBudgetAxis; };
  if (std::none_of(stage.over.begin(), stage.over.end(), is_it)) stage.over.emplace_back(kBudgetAxis, budgets.mark);
}

}  // namespace

std::optional<Budgets> parse_budgets(const Node& node, Diagnostics& diagnostics) {
  Budgets found;
  found.mark = node.mark;
  const Node* ends = &node;
  if (node.is_map()) {
    ends = node.find("ends");
    for (const auto& member : node.members) {
      if (member.key == "ends" || member.key == "share") continue;
      const std::string hint = support::suggestion(member.key, {"ends", "share"});
      diagnostics.add(cat("unknown key ", quote(member.key), " in 'budgets'"), member.key_mark.place(),
                      hint.empty() ? kForms : hint);
    }
    if (const Node* share = node.find("share")) {
      const auto value = share->is_scalar() ? fraction_of(share->text) : std::nullopt;
      if (value && *value > 0 && *value < 1)
        found.share = *value;
      else
        diagnostics.add(
            cat("expected a fraction between 0 and 1 as the share of a budget that decays, found ", share->found()),
            share->place());
    }
  }
  if (ends == nullptr || !ends->is_list() || ends->items.empty()) {
    diagnostics.add(cat("expected a list of shares of the horizon for 'budgets', found ",
                        ends == nullptr ? node.found() : ends->found()),
                    node.place(), kForms);
    return std::nullopt;
  }
  for (const Node& item : ends->items) {
    const auto end = item.is_scalar() ? fraction_of(item.text) : std::nullopt;
    if (!end || !(*end > 0 && *end <= 1)) {
      diagnostics.add(cat("expected a share of the horizon above 0, at most 1, as a budget, found ", item.found()),
                      item.place(), kForms);
      continue;
    }
    Budgets::One one{label_of(*end), *end, item.mark};
    const auto same = [&](const Budgets::One& other) { return other.label == one.label; };
    if (std::any_of(found.all.begin(), found.all.end(), same)) {
      diagnostics.add(cat("budget ", quote(one.label), " is listed twice"), item.place());
      continue;
    }
    found.all.push_back(std::move(one));
  }
  if (found.all.empty()) return std::nullopt;
  return found;
}

void spread_budgets(PipelineFile& file, Diagnostics& diagnostics) {
  for (StageDeclaration& stage : file.stages) {
    if (stage.budgets) spread(file, stage, diagnostics);
  }
}

}  // namespace pe::pipeline
