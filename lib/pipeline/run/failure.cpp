#include "pipeline/run/failure.h"

#include <signal.h>

#include <algorithm>
#include <cstring>

#include "artifact/task_protocol.h"
#include "support/error.h"
#include "support/explain.h"
#include "support/text.h"

namespace pe::pipeline {

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return "done";
    case Outcome::kBroken:
      return "broken";
    case Outcome::kCheckpointed:
      return "checkpointed";
    case Outcome::kDiverged:
      return "diverged";
    case Outcome::kInput:
      return "input";
    case Outcome::kNetwork:
      return "network";
    case Outcome::kIo:
      return "io";
    case Outcome::kOtherProgram:
      return "other-program";
    case Outcome::kPermanent:
      return "permanent";
    case Outcome::kInterrupted:
      return "interrupted";
    case Outcome::kOutOfMemory:
      return "oom";
    case Outcome::kNode:
      return "node";
    case Outcome::kTransient:
      return "transient";
    case Outcome::kNoProgress:
      return "no-progress";
    case Outcome::kTimeLimit:
      return "time-limit";
  }
  return "unknown";
}

Outcome classify(const RunnerEvent& exit, bool stop_sent) {
  if (exit.signal != 0) {
    if (stop_sent) return Outcome::kInterrupted;
    if (exit.signal == SIGKILL && exit.out_of_memory) return Outcome::kOutOfMemory;
    return Outcome::kTransient;
  }
  switch (exit.code) {
    case support::kExitDone:
      return Outcome::kDone;
    case support::kExitConfig:
      return Outcome::kPermanent;
    case support::kExitArtifact:
      return Outcome::kInput;
    case support::kExitUnavailable:
      return Outcome::kNetwork;
    case support::kExitIo:
      return Outcome::kIo;
    case support::kExitCheckpointed:
      return Outcome::kCheckpointed;
    case support::kExitDiverged:
      return Outcome::kDiverged;
    case support::kExitInterrupted:
      return Outcome::kInterrupted;
    case artifact::kExitOtherProgram:
      return Outcome::kOtherProgram;
    default:
      break;
  }
  // A stage that could not get memory says so; and a launcher of ranks ends as the one that was killed did.
  if (exit.code == support::kExitOutOfMemory) return Outcome::kOutOfMemory;
  if ((exit.code >= 64 && exit.code <= 73) || exit.code == 78) return Outcome::kPermanent;
  return Outcome::kTransient;
}

bool is_python_mistake(const std::vector<std::string>& tail) {
  static constexpr std::string_view kErrors[] = {
      "AssertionError", "AttributeError",      "ImportError",       "IndentationError", "IndexError",
      "KeyError",       "ModuleNotFoundError", "NameError",         "RecursionError",   "SyntaxError",
      "TabError",       "TypeError",           "UnboundLocalError", "ValueError",       "ZeroDivisionError",
      "LookupError",    "NotImplementedError", "UnicodeDecodeError"};
  const auto last =
      std::find_if(tail.rbegin(), tail.rend(), [](const std::string& line) { return !support::trim(line).empty(); });
  if (last == tail.rend()) return false;
  const std::string name = last->substr(0, last->find(':'));
  return std::find(std::begin(kErrors), std::end(kErrors), name) != std::end(kErrors) &&
         std::any_of(tail.begin(), tail.end(), [](const std::string& line) { return line.starts_with("  File \""); });
}

Decision decide(Outcome outcome, const RetryPolicy& policy, const RetryCounts& before, bool moved) {
  using Kind = Decision::Kind;
  Decision decision;
  const auto retries_on = [&](std::string_view reason) {
    return std::find(policy.on.begin(), policy.on.end(), reason) != policy.on.end();
  };
  // The delay doubles with every failure, so a service that is down is not asked all the time.
  const auto retry = [&](std::string_view reason, int tried, int limit, double least_s) {
    if (tried >= limit || !retries_on(reason)) return;
    decision.kind = Kind::kRetry;
    decision.delay_s = std::max(policy.backoff_s, least_s) * static_cast<double>(1 << std::min(tried, 6));
  };
  constexpr int kStarts = 4;  // retries of a program that a linker is writing: 15 s in all
  switch (outcome) {
    case Outcome::kDone:
    case Outcome::kDiverged:
      decision.kind = Kind::kPublish;
      break;
    case Outcome::kCheckpointed:
      if (moved) {
        decision.kind = Kind::kRequeue;
      } else if (before.requeued == 0) {
        decision.kind = Kind::kRequeue;  // once without a step may be an early stop; twice is a loop
      }
      break;
    case Outcome::kInterrupted:
      decision.kind = Kind::kRequeue;
      break;
    case Outcome::kIo:
    case Outcome::kInput:  // the caller verifies the inputs before it asks; then it is the stage's own verdict
    case Outcome::kBroken:
    case Outcome::kOtherProgram:
    case Outcome::kPermanent:
    case Outcome::kNoProgress:
    case Outcome::kTimeLimit:
      break;
    case Outcome::kNetwork:
      retry("network", before.failed, policy.max, 1);
      break;
    case Outcome::kOutOfMemory:
      retry("oom", before.failed, policy.max, 0);
      decision.mem_factor = policy.oom_mem;
      break;
    case Outcome::kNode:
      retry("node", before.unstarted, policy.max == 0 ? 0 : std::max(policy.max, kStarts), 1);
      break;
    case Outcome::kTransient:
      retry("transient", before.failed, policy.max, 0);
      break;
  }
  return decision;
}

std::string describe_exit(const RunnerEvent& exit) {
  if (exit.signal != 0) {
    const char* name = ::strsignal(exit.signal);
    return support::cat("killed by signal ", exit.signal, " (", name ? name : "unknown", ")",
                        exit.out_of_memory ? ", out of memory" : "");
  }
  return support::cat("exit code ", exit.code,
                      exit.out_of_memory                       ? ", one of its processes was killed for memory"
                      : exit.code == support::kExitOutOfMemory ? ", out of memory"
                                                               : "");
}

}  // namespace pe::pipeline
