/// @file
/// doc/encodings/: a page for each registered encoding, from its registry entry and from figures that its code draws.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "encodings/registry.h"

namespace pe::encoding_docs {

/// Markdown of one encoding's page.
std::string encoding_page(const encodings::EncodingEntry& entry);

/// Markdown of the table of all, README.md.
std::string index_page();

/// Every text of doc/encodings/ that this program writes: file name → content. Figures are not among them.
std::map<std::string, std::string> generated_texts();

/// Writes all texts, and figures/NAME.svg for each picture that has changed. Needs gnuplot.
/// @return the number of files that are new or different
int write_pages(const std::filesystem::path& folder);

/// Do two pictures agree to half a pixel? Numbers of different processors may differ in their last digits.
bool is_same_figure(const std::string& a, const std::string& b);

}  // namespace pe::encoding_docs
