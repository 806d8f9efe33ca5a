/// @file
/// Values of policies in a pipeline file: one member of a map, checked. Mistakes go to `diagnostics`, with their place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/text.h"
#include "support/yaml.h"

namespace pe::pipeline {

bool is_map(const support::Node& node, std::string_view what, support::Diagnostics& diagnostics);

/// Rejects a key that `what` does not know, with the nearest known key.
void refuse_key(const support::Node::Member& member, std::string_view what, const std::vector<std::string>& known,
                support::Diagnostics& diagnostics);

/// Times and sizes need a unit, except 0: a bare number is minutes or MiB to Slurm and something else elsewhere.
std::optional<std::int64_t> integer(const support::Node::Member& member, support::Suffixes suffixes, std::int64_t least,
                                    support::Diagnostics& diagnostics, std::string_view example);

std::optional<double> real(const support::Node::Member& member, support::Suffixes suffixes, double least,
                           support::Diagnostics& diagnostics, std::string_view example);

/// A time limit in seconds, above 0.
std::optional<double> time_limit(const support::Node::Member& member, support::Diagnostics& diagnostics);

/// A list of names, or a single one.
std::vector<std::string> words_of(const support::Node::Member& member, support::Diagnostics& diagnostics);

}  // namespace pe::pipeline
