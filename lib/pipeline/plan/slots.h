/// @file
/// Which parts of a machine running tasks hold. Pure book-keeping: nothing is started here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/plan/capacity.h"

namespace pe::pipeline {

inline constexpr int kGpuUnits = 100;  ///< a whole GPU; a task may take a share of one

/// Locks on GPUs that other programs of the machine see, too.
class GpuLocks {
 public:
  virtual ~GpuLocks() = default;
  /// False when too much of it is held now, by this or another program.
  virtual bool take(const std::string& id, int units) = 0;
  /// One that was taken with as many units.
  virtual void give_back(const std::string& id, int units) = 0;
};

/// The parts of a capacity that a running task holds.
struct Slot {
  std::int64_t cpus = 0;
  std::int64_t mem_bytes = 0;
  std::vector<std::string> gpus;
  int gpu_units = kGpuUnits;  ///< of each of its GPUs
  std::vector<std::string> pools;
};

class Slots {
 public:
  explicit Slots(Capacity capacity);
  /// Takes what `demand` asks for, or nothing. `mem_factor` enlarges the memory (retries), capped at the machine.
  /// Of the free GPUs it takes those with a free lock in `locks`, for a share the fullest that has room; null locks
  /// nothing.
  std::optional<Slot> take(const Resources& demand, double mem_factor = 1, GpuLocks* locks = nullptr);
  void give_back(const Slot& slot);
  /// Whether CPUs, memory and GPUs for it are free; pools and locks of other programs are not asked.
  bool has_room(const Resources& demand, double mem_factor = 1) const;
  /// Whether it fits into the rest when `held` keeps its demand, as far as that is free now.
  bool has_room_beside(const Resources& demand, double mem_factor, const Resources& held, double held_mem_factor) const;
  bool full() const { return cpus_ < 1; }  ///< every task takes a CPU

 private:
  std::int64_t mem_of(const Resources& demand, double mem_factor) const;

  Capacity capacity_;
  std::int64_t cpus_;
  std::int64_t mem_bytes_;
  std::map<std::string, int> gpu_units_;  // free ones, by id
  std::map<std::string, std::int64_t> pools_;
};

}  // namespace pe::pipeline
