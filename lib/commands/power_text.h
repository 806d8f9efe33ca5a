/// @file
/// The power of a study with so many seeds and items, by the noise in a report. Works on `report.json`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "support/json.h"

namespace pe::commands {

/// The user's question. Numbers that are not given are as in the report.
struct PowerQuestion {
  std::optional<std::size_t> seeds, items;
  std::optional<double> difference;  ///< in the measure's unit: how many seeds find it?
};

/// For each measure and length of the report's table `power`: "measure", "unit", "length" (null where the measure has
/// none), "seeds", "items", "seed_sd", "item_sd" and "detectable" (null below three seeds). Where a difference is asked
/// about, "seeds_needed" follows (null: not with 200). Empty where the report compares nothing. @throws ArtifactError
/// for a report of another version
Json power_of_report(const Json& report, const PowerQuestion& question);

/// The same for people. In a terminal that is too narrow for all columns, only the answers are shown.
/// @param columns  of the terminal; 0: no limit
std::string power_text(const Json& measures, const PowerQuestion& question, int columns = 0);

}  // namespace pe::commands
