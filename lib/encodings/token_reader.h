/// @file
/// Encodings that count other things than tokens: digits of a number, sentences, columns of a sum. They work with numbers that
/// are read off the tokens, which whoever knows the ids provides.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "encodings/positional_encoding.h"

namespace pe::encodings {

/// From the ids of a document, or of its beginning, to the numbers of each token, its channels side by side.
using TokenNumbers = std::function<std::vector<std::int64_t>(std::span<const std::int64_t> ids)>;

class ReadsTokens {
 public:
  virtual ~ReadsTokens() = default;
  /// What is read: {"reads": "digits"} and others, which data/token_numbers.h lists; null: nothing.
  virtual Json reads() const = 0;
  /// S0, where it maps positions. @param numbers [B,S,channels].
  virtual Tensor positions_by(const Tensor& numbers, int layer, const Span& span) const = 0;

  /// Once, before the first pass over ids.
  void read_with(TokenNumbers numbers) { numbers_ = std::move(numbers); }
  /// @param ids [B,S] int64. @param doc_start Span::doc_start. @return [B,S,channels] int64, on the device of the ids.
  /// @throws ConfigError where nobody said how to read.
  Tensor read(const Tensor& ids, const Tensor& doc_start) const;

 private:
  TokenNumbers numbers_;
};

/// Null where an encoding reads nothing off the tokens.
ReadsTokens* reader_of(PositionalEncoding& encoding);

/// For a pass: before its first layer. @param numbers [B or 1, S, channels] int64.
void give_numbers(State& state, const Tensor& numbers);
/// @throws ConfigError where none were given.
const Tensor& numbers_of(const State& state);

}  // namespace pe::encodings
