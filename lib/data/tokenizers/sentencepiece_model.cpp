#include "data/tokenizers/sentencepiece_model.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "support/error.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::data {

namespace {

/// Reads fields of one message; every length is checked against what is left.
class Wire {
 public:
  Wire(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  bool next() {
    if (at_ >= bytes_.size()) return false;
    const std::uint64_t tag = varint();
    field_ = static_cast<int>(tag >> 3);
    switch (tag & 7) {
      case 0:
        value_ = varint();
        break;
      case 1:
        payload_ = take(8);
        break;
      case 2:
        payload_ = take(varint());
        break;
      case 5:
        payload_ = take(4);
        break;
      default:
        fail();
    }
    return true;
  }
  int field() const { return field_; }
  std::uint64_t value() const { return value_; }
  std::string_view payload() const { return payload_; }
  float real() const {
    float value = 0;
    if (payload_.size() != 4) fail();
    std::memcpy(&value, payload_.data(), 4);
    return value;
  }
  [[noreturn]] void fail() const {
    throw support::ArtifactError(
        support::cat(support::quote(where_), ": expected a sentencepiece model, found something else"));
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ >= bytes_.size()) fail();
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    fail();
  }
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail();
    const std::string_view part = bytes_.substr(at_, static_cast<std::size_t>(count));
    at_ += static_cast<std::size_t>(count);
    return part;
  }

  std::string_view bytes_;
  const std::string& where_;
  std::size_t at_ = 0;
  int field_ = 0;
  std::uint64_t value_ = 0;
  std::string_view payload_;
};

/// A table of normalisation: the size of a trie in bytes, the trie (a double array of Darts-clone), and the texts that
/// its leaves name. The library believes it, and has room for 32 prefixes of a text.
class Charsmap {
 public:
  explicit Charsmap(std::string_view table) {
    if (table.size() < 8) return;
    const std::size_t bytes = number(table, 0);
    if (bytes % 4 != 0 || bytes < 4 || bytes >= table.size() - 4) return;
    trie_ = table.substr(4, bytes);
    texts_ = table.size() - 4 - bytes;
    leaves_.assign(bytes / 4, kUnknown);
  }
  bool whole() { return !leaves_.empty() && leaves_below(offset(number(trie_, 0)), 0) <= kMostPrefixes; }

 private:
  static constexpr int kMostPrefixes = 32, kUnknown = -1, kUnderWay = -2, kWrong = kMostPrefixes + 1,
                       kLongestKey = 1000;

  static std::uint32_t number(std::string_view bytes, std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[4 * at + i])) << (8 * i);
    }
    return value;
  }
  static std::size_t offset(std::uint32_t unit) { return std::size_t{unit >> 10} << ((unit & (1U << 9)) >> 6); }

  /// The most leaves that a key meets after the unit whose followers are near `base`.
  int leaves_below(std::size_t base, int depth) {
    if ((base | 255) >= leaves_.size() || depth > kLongestKey || leaves_[base] == kUnderWay) return kWrong;
    if (leaves_[base] != kUnknown) return leaves_[base];
    leaves_[base] = kUnderWay;
    int most = 0;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t unit = number(trie_, base ^ byte);
      if ((unit & 0x800000FF) != byte) continue;
      const std::size_t next = base ^ byte ^ offset(unit);
      const int below = leaves_below(next, depth + 1);
      if (below > kMostPrefixes) return kWrong;
      const bool leaf = (unit >> 8 & 1) != 0;
      if (leaf && (number(trie_, next) & 0x7FFFFFFF) >= texts_) return kWrong;
      most = std::max(most, below + (leaf ? 1 : 0));
    }
    return leaves_[base] = most;
  }

  std::string_view trie_;
  std::size_t texts_ = 0;
  std::vector<int> leaves_;  // by base
};

}  // namespace

