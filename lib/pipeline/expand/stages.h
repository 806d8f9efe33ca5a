/// @file
/// The stages of a pipeline while it is expanded: the description of each, and its instances so far.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "pipeline/expand/mistakes.h"
#include "pipeline/expand/overrides.h"
#include "pipeline/file/pipeline_file.h"
#include "pipeline/file/stage_description.h"

namespace pe::pipeline {

/// Between labels in a joined key.
inline constexpr char kLabelSeparator = '\x1f';

/// The instances of a stage that have the same axes. A stage with `each` has one group per kind of producer.
struct Group {
  std::vector<std::string> axes;
  std::unordered_map<std::string, std::size_t> by_labels;  ///< joined labels in the order of `axes` → task
  std::vector<std::set<std::string>> domain;               ///< labels that were meant, excluded ones too
};

struct Stage {
  const StageDeclaration* node = nullptr;
  std::size_t index = 0;  ///< in the file
  std::shared_ptr<const StageDescription> description;
  bool broken = false;  ///< a mistake was reported; its consequences are not
  std::vector<Group> groups;
  std::vector<std::size_t> tasks;
};

class Stages {
 public:
  /// Asks the catalog for every stage and checks the file against the answers. `source` must outlive it.
  Stages(const OverriddenPipeline& source, StageCatalog& catalog, Mistakes& mistakes);

  std::vector<Stage>& all() { return stages_; }
  const std::vector<Stage>& all() const { return stages_; }
  Stage* find(const std::string& label);
  const Stage* find(const std::string& label) const;

  /// Producers before readers; ready stages in the order of the file. Unknown stages and cycles are mistakes.
  std::vector<std::size_t> in_order(Mistakes& mistakes);

 private:
  const OverriddenPipeline& source_;
  std::vector<Stage> stages_;
  std::map<std::string, std::size_t> by_label_;
};

}  // namespace pe::pipeline
