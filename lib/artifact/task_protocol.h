/// @file
/// Agreement of a stage and `pe-pipeline` in addition to the form of task.json (artifact/workspace.h).
#pragma once

namespace pe::artifact {

/// Exit code of a stage that is not the program its task was planned for: it has another result version, or under
/// `code: build` another build. Nothing was written; a new plan gives the task another key.
inline constexpr int kExitOtherProgram = 77;

/// Files of a work folder for people, such as charts. By hand they stay when the rest of the folder is removed.
inline constexpr const char* kChartFolder = "tensorboard";

}  // namespace pe::artifact
