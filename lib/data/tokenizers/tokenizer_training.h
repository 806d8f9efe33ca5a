/// @file
/// Training a BPE model with sentencepiece, into memory: the same texts in the same order give the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace pe::data {

struct BpeOptions {
  std::int64_t vocabulary = 65536;
  double character_coverage = 0.9999;
  bool split_digits = true;
  bool dummy_prefix = true;
};

/// `next` fills a text and says whether there was one. One thread; byte fallback, text taken as it is, the newline a
/// piece of its own; ids 0 unknown, 1 BOS, 2 EOS.
/// @throws ConfigError when the texts do not yield the vocabulary asked for; says which would be possible.
std::string train_bpe(const BpeOptions& options, const std::function<bool(std::string& text)>& next);

}  // namespace pe::data
