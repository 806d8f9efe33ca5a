/// @file
/// What `pe-pipeline` ends with. Those of the stages are in support/error.h.
#pragma once

namespace pe::pipeline {

enum PipelineExit : int {
  kRunDone = 0,           ///< done, or nothing to do
  kRunFailed = 1,         ///< a task failed
  kRunUsage = 2,          ///< usage or pipeline file
  kRunIncomplete = 3,     ///< incomplete without a failure: interrupted once, blocked, input missing
  kRunStore = 4,          ///< store or file system
  kRunMismatch = 5,       ///< a mismatch in `verify`, or a conflict under --strict
  kRunHasWork = 10,       ///< `plan --exit-code` and there is work
  kRunInterrupted = 130,  ///< interrupted twice
};

}  // namespace pe::pipeline
