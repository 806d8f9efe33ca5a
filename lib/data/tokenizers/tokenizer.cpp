#include "data/tokenizers/tokenizer.h"

#include "data/tokenizers/byte_level_bpe.h"
#include "data/tokenizers/symbol_tokenizer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>

#include "data/tokenizers/sentencepiece_library.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "data/tokenizers/sentencepiece_words.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::data {

using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

/// The bytes of text of a piece: the space mark is one space.
std::uint16_t bytes_of_piece(std::string_view piece) {
  std::size_t bytes = piece.size();
  for (std::size_t at = piece.find(kSpaceMark); at != std::string_view::npos;
       at = piece.find(kSpaceMark, at + kSpaceMark.size())) {
    bytes -= kSpaceMark.size() - 1;
  }
  return static_cast<std::uint16_t>(std::min<std::size_t>(bytes, std::numeric_limits<std::uint16_t>::max()));
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string model, const std::string& where)
      : where_(where), parsed_(parse_model(model, where)) {
    std::string problem;
    loaded_ = sentencepiece_library().load(model, problem);
    if (loaded_ == nullptr)
      throw ArtifactError(cat(quote(where), ": sentencepiece does not accept the model: ", problem));
    if (static_cast<std::size_t>(loaded_->size()) != parsed_.pieces.size()) {
      throw ArtifactError(cat(quote(where), ": the model has ", parsed_.pieces.size(), " pieces, sentencepiece sees ",
                              loaded_->size()));
    }
    record_.kind = "sentencepiece";
    record_.vocabulary = loaded_->size();
    record_.bos_id = loaded_->bos_id();
    record_.eos_id = loaded_->eos_id();
    record_.pad_id = loaded_->pad_id();
    record_.unk_id = loaded_->unk_id();
    record_.bos_before_documents = record_.bos_id >= 0;
    record_.dummy_prefix = parsed_.add_dummy_prefix;
    record_.library = "sentencepiece " PE_SENTENCEPIECE_VERSION;
    record_.content_hash = content_hash(parsed_);
    for (const ModelPiece& piece : parsed_.pieces) {
      const bool text = piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined;
      record_.token_bytes.push_back(piece.type == PieceType::kByte ? 1 : text ? bytes_of_piece(piece.text) : 0);
    }
    record_.model = std::move(model);
  }

  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    static_assert(std::is_same_v<int, std::int32_t>);
    const std::string problem = loaded_->encode(text, ids);
    if (!problem.empty()) throw ArtifactError(cat(quote(where_), ": encoding failed: ", problem));
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= record_.vocabulary) {
        throw ArtifactError(cat(quote(where_), ": id ", id, " is outside the vocabulary of ", record_.vocabulary));
      }
    }
    std::string text;
    const std::string problem = loaded_->decode(std::vector<int>(ids.begin(), ids.end()), text);
    if (!problem.empty()) throw ArtifactError(cat(quote(where_), ": decoding failed: ", problem));
    return text;
  }

  std::int64_t vocabulary() const override { return record_.vocabulary; }
  std::int64_t bos_id() const override { return record_.bos_id; }
  std::int64_t eos_id() const override { return record_.eos_id; }
  std::int64_t pad_id() const override { return record_.pad_id; }
  std::int64_t unk_id() const override { return record_.unk_id; }
  std::string piece(std::int64_t id) const override { return parsed_.pieces.at(static_cast<std::size_t>(id)).text; }
  bool is_text(std::int64_t id) const override {
    const PieceType type = parsed_.pieces.at(static_cast<std::size_t>(id)).type;
    return type == PieceType::kNormal || type == PieceType::kUserDefined;
  }
  artifact::TokenizerRecord record() const override { return record_; }
  const ParsedModel& parsed() const { return parsed_; }
  /// Made when first asked for, then shared by all threads; nothing where words need the library.
  const SentencePieceWords* words() const {
    std::call_once(words_made_, [this] { words_ = SentencePieceWords::of(parsed_); });
    return words_ ? &*words_ : nullptr;
  }

 private:
  std::string where_;
  ParsedModel parsed_;
  std::unique_ptr<sentencepiece_plugin::Model> loaded_;
  artifact::TokenizerRecord record_;
  mutable std::once_flag words_made_;
  mutable std::optional<SentencePieceWords> words_;
};

