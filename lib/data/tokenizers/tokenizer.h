/// @file
/// Text to ids and back. Encoding is const and thread-safe, adds no BOS or EOS, and never gives control ids.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/token_shards.h"

namespace pe::data {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Replaces `ids` by the ids of `text`, as a separate document (the dummy prefix, if any, is added).
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The ids that `text` gets inside a running text: encoded behind a newline, which is cut off again, so no dummy
  /// prefix.
  std::vector<std::int32_t> encode_inside(std::string_view text) const;
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  virtual std::int64_t vocabulary() const = 0;
  virtual std::int64_t bos_id() const = 0;  ///< -1 when there is none, as for the others
  virtual std::int64_t eos_id() const = 0;
  virtual std::int64_t pad_id() const = 0;
  virtual std::int64_t unk_id() const = 0;
  /// The piece as the model spells it: "▁the", "<0x0A>".
  virtual std::string piece(std::int64_t id) const = 0;
  /// Whether a piece is text: not control, unknown, unused or a single byte.
  virtual bool is_text(std::int64_t id) const = 0;

  /// All that the artifact stores of it.
  virtual artifact::TokenizerRecord record() const = 0;
};

/// From a serialized sentencepiece model. @throws ArtifactError when it is none; `where` names it in messages.
std::unique_ptr<Tokenizer> make_sentencepiece(std::string model, const std::string& where);
/// Bytes are ids 0 to 255, BOS is 256, EOS 257.
std::unique_ptr<Tokenizer> make_byte_tokenizer();
/// As a token-shards artifact stores it.
std::unique_ptr<Tokenizer> make_tokenizer(const artifact::TokenizerRecord& record, const std::string& where);

/// Encodes faster by remembering words; ids equal the ids of the tokenizer it wraps. One per thread.
/// Sound for BPE models in which no piece holds the space mark behind another character; others are passed through.
class CachedEncoder {
 public:
  explicit CachedEncoder(const Tokenizer& tokenizer);
  ~CachedEncoder();
  void encode(std::string_view text, std::vector<std::int32_t>& ids);
  bool caches() const;  ///< false when the model does not allow it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pe::data
