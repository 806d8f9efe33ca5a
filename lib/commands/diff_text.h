/// @file
/// How differences of artifacts are written, for `diff` and `verify --rerun`.
#pragma once

#include <string>

#include "artifact/diff.h"
#include "support/json.h"

namespace pe::commands {

/// One line a difference, at most `most` of them, each behind `indent`.
std::string differences_text(const artifact::ArtifactDiff& diff, const std::string& indent, std::size_t most);
Json differences_json(const artifact::ArtifactDiff& diff);

}  // namespace pe::commands
