/// @file
/// What ties a stage's task.json (`pe-task/1`, artifact/workspace.h) to the program that it was planned for.
#pragma once

#include "pipeline/file/stage_description.h"
#include "support/json.h"

namespace pe::pipeline {

/// Ties the task to the program that its key was made for: the stage refuses with artifact::kExitOtherProgram when it
/// has another result version, or, `exact`, is another build. For people the build id stands beside.
void bind_to_program(Json& document, const StageDescription& stage, bool exact);

}  // namespace pe::pipeline
