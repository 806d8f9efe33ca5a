/// @file
/// The encoding of a checkpoint for another context length, with all its options.
#pragma once

#include <cstdint>

#include "support/json.h"

namespace pe::encodings {

/// An encoding for contexts of `length` tokens, by the encoding that the checkpoint has (`had`).
/// A rule over a rotary encoding takes the checkpoint's `base`, `layout` and `over` where its own are the defaults. A
/// `factor` of 1 becomes length / trained, unless the rule takes it from the text. Options that follow from the
/// training length get their value at `trained`.
/// A rule in place of a rule begins from the latter's factor and training length.
/// @throws ConfigError where a rule cannot extend the checkpoint's rotation
Json encoding_at(const Json& wanted, const Json& had, std::int64_t trained, std::int64_t length);

/// The checkpoint's own encoding for another length: options that follow from the training length get their value at
/// `trained`.
Json with_lengths(const Json& had, std::int64_t trained);

/// encoding_at for weights that do not change: in a stack, an encoding that rotates replaces the member that rotates,
/// and the other members stay.
Json encoding_over(const Json& wanted, const Json& had, std::int64_t trained, std::int64_t length);

}  // namespace pe::encodings
