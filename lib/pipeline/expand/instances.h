/// @file
/// The instances of a stage: its axes multiplied out, once for each artifact that `each` names, without excluded cells.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pipeline/expand/edge_resolver.h"
#include "pipeline/expand/mistakes.h"
#include "pipeline/expand/overrides.h"
#include "pipeline/expand/stages.h"
#include "pipeline/file/graph.h"
#include "pipeline/file/substitution.h"

namespace pe::pipeline {

struct Instance {
  std::vector<Binding> bindings;
  std::optional<Edge> each;  ///< the artifact that an `each` instance is made for
  std::size_t group = 0;     ///< of the stage
};

class InstanceEnumerator {
 public:
  static constexpr std::size_t kMostTasks = 300'000;

  /// `bindings` holds the bindings of each task made so far.
  InstanceEnumerator(const OverriddenPipeline& source, EdgeResolver& joiner,
                     const std::vector<std::vector<Binding>>& bindings, Mistakes& mistakes)
      : source_(source),
        joiner_(joiner),
        bindings_(bindings),
        mistakes_(mistakes),
        known_labels_(source.known_labels) {}

  /// Adds the stage's groups. The stage is broken afterwards when a mistake was reported.
  std::vector<Instance> instances_of(Stage& stage);
  /// Cells of all stages so far that `exclude` and `only` left out.
  std::size_t excluded() const { return excluded_; }

 private:
  /// Where an instance begins: nothing, or one artifact of a producer.
  struct Seed {
    std::vector<Binding> bindings;
    std::optional<Edge> each;
  };

  std::vector<const Axis*> axes_over(Stage& stage);
  std::vector<Seed> seeds_of(Stage& stage);
  std::size_t group_of(Stage& stage, const Seed& seed, const std::vector<const Axis*>& axes);
  const Axis* find_axis(const StageDeclaration& stage, const std::string& name) const;
  bool too_many(const Stage& stage, std::size_t seeds, const std::vector<const Axis*>& axes);
  void check_patterns(const Stage& stage, const std::vector<CellPattern>& patterns, const std::string& what,
                      const std::set<std::string>& bound);

  const OverriddenPipeline& source_;
  EdgeResolver& joiner_;
  const std::vector<std::vector<Binding>>& bindings_;
  Mistakes& mistakes_;
  std::map<std::string, std::set<std::string>> known_labels_;  ///< includes the axes `from` and `snapshot`
  std::size_t excluded_ = 0;
  std::deque<AxisValue> extra_values_;  ///< of these two axes; bindings point into it
};

}  // namespace pe::pipeline
