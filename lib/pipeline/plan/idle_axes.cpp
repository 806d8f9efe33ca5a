#include "pipeline/plan/idle_axes.h"

#include <map>
#include <set>
#include <string_view>
#include <unordered_set>

#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

namespace {

/// A training and its snapshots: a longer one shares its key.
std::string work_of(const Task& task) {
  std::string work = task.plan_key;
  for (const SnapshotPoint& snapshot : task.snapshots) work += cat(" ", snapshot.step);
  return work;
}

/// Whether tasks that differ in this axis alone are always the same work, and there are such.
bool is_idle(const std::vector<const Task*>& tasks, const std::string& axis) {
  std::map<AxisLabels, std::set<std::string>> works;
  bool several = false;
  for (const Task* task : tasks) {
    AxisLabels others = task->axes;
    if (std::erase_if(others, [&](const auto& label) { return label.first == axis; }) == 0) continue;
    const auto [at, fresh] = works.try_emplace(std::move(others));
    several = several || !fresh;
    at->second.insert(work_of(*task));
    if (at->second.size() > 1) return false;
  }
  return several;
}

}  // namespace

std::vector<std::string> idle_axes(const Graph& graph) {
  std::map<std::string_view, std::vector<const Task*>> stages;
  for (const Task& task : graph.tasks) stages[task.label].push_back(&task);
  std::vector<std::string> found;
  std::set<std::string> named;  // stages that read a copy have copies, too
  for (const std::string& label : graph.stage_labels) {
    const std::vector<const Task*>& tasks = stages[label];
    std::unordered_set<std::string_view> keys;
    for (const Task* task : tasks) keys.insert(task->plan_key);
    if (keys.size() == tasks.size()) continue;
    std::set<std::string> axes;  // producers of several stages have several
    for (const Task* task : tasks) {
      for (const auto& [axis, name] : task->axes) axes.insert(axis);
    }
    for (const std::string& axis : axes) {
      if (named.count(axis) != 0 || !is_idle(tasks, axis)) continue;
      named.insert(axis);
      found.push_back(cat("axis ", quote(axis), " changes nothing in stage ", quote(label), ": its tasks are copies. ",
                          "Use $(", axis, ") in the config of the stage, or leave the axis out of its 'over'"));
    }
  }
  return found;
}

}  // namespace pe::pipeline
