/// @file
/// Runs stages as child processes of this one: `vfork`, a pidfd each, one epoll loop, no threads.
#pragma once

#include <signal.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/run/runner.h"

namespace pe::pipeline {

class LocalRunner : public Runner {
 public:
  /// @param when_we_end the signal that stages get from the kernel if this thread ends and the object remains
  explicit LocalRunner(int when_we_end = SIGTERM);
  /// Kills what still runs.
  ~LocalRunner() override;
  void start(const Launch& launch) override;
  std::vector<RunnerEvent> wait(double timeout_s) override;
  void signal(std::uint64_t ticket, int signal) override;
  void wake() override;
  double now() const override;
  /// Process id of a running stage, or 0.
  std::int64_t pid(std::uint64_t ticket) const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Raises this process's limit on open files as far as is needed and allowed. @returns the limit; nothing: there is
/// none
std::optional<std::uint64_t> raise_open_files();

/// The environment of a stage: an allow-list of this process's own environment, the variables `names`, LANG=C.UTF-8 and
/// the GPUs given. GPUs are numbers in the order of the PCI bus. Tokens of services go only to the stage that asks
/// services (`fetch`), by StageDescription::name.
/// @param names  further variables, of the pipeline file (Graph::environment)
std::vector<std::string> stage_environment(const std::vector<std::string>& gpus, const std::string& stage,
                                           const std::vector<std::string>& names = {});

/// The value of `oom_kill` in vmstat, memory.events or memory.oom_control; -1 when it is not there.
std::int64_t oom_kills_in(std::string_view counters);
/// Number of processes killed for memory in this process's control group; -1 where the kernel does not count them.
/// @param groups  The text of /proc/self/cgroup.
/// @param mount   where control groups are mounted
std::int64_t oom_kills_of(std::string_view groups, const std::string& mount);

}  // namespace pe::pipeline
