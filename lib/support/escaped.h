/// @file
/// Bytes of files and of the network, made fit for messages and terminals.
#pragma once

#include <string>
#include <string_view>

namespace pe::support {

/// Control characters and bytes that are not UTF-8 become \n, \t, \xff; cut behind `longest` bytes with "…".
std::string escaped(std::string_view text, std::size_t longest = std::string_view::npos);

}  // namespace pe::support
