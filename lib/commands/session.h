/// @file
/// The beginning of most commands: the pipeline file, its graph with keys, its store and a plan.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/color.h"
#include "cli/command_line.h"
#include "pipeline/orchestrator.h"

namespace pe::commands {

namespace fs = std::filesystem;

/// The first word, which must name a pipeline file. @throws ConfigError
std::string pipeline_file_of(const cli::CommandLine& line);
/// The words after it. @throws ConfigError when it is missing
std::vector<std::string> selectors_of(const cli::CommandLine& line);

/// Whether inputs of the selected tasks are made. @throws ConfigError for --from-store without SELECT, which would
/// select, and so make, every task
bool makes_inputs(const cli::CommandLine& line);

/// --store, else $PE_STORE, else store/ at `root`. @throws ConfigError when PE_STORE is relative
fs::path store_path(const cli::CommandLine& line, const fs::path& root);

/// For commands that may do without a pipeline file: when the first word names one, it moves to `line.file`.
/// @throws ConfigError when --store names no store, unless the command `may_make` one
fs::path store_path_for(cli::CommandLine& line, bool may_make = false);

pipeline::ExpandOptions expand_options(const cli::CommandLine& line);
pipeline::StageCatalog stage_catalog();
/// The programs next to pe-pipeline that describe themselves, sorted.
std::vector<std::string> stage_programs();

/// The capacity of the machine, narrowed by -j, --mem, --gpus, --pool. @throws ConfigError
pipeline::Capacity capacity_of(const cli::CommandLine& line);

/// For a command that reads no pipeline file. @throws ConfigError with this hint for --set, --axis and --scale
void refuse_reading_flags(const cli::CommandLine& line, const std::string& hint);
/// "name a pipeline file, as in: pe-pipeline verify FILE"
std::string hint_to_name_a_file(const cli::CommandLine& line);

/// @throws ConfigError for a --pool that no task takes, with the nearest that there is.
void check_pools(const cli::CommandLine& line, const pipeline::Graph& graph);

/// A pipeline, expanded, hashed and keyed.
struct ExpandedPipeline {
  std::unique_ptr<pipeline::StageCatalog> catalog;
  pipeline::Graph graph;
};
ExpandedPipeline load(const cli::CommandLine& line, const std::string& file, const fs::path& store);

/// Prints on standard error which axes give copies of the same work (pipeline/plan/idle_axes.h).
void warn_of_idle_axes(const pipeline::Graph& graph);

/// For a plan that makes no inputs: uses results of other CPUs (pipeline/plan/other_cpus.h) and prints their number on
/// standard error.
void use_what_is_there(pipeline::Graph& graph, const pipeline::Store& store, const std::vector<bool>& selected);

/// @throws ConfigError when there is no store at `path`
void require_store(const fs::path& path);

/// Whether a word is the path of an artifact, and not a stage or task of the pipeline `file` (empty: none).
bool names_a_path(const std::string& word, const std::string& file);
/// @throws ConfigError when there is no store at `path`
pipeline::Store open_for_writing(const cli::CommandLine& line, const fs::path& path);
/// Reads a store without touching it; says on standard error what was odd.
pipeline::Store open_for_reading(const fs::path& path);
void print_warnings(const pipeline::Store& store);

/// Prints JSON and a newline to standard output; texts that are no UTF-8 do not stop it.
void print_json(const Json& json);
void print(const std::string& text);
/// To standard error.
void say(const std::string& text);

cli::Style out_style(const cli::CommandLine& line);
cli::Style err_style(const cli::CommandLine& line);

/// Columns side by side, two spaces between; the last is not padded. A newline in a cell is shown as \n.
std::string table(std::vector<std::vector<std::string>> rows);

/// A path as people would type it: relative to the current folder when it lies below.
std::string short_path(const fs::path& path);

/// "1 task", "3 tasks", "3 trajectories".
std::string counted(std::size_t count, const std::string& noun);

}  // namespace pe::commands
