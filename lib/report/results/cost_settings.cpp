#include "report/results/cost_settings.h"

#include <algorithm>
#include <map>
#include <set>

#include "report/results/rows.h"
#include "support/text.h"

namespace pe::report {

std::string CostSetting::text() const { return support::cat(device, ", ", dtype, ", batch ", batch); }

CostSetting setting_of(const schema::Cost& row) { return {row.device, row.dtype, row.batch}; }

std::vector<CostSetting> cost_settings(const Results& results, const std::string& path) {
  std::map<CostSetting, std::set<std::size_t>> models;
  each_row<schema::Cost>(results, [&](std::size_t run, const schema::Cost& row) {
    if (path.empty() || (row.path == path && row.status == "ok")) models[setting_of(row)].insert(run);
  });
  std::vector<CostSetting> settings;
  for (const auto& [setting, runs] : models) settings.push_back(setting);
  std::stable_sort(settings.begin(), settings.end(), [&](const CostSetting& a, const CostSetting& b) {
    return models.at(a).size() > models.at(b).size();
  });
  return settings;
}

}  // namespace pe::report
