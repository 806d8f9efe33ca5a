#include "data/tokenizers/sentencepiece_words.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <unordered_set>

#include "support/text.h"

namespace pe::data {

namespace {

constexpr std::size_t kLongest = 1U << 30;  // offsets are numbers of symbols

/// Bytes of the first character; the text is UTF-8.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/// The byte of a piece that spells one: "<0x0A>", digits in upper case as the library has them.
std::optional<std::uint8_t> byte_of(std::string_view piece) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
  const std::size_t high = kDigits.find(piece[3]), low = kDigits.find(piece[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
  return static_cast<std::uint8_t>(16 * high + low);
}

/// A character that the model does not have, by its offset in the word.
std::int32_t unknown_symbol(std::size_t offset) { return -2 - static_cast<std::int32_t>(offset); }
std::size_t offset_of(std::int32_t symbol) { return static_cast<std::size_t>(-2 - symbol); }

}  // namespace

std::optional<SentencePieceWords> SentencePieceWords::of(const ParsedModel& model) {
  if (!takes_text_as_it_is(model) || model.model_type != ModelType::kBpe) return std::nullopt;
  SentencePieceWords words;
  words.dummy_prefix_ = model.add_dummy_prefix;
  if (!words.add_pieces(model)) return std::nullopt;
  words.add_merges(model);
  if (words.space_ < 0) return std::nullopt;
  return words;
}

bool SentencePieceWords::add_pieces(const ParsedModel& model) {
  int bytes = 0;
  std::unordered_set<std::string_view> texts;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const ModelPiece& piece = model.pieces[i];
    const auto id = static_cast<std::int32_t>(i);
    if (piece.text.empty() || support::find_invalid_utf8(piece.text) != std::string::npos) return false;
    if (!texts.insert(piece.text).second || piece.text.find(' ') != std::string::npos || !std::isfinite(piece.score))
      return false;
    const bool one_character = character_bytes(piece.text) == piece.text.size();
    switch (piece.type) {
      case PieceType::kNormal:
        break;
      case PieceType::kUserDefined:
        if (piece.text.starts_with(kSpaceMark)) return false;
        user_defined_.push_back({piece.text, id});
        begins_user_defined_[static_cast<unsigned char>(piece.text.front())] = true;
        break;
      case PieceType::kByte: {
        const auto value = byte_of(piece.text);
        if (!value) return false;
        byte_ids_[*value] = id;
        ++bytes;
        break;
      }
      case PieceType::kUnknown:
        if (unknown_ >= 0 || one_character) return false;
        unknown_ = id;
        break;
      case PieceType::kControl:
        if (one_character) return false;  // the library finds it before other pieces
        break;
      default:
        return false;  // unused pieces are taken apart again
    }
  }
  if (unknown_ < 0 || (bytes != 0 && bytes != 256)) return false;
  spells_bytes_ = bytes == 256;
  std::stable_sort(user_defined_.begin(), user_defined_.end(),
                   [](const UserPiece& a, const UserPiece& b) { return a.text.size() > b.text.size(); });
  return true;
}

void SentencePieceWords::add_merges(const ParsedModel& model) {
  pieces_ = static_cast<std::int32_t>(model.pieces.size());
  for (const ModelPiece& piece : model.pieces) texts_.push_back(piece.text);
  std::unordered_map<std::string_view, std::int32_t> normal;  // what pairs are made of
  std::unordered_set<std::string_view> further;               // characters of pieces that are none themselves
  std::vector<float> scores;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    if (model.pieces[i].type != PieceType::kNormal) continue;
    normal.emplace(model.pieces[i].text, static_cast<std::int32_t>(i));
    scores.push_back(model.pieces[i].score);
  }
  for (const auto& [text, id] : normal) {
    for (std::size_t at = 0; at < text.size();) {
      const std::string_view character = text.substr(at, character_bytes(text.substr(at)));
      if (normal.find(character) == normal.end()) further.insert(character);
      at += character.size();
    }
  }
  std::vector<std::string_view> sorted(further.begin(), further.end());
  std::sort(sorted.begin(), sorted.end());
  texts_.insert(texts_.end(), sorted.begin(), sorted.end());
  for (std::size_t i = model.pieces.size(); i < texts_.size(); ++i)
    normal.emplace(texts_[i], static_cast<std::int32_t>(i));

