/// @file
/// Training a BPE model with sentencepiece, into memory: the same texts in the same order give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace pe::data {

struct BpeOptions {
  std::int64_t vocabulary = 65536;
  double character_coverage = 0.9999;
  bool split_digits = true;
  bool dummy_prefix = true;
};

/// The characters without a space between them that sentencepiece can train on. It numbers them by 16 bits and ends the
/// process from 65,536 on. From 32,768 on it shifts the numbers as a signed integer, so that it reads memory that is
/// not its own.
inline constexpr std::size_t kLongestRun = 32767;

/// Bytes of the longest beginning of a text whose runs without a space have at most kLongestRun characters. It ends
/// behind the last newline of the run that is too long, or behind its last character that fits. Japanese and Chinese
/// have such runs.
std::size_t trainable_bytes(std::string_view text);

/// `next` fills a text and says whether there was one. One thread; byte fallback, unchanged text, the newline is a
/// separate piece; ids 0 unknown, 1 BOS, 2 EOS. All texts are read first. Those with runs that are
/// too long are cut by trainable_bytes.
/// @throws ConfigError when the texts do not yield the vocabulary asked for; says which would be possible.
std::string train_bpe(const BpeOptions& options, const std::function<bool(std::string& text)>& next);

}  // namespace pe::data
