#include "pipeline/plan/capacity.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

namespace fs = std::filesystem;

std::string small_file(const fs::path& path) {
  if (::access(path.c_str(), R_OK) != 0) return "";
  try {
    return support::read_file(path, 1 << 20);
  } catch (const support::IoError&) {
    return "";
  }
}

/// This process's control groups, from the leaf to the root: a limit anywhere on the way holds.
std::vector<fs::path> cgroups(const std::string& controller) {
  std::vector<fs::path> folders;
  for (const std::string& line : support::split(small_file("/proc/self/cgroup"), '\n')) {
    const auto parts = support::split(line, ':');
    if (parts.size() < 3) continue;
    fs::path base = "/sys/fs/cgroup";
    if (!parts[1].empty()) {
      const auto names = support::split(parts[1], ',');
      if (std::find(names.begin(), names.end(), controller) == names.end()) continue;
      base /= controller;
    }
    const std::string relative = parts[2].substr(
        parts[2].find_first_not_of('/') == std::string::npos ? parts[2].size() : parts[2].find_first_not_of('/'));
    for (fs::path at = base / relative;; at = at.parent_path()) {
      folders.push_back(at);
      if (at == base || !at.has_relative_path() || at.string().size() < base.string().size()) break;
    }
  }
  return folders;
}

std::int64_t cpus_here() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::int64_t cpus = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : ::sysconf(_SC_NPROCESSORS_ONLN);
  const auto limit = [&](double quota, double period) {
    if (quota > 0 && period > 0) {
      cpus = std::min(cpus, std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(quota / period + 1e-9))));
    }
  };
  for (const fs::path& folder : cgroups("cpu")) {
    const auto words = support::split(std::string(support::trim(small_file(folder / "cpu.max"))), ' ');
    if (words.size() == 2 && words[0] != "max") {
      limit(support::parse_real(words[0]).value_or(0), support::parse_real(words[1]).value_or(0));
    }
    limit(support::parse_real(support::trim(small_file(folder / "cpu.cfs_quota_us"))).value_or(0),
          support::parse_real(support::trim(small_file(folder / "cpu.cfs_period_us"))).value_or(0));
  }
  return std::max<std::int64_t>(cpus, 1);
}

std::int64_t memory_here() {
  const std::int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  std::int64_t bytes = pages * ::sysconf(_SC_PAGE_SIZE);
  for (const fs::path& folder : cgroups("memory")) {
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
      const auto limit = support::parse_integer(support::trim(small_file(folder / name)));
      if (limit && *limit > 0) bytes = std::min(bytes, *limit);
    }
  }
  return bytes;
}

std::vector<std::string> gpus_here() {
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::vector<std::string> ids;
    for (const std::string& word : support::split(visible, ',')) {
      const std::string id(support::trim(word));
      // CUDA hides all GPUs after these; Slurm writes the second in jobs without GPUs.
      if (id == "-1" || id == "NoDevFiles" || id.empty()) break;
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
    return ids;
  }
  std::vector<std::string> ids;
  for (int i = 0; i < 64 && ::access(cat("/dev/nvidia", i).c_str(), F_OK) == 0; ++i) ids.push_back(std::to_string(i));
  return ids;
}

}  // namespace

Capacity detect_capacity() {
  Capacity capacity;
  capacity.cpus = cpus_here();
  capacity.mem_bytes = memory_here();
  capacity.gpus = gpus_here();
  return capacity;
}

std::string describe(const Capacity& capacity) {
  std::string text =
      cat("cpus ", capacity.cpus, ", mem ", support::short_bytes(static_cast<double>(capacity.mem_bytes)));
  if (!capacity.gpus.empty()) text += ", gpus " + support::join(capacity.gpus, " ");
  for (const auto& [name, size] : capacity.pools) text += cat(", pool ", name, " ", size);
  return text;
}

std::string impossible(const Resources& demand, const Capacity& capacity) {
  const std::string where = demand.name.empty() ? "its 'resources'" : cat("resources '", demand.name, "'");
  // No flag sets a stage's resources that have no name.
  const auto lower = [&](const char* key, const std::string& most) {
    return demand.name.empty() ? cat(" here: ask for less in the stage, as in `resources: {", key, ": ", most, "}`")
                               : cat(" here: lower it with --set resources.", demand.name, ".", key, "=", most);
  };
  if (demand.cpus > capacity.cpus) {
    return cat("it asks for ", demand.cpus, " cpus in ", where, " and there are ", capacity.cpus,
               lower("cpus", std::to_string(capacity.cpus)), ", or raise -j");
  }
  if (demand.mem_bytes > capacity.mem_bytes) {
    const std::int64_t mebibytes = capacity.mem_bytes >> 20;
    return cat("it asks for ", support::short_bytes(static_cast<double>(demand.mem_bytes)), " of memory in ", where,
               " and there are ", support::short_bytes(static_cast<double>(capacity.mem_bytes)),
               mebibytes > 0 ? lower("mem", cat(mebibytes, "M")) + ", or" : " here:", " raise --mem");
  }
  if (demand.gpus > static_cast<double>(capacity.gpus.size())) {
    return cat("it asks for ", support::shortest(demand.gpus),
               demand.gpus < 1    ? " of a GPU in "
               : demand.gpus == 1 ? " GPU in "
                                  : " GPUs in ",
               where, capacity.gpus.size() == 1 ? " and there is " : " and there are ", capacity.gpus.size(),
               lower("gpus", std::to_string(capacity.gpus.size())),
               capacity.gpus.empty() ? "" : ", or name more with --gpus");
  }
  return "";
}

}  // namespace pe::pipeline
