/// @file
/// How a task is called: its stage's label and the labels of its axes, "trunk[encoding=rope,seed=42]".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pe::pipeline {

/// Axis → label, in order.
using AxisLabels = std::vector<std::pair<std::string, std::string>>;

std::string task_id(const std::string& label, const AxisLabels& axes);

struct TaskName {
  std::string label;  ///< as written; empty in "[axis=label]"
  AxisLabels axes;
};

/// Takes an id, or a pattern of ids, apart: "label", "label[axis=label,axis=label]", "[axis=label]", "label[*]", which
/// is "label". Empty for a text that is neither, with the mistake in `why`.
std::optional<TaskName> parse_task_id(std::string_view text, std::string* why = nullptr);

/// Whether a pattern names a task: labels are equal or the pattern's is empty, and each of its axes has one of the
/// labels that the pattern gives for it. A '*' matches any characters ("train*"). An axis named twice means either
/// label.
bool fits(const TaskName& pattern, std::string_view label, const AxisLabels& axes);

}  // namespace pe::pipeline
