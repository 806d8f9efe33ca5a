/// @file
/// doc/encodings/: a page for each registered encoding, from its registry entry and from figures that its code draws.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "encodings/registry.h"

namespace pe::handbook {

/// Markdown of one encoding's page.
std::string encoding_page(const encodings::EncodingEntry& entry);

/// Markdown of the table of all, README.md.
std::string index_page();

/// Every text of doc/encodings/ that this program writes: file name → content. Figures are not among them; the data
/// behind each is, as figures/NAME.csv.
std::map<std::string, std::string> generated_texts();

/// Writes all texts, and figures/NAME.svg for each figure whose data has changed or whose picture is missing.
/// @return how many files are new or different. Needs gnuplot when a figure has to be drawn.
int write_pages(const std::filesystem::path& folder);

/// Whether two figures' data agree: same rows and names, numbers within a part in a thousand of the range.
bool same_figure_data(const std::string& a, const std::string& b);

}  // namespace pe::handbook
