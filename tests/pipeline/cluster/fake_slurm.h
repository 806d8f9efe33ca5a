/// @file
/// A controller in memory behind the calls of pipeline::Slurm: it takes jobs, loses answers, refuses, falls silent.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "pipeline/cluster/slurm.h"
#include "support/text.h"

namespace pe::test {

class FakeSlurm {
 public:
  struct Job {
    std::string id, name, dependency, begin;
    std::vector<std::int64_t> indices;
    std::map<std::int64_t, std::string> states;  // by default "PENDING"
  };
  enum class Answer {
    kGood,
    kLost,     ///< the job exists, but the answer is lost
    kDropped,  ///< it never came
    kRefused,
    kFull,
  };

  std::function<Answer()> next = [] { return Answer::kGood; };  ///< of sbatch
  std::function<bool()> silent = [] { return false; };          ///< of squeue
  std::vector<Job> jobs;
  std::string cluster;          ///< its name; empty: scontrol does not answer
  std::string accounts;         ///< the output of sacct; empty: there are no accounts
  std::size_t submissions = 0;  ///< calls of sbatch

  pipeline::SlurmCall call() {
    return [this](const std::vector<std::string>& words, const std::string& script, double) {
      return answer(words, script);
    };
  }
  std::vector<const Job*> named(const std::string& name) const {
    std::vector<const Job*> found;
    for (const Job& job : jobs) {
      if (job.name == name) found.push_back(&job);
    }
    return found;
  }
  void end_all(const std::string& state) {
    for (Job& job : jobs) {
      for (const std::int64_t index : job.indices) job.states[index] = state;
    }
  }

 private:
  static std::string option(const std::vector<std::string>& words, const std::string& name) {
    for (const std::string& word : words) {
      if (word.rfind(name + "=", 0) == 0) return word.substr(name.size() + 1);
    }
    return "";
  }

  support::TimedCapture answer(const std::vector<std::string>& words, const std::string& script) {
    support::TimedCapture captured;
    const auto fail = [&](const std::string& text) {
      captured.status.code = 1;
      captured.err = text;
    };
    if (words[0] == "sbatch") {
      ++submissions;
      const Answer how = next();
      if (how == Answer::kRefused) fail("sbatch: error: Batch job submission failed: Invalid partition name specified");
      if (how == Answer::kFull) fail("sbatch: error: QOSMaxSubmitJobPerUserLimit");
      if (how == Answer::kLost || how == Answer::kDropped)
        fail("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation");
      if (how == Answer::kGood || how == Answer::kLost) {
        Job job;
        job.id = std::to_string(++last_id_);
        job.name = option(words, "--job-name");
        job.dependency = option(words, "--dependency");
        job.begin = option(words, "--begin");
        for (const std::string& part : support::split(option(words, "--array"), ',')) {
          const auto dash = part.find('-');
          const std::int64_t first = std::stoll(part),
                             last = dash == std::string::npos ? first : std::stoll(part.substr(dash + 1));
          for (std::int64_t i = first; i <= last; ++i) job.indices.push_back(i);
        }
        captured.out = job.id + "\n";
        if (how == Answer::kLost) captured.out.clear();
        jobs.push_back(std::move(job));
      }
      if (script.rfind("#!/bin/bash\n", 0) != 0) fail("sbatch: error: This does not look like a batch script");
      return captured;
    }
    if (words[0] == "squeue") {
      if (silent()) {
        fail("slurm_load_jobs error: Unable to contact slurm controller (connect failure)");
        return captured;
      }
      const std::string names = option(words, "--name");
      const std::vector<std::string> wanted = support::split(names, ',');
      for (const Job& job : jobs) {
        if (!names.empty() && std::find(wanted.begin(), wanted.end(), job.name) == wanted.end()) continue;
        for (const std::int64_t index : job.indices) {
          const auto state = job.states.find(index);
          captured.out +=
              support::cat(job.id, "|", job.id, "|", index, "|", state == job.states.end() ? "PENDING" : state->second,
                           "|None||0:00|1:00:00|", job.name, "\n");
        }
      }
      return captured;
    }
    if (words[0] == "scontrol" && words[1] == "show" && !cluster.empty())
      captured.out = "ClusterName             = " + cluster + "\nSLURM_VERSION           = 22.05.8\n";
    else if (words[0] == "sacct" && !accounts.empty())
      captured.out = accounts;
    else
      captured.status.code = 1;
    return captured;
  }

  int last_id_ = 100;
};

}  // namespace pe::test
