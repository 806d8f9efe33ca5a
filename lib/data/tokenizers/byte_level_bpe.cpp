#include "data/tokenizers/byte_level_bpe.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>

#include "data/tokenizers/pair_merges.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/hash.h"
#include "support/json.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::data {

using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr std::size_t kLargestFile = 32u << 20;
constexpr std::int64_t kLargestVocabulary = 1 << 22;
constexpr std::string_view kEndOfText = "<|endoftext|>";

/// GPT-2's pattern: contractions, words, numbers and signs with the space before them, runs of white space without the
/// last one before a word. White space is spelled out (W), so that it is Unicode's White_Space whatever the library
/// takes \s for. The other two patterns are copied from the tokenizers of Llama 3 and Qwen 2.
constexpr char kGpt2Pattern[] = R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^W\p{L}\p{N}]++|[W]+(?![^W])|[W]+)";
constexpr char kLlama3Pattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^W\p{L}\p{N}]+[\r\n]*|[W]*[\r\n]+|[W]+(?![^W])|[W]+)";
constexpr char kQwen2Pattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^W\p{L}\p{N}]+[\r\n]*|[W]*[\r\n]+|[W]+(?![^W])|[W]+)";
constexpr std::string_view kWhiteSpace =
    R"(\x{09}-\x{0d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

class Pattern {
 public:
  explicit Pattern(std::string_view pattern) {
    std::string text;
    for (const char c : pattern) text += c == 'W' ? std::string(kWhiteSpace) : std::string(1, c);
    int error = 0;
    PCRE2_SIZE at = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &at, nullptr);
    if (code_ == nullptr) {
      throw support::Error(support::kExitBug,
                           support::Diagnostic{cat("PCRE2 rejects the pattern of words: error ", error, " at ", at)});
    }
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // slower without, and the same
  }
  const pcre2_code* code() const { return code_; }

 private:
  pcre2_code* code_;
};

const Pattern& pattern(WordRule rule) {
  static const Pattern gpt2(kGpt2Pattern), llama3(kLlama3Pattern), qwen2(kQwen2Pattern);
  return rule == WordRule::kLlama3 ? llama3 : rule == WordRule::kQwen2 ? qwen2 : gpt2;
}

/// Either one digit, or all up to the next one. Digits are Unicode's numbers.
const Pattern& digit_or_rest() {
  static const Pattern instance(R"(\p{N}|\P{N}++)");
  return instance;
}

constexpr std::pair<WordRule, std::string_view> kWordRules[] = {{WordRule::kGpt2, "gpt2"},
                                                                {WordRule::kDigits, "digits"},
                                                                {WordRule::kLlama3, "llama3"},
                                                                {WordRule::kQwen2, "qwen2"}};

/// The bytes that a piece of letters stands for; nothing when a letter stands for none.
std::optional<std::string> bytes_of(std::string_view piece) {
  static const std::unordered_map<std::string, char> table = [] {
    std::unordered_map<std::string, char> map;
    for (int byte = 0; byte < 256; ++byte) map.emplace(letter_of_byte(byte), static_cast<char>(byte));
    return map;
  }();
  std::string bytes;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t length = static_cast<unsigned char>(piece[at]) < 0x80 ? 1 : 2;
    const auto found = table.find(std::string(piece.substr(at, length)));
    if (found == table.end()) return std::nullopt;
    bytes += found->second;
    at += length;
  }
  return bytes;
}

