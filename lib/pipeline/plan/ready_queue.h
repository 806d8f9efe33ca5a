/// @file
/// Which task goes next: the one with the longest remaining path.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "pipeline/file/graph.h"

namespace pe::pipeline {

/// Tasks that may start, longest remaining path first, then most descendants, then graph order.
class ReadyQueue {
 public:
  /// `seconds[i]` is the expected time of task i; readers come after producers in `graph`.
  ReadyQueue(const Graph& graph, const std::vector<double>& seconds);
  void add(std::size_t task);
  void remove(std::size_t task);
  bool empty() const { return ready_.empty(); }
  std::size_t size() const { return ready_.size(); }
  /// The best one; nothing when none is ready.
  std::optional<std::size_t> first() const;
  /// The first ready task after `task` in the order; `task` need not be ready. The caller may remove or add any other.
  std::optional<std::size_t> after(std::size_t task) const;
  /// Seconds from the start of `task` to the end of everything that waits for it.
  double remaining(std::size_t task) const { return rank_[task].path_s; }

 private:
  struct Rank {
    double path_s = 0;
    std::size_t descendants = 0;
  };
  struct Order {
    const std::vector<Rank>* rank;
    bool operator()(std::size_t a, std::size_t b) const;
  };
  std::vector<Rank> rank_;
  std::set<std::size_t, Order> ready_;
};

}  // namespace pe::pipeline
