/// @file
/// From a pipeline file to its graph: axes are multiplied out, substitutions done, edges joined, configs merged and
/// typed by the schema of each stage.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pipeline/expand/compute_auto.h"
#include "pipeline/file/graph.h"
#include "pipeline/file/pipeline_file.h"
#include "pipeline/file/stage_description.h"
#include "support/cpu.h"

namespace pe::pipeline {

/// Changes of the command line to a pipeline file.
struct ExpandOptions {
  std::vector<std::string> set;   ///< "trunk.train.tokens=1e6", "vars.NAME=value", "axes.NAME=[…]",
                                  ///< "resources.NAME.cpus=2"
  std::vector<std::string> axis;  ///< "encoding=rope,alibi": keeps these labels
  std::string scale;              ///< name of a scale, or empty for the one marked default
  std::filesystem::path folder;   ///< folder of relative paths in `set`; empty: the current folder
  std::string isa = support::best_instruction_set(false);      ///< value for `compute.isa: auto`
  std::string bf16_isa = support::best_instruction_set(true);  ///< the same for products in bf16 on a CPU
};

/// Graph::variant of these options.
std::string variant_of(const ExpandOptions& options);

/// @throws ConfigError with every mistake that can be separated.
Graph expand(const PipelineFile& file, StageCatalog& catalog, const ExpandOptions& options);

}  // namespace pe::pipeline
