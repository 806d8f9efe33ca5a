/// @file
/// Values of `--set KEY=TEXT`.
#pragma once

#include <string>
#include <string_view>

#include "support/config.h"

namespace pe::support {

/// Whether a field is a path or a list of paths. A missing field is none.
bool takes_paths(const Field* field);

/// The node of TEXT, placed at `flag`. It is YAML; for a path it is the text itself, unless that begins with '[' or a
/// quote.
///
/// @throws ConfigError
Node flag_value(const Field* field, std::string_view text, const std::string& flag);

}  // namespace pe::support
