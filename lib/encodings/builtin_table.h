/// @file
/// The entries of all source files that meson.build lists. The definition is generated from that list.
#pragma once

#include <vector>

#include "encodings/registry.h"

namespace pe::encodings {

std::vector<EncodingEntry> builtin_encodings();

}  // namespace pe::encodings
