#include "pipeline/plan/slots.h"

#include <algorithm>

namespace pe::pipeline {

namespace {

/// Of each of its GPUs. A share is rounded down, so that as many fit on a GPU as their sum allows.
int units_of(const Resources& demand) {
  return demand.gpus < 1 ? std::max(1, static_cast<int>(demand.gpus * kGpuUnits + 1e-9)) : kGpuUnits;
}

}  // namespace

Slots::Slots(Capacity capacity)
    : capacity_(std::move(capacity)), cpus_(capacity_.cpus), mem_bytes_(capacity_.mem_bytes), pools_(capacity_.pools) {
  for (const std::string& id : capacity_.gpus) gpu_units_[id] = kGpuUnits;
}

std::optional<Slot> Slots::take(const Resources& demand, double mem_factor, GpuLocks* locks) {
  const std::int64_t cpus = std::min(demand.cpus, capacity_.cpus);
  const auto mem =
      std::min(static_cast<std::int64_t>(static_cast<double>(demand.mem_bytes) * mem_factor), capacity_.mem_bytes);
  if (cpus > cpus_ || mem > mem_bytes_) return std::nullopt;
  for (const std::string& pool : demand.pools) {
    const auto left = pools_.find(pool);
    if (left != pools_.end() ? left->second < 1 : false) return std::nullopt;
  }
  Slot slot;
  slot.cpus = cpus;
  slot.mem_bytes = mem;
  std::size_t wanted = 0;
  if (demand.gpus > 0) {
    wanted = static_cast<std::size_t>(std::max(1.0, demand.gpus));
    slot.gpu_units = units_of(demand);
    // In the machine's order, so that the choice does not depend on who ended first; shares fill one up before the
    // next.
    std::vector<std::string> fitting;
    for (const std::string& id : capacity_.gpus) {
      if (gpu_units_[id] >= slot.gpu_units) fitting.push_back(id);
    }
    std::stable_sort(fitting.begin(), fitting.end(),
                     [&](const std::string& a, const std::string& b) { return gpu_units_[a] < gpu_units_[b]; });
    for (const std::string& id : fitting) {
      if (slot.gpus.size() == wanted) break;
      if (!locks || locks->take(id, slot.gpu_units)) slot.gpus.push_back(id);
    }
  }
  if (slot.gpus.size() < wanted) {
    if (locks) {
      for (const std::string& id : slot.gpus) locks->give_back(id, slot.gpu_units);
    }
    return std::nullopt;
  }
  slot.pools = demand.pools;
  for (const std::string& id : slot.gpus) gpu_units_[id] -= slot.gpu_units;
  cpus_ -= cpus;
  mem_bytes_ -= mem;
  for (const std::string& pool : demand.pools) {
    const auto size = capacity_.pools.find(pool);
    pools_.try_emplace(pool, size == capacity_.pools.end() ? 1 : size->second);
    --pools_[pool];
  }
  return slot;
}

std::int64_t Slots::mem_of(const Resources& demand, double mem_factor) const {
  return std::min(static_cast<std::int64_t>(static_cast<double>(demand.mem_bytes) * mem_factor), capacity_.mem_bytes);
}

bool Slots::has_room(const Resources& demand, double mem_factor) const {
  if (std::min(demand.cpus, capacity_.cpus) > cpus_ || mem_of(demand, mem_factor) > mem_bytes_) return false;
  if (demand.gpus <= 0) return true;
  const int units = units_of(demand);
  const auto fitting =
      std::count_if(gpu_units_.begin(), gpu_units_.end(), [&](const auto& gpu) { return gpu.second >= units; });
  return static_cast<double>(fitting) >= std::max(1.0, demand.gpus);
}

bool Slots::has_room_beside(const Resources& demand, double mem_factor, const Resources& held,
                            double held_mem_factor) const {
  if (std::min(demand.cpus, capacity_.cpus) > cpus_ - std::min(cpus_, held.cpus)) return false;
  if (mem_of(demand, mem_factor) > mem_bytes_ - std::min(mem_bytes_, mem_of(held, held_mem_factor))) return false;
  if (demand.gpus <= 0 || held.gpus <= 0) return true;
  if (held.gpus < 1) return false;  // any part of a GPU may be the one it waits for
  std::int64_t whole = 0;
  bool share_fits = false;
  const int units = units_of(demand);
  for (const auto& [id, free] : gpu_units_) {
    if (free == kGpuUnits)
      ++whole;
    else
      share_fits = share_fits || (demand.gpus < 1 && free >= units);  // of a GPU that is begun already
  }
  const std::int64_t surplus = whole - std::min(whole, static_cast<std::int64_t>(held.gpus));
  return (share_fits && static_cast<double>(whole) >= held.gpus) ||
         static_cast<double>(surplus) >= std::max(1.0, demand.gpus);
}

void Slots::give_back(const Slot& slot) {
  cpus_ += slot.cpus;
  mem_bytes_ += slot.mem_bytes;
  for (const std::string& id : slot.gpus) gpu_units_[id] += slot.gpu_units;
  for (const std::string& pool : slot.pools) ++pools_[pool];
}

}  // namespace pe::pipeline
