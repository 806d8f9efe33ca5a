/// @file
/// Cost of a task before it ran, from the arithmetic that its stage's description gives over config keys.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "pipeline/file/graph.h"
#include "pipeline/plan/plan.h"
#include "support/json.h"

namespace pe::pipeline {

/// Cost of the producer of an input: role and name of the cost → value.
using InputCost = std::function<std::optional<double>(const std::string& role, const std::string& name)>;

/// The value of an expression such as `decay.horizon_tokens * decay.end * decay.share`. It has numbers, dotted config
/// keys (a switch is 0 or 1), `inputs.ROLE.NAME`, + - * /, brackets, and `a | b`, which is b where a is 0. Empty when a
/// key that counts is missing or no number, or the text is no expression.
std::optional<double> evaluate_expression(const std::string& expression, const Json& config,
                                          const InputCost& inputs = {});

/// A cost of a task by its name in the stage's `costs`: an expression, or a list of {"when", "value"}, of which the
/// first with the config's values counts. `inputs.ROLE.NAME` is the same cost of the task that makes the input;
/// `inputs.ROLE.tokens` is the tokens of the snapshot that is read. Empty when it has no such cost.
std::optional<double> cost_of(const Graph& graph, const Task& task, const std::string& name);

/// The kinds of a model's encoding, "rope" or "rope+ssmax": from the config key, or the input, that the stage's cost
/// `encoding` names. Empty when it names none.
std::string encoding_of(const Graph& graph, const Task& task);

/// Costs that decide how long a step of a model takes.
struct ModelCosts {
  std::optional<double> parameters;  ///< without the encoding
  std::optional<double> flops;       ///< of forward and backward for a token
  std::string encoding;              ///< see `encoding_of`
};
ModelCosts model_costs(const Graph& graph, const Task& task);

/// Value of the stage's `tokens` for one task. Empty without a positive value.
std::optional<double> own_tokens(const Graph& graph, const Task& task);

/// Tokens of a step of a trajectory with this config. Empty for a stage without trajectories, and where the config
/// lacks a key that it takes.
std::optional<double> tokens_per_step(const StageDescription& stage, const Json& config);

/// Tokens that a trajectory has seen at a step.
double trajectory_tokens(const Task& task, std::int64_t step);

/// Tokens that a planned task trains on: its stage's `tokens`, or, for a trajectory, those up to the last snapshot that
/// is needed. Empty when the stage names no such cost.
std::optional<double> training_tokens(const Graph& graph, const Task& task, const PlannedTask& planned);

}  // namespace pe::pipeline
