#include <algorithm>
#include <cmath>

#include "pipeline/expand/policies.h"
#include "pipeline/file/config_value.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::Diagnostics;
using support::quote;

namespace {

/// The step of a snapshot's point: a fraction of the horizon, {tokens: N} or {step: N}. None when the point is wrong.
std::optional<std::int64_t> step_of(const support::Node& point, const std::string& what, std::int64_t tokens_per_step,
                                    std::int64_t horizon_steps, Diagnostics& diagnostics) {
  if (point.is_scalar()) {
    const auto fraction = support::parse_real(point.text);
    // Half up; the small number undoes what binary fractions lose, as in the training's own schedule.
    if (fraction && *fraction >= 0 && *fraction <= 1)
      return static_cast<std::int64_t>(std::floor(*fraction * static_cast<double>(horizon_steps) + 0.5 + 1e-9));
    diagnostics.add(cat(what, " must be a fraction from 0 to 1, found ", point.found()), point.place(),
                    "a point in tokens is {tokens: 1M}, one in steps {step: 1000}");
    return std::nullopt;
  }
  if (!point.is_map() || point.members.size() != 1 ||
      (point.members[0].key != "tokens" && point.members[0].key != "step")) {
    diagnostics.add(cat(what, " must be a fraction, {tokens: N} or {step: N}, found ", point.found()), point.place());
    return std::nullopt;
  }
  const auto& member = point.members[0];
  std::string why;
  const auto value = member.value.is_scalar()
                         ? support::parse_integer(member.value.text, support::Suffixes::kCount, &why)
                         : std::nullopt;
  if (!value || *value < 0) {
    diagnostics.add(cat(what, ": ", quote(member.key), " must be an integer from 0, found ", member.value.found()),
                    member.value.place(), "such as 300M or 2.4e9");
    return std::nullopt;
  }
  return member.key == "step" ? *value : *value / tokens_per_step + (*value % tokens_per_step != 0);
}

}  // namespace

void place_snapshots(const Stage& stage, const Scope& scope, Task& task, Mistakes& mistakes) {
  const StageDeclaration& node = *stage.node;
  if (node.snapshots.empty()) return;
  const artifact::Trajectory& trajectory = *stage.description->trajectory;
  const auto integer = [&](const std::string& key) -> std::int64_t {
    const Json* value = find_value(*task.config, key);
    if (!value || !value->is_number()) return 0;
    return value->is_number_integer() ? value->get<std::int64_t>() : static_cast<std::int64_t>(value->get<double>());
  };
  std::int64_t tokens_per_step = 1;
  for (const std::string& key : trajectory.tokens_per_step) {
    const std::int64_t factor = integer(key);
    if (factor <= 0 || __builtin_mul_overflow(tokens_per_step, factor, &tokens_per_step)) {
      mistakes.report(
          cat("the snapshots of stage ", quote(node.label), " need ", quote(key), " to be at least 1, found ", factor,
              factor > 0 ? "; the tokens of a step are more than a 64-bit integer holds" : ""),
          node.snapshot_marks.front().place());
      return;
    }
  }
  const std::int64_t horizon = integer(trajectory.horizon);
  if (horizon <= 0) {
    mistakes.report(
        cat("the snapshots of stage ", quote(node.label), " need ", quote(trajectory.horizon), " to be positive"),
        node.snapshot_marks.front().place(), cat("set ", trajectory.horizon));
    return;
  }
  const std::int64_t horizon_steps = horizon / tokens_per_step + (horizon % tokens_per_step != 0);
  for (std::size_t i = 0; i < node.snapshots.size(); ++i) {
    const auto& [label, written] = node.snapshots[i];
    Diagnostics local;
    const auto point = substitute(written, scope, local);
    const std::string what = cat("snapshot ", quote(label));
    std::optional<std::int64_t> step =
        point ? step_of(*point, what, tokens_per_step, horizon_steps, local) : std::nullopt;
    if (step && *step > horizon_steps) {
      local.add(cat(what, " is at step ", *step, ", beyond the horizon of ", horizon_steps, " steps (",
                    trajectory.horizon, " = ", horizon, " at ", tokens_per_step, " tokens per step)"),
                written.place());
      step.reset();
    }
    mistakes.report(local);
    if (step) task.snapshots.push_back({label, *step});
  }
  std::stable_sort(task.snapshots.begin(), task.snapshots.end(),
                   [](const SnapshotPoint& a, const SnapshotPoint& b) { return a.step < b.step; });
}

void give_horizon(const Stage& stage, const std::vector<Task>& tasks, Task& task, Mistakes& mistakes) {
  const StageDeclaration& node = *stage.node;
  if (!node.budgets) return;
  const std::string& key = stage.description->branch->horizon;
  for (const Edge& edge : task.inputs) {
    const Task& trunk = tasks[edge.producer];
    if (edge.snapshot.empty() || !trunk.stage->trajectory) continue;
    const Json* horizon = find_value(*trunk.config, trunk.stage->trajectory->horizon);
    const Json own = *find_value(*task.config, key);  // a described field, so it is there
    const Json untouched = *find_value(support::defaults(stage.description->fields), key);
    if (horizon == nullptr || own == *horizon) return;
    if (own != untouched) {
      mistakes.report(cat(quote(key), " of stage ", quote(node.label), " is ", own.dump(), ", but it branches off ",
                          trunk.id, ", whose ", quote(trunk.stage->trajectory->horizon), " is ", horizon->dump()),
                      node.budgets->mark.place(), cat("remove it: budgets are shares of the value in the training"));
      return;
    }
    *find_value(task.config.edit(), key) = *horizon;
    return;
  }
}

}  // namespace pe::pipeline
