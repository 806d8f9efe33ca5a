#include "pipeline/plan/ready_queue.h"

#include <algorithm>

namespace pe::pipeline {

ReadyQueue::ReadyQueue(const Graph& graph, const std::vector<double>& seconds)
    : rank_(graph.tasks.size()), ready_(Order{&rank_}) {
  for (std::size_t i = graph.tasks.size(); i-- > 0;) {
    rank_[i].path_s += seconds[i];
    std::size_t last = static_cast<std::size_t>(-1);
    for (const Edge& edge : graph.tasks[i].inputs) {
      if (edge.producer == last) continue;
      last = edge.producer;
      Rank& rank = rank_[edge.producer];
      rank.path_s = std::max(rank.path_s, rank_[i].path_s);
      // Counts paths, not tasks: near enough to prefer what holds up more, and linear.
      rank.descendants = std::min<std::size_t>(rank.descendants + rank_[i].descendants + 1, 1u << 30);
    }
  }
}

bool ReadyQueue::Order::operator()(std::size_t a, std::size_t b) const {
  const Rank& x = (*rank)[a];
  const Rank& y = (*rank)[b];
  if (x.path_s != y.path_s) return x.path_s > y.path_s;
  if (x.descendants != y.descendants) return x.descendants > y.descendants;
  return a < b;
}

void ReadyQueue::add(std::size_t task) { ready_.insert(task); }
void ReadyQueue::remove(std::size_t task) { ready_.erase(task); }

std::optional<std::size_t> ReadyQueue::first() const {
  if (ready_.empty()) return std::nullopt;
  return *ready_.begin();
}

std::optional<std::size_t> ReadyQueue::after(std::size_t task) const {
  const auto next = ready_.upper_bound(task);
  if (next == ready_.end()) return std::nullopt;
  return *next;
}

}  // namespace pe::pipeline
