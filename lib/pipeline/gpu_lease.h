/// @file
/// GPUs are shared by every store and user of a machine, so each one taken is also locked in a file per GPU in the
/// runtime folder. The kernel frees the lock when the holder ends, however it ends.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "support/files.h"

namespace pe::pipeline {

class GpuLeases {
 public:
  /// Locks live in `folder`; empty: $XDG_RUNTIME_DIR, else /tmp.
  explicit GpuLeases(std::filesystem::path folder = {});
  /// False when another program holds it now. Where no lock can be made, every GPU counts as free.
  bool take(const std::string& id);
  void give_back(const std::string& id);

 private:
  std::filesystem::path folder_;
  std::map<std::string, support::Descriptor> held_;
};

}  // namespace pe::pipeline