class ByteLevel final : public ByteLevelTokenizer {
 public:
  ByteLevel(std::string model, const std::string& where) : where_(where) {
    const ByteLevelFiles files = unpack_byte_level(model, where);
    rule_ = files.words;
    read_vocab(files.vocab);
    read_merges(files.merges);
    const std::vector<bool> cut = read_cut_pieces(files);
    if (files.whole_words) read_whole_words(files, cut);
    fill_record(files);
    record_.model = std::move(model);
  }

  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    ids.clear();
    Words words(text, rule_, cuts_);
    for (std::string_view word; words.next(word);) encode_word(word, ids);
  }
  WordRule rule() const override { return rule_; }
  const PieceCuts& cuts() const override { return cuts_; }

  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const override {
    if (word.size() > kLongestWord) fail(cat("a word of ", word.size(), " bytes is longer than 4 GiB"));
    if (const auto found = whole_words_.find(std::string(word)); found != whole_words_.end()) {
      ids.push_back(found->second);
      return;
    }
    const std::size_t first = ids.size();
    for (const char byte : word) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    ids.resize(first + merges_.merge(std::span(ids).subspan(first)));
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= record_.vocabulary) {
        throw ArtifactError(cat(quote(where_), ": id ", id, " is outside the vocabulary of ", record_.vocabulary));
      }
      text += bytes_[static_cast<std::size_t>(id)];
    }
    return text;
  }

  std::int64_t vocabulary() const override { return record_.vocabulary; }
  std::int64_t bos_id() const override { return record_.bos_id; }
  std::int64_t eos_id() const override { return record_.eos_id; }
  std::int64_t pad_id() const override { return -1; }
  std::int64_t unk_id() const override { return -1; }
  std::string piece(std::int64_t id) const override { return pieces_.at(static_cast<std::size_t>(id)); }
  bool is_text(std::int64_t id) const override {
    const std::string& bytes = bytes_.at(static_cast<std::size_t>(id));
    return !bytes.empty() && support::find_invalid_utf8(bytes) == std::string::npos;
  }
  artifact::TokenizerRecord record() const override { return record_; }

 private:
  static constexpr std::size_t kLongestWord = std::numeric_limits<std::uint32_t>::max();

  [[noreturn]] void fail(const std::string& what) const { throw ArtifactError(cat(quote(where_), ": ", what)); }

  void read_vocab(const std::string& text) {
    Json vocab;
    try {
      vocab = support::require_json(text, {.depth = 1});  // no value is nested
    } catch (const Json::exception& error) {
      fail(cat("vocab.json: expected one object of pieces and ids: ", support::escaped(error.what(), 200)));
    }
    if (!vocab.is_object() || vocab.empty()) fail("vocab.json: expected an object of pieces and ids");
    const auto size = static_cast<std::int64_t>(vocab.size());
    if (size > kLargestVocabulary) fail(cat("vocab.json: ", size, " pieces are more than ", kLargestVocabulary));
    pieces_.resize(static_cast<std::size_t>(size));
    std::vector<bool> taken(pieces_.size());
    for (const auto& [piece, value] : vocab.items()) {
      if (!value.is_number_integer())
        fail(cat("vocab.json: piece ", support::escaped(piece, 60), ": expected an id, found ", value.type_name()));
      const std::int64_t id = value.get<std::int64_t>();
      if (id < 0 || id >= size)
        fail(cat("vocab.json: piece ", support::escaped(piece, 60), ": id ", id, " does not fit ", size,
                 " pieces without holes"));
      if (taken[static_cast<std::size_t>(id)]) fail(cat("vocab.json: id ", id, " occurs twice"));
      taken[static_cast<std::size_t>(id)] = true;
      pieces_[static_cast<std::size_t>(id)] = piece;
      ids_.emplace(piece, static_cast<std::int32_t>(id));
    }
    bytes_.resize(pieces_.size());
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const auto found = ids_.find(letter_of_byte(static_cast<int>(byte)));
      if (found == ids_.end())
        fail(cat("vocab.json: byte ", byte, " has no piece, so not every text could be encoded"));
      byte_ids_[byte] = found->second;
      bytes_[static_cast<std::size_t>(found->second)] = std::string(1, static_cast<char>(byte));
    }
  }

  void read_merges(const std::string& text) {
    merges_.reserve(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
    std::uint32_t rank = 0;
    int number = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      std::string_view line(text.data() + at, end - at);
      at = end + 1;
      ++number;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
      const std::size_t space = line.find(' ');
      const auto bad = [&](const std::string& what) {
        fail(cat("merges.txt:", number, ": ", what, ": ", support::escaped(line, 80)));
      };
      if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
          line.find(' ', space + 1) != std::string_view::npos) {
        bad("expected two pieces with a space between them");
      }
      const std::string left(line.substr(0, space)), right(line.substr(space + 1));
      const auto a = ids_.find(left), b = ids_.find(right), joined = ids_.find(left + right);
      if (a == ids_.end() || b == ids_.end() || joined == ids_.end()) bad("vocab.json lacks a piece of this merge");
      const auto bytes = bytes_of(left + right);
      if (!bytes) bad("a letter has no byte");
      bytes_[static_cast<std::size_t>(joined->second)] = *bytes;
      if (!merges_.add(a->second, b->second, rank++, joined->second)) bad("the pair occurs twice");
      pairs_.emplace_back(a->second, b->second);
    }
  }

  /// A piece that is cut out of the text becomes a word, whole. @return by id: is it such a piece?
  std::vector<bool> read_cut_pieces(const ByteLevelFiles& files) {
    std::vector<bool> cut(pieces_.size());
    for (const std::vector<std::string>& list : files.cut_first) {
      for (const std::string& piece : list) {
        const auto found = ids_.find(piece);
        if (piece.empty() || found == ids_.end())
          fail(cat("the vocabulary has no piece ", support::escaped(piece, 60), " to cut out of text"));
        std::string& bytes = bytes_[static_cast<std::size_t>(found->second)];
        if (!bytes.empty() && bytes != piece)
          fail(cat("piece ", support::escaped(piece, 60), " is cut out of text, and merges give it for other bytes"));
        bytes = piece;
        whole_words_.emplace(piece, found->second);
        cut[static_cast<std::size_t>(found->second)] = true;
      }
    }
    cuts_ = PieceCuts(files.cut_first);
    return cut;
  }

  /// Every piece of letters for bytes, except control tokens, is text, with or without merges.
  void read_whole_words(const ByteLevelFiles& files, const std::vector<bool>& cut) {
    for (std::size_t id = 0; id < pieces_.size(); ++id) {
      if (cut[id]) continue;
      const std::string& piece = pieces_[id];
      if (piece == files.bos || piece == files.eos || (piece.starts_with("<|") && piece.ends_with("|>"))) continue;
      const auto bytes = bytes_of(piece);
      if (!bytes || bytes->empty()) continue;
      bytes_[id] = *bytes;
      whole_words_.emplace(*bytes, static_cast<std::int32_t>(id));
    }
  }

  std::int64_t control_id(const std::string& piece) const {
    if (piece.empty()) return -1;
    const auto found = ids_.find(piece);
    if (found == ids_.end()) fail(cat("the vocabulary has no piece ", support::escaped(piece, 60)));
    return found->second;
  }

  void fill_record(const ByteLevelFiles& files) {
    record_.kind = kByteLevelBpe;
    record_.vocabulary = static_cast<std::int64_t>(pieces_.size());
    if (!files.bos.empty() || !files.eos.empty()) {
      record_.bos_id = control_id(files.bos);
      record_.eos_id = control_id(files.eos);
    } else if (const auto found = ids_.find(std::string(kEndOfText));
               found != ids_.end() && bytes_[static_cast<std::size_t>(found->second)].empty()) {
      // No text produces a piece that is no byte and comes of no merge.
      record_.bos_id = record_.eos_id = found->second;
    }
    record_.bos_before_documents = record_.bos_id >= 0;
    for (const std::string& bytes : bytes_) {
      record_.token_bytes.push_back(
          static_cast<std::uint16_t>(std::min<std::size_t>(bytes.size(), std::numeric_limits<std::uint16_t>::max())));
    }
    char version[64] = {};
    pcre2_config(PCRE2_CONFIG_VERSION, version);
    record_.library = cat("PCRE2 ", std::string_view(version).substr(0, std::string_view(version).find(' ')));
    support::Sha256 hash;
    const auto number = [&](std::uint64_t value) {
      std::uint8_t bytes[8];
      for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(value >> (8 * i));
      hash.update(bytes, sizeof bytes);
    };
    hash.update("byte-level BPE, GPT-2's words");
    if (rule_ != WordRule::kGpt2) hash.update(cat(", then ", word_rule_name(rule_)));
    if (files.whole_words) hash.update(", words that are pieces whole");
    number(pieces_.size());
    for (const std::string& piece : pieces_) {
      number(piece.size());
      hash.update(piece);
    }
    number(pairs_.size());
    for (const auto& [left, right] : pairs_) {
      number(static_cast<std::uint64_t>(left));
      number(static_cast<std::uint64_t>(right));
    }
    if (!files.cut_first.empty()) hash.update("pieces cut out of text first");
    for (const std::vector<std::string>& list : files.cut_first) {
      number(list.size());
      for (const std::string& piece : list) number(static_cast<std::uint64_t>(ids_.at(piece)));
    }
    record_.content_hash = hash.hex();
    std::vector<std::pair<std::int32_t, std::int32_t>>().swap(pairs_);
  }

  std::string where_;
  WordRule rule_ = WordRule::kGpt2;
  PieceCuts cuts_;
  std::unordered_map<std::string, std::int32_t> whole_words_;  // by their bytes; pieces that are cut out too
  std::vector<std::string> pieces_, bytes_;                    // by id; bytes are empty for ids without a text
  std::unordered_map<std::string, std::int32_t> ids_;
  std::array<std::int32_t, 256> byte_ids_{};
  PairMerges merges_;
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs_;
  artifact::TokenizerRecord record_;
};

}  // namespace

