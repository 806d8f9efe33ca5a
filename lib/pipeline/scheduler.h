/// @file
/// What a machine has, what of it is taken, and which task goes next. Pure book-keeping: nothing is started here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pipeline/gpu_lease.h"
#include "pipeline/graph.h"

namespace pe::pipeline {

/// What tasks may share. Memory is counted, never enforced.
struct Capacity {
  std::int64_t cpus = 1;
  std::int64_t mem_bytes = 0;
  std::vector<std::string> gpus;              ///< ids, as in CUDA_VISIBLE_DEVICES
  std::map<std::string, std::int64_t> pools;  ///< a pool that is not named holds 1
};

/// What this process may use: CPUs by affinity and cgroup quota, memory by cgroup limit and what the machine has, GPUs
/// by CUDA_VISIBLE_DEVICES or the devices present.
Capacity detect_capacity();

/// "cpus 2, mem 23.4 GiB, gpus 0 1".
std::string describe(const Capacity& capacity);

/// The parts of a capacity that a running task holds.
struct Slot {
  std::int64_t cpus = 0;
  std::int64_t mem_bytes = 0;
  std::vector<std::string> gpus;
  int gpu_units = GpuLeases::kWhole;  ///< of each of its GPUs
  std::vector<std::string> pools;
};

/// Why a demand can never be met, with the flag or key that helps; empty when it can.
std::string impossible(const Resources& demand, const Capacity& capacity);

class Slots {
 public:
  explicit Slots(Capacity capacity);
  /// Takes what `demand` asks for, or nothing. `mem_factor` enlarges the memory (retries), capped at the machine.
  /// Of the free GPUs it takes those that `leases` can lock, for a share the fullest that has room; null locks nothing.
  std::optional<Slot> take(const Resources& demand, double mem_factor = 1, GpuLeases* leases = nullptr);
  void give_back(const Slot& slot);
  bool idle() const { return taken_ == 0; }
  bool full() const { return cpus_ < 1; }  ///< every task takes a CPU
  const Capacity& capacity() const { return capacity_; }

 private:
  Capacity capacity_;
  std::int64_t cpus_;
  std::int64_t mem_bytes_;
  std::map<std::string, int> gpu_units_;  // free ones, by id
  std::map<std::string, std::int64_t> pools_;
  int taken_ = 0;
};

/// Tasks that may start, longest remaining path first, then most descendants, then graph order.
class ReadyQueue {
 public:
  /// `seconds[i]` is what task i is expected to take; readers come after producers in `graph`.
  ReadyQueue(const Graph& graph, const std::vector<double>& seconds);
  void add(std::size_t task);
  void remove(std::size_t task);
  bool empty() const { return ready_.empty(); }
  std::size_t size() const { return ready_.size(); }
  /// The best one; nothing when none is ready.
  std::optional<std::size_t> first() const;
  /// The best of those behind `task` in the order, whether it is still ready or not: whoever handles one may take out
  /// or add any other.
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
