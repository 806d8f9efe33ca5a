#include "pipeline/plan/cost.h"

#include <algorithm>

#include "pipeline/file/config_value.h"
#include "support/arithmetic.h"

namespace pe::pipeline {

namespace {

/// A stage's expression `name` for a config like this one; null when it has none.
const std::string* expression_of(const StageDescription& stage, const std::string& name, const Json& config) {
  const auto cost = stage.costs.find(name);
  if (cost == stage.costs.end()) return nullptr;
  if (cost->is_string()) return &cost->get_ref<const std::string&>();
  if (!cost->is_array()) return nullptr;
  for (const Json& one : *cost) {
    if (!one.is_object() || !one.contains("value") || !one["value"].is_string()) continue;
    if (one.contains("when") && !holds(one["when"], config)) continue;
    return &one["value"].get_ref<const std::string&>();
  }
  return nullptr;
}

const Task* producer_of(const Graph& graph, const Task& task, const std::string& role) {
  for (const Edge& edge : task.inputs) {
    if (edge.role == role) return &graph.tasks[edge.producer];
  }
  return nullptr;
}

/// "rope", "rope+ssmax": an encoding as people call it; its options are not part of that.
std::string encoding_name(const Json& encoding) {
  if (encoding.is_string()) return encoding.get<std::string>();
  if (!encoding.is_object()) return "";
  if (encoding.contains("kind")) return encoding_name(encoding["kind"]);
  std::string name;
  if (encoding.contains("stack")) {
    for (const Json& part : encoding["stack"]) name += (name.empty() ? "" : "+") + encoding_name(part);
  }
  return name;
}

}  // namespace

std::optional<double> evaluate_expression(const std::string& expression, const Json& config, const InputCost& inputs) {
  return support::evaluate_arithmetic(expression, [&](std::string_view name) -> std::optional<double> {
    constexpr std::string_view kInputs = "inputs.";
    const Json* value = find_value(config, name);
    if (value && value->is_boolean()) return value->get<bool>() ? 1 : 0;
    if (value && value->is_number()) return value->get<double>();
    if (!inputs || !name.starts_with(kInputs)) return std::nullopt;
    const auto dot = name.rfind('.');
    const std::string role(name.substr(kInputs.size(), std::max(dot, kInputs.size()) - kInputs.size()));
    return inputs(role, std::string(name.substr(dot + 1)));
  });
}

std::optional<double> cost_of(const Graph& graph, const Task& task, const std::string& name) {
  const std::string* expression = expression_of(*task.stage, name, *task.config);
  if (!expression) return std::nullopt;
  return evaluate_expression(
      *expression, *task.config, [&](const std::string& role, const std::string& wanted) -> std::optional<double> {
        if (wanted != "tokens") {
          const Task* producer = producer_of(graph, task, role);
          return producer ? cost_of(graph, *producer, wanted) : std::nullopt;
        }
        for (const Edge& edge : task.inputs) {  // the tokens that lead to the snapshot that is read
          const Task& producer = graph.tasks[edge.producer];
          if (edge.role != role || edge.snapshot.empty() || !producer.stage->trajectory) continue;
          for (const SnapshotPoint& point : producer.snapshots) {
            if (point.label == edge.snapshot) return trajectory_tokens(producer, point.step);
          }
        }
        return std::nullopt;
      });
}

std::string encoding_of(const Graph& graph, const Task& task) {
  constexpr std::string_view kInputs = "inputs.";
  const std::string* where = expression_of(*task.stage, "encoding", *task.config);
  if (!where) return "";
  if (where->starts_with(kInputs)) {
    const std::string role = where->substr(kInputs.size(), where->rfind('.') - kInputs.size());
    const Task* producer = producer_of(graph, task, role);
    return producer ? encoding_of(graph, *producer) : "";
  }
  const Json* encoding = find_value(*task.config, *where);
  return encoding ? encoding_name(*encoding) : "";
}

ModelCosts model_costs(const Graph& graph, const Task& task) {
  ModelCosts costs{cost_of(graph, task, "parameters"), cost_of(graph, task, "flops"), encoding_of(graph, task)};
  for (auto* value : {&costs.parameters, &costs.flops}) {
    if (*value && !(**value > 0)) value->reset();
  }
  return costs;
}

std::optional<double> tokens_per_step(const StageDescription& stage, const Json& config) {
  if (!stage.trajectory) return std::nullopt;
  double tokens = 1;
  for (const std::string& key : stage.trajectory->tokens_per_step) {
    const auto factor = evaluate_expression(key, config);
    if (!factor) return std::nullopt;
    tokens *= *factor;
  }
  return tokens;
}

double trajectory_tokens(const Task& task, std::int64_t step) {
  return static_cast<double>(step) * tokens_per_step(*task.stage, *task.config).value_or(0);
}

std::optional<double> own_tokens(const Graph& graph, const Task& task) {
  const auto tokens = cost_of(graph, task, "tokens");
  return tokens && *tokens > 0 ? tokens : std::nullopt;
}

std::optional<double> training_tokens(const Graph& graph, const Task& task, const PlannedTask& planned) {
  if (!task.is_trajectory() || !task.stage->trajectory) return own_tokens(graph, task);
  std::int64_t last = 0, there = 0;
  for (std::size_t i = 0; i < task.snapshots.size(); ++i) {
    const bool needed =
        i >= planned.snapshots.size() || planned.snapshots[i].needed || planned.state == TaskState::kBlocked;
    if (needed) last = std::max(last, task.snapshots[i].step);
  }
  // It continues from the last existing snapshot.
  for (const PlannedSnapshot& snapshot : planned.snapshots) {
    if (snapshot.present && snapshot.step < last) there = std::max(there, snapshot.step);
  }
  return trajectory_tokens(task, last - there);
}

}  // namespace pe::pipeline
