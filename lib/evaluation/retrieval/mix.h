/// @file
/// Retrieval prompts among the training windows of token shards, so that small models can learn to retrieve. They are a
/// small share during training (`mix`), or all of it in a short tuning afterwards (`tune`).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "artifact/workspace.h"
#include "evaluation/retrieval/passkey_prompt.h"
#include "support/config.h"

namespace pe::evaluation {

struct MixGroup {
  std::vector<std::string> tasks = {"passkey"};
  double share = 0.01;
  std::int64_t length = 1024;
  std::int64_t shortest = 0;
  std::int64_t windows = 0;
  PasskeyText passkey;
  std::int64_t seed = 1;
  void describe(support::FieldVisitor& v);
};

struct MixConfig {
  MixGroup mix;
  void describe(support::FieldVisitor& v);
};

/// The body of pe-mix: input `data` (token-shards), output `mixed` (token-shards, to be trained on at `mix.length`).
/// Validation and test documents are copied.
void mix(const MixConfig& config, artifact::Workspace& workspace);

}  // namespace pe::evaluation
