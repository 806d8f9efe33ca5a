/// @file
/// The held-out documents that a model is tested on, and which of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pe::evaluation {

/// The text of a document as tokens, without separators.
struct Document {
  std::int64_t id = 0;  ///< number in its split
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> bytes;  ///< of text, per token
  std::int64_t history = 0;         ///< tokens in front that belong to the piece before: read, and scored there
};

class DocumentSource {
 public:
  virtual ~DocumentSource() = default;

  virtual std::string split() const = 0;  ///< "test": the column `corpus`
  virtual std::int64_t count() const = 0;
  virtual std::int64_t tokens(std::int64_t id) const = 0;  ///< without separators
  /// 64 bits of a hash of the document, which order documents: the same whichever model reads them.
  virtual std::uint64_t hash(std::int64_t id) const = 0;
  /// Its first `limit` tokens.
  virtual Document read(std::int64_t id, std::int64_t limit) const = 0;
  /// Words, separated by white space, that end with each of its first `limit` tokens; empty where that is unknown.
  virtual std::vector<std::int32_t> words(std::int64_t, std::int64_t) const { return {}; }
};

/// The documents of at least `min_tokens` tokens, ordered by hash (then id), the first `count` of them.
std::vector<std::int64_t> select_documents(const DocumentSource& source, std::int64_t min_tokens, std::int64_t count);

/// How many documents have at least `min_tokens` tokens.
std::int64_t count_documents(const DocumentSource& source, std::int64_t min_tokens);

}  // namespace pe::evaluation
