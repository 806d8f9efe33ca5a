#pragma once

#include <filesystem>

#include "support/files.h"

namespace pe::stage {

/// The work folder of a stage that was started by hand without `--work`. Stages that are started in one folder share
/// it, so it is removed by the last of them.
class OwnWorkFolder {
 public:
  /// Makes the folder, if it is not there, and uses it from here on. @throws IoError
  explicit OwnWorkFolder(std::filesystem::path path);

  /// Removes the folder with all that is in it but charts (`artifact::kChartFolder`), unless another process uses it.
  void remove();

 private:
  std::filesystem::path path_;
  support::Descriptor used_;  // a shared lock of the folder is on it
};

}  // namespace pe::stage
