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

/// The same; of "" or "latest", the newest. @throws ConfigError with the nearest name when there is none.
std::string pick_run(const pipeline::Store& store, const std::string& wanted);

/// --run, else the word that stands where a run may, else the newest. Any other word is an error.
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
