/// @file
/// Which tokenizer a stage uses: one that is trained on the raw text, one from files, bytes, or another stage's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "artifact/raw_text.h"
#include "data/sources/split_rule.h"
#include "data/tokenizers/tokenizer.h"
#include "support/config.h"
#include "support/progress.h"

namespace pe::data {

struct TokenizerConfig {
  enum class Tokenizer { kBpe, kBytes, kFile, kGpt2, kInput };

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
  /// The fields above. `with_input`: `tokenizer: input` is a choice, too.
  void describe_fields(support::FieldVisitor& v, bool with_input);
};

/// Trains or opens the tokenizer of the config, all kinds but `input`. Training reads documents of the train split of
/// `raw` from its present position, and rewinds it; before, it logs the memory that it needs. Warns of models that
/// change the text.
/// @throws ConfigError when there is nothing to train on; ArtifactError when a file is no such model
std::unique_ptr<Tokenizer> choose_tokenizer(const TokenizerConfig& config, const SplitRule& rule,
                                            artifact::RawTextReader* raw, support::Progress& progress);

/// Bits per byte divide by the bytes of the ids; where a model changes the text first, that is not the text's length.
void warn_of_normaliser(const Tokenizer& tokenizer, support::Progress& progress);

/// Bytes of memory that training a BPE model on so much text takes at its peak, from measurements.
std::int64_t training_memory(std::int64_t text_bytes);
/// Logs the amount, and warns when it exceeds the available memory (bytes; 0: unknown).
void tell_training_memory(std::int64_t text_bytes, std::int64_t available, support::Progress& progress);

}  // namespace pe::data
