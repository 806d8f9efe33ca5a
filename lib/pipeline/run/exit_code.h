/// @file
/// Exit codes of `pe-pipeline`. The codes of the stages are in support/error.h.
#pragma once

namespace pe::pipeline {

enum PipelineExit : int {
  kRunDone = 0,           ///< Done, or nothing to do.
  kRunFailed = 1,         ///< A task failed.
  kRunUsage = 2,          ///< Usage or pipeline file.
  kRunIncomplete = 3,     ///< Incomplete without a failure: interrupted once, blocked, input missing.
  kRunStore = 4,          ///< Store or file system.
  kRunMismatch = 5,       ///< A mismatch in `verify`, or a conflict under --strict.
  kRunHasWork = 10,       ///< `plan --exit-code` and there is work
  kRunInterrupted = 130,  ///< interrupted twice
};

}  // namespace pe::pipeline
