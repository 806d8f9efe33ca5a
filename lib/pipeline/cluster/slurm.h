/// @file
/// Slurm, asked through its own programs: argument lists, a time limit on every call, no shell. Of an answer that did
/// not come nothing follows: every query gives nothing then, which is not the same as an empty list.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/cluster/slurm_answers.h"
#include "support/capture_within.h"

namespace pe::pipeline {

/// Starts a program with an input and a limit in seconds; tests answer themselves.
using SlurmCall = std::function<support::TimedCapture(const std::vector<std::string>& arguments,
                                                      const std::string& input, double limit_s)>;

/// Runs the program without the settings of this shell's SBATCH_, SLURM_ and similar variables.
support::TimedCapture call_slurm(const std::vector<std::string>& arguments, const std::string& input, double limit_s);

/// This process's environment without the variables that Slurm's programs read as options; SLURM_CONF stays. Inside a
/// job also without the job's own variables: its GPUs, and the address of its ranks.
std::vector<std::string> plain_environment();

/// Who this process works for, as Slurm names users; the number where the system knows no name.
std::string user_name();

struct SbatchReply {
  std::string job;  ///< empty: refused
  Refusal refusal = Refusal::kUnknown;
  std::string message;  ///< sbatch's message
};

class Slurm {
 public:
  explicit Slurm(SlurmCall call = call_slurm, double limit_s = 60, std::string user = user_name())
      : call_(std::move(call)), limit_s_(limit_s), user_(std::move(user)) {}

  /// The same with another limit for each answer, in seconds.
  Slurm within(double limit_s) const { return Slurm(call_, limit_s, user_); }

  const std::string& user() const { return user_; }
  /// The cluster that answers, asked once; empty when it does not answer.
  const std::string& cluster();

  /// Whether sbatch is on the PATH.
  static bool is_here();

  SbatchReply submit(const std::vector<std::string>& options, const std::string& script);
  /// Every job of `user` (empty: this one) that has one of these names, ended ones as long as the controller remembers
  /// them. A site may hide jobs of others.
  std::optional<std::vector<JobRow>> jobs_named(const std::vector<std::string>& names, const std::string& user = {});
  /// Every job of this user, an element of an array a row.
  std::optional<std::vector<JobRow>> own_jobs();
  /// The same of `user` (empty: this one).
  std::optional<std::vector<JobRow>> jobs_of(const std::string& user);
  /// One job by its id; nothing when Slurm does not answer or does not know it.
  std::optional<JobRow> job(const std::string& id);
  /// Ended jobs of these names from the accounts, of `user` (empty: this one); nothing where there are no accounts.
  std::optional<std::vector<EndedJob>> ended_named(const std::vector<std::string>& names, const std::string& user = {});
  /// Ids: "12", "12_3". Ended jobs are no failure. Returns scancel's message when it failed.
  std::string cancel(const std::vector<std::string>& ids);
  /// `id` as "12_3": "12" is all of an array. Returns scontrol's message when it failed.
  std::string requeue(const std::string& id);
  /// Makes a waiting job start no sooner than in `seconds`. Returns scontrol's message when it failed.
  std::string delay(const std::string& id, double seconds);
  std::optional<std::map<std::string, std::string>> config();
  std::optional<std::vector<std::map<std::string, std::string>>> partitions();
  /// Accounts of this user with their limits on jobs; nothing where there is no accounting.
  std::optional<std::vector<std::map<std::string, std::string>>> associations();

  std::size_t calls() const { return calls_; }
  /// Error of the last failed query; for people.
  const std::string& trouble() const { return trouble_; }

 private:
  support::TimedCapture call(const std::vector<std::string>& arguments, const std::string& input = {});
  /// The same of a query: nothing when it did not go well.
  std::optional<std::string> ask(const std::vector<std::string>& arguments);
  std::string of_user(const std::string& user) const;
  std::optional<std::vector<JobRow>> queue(std::vector<std::string> arguments);

  SlurmCall call_;
  double limit_s_;
  std::string user_, cluster_;
  std::size_t calls_ = 0;
  std::string trouble_;
};

}  // namespace pe::pipeline
