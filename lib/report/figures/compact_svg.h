/// @file
/// Smaller pictures: gnuplot writes definitions that nothing uses, empty groups and a line for every few points.
#pragma once

#include <string>

namespace pe::report {

/// The same picture without unused definitions, empty groups and spaces between elements; one line per titled group.
std::string compact_svg(const std::string& svg);

/// Do two pictures have the same text, and numbers that differ by at most `tolerance`?
bool is_same_picture(const std::string& a, const std::string& b, double tolerance);

}  // namespace pe::report
