/// @file
/// Tokenizers as Hugging Face's files have them (tokenizer.json and those around it), out and in.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/tokenizer_record.h"
#include "data/tokenizers/byte_level_bpe.h"
#include "support/json.h"

namespace pe::interop {

/// The tokenizer as tokenizer.json. Texts have the same ids there, but a text that spells a control token ("<s>")
/// becomes that token.
/// @throws ConfigError with the reason where there is no such form. Unigram models, models that normalise text and the
/// symbols of a task have none, nor have pieces given by a user that are longer than a character.
Json tokenizer_json(const artifact::TokenizerRecord& record, const std::string& where);

/// Control tokens by their use: "bos_token", "eos_token", "unk_token", "pad_token", as far as there are any.
std::map<std::string, std::string> control_tokens(const artifact::TokenizerRecord& record, const std::string& where);

/// tokenizer_config.json. `length`: the longest text in tokens that the model is for.
Json tokenizer_config_json(const artifact::TokenizerRecord& record, std::int64_t length, const std::string& where);

/// A token that a tokenizer cuts out of text before its model sees the text. A special one is a control token, which no
/// text gives here.
struct AddedToken {
  std::string content;
  bool special = false;
  bool normalized = true;   ///< cut out after the normalisation, so after the others
  bool takes_more = false;  ///< takes the white space around it, or whole words alone
};
/// @param token  an entry of `added_tokens` or `added_tokens_decoder`
/// @throws ArtifactError when it has no content, or options that are no truths
AddedToken read_added_token(const Json& token, const std::string& where);

/// Facts about a tokenizer that tokenizer.json does not hold.
struct TokenizerHints {
  std::string bos, eos;   ///< pieces; empty: none
  std::int64_t rows = 0;  ///< of the embedding; 0: unknown
  bool unused_rows =
      false;  ///< may the embedding have more rows than there are pieces? They become pieces no text gives
  data::WordRule words = data::WordRule::kGpt2;  ///< how vocab.json's text is cut; tokenizer.json says it itself
  std::map<std::int64_t, AddedToken> added;      ///< by id; vocab.json may lack them
};

/// For users of a tokenizer of Qwen: its normalisation is left out. A line.
inline constexpr std::string_view kNormalisationIsLeftOut =
    "its normalisation NFC is left out: texts that are not in this form get other ids\n";

/// Texts of the pieces that fill the rows beyond the last of `pieces`.
/// @throws ArtifactError if there are fewer rows than pieces, or more and they may not be unused
std::vector<std::string> unused_row_pieces(std::int64_t pieces, const TokenizerHints& hints, const std::string& where);

/// A byte-level BPE tokenizer from tokenizer.json, in the form of `TokenizerRecord::model`
/// (data/tokenizers/byte_level_bpe.h).
/// @param note  gets what a user should know, such as a normalisation that is left out; one sentence a line
/// @throws ArtifactError that names the part which is not understood
std::string byte_level_from_json(std::string_view text, const TokenizerHints& hints, const std::string& where,
                                 std::string& note);

/// The same from vocab.json and merges.txt, with the words and added pieces of `hints`.
std::string byte_level_from_files(std::string_view vocab, std::string_view merges, const TokenizerHints& hints,
                                  const std::string& where);

}  // namespace pe::interop
