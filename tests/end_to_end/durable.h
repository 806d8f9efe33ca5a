/// @file
/// Runs as users have them: results are synced, and separate threads publish large or durable ones. Other tests leave
/// syncing out, since it takes most of a toy's time.
#pragma once

#include "end_to_end/project.h"

namespace pe::test {

/// The words of a `run` with or without syncing.
inline std::vector<std::string> run_words(const Project& project, bool durable) {
  std::vector<std::string> words = project.command("run", {});
  words.back() = durable ? "on" : "off";  // of --durability, which comes last
  return words;
}

/// `run` in the background; `environment` is added to this process's own.
inline pid_t start_run(const Project& project, bool durable, const std::vector<std::string>& environment = {}) {
  support::SpawnOptions options;
  options.arguments = run_words(project, durable);
  std::vector<std::string> all = environment;
  for (char** entry = environ; *entry; ++entry) all.emplace_back(*entry);
  options.environment = std::move(all);
  options.directory = project.root();
  const support::Descriptor out(
      ::open((project.root() / "run.out").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  options.stdout_fd = options.stderr_fd = out.get();
  return support::spawn(options);
}

}  // namespace pe::test
