/// @file
/// `pe-generate`: examples of an algorithmic task as token shards, with labels, for training. Tests of the same task
/// need no separate data: pe-evaluate makes their items from their keys.
#pragma once

#include <cstdint>
#include <vector>

#include "artifact/workspace.h"
#include "support/config.h"

namespace pe::data {

struct GenerateConfig {
  struct Generate {
    support::VariantValue task{"copy_repeat"};
    std::vector<std::int64_t> lengths;  ///< lowest and highest; empty: as the source trains
    std::int64_t train = 100'000;
    std::int64_t validation = 2'000;
    std::int64_t window = 64;  ///< tokens of an example, padded; train.length
    std::int64_t seed = 1;
    /// The padding of a window: part of its example, or a document after it.
    enum class Padding { kJoined, kApart } padding = Padding::kJoined;
    void describe(support::FieldVisitor& v);
  };
  Generate generate;
  void describe(support::FieldVisitor& v);
};

/// Writes output `data`: one example in each window of `window` tokens. The order mixes lengths.
/// @throws ConfigError when a length has no examples, or an example does not fit the window.
void generate(const GenerateConfig& config, artifact::Workspace& workspace);

}  // namespace pe::data