  ascii_.fill(-1);
  for (const auto& [text, symbol] : normal) {
    if (text.size() != character_bytes(text)) continue;
    if (text.size() == 1) {
      ascii_[static_cast<unsigned char>(text.front())] = symbol;
    } else {
      characters_.emplace(texts_[static_cast<std::size_t>(symbol)], symbol);
    }
  }
  if (const auto found = characters_.find(kSpaceMark); found != characters_.end()) space_ = found->second;

  // The best score is rank 0; equal scores have one rank, as the first of them in the text is joined.
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  struct Pair {
    std::int32_t left, right, joined;
    std::uint32_t rank;
  };
  std::vector<Pair> pairs;  // counted before the table is made, which is then no larger than needed
  for (std::int32_t id = 0; id < pieces_; ++id) {
    const ModelPiece& piece = model.pieces[static_cast<std::size_t>(id)];
    if (piece.type != PieceType::kNormal) continue;
    const auto rank = static_cast<std::uint32_t>(
        std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>()) - scores.begin());
    const std::string_view text = piece.text;
    for (std::size_t at = character_bytes(text); at < text.size(); at += character_bytes(text.substr(at))) {
      const auto left = normal.find(text.substr(0, at)), right = normal.find(text.substr(at));
      if (left != normal.end() && right != normal.end()) pairs.push_back({left->second, right->second, id, rank});
    }
  }
  merges_.reserve(pairs.size());
  for (const Pair& pair : pairs) merges_.add(pair.left, pair.right, pair.rank, pair.joined);
}

std::size_t SentencePieceWords::take_user_defined(std::string_view rest) const {
  if (!begins_user_defined_[static_cast<unsigned char>(rest.front())]) return std::string_view::npos;
  const auto found = std::find_if(user_defined_.begin(), user_defined_.end(),
                                  [&](const UserPiece& of) { return rest.starts_with(of.text); });
  return found == user_defined_.end() ? std::string_view::npos
                                      : static_cast<std::size_t>(found - user_defined_.begin());
}

std::int32_t SentencePieceWords::symbol_of(std::string_view character, std::size_t offset) const {
  if (character.size() == 1) {
    if (character.front() == ' ') return space_;
    const std::int32_t symbol = ascii_[static_cast<unsigned char>(character.front())];
    return symbol >= 0 ? symbol : unknown_symbol(offset);
  }
  const auto found = characters_.find(character);
  return found == characters_.end() ? unknown_symbol(offset) : found->second;
}

void SentencePieceWords::append_unknown(std::string_view character, bool run, std::vector<std::int32_t>& ids) const {
  if (!spells_bytes_) {
    if (!run) ids.push_back(unknown_);  // a run of them is one
    return;
  }
  for (const char byte : character) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
}

bool SentencePieceWords::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (word.size() > kLongest || support::find_invalid_utf8(word) != std::string_view::npos) return false;
  ids.clear();
  if (word.empty()) return true;
  if (dummy_prefix_) ids.push_back(space_);
  for (std::size_t at = 0; at < word.size();) {
    const std::string_view rest = word.substr(at);
    if (const std::size_t taken = take_user_defined(rest); taken != std::string_view::npos) {
      ids.push_back(user_defined_[taken].id);
      at += user_defined_[taken].text.size();
      continue;
    }
    const std::string_view character = rest.substr(0, character_bytes(rest));
    ids.push_back(symbol_of(character, at));
    at += character.size();
  }
  const std::size_t count = merges_.merge(ids);
  // Most words are known to the last symbol, which then is its id.
  if (std::all_of(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count),
                  [&](std::int32_t s) { return s >= 0 && s < pieces_; })) {
    ids.resize(count);
    return true;
  }
  const std::vector<std::int32_t> symbols(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
  ids.clear();
  bool unknown = false;
  for (const std::int32_t symbol : symbols) {
    if (symbol >= 0 && symbol < pieces_) {
      ids.push_back(symbol);
      unknown = false;
      continue;
    }
    const std::string_view rest =
        symbol >= 0 ? std::string_view(texts_[static_cast<std::size_t>(symbol)]) : word.substr(offset_of(symbol));
    append_unknown(rest.substr(0, character_bytes(rest)), unknown, ids);
    unknown = true;
  }
  return true;
}

}  // namespace pe::data
