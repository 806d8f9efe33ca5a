/// @file
/// Processes that a stage started and that lost their parent: they end with their stage, whatever session they made and
/// whatever descriptors they closed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace pe::pipeline {

/// Linux reparents such processes to this one while an Orphans lives. Each has the mark of its stage in its
/// environment; a process that clears its environment is not found. Of one thread.
class Orphans {
 public:
  Orphans();

  /// For the environment of a stage: "NAME=value".
  std::string mark(std::uint64_t ticket) const;

  /// Kills orphans of stages that do not run any more. Collects orphans that have ended, as a parent has to.
  /// @param is_stage whether a process is itself a stage. Stages are collected elsewhere.
  /// @returns whether orphans that were killed are left
  bool tend(const std::function<bool(std::uint64_t ticket)>& is_running, const std::function<bool(pid_t)>& is_stage);

 private:
  std::string mark_;                      ///< of every stage of this object, without the ticket
  std::map<pid_t, std::uint64_t> known_;  ///< process → ticket of its stage
};

}  // namespace pe::pipeline
