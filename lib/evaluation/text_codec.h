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

  /// Ids of a text in the middle of a document: encoded after a newline, whose ids are cut off, so that the text has no
  /// dummy space.
  virtual std::vector<std::int32_t> encode_inside(std::string_view text) const = 0;

  /// The separator before each document, if the data has one.
  virtual std::optional<std::int32_t> bos() const = 0;

  /// Pieces with a text: no control pieces, no byte pieces, no unknown, no newline. Ascending.
  virtual std::vector<std::int32_t> ordinary_pieces() const = 0;
};

}  // namespace pe::evaluation
