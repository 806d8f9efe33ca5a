#include "data/sentencepiece_model.h"

#include <cstring>

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
      case 0: value_ = varint(); break;
      case 1: payload_ = take(8); break;
      case 2: payload_ = take(varint()); break;
      case 5: payload_ = take(4); break;
      default: fail();
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
    throw support::ArtifactError(support::cat(support::quote(where_), ": expected a sentencepiece model, found something else"));
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

}  // namespace

ParsedModel parse_model(std::string_view bytes, const std::string& where) {
  ParsedModel model;
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
        if (inner.field() == 2) model.charsmap_bytes = inner.payload().size();
        if (inner.field() == 3) model.add_dummy_prefix = inner.value() != 0;
        if (inner.field() == 4) model.remove_extra_whitespaces = inner.value() != 0;
        if (inner.field() == 5) model.escape_whitespaces = inner.value() != 0;
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
  return hash.hex();
}

}  // namespace pe::data
