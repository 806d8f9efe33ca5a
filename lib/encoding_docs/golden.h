/// @file
/// Golden vectors: outputs of every encoding for inputs that a formula gives, in float64, for other implementations to
/// test against. doc/format-golden.md describes the file.
#pragma once

#include <string>

#include "encodings/registry.h"
#include "support/json.h"

namespace pe::encoding_docs {

/// One encoding with its example options: parameters, logits, weights, outputs.
Json golden_case(const encodings::EncodingEntry& entry);

/// The whole file: a case a line.
std::string golden_vectors();

}  // namespace pe::encoding_docs
