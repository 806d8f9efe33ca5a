/// @file
/// GPUs are shared by every store and user of a machine, so each one taken is also locked in a file per GPU. The lock
/// covers all of its bytes, or as many as the share that is taken. The kernel frees the lock when the holder ends,
/// however it ends.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "pipeline/plan/slots.h"
#include "support/files.h"

namespace pe::pipeline {

class GpuLeases : public GpuLocks {
 public:
  /// Locks are in `folder`; empty: the first of /run/lock, /dev/shm and /tmp in which every user may write. A service
  /// or a job may have its own /tmp. Inside an allocation of a cluster nothing is locked: its GPUs are its own, and
  /// their numbers may differ from the machine's.
  /// @param driver  where the driver describes its GPUs
  explicit GpuLeases(std::filesystem::path folder = {}, std::filesystem::path driver = "/proc/driver/nvidia/gpus");
  /// False when too much of it is held now, by this or another program. Where no lock can be made, every GPU counts as
  /// free.
  bool take(const std::string& id, int units = kGpuUnits) override;
  /// One that was taken with as many units.
  void give_back(const std::string& id, int units = kGpuUnits) override;

 private:
  /// One name for a GPU that people call by its number, its UUID or the beginning of that.
  std::string name_of(const std::string& id) const;

  std::filesystem::path folder_, driver_;
  bool locks_ = true;
  std::multimap<std::pair<std::string, int>, support::Descriptor> held_;
};

}  // namespace pe::pipeline
