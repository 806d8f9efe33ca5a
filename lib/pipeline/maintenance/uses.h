/// @file
/// Uses: what a run that found everything there leaves, so that `gc` counts it as a run. `used/<id>/plan.json`
/// (`pe-run/1` with keys alone), one for each pipeline with its options and selection. The time of the file is the time
/// of the last such run.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/plan/plan.h"

namespace pe::pipeline {

std::filesystem::path uses_folder(const std::filesystem::path& store);

/// Notes what a plan with nothing to do found. `selectors`: the selection on the command line. @throws IoError
void note_use(const std::filesystem::path& store, const Graph& graph, const Plan& plan,
              const std::vector<std::string>& selectors);

/// Moves the time of the note, where there is one; needs no graph. Never fails.
void renew_use(const std::filesystem::path& store, const std::string& pipeline, const std::filesystem::path& root,
               const std::string& variant);

}  // namespace pe::pipeline
