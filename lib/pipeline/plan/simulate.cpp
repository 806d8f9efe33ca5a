#include "pipeline/plan/simulate.h"

#include <cstddef>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "pipeline/plan/slots.h"

namespace pe::pipeline {

double simulate(const Graph& graph, const std::vector<bool>& runs, const std::vector<double>& seconds,
                const std::vector<double>& path, const Capacity& capacity) {
  const std::size_t count = graph.tasks.size();
  std::vector<std::size_t> waits(count);
  std::vector<std::vector<std::size_t>> readers(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!runs[i]) continue;
    std::size_t last = count;
    for (const Edge& edge : graph.tasks[i].inputs) {
      if (edge.producer == last || !runs[edge.producer]) continue;
      last = edge.producer;
      readers[edge.producer].push_back(i);
      ++waits[i];
    }
  }
  // Tasks with the same demand share one line, so that a full machine is found quickly.
  using Demand = std::tuple<std::int64_t, std::int64_t, double, std::vector<std::string>>;
  std::map<Demand, std::set<std::pair<double, std::size_t>>> ready;
  const auto add = [&](std::size_t i) {
    const Resources& demand = graph.tasks[i].resources;
    ready[{demand.cpus, demand.mem_bytes, demand.gpus, demand.pools}].emplace(-path[i], i);
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (runs[i] && waits[i] == 0) add(i);
  }
  Slots slots(capacity);
  struct Running {
    double end;
    std::size_t task;
    Slot slot;
    bool operator>(const Running& other) const { return std::tie(end, task) > std::tie(other.end, other.task); }
  };
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running;
  double now = 0;
  for (;;) {
    std::set<Demand> full;
    for (;;) {
      // The best of all lines that still fit.
      auto best = ready.end();
      for (auto line = ready.begin(); line != ready.end(); ++line) {
        if (line->second.empty() || full.count(line->first)) continue;
        if (best == ready.end() || *line->second.begin() < *best->second.begin()) best = line;
      }
      if (best == ready.end()) break;
      const std::size_t task = best->second.begin()->second;
      auto slot = slots.take(graph.tasks[task].resources);
      if (!slot) {
        full.insert(best->first);
        continue;
      }
      best->second.erase(best->second.begin());
      running.push({now + seconds[task], task, std::move(*slot)});
    }
    if (running.empty()) return now;
    const Running done = running.top();
    running.pop();
    now = done.end;
    slots.give_back(done.slot);
    for (const std::size_t reader : readers[done.task]) {
      if (--waits[reader] == 0) add(reader);
    }
  }
}

}  // namespace pe::pipeline
