/// @file
/// Encodes single words by a sentencepiece BPE model: ids equal the library's, which builds strings, a lattice and
/// a message for each word and so takes ten times as long.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizers/pair_merges.h"
#include "data/tokenizers/sentencepiece_model.h"

namespace pe::data {

class SentencePieceWords {
 public:
  /// Nothing when the model needs more than this does: no BPE, text that is normalised, unused pieces, and the like.
  static std::optional<SentencePieceWords> of(const ParsedModel& model);
  SentencePieceWords(SentencePieceWords&&) = default;
  SentencePieceWords& operator=(SentencePieceWords&&) = default;

  /// Replaces `ids` by the ids of `word` as a separate text, dummy prefix included. False, when the word is not UTF-8:
  /// the library's rule for it is not implemented here.
  bool encode(std::string_view word, std::vector<std::int32_t>& ids) const;

 private:
  SentencePieceWords() = default;
  bool add_pieces(const ParsedModel& model);
  void add_merges(const ParsedModel& model);
  std::int32_t symbol_of(std::string_view character, std::size_t offset) const;
  std::size_t take_user_defined(std::string_view rest) const;  ///< its number, or npos
  void append_unknown(std::string_view character, bool run, std::vector<std::int32_t>& ids) const;

  struct UserPiece {
    std::string text;
    std::int32_t id;
  };

  bool dummy_prefix_ = false;
  bool spells_bytes_ = false;  ///< unknown characters become their bytes
  std::int32_t space_ = -1, unknown_ = -1;
  std::array<std::int32_t, 256> byte_ids_{};
  std::vector<UserPiece> user_defined_;          ///< taken before anything else, the longest first
  std::array<bool, 256> begins_user_defined_{};  ///< by the first byte
  std::array<std::int32_t, 128> ascii_{};
  std::unordered_map<std::string_view, std::int32_t> characters_;  ///< characters beyond ASCII; keys are in `texts_`
  std::int32_t pieces_ = 0;         ///< symbols from here on are characters that occur only in longer pieces
  std::vector<std::string> texts_;  ///< of symbols
  PairMerges merges_;
};

}  // namespace pe::data