class ByteTokenizer : public Tokenizer {
 public:
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    ids.resize(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<unsigned char>(text[i]);
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id >= 0 && id < 256) text.push_back(static_cast<char>(id));
    }
    return text;
  }
  std::int64_t vocabulary() const override { return 258; }
  std::int64_t bos_id() const override { return 256; }
  std::int64_t eos_id() const override { return 257; }
  std::int64_t pad_id() const override { return -1; }
  std::int64_t unk_id() const override { return -1; }
  std::string piece(std::int64_t id) const override {
    if (id == 256) return "<s>";
    if (id == 257) return "</s>";
    return fmt::format("<0x{:02X}>", id);
  }
  bool is_text(std::int64_t id) const override { return id >= 0 && id < 256; }
  artifact::TokenizerRecord record() const override {
    artifact::TokenizerRecord record;
    record.kind = "bytes";
    record.vocabulary = vocabulary();
    record.bos_id = bos_id();
    record.eos_id = eos_id();
    record.bos_before_documents = true;
    record.token_bytes.assign(258, 1);
    record.token_bytes[256] = record.token_bytes[257] = 0;
    record.content_hash = support::sha256_hex("bytes, <s> 256, </s> 257");
    record.library = "bytes 1";
    return record;
  }
};

}  // namespace

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  encode(text, ids);
  return ids;
}

std::vector<std::int32_t> Tokenizer::encode_inside(std::string_view text) const {
  const std::vector<std::int32_t> newline = encode("\n");
  std::vector<std::int32_t> ids = encode(cat("\n", text));
  // A model that folds whitespace has no id for the newline; then the text is a separate document.
  if (ids.size() < newline.size() || !std::equal(newline.begin(), newline.end(), ids.begin())) return encode(text);
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(newline.size()));
  return ids;
}

std::unique_ptr<Tokenizer> make_sentencepiece(std::string model, const std::string& where) {
  return std::make_unique<SentencePieceTokenizer>(std::move(model), where);
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> make_tokenizer(const artifact::TokenizerRecord& record, const std::string& where) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (record.kind == "bytes") {
    tokenizer = make_byte_tokenizer();
  } else if (record.kind == "sentencepiece") {
    tokenizer = make_sentencepiece(record.model, where);
  } else if (record.kind == kByteLevelBpe) {
    tokenizer = make_byte_level(record.model, where);
  } else if (record.kind == kSymbolTokenizer) {
    tokenizer = make_symbol_tokenizer(record.model, where);
  } else {
    throw ArtifactError(cat(quote(where), ": unknown kind of tokenizer ", quote(record.kind)));
  }
  if (const std::string found = tokenizer->record().content_hash; found != record.content_hash) {
    throw ArtifactError(
        cat(quote(where), ": expected a tokenizer with content ", record.content_hash, ", found ", found));
  }
  return tokenizer;
}

// ---- the word cache