ParsedModel parse_model(std::string_view bytes, const std::string& where) {
  ParsedModel model;
  const auto check_charsmap = [&](std::string_view table) {
    if (!table.empty() && !Charsmap(table).whole()) {
      throw support::ArtifactError(
          support::cat(support::quote(where), ": the model's table of normalisation is corrupt"));
    }
  };
  Wire wire(bytes, where);
  while (wire.next()) {
    if (wire.field() == 1) {
      ModelPiece piece;
      Wire inner(wire.payload(), where);
      while (inner.next()) {
        if (inner.field() == 1) piece.text = inner.payload();
        if (inner.field() == 2) piece.score = inner.real();
        if (inner.field() == 3) piece.type = static_cast<PieceType>(inner.value());
      }
      // The library's trie ends the process at one.
      if (piece.text.find('\0') != std::string::npos) {
        throw support::ArtifactError(support::cat(support::quote(where), ": piece ", model.pieces.size(),
                                                  " of the model holds a NUL character"));
      }
      model.pieces.push_back(std::move(piece));
    } else if (wire.field() == 2) {
      Wire inner(wire.payload(), where);
      while (inner.next()) {
        if (inner.field() == 3) model.model_type = static_cast<ModelType>(inner.value());
        if (inner.field() == 24) model.whitespace_as_suffix = inner.value() != 0;
      }
    } else if (wire.field() == 3) {
      model.normalizer_spec = wire.payload();
      Wire inner(wire.payload(), where);
      while (inner.next()) {
        if (inner.field() == 1) model.normalizer_name = inner.payload();
        if (inner.field() == 2) {
          check_charsmap(inner.payload());
          model.charsmap_bytes = inner.payload().size();
        }
        if (inner.field() == 3) model.add_dummy_prefix = inner.value() != 0;
        if (inner.field() == 4) model.remove_extra_whitespaces = inner.value() != 0;
        if (inner.field() == 5) model.escape_whitespaces = inner.value() != 0;
      }
    } else if (wire.field() == 5) {  // what decoding changes
      Wire inner(wire.payload(), where);
      while (inner.next()) {
        if (inner.field() == 2) check_charsmap(inner.payload());
      }
    }
  }
  if (model.pieces.empty()) wire.fail();
  return model;
}

bool takes_text_as_it_is(const ParsedModel& model) {
  return model.charsmap_bytes == 0 && !model.remove_extra_whitespaces && model.escape_whitespaces &&
         !model.whitespace_as_suffix;
}

std::string with_unused_pieces(std::string model, const std::vector<std::string>& texts) {
  // Fields of a message may come in any order, so more pieces are more bytes at the end.
  const auto put = [&](std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) model += static_cast<char>(value | 0x80);
    model += static_cast<char>(value);
  };
  constexpr std::uint64_t kText = 1 << 3 | 2, kType = 3 << 3, kPiece = 1 << 3 | 2;
  for (const std::string& text : texts) {
    std::size_t text_size = 1;
    for (std::size_t left = text.size(); left >= 0x80; left >>= 7) ++text_size;
    put(kPiece);
    put(1 + text_size + text.size() + 2);
    put(kText);
    put(text.size());
    model += text;
    put(kType);
    put(static_cast<std::uint64_t>(PieceType::kUnused));
  }
  return model;
}

std::string content_hash(const ParsedModel& model) {
  support::Sha256 hash;
  const auto number = [&](std::uint64_t value) {
    std::uint8_t bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(value >> (8 * i));
    hash.update(bytes, sizeof bytes);
  };
  number(static_cast<std::uint64_t>(model.model_type));
  number(model.pieces.size());
  for (const ModelPiece& piece : model.pieces) {
    std::uint32_t score = 0;
    std::memcpy(&score, &piece.score, sizeof score);
    number(piece.text.size());
    hash.update(piece.text);
    number(static_cast<std::uint64_t>(piece.type));
    number(score);
  }
  number(model.normalizer_spec.size());
  hash.update(model.normalizer_spec);
  if (model.whitespace_as_suffix) number(1);  // where it is not, digests of earlier versions hold
  return hash.hex();
}

}  // namespace pe::data
