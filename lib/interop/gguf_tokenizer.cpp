#include "interop/gguf_tokenizer.h"

#include <algorithm>

#include "data/tokenizers/byte_level_bpe.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "data/tokenizers/tokenizer.h"
#include "interop/tokenizer_json.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::interop {

using data::ModelPiece;
using data::PieceType;
using support::cat;
using support::quote;

namespace {

/// llama.cpp numbers the types of tokens as sentencepiece does.
std::int32_t number_of(PieceType type) { return static_cast<std::int32_t>(type); }

[[noreturn]] void no_gguf_form(const std::string& where, const std::string& reason) {
  throw support::ConfigError(cat(quote(where), ": this tokenizer has no form in GGUF: ", reason));
}

/// llama.cpp begins a new word behind a user's piece, sentencepiece does not. A piece of one character that no other
/// piece contains is never merged, so it is a normal piece there.
std::int32_t type_of(const ModelPiece& piece, const data::ParsedModel& model, const std::string& where) {
  if (piece.type == PieceType::kUnused) no_gguf_form(where, cat("piece ", quote(piece.text), " is unused"));
  if (piece.type != PieceType::kUserDefined) return number_of(piece.type);
  const auto characters =
      std::count_if(piece.text.begin(), piece.text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  const auto contain = std::count_if(model.pieces.begin(), model.pieces.end(), [&](const ModelPiece& other) {
    return other.type != PieceType::kControl && other.text.find(piece.text) != std::string::npos;
  });
  if (characters != 1 || contain != 1 || piece.text == data::kSpaceMark || piece.text == " ")
    no_gguf_form(where,
                 cat("the piece of a user ", quote(piece.text), " is no single character, or others contain it"));
  return number_of(PieceType::kNormal);
}

struct Tokens {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
};

Tokens sentencepiece_tokens(const artifact::TokenizerRecord& record, const std::string& where, GgufValues& values) {
  const data::ParsedModel model = data::parse_model(record.model, where);
  if (model.model_type != data::ModelType::kBpe) no_gguf_form(where, "the sentencepiece model is no BPE model");
  if (!takes_text_as_it_is(model)) no_gguf_form(where, "the model normalises text before it cuts it");
  Tokens tokens;
  int bytes = 0;
  for (const ModelPiece& piece : model.pieces) {
    tokens.texts.push_back(piece.text);
    tokens.scores.push_back(piece.score);
    tokens.types.push_back(type_of(piece, model, where));
    bytes += piece.type == PieceType::kByte ? 1 : 0;
  }
  if (bytes != 256) no_gguf_form(where, "the sentencepiece model has no pieces for bytes");
  values["tokenizer.ggml.model"] = "llama";
  values["tokenizer.ggml.pre"] = "default";
  values["tokenizer.ggml.add_space_prefix"] = model.add_dummy_prefix;
  return tokens;
}

std::string word_rule(const artifact::TokenizerRecord& record, const std::string& where) {
  if (record.kind == "bytes") return "gpt-2";  // no merges: words do not matter
  const data::ByteLevelFiles files = data::unpack_byte_level(record.model, where);
  if (files.whole_words != (files.words == data::WordRule::kLlama3))
    no_gguf_form(where, cat("llama.cpp joins words of the rule '", data::word_rule_name(files.words), "' otherwise"));
  switch (files.words) {
    case data::WordRule::kGpt2:
      return "gpt-2";
    case data::WordRule::kDigits:
      return "smollm";
    case data::WordRule::kLlama3:
      return "llama-bpe";
    case data::WordRule::kQwen2:
      return "qwen2";
  }
  return {};
}

/// llama.cpp cuts out the longest piece everywhere, then the next one; here the leftmost one is cut out first. Both do
/// the same unless a piece ends as another one begins that is no shorter.
void check_cuts(const data::CutPieces& lists, const std::string& where) {
  if (lists.size() > 1) no_gguf_form(where, "some pieces are cut out of text before, some after its normalisation");
  for (const std::string& left : lists.at(0)) {
    for (const std::string& right : lists.at(0)) {
      if (right.size() < left.size() || left == right) continue;
      for (std::size_t shared = 1; shared < left.size(); ++shared) {
        if (!left.ends_with(std::string_view(right).substr(0, shared))) continue;
        const std::string both = left + right.substr(shared);
        const bool hidden = std::any_of(lists[0].begin(), lists[0].end(), [&](const std::string& longer) {
          return longer.size() > left.size() && both.starts_with(longer);
        });
        if (!hidden) no_gguf_form(where, cat("pieces ", quote(left), " and ", quote(right), " overlap in text"));
      }
    }
  }
}

/// Pieces that are cut out of text, as llama.cpp does with pieces of a user.
void mark_cut_pieces(const artifact::TokenizerRecord& record, const std::string& where, const Json& vocab,
                     std::vector<std::int32_t>& types) {
  if (record.kind != data::kByteLevelBpe) return;
  const data::ByteLevelFiles files = data::unpack_byte_level(record.model, where);
  if (files.cut_first.empty()) return;
  check_cuts(files.cut_first, where);
  for (const std::string& piece : files.cut_first[0])
    types.at(vocab.at(piece).get<std::size_t>()) = number_of(PieceType::kUserDefined);
}

Tokens byte_level_tokens(const artifact::TokenizerRecord& record, const std::string& where, GgufValues& values) {
  const Json model = tokenizer_json(record, where).at("model");
  Tokens tokens;
  tokens.texts.resize(model.at("vocab").size());
  for (const auto& [text, id] : model.at("vocab").items()) tokens.texts.at(id.get<std::size_t>()) = text;
  tokens.types.assign(tokens.texts.size(), number_of(PieceType::kNormal));
  for (const std::int64_t id : {record.unk_id, record.bos_id, record.eos_id, record.pad_id}) {
    if (id >= 0) tokens.types.at(static_cast<std::size_t>(id)) = number_of(PieceType::kControl);
  }
  mark_cut_pieces(record, where, model.at("vocab"), tokens.types);
  values["tokenizer.ggml.model"] = "gpt2";
  values["tokenizer.ggml.pre"] = word_rule(record, where);
  values["tokenizer.ggml.merges"] = model.at("merges").get<std::vector<std::string>>();
  return tokens;
}

}  // namespace

GgufValues gguf_tokenizer(const artifact::TokenizerRecord& record, std::int64_t rows, const std::string& where) {
  GgufValues values;
  if (record.kind == "symbols") no_gguf_form(where, "its kind is 'symbols'");
  if (record.eos_id < 0) no_gguf_form(where, "it has no end token, and llama.cpp would take another one for it");
  const bool pieces = record.kind == "sentencepiece";
  Tokens tokens = pieces ? sentencepiece_tokens(record, where, values) : byte_level_tokens(record, where, values);
  for (auto id = static_cast<std::int64_t>(tokens.texts.size()); id < rows; ++id) {
    tokens.texts.push_back(cat("<|unused_row_", id, "|>"));
    if (pieces) tokens.scores.push_back(0);
    tokens.types.push_back(number_of(PieceType::kUnused));
  }
  values["tokenizer.ggml.tokens"] = std::move(tokens.texts);
  values["tokenizer.ggml.token_type"] = std::move(tokens.types);
  if (pieces) values["tokenizer.ggml.scores"] = std::move(tokens.scores);
  for (const auto& [name, id] : {std::pair{"bos", record.bos_id},
                                 {"eos", record.eos_id},
                                 {"unknown", record.unk_id},
                                 {"padding", record.pad_id}}) {
    if (id >= 0) values[cat("tokenizer.ggml.", name, "_token_id")] = id;
  }
  values["tokenizer.ggml.add_bos_token"] = record.bos_before_documents;
  values["tokenizer.ggml.add_eos_token"] = false;
  return values;
}

}  // namespace pe::interop
