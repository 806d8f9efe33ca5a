/// @file
/// Encodings that count units other than tokens: digits of a number, sentences, columns of a sum. They read numbers
/// that the owner of the token ids computes from them.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "encodings/attention/positional_encoding.h"

namespace pe::encodings {

class ReadsTokens {
 public:
  /// From the ids of a document, or of its beginning, to the numbers of each token, its channels side by side.
  using Numbers = std::function<std::vector<std::int64_t>(std::span<const std::int64_t> ids)>;

  virtual ~ReadsTokens() = default;
  /// Kind of the numbers: {"reads": "digits"} and others, which data/tokenizers/token_numbers.h lists; null: none.
  virtual Json reads() const = 0;
  virtual std::int64_t channels() const { return 1; }  ///< numbers of a token
  /// S0, where it maps positions. @param numbers [B,S,channels].
  virtual Tensor positions_by(const Tensor& numbers, int layer, const Span& span) const {
    return default_positions(span);
  }

  /// Once, before the first pass over ids.
  void read_with(Numbers numbers) { numbers_ = std::move(numbers); }
  const Numbers& reads_with() const { return numbers_; }
  /// @param ids [B,S] int64. @param doc_start Span::doc_start. @return [B,S,channels] int64, on the device of the ids.
  /// @throws ConfigError where no reader was set.
  Tensor read(const Tensor& ids, const Tensor& doc_start) const;

 private:
  Numbers numbers_;
};

/// Null where an encoding reads nothing off the tokens.
ReadsTokens* reader_of(PositionalEncoding& encoding);
/// Another encoding of the same tokens reads them as the first does, if it reads them.
void read_alike(PositionalEncoding& encoding, PositionalEncoding& as);

/// For a pass: before its first layer. @param numbers [B or 1, S, channels or more] int64.
void give_numbers(State& state, const Tensor& numbers);
/// @throws ConfigError where none were given.
const Tensor& numbers_of(const State& state);

/// Numbers that tokens of some text might have, for pictures, costs and golden vectors, which have no text: channels
/// side by side.
std::vector<std::int64_t> example_numbers(const ReadsTokens& reader, std::int64_t tokens);
/// Gives a pass these, where its encoding reads any.
void give_example_numbers(PositionalEncoding& encoding, State& state);
/// Passes of a model read these, whatever the ids.
void read_examples(PositionalEncoding& encoding);

}  // namespace pe::encodings
