/// @file
/// The tokenizer as prompts need it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace pe::evaluation {

class TextCodec {
 public:
  virtual ~TextCodec() = default;

  /// Ids of a text that starts a document, without separators. A tokenizer may put a dummy space before it.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;

  /// The separator before a document, if the data has one.
  virtual std::optional<std::int32_t> bos() const = 0;

  /// Pieces that stand for text of their own: no control pieces, no byte pieces, no unknown, no newline. Sorted.
  virtual std::vector<std::int32_t> ordinary_pieces() const = 0;
};

/// Ids of a text in the middle of a document: it is encoded behind a newline, and what that newline yields is cut off, so
/// no dummy space stands before it.
std::vector<std::int32_t> encode_inside(const TextCodec& codec, std::string_view text);

/// The ids of a newline inside a document, without a dummy space.
std::vector<std::int32_t> newline_ids(const TextCodec& codec);

}  // namespace pe::evaluation
