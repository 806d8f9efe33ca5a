/// @file
/// How help is set: wrapped paragraphs, and entries with a column of their own.
#pragma once

#include <string>
#include <vector>

namespace pe::cli {

/// Text in lines of at most `columns`, each indented.
std::string wrapped(const std::string& text, int columns, int indent);

/// `left` in a column of its own, `right` wrapped beside it.
std::string entry(const std::string& left, const std::string& right, int column, int columns);

/// "  -j, --jobs N": short and long names stand below each other.
std::string flag_label(const std::string& names, const std::string& value);

/// The words that a value may be: "auto|always|never" → three; none for a value such as FILE.
std::vector<std::string> choices_of(const std::string& value);

}  // namespace pe::cli
