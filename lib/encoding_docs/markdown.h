/// @file
/// The layout of generated Markdown.
#pragma once

#include <string>

namespace pe::encoding_docs {

/// The page with its paragraphs and list items broken at 100 columns. Tables, headings, images and fenced code stay
/// unchanged.
std::string wrapped_markdown(const std::string& page);

}  // namespace pe::encoding_docs