struct ByteLevelTokenizer::Words::State {
  PieceCuts::Reader parts;
  std::string_view text;  // of the part before the next one
  WordRule rule = WordRule::kGpt2;
  std::size_t at = 0, valid_end = 0;  // text[at, valid_end) is UTF-8
  std::size_t part_end = 0;           // where a rule cuts before words are looked for; else valid_end
  pcre2_match_data* match = nullptr;

  void begin(std::string_view part) {
    text = part;
    at = part_end = 0;
    valid_end = std::min(support::find_invalid_utf8(text), text.size());
  }

  /// The end of the match at `at`, before `end`.
  std::size_t match_end(const Pattern& of, std::size_t end) const {
    const int status =
        pcre2_match(of.code(), reinterpret_cast<PCRE2_SPTR>(text.data()), end, at, PCRE2_NO_UTF_CHECK, match, nullptr);
    if (status < 0) {
      throw ArtifactError(cat("the pattern of words fails at byte ", at, " of a document: PCRE2 error ", status));
    }
    return pcre2_get_ovector_pointer(match)[1];
  }
};

ByteLevelTokenizer::Words::Words(std::string_view text, WordRule rule, const PieceCuts& cuts)
    : state_(std::make_unique<State>(State{.parts = {cuts, text}})) {
  state_->rule = rule;
  state_->match = pcre2_match_data_create(1, nullptr);
  if (state_->match == nullptr) throw std::bad_alloc();
}

