/// @file
/// The contents of a serialized sentencepiece model, read from its protobuf wire format: the library's own classes for
/// it are not installed in Debian 12. Field numbers follow sentencepiece_model.proto.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pe::data {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  ///< "▁", U+2581: a space in a piece

enum class PieceType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
enum class ModelType { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

struct ModelPiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

struct ParsedModel {
  std::vector<ModelPiece> pieces;
  ModelType model_type = ModelType::kUnigram;
  bool whitespace_as_suffix = false;
  std::string normalizer_name;
  std::string normalizer_spec;     ///< serialized, for the content hash
  std::size_t charsmap_bytes = 0;  ///< 0: text is not changed
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;  ///< a space becomes a space mark
};

/// The model sees the text itself, except space marks and a dummy prefix.
bool takes_text_as_it_is(const ParsedModel& model);

/// @throws ArtifactError that names `where` when the bytes are no such model.
ParsedModel parse_model(std::string_view bytes, const std::string& where);

/// A serialized model with unused pieces of these texts added at its end. No text becomes one of them.
std::string with_unused_pieces(std::string model, const std::vector<std::string>& texts);

/// SHA-256 over (piece, type, score) of every piece and the normaliser: all that decides ids, and no paths.
std::string content_hash(const ParsedModel& model);

}  // namespace pe::data
