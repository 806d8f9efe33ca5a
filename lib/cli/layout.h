/// @file
/// Layout of help: wrapped paragraphs, and entries in columns.
#pragma once

#include <string>
#include <vector>

namespace pe::cli {

/// Text in lines of at most `columns`, each indented; lines that continue a paragraph are indented by `hang` more.
std::string wrapped(const std::string& text, int columns, int indent, int hang = 0);

/// `left` in the first column, `right` wrapped in the second.
std::string entry(const std::string& left, const std::string& right, int column, int columns);

/// "  -j, --jobs N": short and long names are aligned in columns.
std::string flag_label(const std::string& names, const std::string& value);

/// The words that a value may be: "auto|always|never" → three; none for a value such as FILE.
std::vector<std::string> choices_of(const std::string& value);

}  // namespace pe::cli
