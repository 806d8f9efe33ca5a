/// @file
/// Common mistakes with positional encodings, each shown by running ours: doc/encodings/pitfalls.md, and
/// `pe-encodings pitfalls` on a terminal.
#pragma once

#include <string>

namespace pe::encoding_docs {

/// Markdown, with the numbers that the demonstrations gave just now.
std::string pitfalls_page();

}  // namespace pe::encoding_docs
