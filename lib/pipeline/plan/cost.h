/// @file
/// What a task costs before it ran, from the arithmetic that its stage's description gives over config keys.
#pragma once

#include <optional>
#include <string>

#include "pipeline/file/graph.h"
#include "pipeline/plan/plan.h"
#include "support/json.h"

namespace pe::pipeline {

/// The value of an expression such as `decay.horizon_tokens * decay.end * decay.share`: numbers, dotted config keys,
/// + - * / and brackets. Empty when a key is missing or no number, or the text is no expression.
std::optional<double> evaluate_expression(const std::string& expression, const Json& config);

/// What the stage's `tokens` says of one task; expressions may also name `inputs.ROLE.tokens`, those of the snapshot that
/// is read. Empty when it says nothing, or nothing positive.
std::optional<double> own_tokens(const Graph& graph, const Task& task);

/// Tokens of a step of a trajectory with this config. Empty for a stage without trajectories, and where the config lacks a
/// key that it takes.
std::optional<double> tokens_per_step(const StageDescription& stage, const Json& config);

/// Tokens that a trajectory has seen at a step.
double trajectory_tokens(const Task& task, std::int64_t step);

/// Tokens that a planned task trains on: its stage's `tokens`, or, for a trajectory, those up to the last snapshot that
/// is needed. Empty when the stage names no such cost.
std::optional<double> training_tokens(const Graph& graph, const Task& task, const PlannedTask& planned);

}  // namespace pe::pipeline
