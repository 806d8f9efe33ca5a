/// @file
/// How differences of artifacts and configs are written, for `diff` and `verify --rerun`.
#pragma once

#include <string>

#include "artifact/diff.h"
#include "support/config.h"
#include "support/json.h"

namespace pe::commands {

/// One line a difference, at most `most` of them, each behind `indent`.
std::string differences_text(const artifact::ArtifactDiff& diff, const std::string& indent, std::size_t most);

/// A field of two configs: "train.seed: 42 -> 43". Lists are compared by element: "labels: 47 fewer (first: rope)".
/// Long values are cut.
std::string config_difference_text(const support::Difference& difference);

Json differences_json(const artifact::ArtifactDiff& diff);

}  // namespace pe::commands
