/// @file
/// A pipeline file with the changes of the command line: `--scale`, then `--set`, then `--axis`.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/expand/expand.h"
#include "pipeline/expand/mistakes.h"
#include "pipeline/file/graph.h"
#include "pipeline/file/pipeline_file.h"
#include "pipeline/file/substitution.h"
#include "support/yaml.h"

namespace pe::pipeline {

/// One value given by `--set`.
struct Flag {
  std::string target;  ///< before the first '.': a stage label, "vars", "axes", "resources"
  std::string key;     ///< after it
  std::string value;
  std::string name;  ///< its name in messages: "--set trunk.train.tokens"
};

/// Values of resources by name: (key, value).
using ResourceFlags = std::map<std::string, std::vector<std::pair<std::string, support::Node>>>;

struct OverriddenPipeline {
  PipelineFile file;                                          ///< Axes of stages are narrowed.
  std::vector<Axis> axes;                                     ///< Of the top level.
  std::map<std::string, std::set<std::string>> known_labels;  ///< Of every axis, before narrowing.
  std::vector<std::string> axis_names;                        ///< Of every axis of the pipeline.
  support::Node vars;                                         ///< A map, or null.
  std::map<std::string, Resources> resources;                 ///< By name.
  ResourceFlags resource_flags;                               ///< Of named resources and of stages.
  std::map<std::string, std::vector<Flag>> stage_flags;       ///< By stage label.

  std::vector<std::string> stage_labels() const;
  /// Meaning of names for an instance of a stage; both bindings and this must outlive it.
  Scope scope_of(const std::vector<Binding>& bindings, const std::string& stage) const;
};

/// Mistakes of the options, and names in the file that nothing uses, go to `mistakes`.
OverriddenPipeline apply_overrides(const PipelineFile& file, const ExpandOptions& options, Mistakes& mistakes);

/// A map node with one member, for the value of a flag.
support::Node single(const std::string& key, support::Node value);

}  // namespace pe::pipeline