/// Words to ids in one table with open addressing; keys and ids are in two arenas. When full it stops learning.
struct CachedEncoder::State {
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t key = 0, ids = 0;
    std::uint16_t key_bytes = 0, count = 0;  // key_bytes 0: free
  };
  static constexpr std::size_t kSlots = 1U << 19;
  static constexpr std::size_t kMostWords = 200'000;
  static constexpr std::size_t kLongestWord = 48;

  const Tokenizer& tokenizer;
  const ByteLevelTokenizer* byte_level = nullptr;  // tokenizer with this pattern for words
  const SentencePieceWords* piece_words = nullptr;
  bool sound = false;
  bool mark_is_space = true;  // a space mark in the text itself reads as a space does
  bool dummy_prefix = false;
  std::int32_t space_id = -1;
  std::vector<Slot> slots;
  std::string keys;
  std::vector<std::int32_t> ids;
  std::size_t words = 0;
  std::vector<std::int32_t> scratch;

  explicit State(const Tokenizer& of) : tokenizer(of) {
    byte_level = dynamic_cast<const ByteLevelTokenizer*>(&of);
    if (byte_level != nullptr) {
      sound = true;
      slots.resize(kSlots);
      return;
    }
    const auto* model = dynamic_cast<const SentencePieceTokenizer*>(&of);
    if (model == nullptr) return;
    const ParsedModel& parsed = model->parsed();
    dummy_prefix = parsed.add_dummy_prefix;
    // Only where cutting before spaces cannot change what merges: BPE, unchanged text, no piece across the cut.
    sound = parsed.model_type == ModelType::kBpe && takes_text_as_it_is(parsed);
    for (const ModelPiece& piece : parsed.pieces) {
      std::string_view rest = piece.text;
      if (rest == kSpaceMark) space_id = static_cast<std::int32_t>(&piece - parsed.pieces.data());
      // User-defined pieces match the text before spaces become marks.
      if (piece.type == PieceType::kUserDefined && rest.find(kSpaceMark) != std::string_view::npos)
        mark_is_space = false;
      while (rest.starts_with(kSpaceMark)) rest.remove_prefix(kSpaceMark.size());
      if (rest.find(kSpaceMark) != std::string_view::npos || rest.find(' ') != std::string_view::npos) sound = false;
    }
    sound = sound && space_id >= 0;
    if (!sound) return;
    slots.resize(kSlots);
    piece_words = model->words();
  }

  static std::uint64_t hash_of(std::string_view word) {
    std::uint64_t h = 0x9E3779B97F4A7C15ULL ^ word.size();
    while (word.size() >= 8) {
      std::uint64_t part;
      std::memcpy(&part, word.data(), 8);
      h = (h ^ part) * 0xD6E8FEB86659FD93ULL;
      h ^= h >> 32;
      word.remove_prefix(8);
    }
    std::uint64_t part = 0;
    std::memcpy(&part, word.data(), word.size());
    h = (h ^ part) * 0xD6E8FEB86659FD93ULL;
    return h ^ (h >> 29);
  }

  void encode_word(std::string_view word) {
    if (byte_level != nullptr) {
      scratch.clear();
      byte_level->encode_word(word, scratch);
    } else if (piece_words == nullptr || !piece_words->encode(word, scratch)) {
      tokenizer.encode(word, scratch);
    }
  }

  void append(std::string_view word, std::vector<std::int32_t>& out) {
    if (word.size() > kLongestWord || word.empty()) {
      encode_word(word);
      out.insert(out.end(), scratch.begin(), scratch.end());
      return;
    }
    const std::uint64_t hash = hash_of(word);
    std::size_t at = hash & (kSlots - 1);
    for (; slots[at].key_bytes != 0; at = (at + 1) & (kSlots - 1)) {
      const Slot& slot = slots[at];
      if (slot.hash == hash && slot.key_bytes == word.size() &&
          std::memcmp(keys.data() + slot.key, word.data(), word.size()) == 0) {
        out.insert(out.end(), ids.begin() + slot.ids, ids.begin() + slot.ids + slot.count);
        return;
      }
    }
    encode_word(word);
    out.insert(out.end(), scratch.begin(), scratch.end());
    if (words >= kMostWords) return;
    ++words;
    slots[at] = {hash, static_cast<std::uint32_t>(keys.size()), static_cast<std::uint32_t>(ids.size()),
                 static_cast<std::uint16_t>(word.size()), static_cast<std::uint16_t>(scratch.size())};
    keys.append(word);
    ids.insert(ids.end(), scratch.begin(), scratch.end());
  }
};

namespace {

std::string with_spaces(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t mark = std::min(text.find(kSpaceMark, at), text.size());
    out.append(text.substr(at, mark - at));
    if (mark < text.size()) out += ' ';
    at = mark + kSpaceMark.size();
  }
  return out;
}

}  // namespace

CachedEncoder::CachedEncoder(const Tokenizer& tokenizer) : state_(std::make_unique<State>(tokenizer)) {}
CachedEncoder::~CachedEncoder() = default;
bool CachedEncoder::caches() const { return state_->sound; }

void CachedEncoder::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  if (state_->byte_level != nullptr) {
    ids.clear();
    ByteLevelTokenizer::Words words(text, state_->byte_level->rule(), state_->byte_level->cuts());
    for (std::string_view word; words.next(word);) state_->append(word, ids);
    return;
  }
  const bool marked = state_->sound && text.find(kSpaceMark) != std::string_view::npos;
  if (!state_->sound || (marked && !state_->mark_is_space)) {
    state_->tokenizer.encode(text, ids);
    return;
  }
  std::string spaced;
  if (marked) text = spaced = with_spaces(text);
  ids.clear();
  std::size_t start = 0;
  while (start < text.size()) {
    // A segment is a run of spaces and the text up to the next space.
    std::size_t end = start;
    while (end < text.size() && text[end] == ' ') ++end;
    while (end < text.size() && text[end] != ' ') ++end;
    std::string_view segment = text.substr(start, end - start);
    // The dummy prefix puts back the space that is taken here; at the start it comes on top.
    if (start > 0 && state_->dummy_prefix) segment.remove_prefix(1);
    if (segment.empty()) {
      ids.push_back(state_->space_id);  // a single last space; the prefix alone would be no text
    } else {
      state_->append(segment, ids);
    }
    start = end;
  }
}

}  // namespace pe::data
