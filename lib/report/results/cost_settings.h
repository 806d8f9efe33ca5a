/// @file
/// Devices and ways in which times were measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/results/results.h"
#include "schema/models.h"

namespace pe::report {

/// A device and a way in which times were measured. Times of several are never averaged.
struct CostSetting {
  std::string device, dtype;
  std::int64_t batch = 0;
  auto operator<=>(const CostSetting&) const = default;
  std::string text() const;  ///< "a CPU, fp32, batch 1"
};
/// Of measurements by one path, or by all; the one with most models first.
std::vector<CostSetting> cost_settings(const Results& results, const std::string& path = "");
CostSetting setting_of(const schema::Cost& row);

}  // namespace pe::report
