/// @file
/// How two reports differ: numbers in units of their noise, settings, and parts that one of them lacks. Works on
/// `report.json`.
#pragma once

#include <string>

#include "cli/color.h"
#include "support/json.h"

namespace pe::commands {

/// `pe-report-diff/1`: "numbers", "texts", "settings", and lists of runs, tables and rows of one side only. A number
/// has table, row, column, first and second. Where both have an interval, it also has "noises": the change over the
/// root of the sum of the squared half widths. Differences from other baselines are not compared.
Json report_differences(const Json& first, const Json& second);

/// The same for people: changes beyond noise first, at most `most` lines of a kind.
std::string report_differences_text(const Json& differences, const cli::Style& style, std::size_t most = 40);

}  // namespace pe::commands
