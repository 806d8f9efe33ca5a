/// @file
/// Writes a report: `report.html`, and the same as files for papers and programs.
///
///     report.html                  one self-contained page
///     result.txt                   what was found, in at most two lines for a terminal
///     figures/<id>.svg .pdf .png   each figure whole
///     tables/<id>.csv .md .tex     each table
///     data/<table>.csv             every row that was read, with labels; data/figure_<id>.csv what a figure shows
///     report.json                  pe-report/1: titles, captions, findings, tables as numbers
#pragma once

#include "artifact/workspace.h"
#include "report/results/results.h"
#include "report/sections/section.h"

namespace pe::report {

/// The sections that have something to show, in order.
std::vector<Section> make_sections(const Results& results);

/// The content of `result.txt`: the first two lines that sections have. Empty, and then not written, when none has any.
std::string result_text(const std::vector<Section>& sections);

/// Reads the inputs of the roles `scores` and `curves` and writes the collection of the role `report`.
/// @throws ArtifactError when nothing was gathered, or nothing of it can be shown; Error naming the package when a
/// program for figures is missing.
/// @return claims whose verdict is worse than expected (reproduced, where a claim does not say), each with its verdict.
std::vector<std::string> write_report(const ReportConfig& config, artifact::Workspace& workspace);

}  // namespace pe::report
