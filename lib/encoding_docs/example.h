/// @file
/// How an encoding is set up where it is shown rather than used: with options under which it does something.
#pragma once

#include <string>

#include "encodings/registry.h"
#include "support/json.h"

namespace pe::encoding_docs {

/// Default options, except that a context extension extends (factor 4), and a position map is stacked with rope.
Json example_config(const encodings::EncodingEntry& entry);

/// "factor 4"; empty where all options have their defaults.
std::string example_note(const encodings::EncodingEntry& entry);

/// A pass, with numbers that tokens of some text might have where the encoding reads them off.
encodings::State example_pass(encodings::PositionalEncoding& encoding, const encodings::Span& span);

/// Standard normals, float64, the same for the same name.
at::Tensor named_normals(const std::string& name, at::IntArrayRef sizes);

}  // namespace pe::encoding_docs
