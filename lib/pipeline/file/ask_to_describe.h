/// @file
/// A stage's own description, asked of its program.
#pragma once

#include <filesystem>

#include "support/error.h"
#include "support/json.h"

namespace pe::pipeline {

/// The output of `EXECUTABLE --describe`. @throws ConfigError at `place` when it cannot be started, does not answer
/// within `patience_s`, or prints no JSON.
Json ask_to_describe(const std::filesystem::path& executable, double patience_s, const support::Place& place);

}  // namespace pe::pipeline
