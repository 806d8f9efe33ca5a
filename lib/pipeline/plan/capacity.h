/// @file
/// Resources of this machine, or of the part that this process may use, to share among tasks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"

namespace pe::pipeline {

/// Resources that tasks may share. Memory is counted, never enforced.
struct Capacity {
  std::int64_t cpus = 1;
  std::int64_t mem_bytes = 0;
  std::vector<std::string> gpus;              ///< ids, as in CUDA_VISIBLE_DEVICES
  std::map<std::string, std::int64_t> pools;  ///< a pool that is not named holds 1
};

/// Resources of this process: CPUs by affinity and cgroup quota, memory by cgroup limit and the machine's memory, GPUs
/// by CUDA_VISIBLE_DEVICES or the devices present.
Capacity detect_capacity();

/// "cpus 2, mem 23.4 GiB, gpus 0 1".
std::string describe(const Capacity& capacity);

/// Why a demand can never be met, with the flag or key that helps; empty when it can.
std::string impossible(const Resources& demand, const Capacity& capacity);

}  // namespace pe::pipeline
