/// @file
/// How two reports differ: numbers in units of their noise, settings, and what was added or lost. Works on
/// `report.json`.
#pragma once

#include <string>

#include "cli/color.h"
#include "support/json.h"

namespace pe::commands {

/// `pe-report-diff/1`: "numbers" (each with table, row, column, first, second, and where both have an interval
/// "noises": the change over the root of the sum of the squared 95 % half widths), "texts", "settings", and lists of
/// runs, tables and rows of one side only.
Json report_differences(const Json& first, const Json& second);

/// The same for people: what is beyond noise first, at most `most` lines of a kind.
std::string report_differences_text(const Json& differences, const cli::Style& style, std::size_t most = 40);

}  // namespace pe::commands
