/// @file
/// Inputs that a task was started without, since its stage allows a partial gather: "missing" of task.json
/// (artifact/workspace.h).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "support/json.h"

namespace pe::artifact {

struct MissingInput {
  std::map<std::string, std::string> labels;  ///< labels as for an existing input
  std::string reason;                         ///< "failed: exit code 70"
};

/// role → missing inputs
using MissingInputs = std::map<std::string, std::vector<MissingInput>>;

/// Of a task's document. @throws Json::exception when it has another form.
MissingInputs missing_inputs(const Json& task);

/// Of the task that a stage carries out in `work`. Empty where a person started it: then nothing is missing.
/// @throws ConfigError naming the file, IoError.
MissingInputs missing_inputs(const std::filesystem::path& work);

}  // namespace pe::artifact
