/// @file
/// `pe-tokenize`: raw text to token shards, with a tokenizer that is trained on it, given, or plain bytes.
#pragma once

#include <cstdint>
#include <optional>

#include "artifact/workspace.h"
#include "data/sources/split_rule.h"
#include "data/tokenizers/tokenizer_choice.h"
#include "support/config.h"

namespace pe::data {

struct TokenizeConfig : TokenizerConfig {
  enum class Duplicates { kDrop, kKeep };
  enum class Utf8 { kError, kReplace, kSkip };

  SplitConfig split;
  Duplicates duplicates = Duplicates::kDrop;
  Utf8 utf8 = Utf8::kError;
  std::int64_t min_tokens = 0;
  std::int64_t shard_tokens = 1 << 26;
  std::optional<std::int64_t> workers;
  bool check_roundtrip = false;
  void describe(support::FieldVisitor& v);
};

/// Reads inputs `raw` and, where the config says so, `tokenizer`; writes output `data`. The result does not depend on
/// `workers`.
void tokenize(const TokenizeConfig& config, artifact::Workspace& workspace);

}  // namespace pe::data
