/// @file
/// `doctor`: whether a store and the machine under it are fit for work. Each finding is one line, with a fix.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pipeline/store/store.h"

namespace pe::pipeline {

struct Finding {
  enum class Level { kGood, kNote, kWarning, kBad };
  Level level = Level::kGood;
  std::string topic;  ///< "store", "file system", "space", "clock", "leases", "gpu", "slurm", "machine"
  std::string text;
  std::string advice;  ///< what helps; may be empty
  bool fixed = false;  ///< `--fix` has seen to it
};
std::string_view level_name(Finding::Level level);  ///< "good", "note", "warning", "bad"

struct HealthOptions {
  bool fix = false;
};

/// Looks at a store, which need not exist yet, and at the machine. With `fix`, it repairs everything that needs no loss
/// of data. Damaged records go to the trash. An index that is damaged or knows records that are gone is made again. No
/// finding makes it throw.
std::vector<Finding> examine(const std::filesystem::path& store, const HealthOptions& options);

}  // namespace pe::pipeline
