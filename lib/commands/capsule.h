/// @file
/// A capsule: one folder with a report, what it was computed from, and how that came to be, to be handed on and checked anywhere.
///
///     capsule.json              pe-capsule/1: the report's key, and every other file with its SHA-256
///     report/                   the report as it was published
///     store/                    a store with the report and the results that it read
///     tasks.json                every task behind it: stage, result version, whole config, contents read and written
///     versions.json             programs and result versions
///     pipeline.yml              the pipeline, where it was named
///     ro-crate-metadata.json    the same for machines: RO-Crate 1.1, profile Process Run Crate
#pragma once

#include <filesystem>

#include "cli/command_line.h"

namespace pe::commands {

/// True for a folder with a capsule.json.
bool is_capsule(const std::filesystem::path& folder);

/// Checks every file of a capsule, then has `verify --rerun` compute the report again from its store; the exit code of both.
int verify_capsule(const cli::CommandLine& line);

}  // namespace pe::commands
