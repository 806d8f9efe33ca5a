/// @file
/// Which artifacts an instance reads: references resolved, and joined by the axes that producer and reader share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "pipeline/expand/mistakes.h"
#include "pipeline/expand/stages.h"
#include "pipeline/file/graph.h"
#include "pipeline/file/pipeline_file.h"
#include "pipeline/file/substitution.h"

namespace pe::pipeline {

/// Target of a reference: the same for every instance for which it reads the same.
struct Target {
  Stage* stage = nullptr;
  std::string output;
  std::string snapshot;
  const Reference* reference = nullptr;
};

/// One reference of `needs` or `gather`, and its targets so far.
struct Link {
  struct Resolution {
    Reference reference;
    std::optional<Target> target;  ///< empty for a mistake, which was reported
  };
  const artifact::InputRole* role = nullptr;
  const ReferenceText* text = nullptr;
  bool fixed = false;                                                    ///< no substitution in it
  bool many = false;                                                     ///< of `gather`
  std::unordered_map<std::string, std::unique_ptr<Resolution>> by_text;  ///< after substitution
};

class EdgeResolver {
 public:
  static constexpr std::int64_t kMostEdges = 600'000;

  /// `tasks` are the tasks made so far.
  EdgeResolver(Stages& stages, const std::vector<Task>& tasks, Mistakes& mistakes)
      : stages_(stages), tasks_(tasks), mistakes_(mistakes) {}

  /// Every reference of `needs` and `gather`; references without substitutions are looked up once.
  std::vector<Link> links_of(Stage& stage);
  /// The inputs of one instance, by role in declared order, after `each`. False when a mistake was reported. `dropped`
  /// is set when one of its producers was excluded.
  bool make_edges(const Stage& stage, std::vector<Link>& links, std::optional<Edge> each,
                  const std::vector<Binding>& bindings, const Scope& scope, Task& task, bool* dropped);
  bool too_many_edges() const { return edges_ > kMostEdges; }
  /// Ends joining: releases the look-ups.
  void finish() { gather_index_ = {}; }

  // `each` calls these directly.
  std::optional<Target> find_target(const Reference& reference, const support::Mark& mark,
                                    const artifact::InputRole& role);
  bool check_pins(const Target& target, const support::Mark& mark);
  /// All instances that agree on the axes both have and on the pins.
  std::vector<std::size_t> gather(const Target& target, const std::vector<Binding>& bindings);
  Edge make_edge(const Target& target, std::size_t producer, const std::string& role);

 private:
  enum class Match { kFound, kDropped, kMistake };

  const Target* resolve(Link& link, const Scope& scope);
  Match match(const Target& target, const support::Mark& mark, const std::vector<Binding>& bindings,
              const std::string& reader, std::size_t* producer);

  Stages& stages_;
  const std::vector<Task>& tasks_;
  Mistakes& mistakes_;
  std::int64_t edges_ = 0;
  std::map<std::string, std::unordered_map<std::string, std::vector<std::size_t>>> gather_index_;
};

}  // namespace pe::pipeline
