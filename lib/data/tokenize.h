/// @file
/// `pe-tokenize`: raw text to token shards, with a tokenizer that is trained on it, given, or plain bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "artifact/workspace.h"
#include "data/split_rule.h"
#include "support/config.h"

namespace pe::data {

struct TokenizeConfig {
  enum class Tokenizer { kBpe, kBytes, kFile, kGpt2 };
  enum class Duplicates { kDrop, kKeep };
  enum class Utf8 { kError, kReplace, kSkip };

  struct Bpe {
    double character_coverage = 0.9999;
    bool split_digits = true;
    bool dummy_prefix = true;
    std::int64_t train_bytes = 100 << 20;
    void describe(support::FieldVisitor& v);
  };

  Tokenizer tokenizer = Tokenizer::kBpe;
  std::int64_t vocabulary = 65536;
  std::string model;
  std::string merges;
  Bpe bpe;
  SplitConfig split;
  Duplicates duplicates = Duplicates::kDrop;
  Utf8 utf8 = Utf8::kError;
  std::int64_t min_tokens = 0;
  std::int64_t shard_tokens = 1 << 26;
  std::optional<std::int64_t> workers;
  bool check_roundtrip = false;
  void describe(support::FieldVisitor& v);
};

/// Reads input `raw`, writes output `data`. The result does not depend on `workers`.
void tokenize(const TokenizeConfig& config, artifact::Workspace& workspace);

}  // namespace pe::data