ByteLevelTokenizer::Words::~Words() { pcre2_match_data_free(state_->match); }

bool ByteLevelTokenizer::Words::next(std::string_view& word) {
  State& s = *state_;
  if (s.at == s.text.size()) {
    PieceCuts::Part part;
    if (!s.parts.next(part)) return false;
    if (part.is_piece) {
      word = part.text;
      return true;
    }
    s.begin(part.text);
  }
  if (s.at == s.valid_end) {  // a byte that is not UTF-8
    word = s.text.substr(s.at++, 1);
    const std::size_t bad = support::find_invalid_utf8(s.text.substr(s.at));
    s.valid_end = bad == std::string_view::npos ? s.text.size() : s.at + bad;
    return true;
  }
  if (s.rule != WordRule::kDigits) {
    s.part_end = s.valid_end;
  } else if (s.at >= s.part_end) {
    s.part_end = s.match_end(digit_or_rest(), s.valid_end);
  }
  const std::size_t end = s.match_end(pattern(s.rule), s.part_end);
  word = s.text.substr(s.at, end - s.at);
  s.at = end;
  return true;
}

std::string letter_of_byte(int byte) {
  static const std::array<std::string, 256> letters = [] {
    std::array<std::string, 256> made;
    unsigned further = 256;  // up to U+0143
    for (unsigned b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      const unsigned code = printable ? b : further++;
      if (code < 0x80) {
        made[b] = {static_cast<char>(code)};
      } else {
        made[b] = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
      }
    }
    return made;
  }();
  return letters.at(static_cast<std::size_t>(byte));
}

