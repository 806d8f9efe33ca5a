/// @file
/// GPT-2's tokenizer: text is cut into words by a pattern, and the bytes of each word are joined by ranked merges. The
/// files are in the published format: vocab.json (piece to id, bytes spelled as letters) and merges.txt (a pair a
/// line, the first one joins first). Later models cut words by other patterns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/piece_cuts.h"
#include "data/tokenizers/tokenizer.h"

namespace pe::data {

inline constexpr std::string_view kByteLevelBpe = "byte-level-bpe";

/// How text is cut into words. kDigits cuts every digit off and then takes GPT-2's pattern (SmolLM). Llama 3 has a
/// pattern with numbers of up to three digits, Qwen 2 one with single digits.
enum class WordRule { kGpt2, kDigits, kLlama3, kQwen2 };
std::string_view word_rule_name(WordRule rule);  ///< "gpt2", "digits", "llama3" or "qwen2"

/// The two files as one text, as in `TokenizerRecord::model`; and apart again.
struct ByteLevelFiles {
  std::string vocab, merges;  ///< unchanged, byte for byte
  WordRule words = WordRule::kGpt2;
  bool whole_words = false;  ///< a word that is a piece gets its id, whatever the merges would give
  std::string bos, eos;      ///< pieces; both empty: `<|endoftext|>` is both, where there is one
  CutPieces cut_first;       ///< cut out before words. Spelled as text; two lists at most.
};
/// The letter that stands for a byte in these files, as UTF-8: printable bytes for themselves, others from U+0100 on.
std::string letter_of_byte(int byte);

/// @throws ArtifactError that names `where` when they are not UTF-8.
std::string pack_byte_level(const ByteLevelFiles& files, const std::string& where);
/// @throws ArtifactError
ByteLevelFiles unpack_byte_level(const std::string& model, const std::string& where);

class ByteLevelTokenizer : public Tokenizer {
 public:
  /// Cuts text into words, in order; a word is at least a byte. Bytes that are not UTF-8 are separate words, and so are
  /// the pieces of `cuts`, which must outlive this. One per thread: it holds the state of the pattern's matcher.
  class Words {
   public:
    Words(std::string_view text, WordRule rule, const PieceCuts& cuts);
    ~Words();
    /// False at the end.
    bool next(std::string_view& word);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };
  virtual WordRule rule() const = 0;
  virtual const PieceCuts& cuts() const = 0;
  /// Appends the ids of one word.
  virtual void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const = 0;
};

/// From `pack_byte_level`. @throws ArtifactError when a byte has no id, ids have holes, a merge gives no piece, or a
/// piece to be cut out has no id.
std::unique_ptr<ByteLevelTokenizer> make_byte_level(std::string model, const std::string& where);

}  // namespace pe::data
