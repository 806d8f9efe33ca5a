/// @file
/// Which run a command means.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "pipeline/orchestrator.h"

namespace pe::commands {

/// The run that a word means: its id, or the beginning of it (4 characters or more) that no other run shares. Nothing
/// when no run is called so. @throws ConfigError at `flag` when several are.
std::optional<std::string> run_called(const pipeline::Store& store, const std::string& word, const std::string& flag);

/// The name of the pipeline in a file; of no file, "". A file with errors has the name under which it ran last, and the
/// first error is shown. @throws ConfigError when no run is of such a file.
std::string pipeline_in(const pipeline::Store& store, const std::string& file);

/// The newest of `runs`, which are sorted by age. With a pipeline file, the newest run of that pipeline. `kind` is for
/// messages: "run", "active run". @throws ConfigError when there is none; it names the newest run of another pipeline.
std::string newest_run(const pipeline::Store& store, const std::vector<std::string>& runs, const std::string& file,
                       const std::string& kind);

/// The same as `run_called`; of "" or "latest", the newest run, of the pipeline in `file` unless that is empty.
/// @throws ConfigError with the nearest name when there is none.
std::string pick_run(const pipeline::Store& store, const std::string& wanted, const std::string& file,
                     const std::string& flag = "--run");

/// --run, else the word that stands where a run may, else the newest, of `line.file` if it is there. Any other word is
/// an error.
std::string take_run(const pipeline::Store& store, const cli::CommandLine& line);

/// --run, else the first word where it names a run; that word is then removed. Nothing when neither names one.
std::optional<std::string> take_first_run(const pipeline::Store& store, cli::CommandLine& line);

/// Plan keys of the tasks that `words` select in a run; empty for no words, which select everything.
/// @throws ConfigError with the nearest name for a word that selects nothing
std::set<std::string> selected_keys(const pipeline::RunStatus& status, const std::vector<std::string>& words,
                                    const std::string& verb);

/// The state of one of several runs. Nothing when its plan is damaged, which is said: the others are as good as ever.
std::optional<pipeline::RunStatus> read_or_say(const pipeline::Store& store, const std::string& run);

}  // namespace pe::commands