std::string_view word_rule_name(WordRule rule) {
  for (const auto& [known, name] : kWordRules) {
    if (known == rule) return name;
  }
  return "";
}

std::string pack_byte_level(const ByteLevelFiles& files, const std::string& where) {
  for (const std::string* text : {&files.vocab, &files.merges}) {
    const std::size_t at = support::find_invalid_utf8(*text);
    if (at != std::string::npos) {
      throw ArtifactError(
          cat(quote(where), ": ", text == &files.vocab ? "vocab.json" : "merges.txt", ": byte ", at, " is not UTF-8"));
    }
  }
  Json packed = {{"merges", files.merges}, {"vocab", files.vocab}};
  if (files.words != WordRule::kGpt2) packed["words"] = word_rule_name(files.words);
  if (files.whole_words) packed["whole_words"] = true;
  if (!files.bos.empty()) packed["bos"] = files.bos;
  if (!files.eos.empty()) packed["eos"] = files.eos;
  if (!files.cut_first.empty()) packed["cut_first"] = files.cut_first;
  return packed.dump();
}

namespace {

CutPieces cut_pieces(const Json& lists, const std::string& where) {
  bool fits = lists.is_array() && !lists.empty() && lists.size() <= 2;
  for (const Json& list : fits ? lists : Json::array()) {
    fits = fits && list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& piece) {
             return piece.is_string() && !piece.get_ref<const std::string&>().empty();
           });
  }
  if (!fits) throw ArtifactError(cat(quote(where), ": cut_first: expected one or two lists of pieces"));
  return lists.get<CutPieces>();
}

}  // namespace

ByteLevelFiles unpack_byte_level(const std::string& model, const std::string& where) {
  if (model.size() > 3 * kLargestFile)
    throw ArtifactError(cat(quote(where), ": vocab.json and merges.txt are larger than 32 MiB"));
  const Json json = support::parse_json(model);
  const auto text = [&](const char* name) {
    if (!json.is_object() || !json.contains(name) || !json[name].is_string()) {
      throw ArtifactError(
          cat(quote(where), ": expected vocab and merges of a byte-level tokenizer, found something else"));
    }
    return json[name].get<std::string>();
  };
  ByteLevelFiles files{.vocab = text("vocab"), .merges = text("merges")};
  if (json.contains("words")) {
    const std::string name = text("words");
    const auto rule =
        std::find_if(std::begin(kWordRules), std::end(kWordRules), [&](const auto& of) { return of.second == name; });
    if (rule == std::end(kWordRules)) {
      throw ArtifactError(cat(quote(where), ": unknown rule of words ", quote(support::escaped(name, 40))));
    }
    files.words = rule->first;
  }
  files.whole_words = json.contains("whole_words") && json["whole_words"] == true;
  if (json.contains("bos")) files.bos = text("bos");
  if (json.contains("eos")) files.eos = text("eos");
  if (json.contains("cut_first")) files.cut_first = cut_pieces(json["cut_first"], where);
  return files;
}

std::unique_ptr<ByteLevelTokenizer> make_byte_level(std::string model, const std::string& where) {
  return std::make_unique<ByteLevel>(std::move(model), where);
}

}  // namespace pe::data
