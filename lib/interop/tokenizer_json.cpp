#include "interop/tokenizer_json.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "data/tokenizers/byte_level_bpe.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "data/tokenizers/tokenizer.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::interop {

using data::ByteLevelFiles;
using data::kSpaceMark;
using data::ModelPiece;
using data::PieceType;
using data::WordRule;
using support::ArtifactError;
using support::cat;
using support::ConfigError;
using support::quote;

namespace {

constexpr std::size_t kLargestFile = 64u << 20;

/// The published patterns, as tokenizer.json spells them.
constexpr const char* kLlama3Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

[[noreturn]] void no_form(const std::string& where, const std::string& reason) {
  throw ConfigError(cat(quote(where), ": this tokenizer has no form in tokenizer.json: ", reason));
}

Json added_token(std::int64_t id, const std::string& text) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

/// A text gets BOS in front, as documents of the training had it.
Json with_bos(const std::string& bos, std::int64_t id) {
  const Json token = {{"SpecialToken", {{"id", bos}, {"type_id", 0}}}};
  const auto sequence = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", {token, sequence("A", 0)}},
          {"pair", {token, sequence("A", 0), {{"SpecialToken", {{"id", bos}, {"type_id", 1}}}}, sequence("B", 1)}},
          {"special_tokens", {{bos, {{"id", bos}, {"ids", {id}}, {"tokens", {bos}}}}}}};
}

Json document(const artifact::TokenizerRecord& record, const data::Tokenizer& tokenizer, Json normalizer,
              Json pre_tokenizer, Json decoder, Json model) {
  Json added = Json::array();
  std::vector<std::int64_t> ids{record.unk_id, record.bos_id, record.eos_id, record.pad_id};
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const std::int64_t id : ids) {
    if (id >= 0) added.push_back(added_token(id, tokenizer.piece(id)));
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor",
           record.bos_before_documents ? with_bos(tokenizer.piece(record.bos_id), record.bos_id) : Json()},
          {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

/// Every split of a piece whose halves are pieces, the best piece first: what BPE by scores joins, as ranked merges.
/// Pieces of one score are joined from the left, whichever they are, which no ranks can say.
Json merges_of(const data::ParsedModel& model, const std::string& where) {
  std::unordered_map<std::string_view, std::size_t> normal;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type == PieceType::kNormal) normal.emplace(model.pieces[id].text, id);
  }
  struct Merge {
    float score;
    std::size_t left, right;
  };
  std::vector<Merge> merges;
  for (const auto& [text, id] : normal) {
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if ((static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) continue;  // inside a character
      const auto left = normal.find(text.substr(0, cut)), right = normal.find(text.substr(cut));
      if (left == normal.end() || right == normal.end()) continue;
      merges.push_back({model.pieces[id].score, left->second, right->second});
    }
  }
  std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tuple(-a.score, a.left, a.right) < std::tuple(-b.score, b.left, b.right);
  });
  for (std::size_t i = 1; i < merges.size(); ++i) {
    const std::string first = cat(model.pieces[merges[i - 1].left].text, model.pieces[merges[i - 1].right].text);
    const std::string second = cat(model.pieces[merges[i].left].text, model.pieces[merges[i].right].text);
    if (merges[i].score == merges[i - 1].score && first != second) {
      no_form(where, cat("pieces ", quote(first), " and ", quote(second), " have one score"));
    }
  }
  Json list = Json::array();
  for (const Merge& merge : merges)
    list.push_back(cat(model.pieces[merge.left].text, " ", model.pieces[merge.right].text));
  return list;
}

Json split_at(const std::string& text) {
  return {{"type", "Split"}, {"pattern", {{"String", text}}}, {"behavior", "Isolated"}, {"invert", false}};
}

/// A user's piece is cut out before any merge, which a Split does for it.
Json cuts_of(const data::ParsedModel& model, const std::string& where) {
  Json cuts = Json::array();
  for (const ModelPiece& piece : model.pieces) {
    if (piece.type == PieceType::kUnused) no_form(where, cat("piece ", quote(piece.text), " is unused"));
    if (piece.type != PieceType::kUserDefined) continue;
    std::size_t characters = 0;
    for (const char c : piece.text) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
    if (characters != 1 || piece.text == kSpaceMark || piece.text == " ") {
      no_form(where, cat("the piece of a user ", quote(piece.text), " is no single character"));
    }
    cuts.push_back(split_at(piece.text));
  }
  return cuts;
}

Json sentencepiece_json(const artifact::TokenizerRecord& record, const data::Tokenizer& tokenizer,
                        const std::string& where) {
  const data::ParsedModel model = data::parse_model(record.model, where);
  if (model.model_type != data::ModelType::kBpe) no_form(where, "the sentencepiece model is no BPE model");
  if (!takes_text_as_it_is(model)) no_form(where, "the model normalises text before it cuts it");
  Json normalizers = Json::array();
  if (model.add_dummy_prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}});
  Json vocab = Json::object();
  bool bytes = false;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    vocab[model.pieces[id].text] = id;
    bytes = bytes || model.pieces[id].type == PieceType::kByte;
  }
  Json decoders = {{{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
  if (model.add_dummy_prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  const Json cuts = cuts_of(model, where);
  return document(record, tokenizer, {{"type", "Sequence"}, {"normalizers", normalizers}},
                  cuts.empty() ? Json() : Json{{"type", "Sequence"}, {"pretokenizers", cuts}},
                  {{"type", "Sequence"}, {"decoders", decoders}},
                  {{"type", "BPE"},
                   {"dropout", nullptr},
                   {"unk_token", record.unk_id >= 0 ? Json(tokenizer.piece(record.unk_id)) : Json()},
                   {"continuing_subword_prefix", nullptr},
                   {"end_of_word_suffix", nullptr},
                   {"fuse_unk", true},
                   {"byte_fallback", bytes},
                   {"ignore_merges", false},
                   {"vocab", std::move(vocab)},
                   {"merges", merges_of(model, where)}});
}

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json pre_tokenizer_of(WordRule rule) {
  const auto sequence = [](Json first, bool use_regex) {
    return Json{{"type", "Sequence"}, {"pretokenizers", {std::move(first), byte_level(use_regex)}}};
  };
  const auto split = [](const char* pattern) {
    return Json{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  };
  switch (rule) {
    case WordRule::kGpt2:
      return byte_level(true);
    case WordRule::kDigits:
      return sequence({{"type", "Digits"}, {"individual_digits", true}}, true);
    case WordRule::kLlama3:
      return sequence(split(kLlama3Split), false);
    case WordRule::kQwen2:
      return sequence(split(kQwen2Split), false);
  }
  return {};
}

Json byte_level_model(Json vocab, Json merges, bool whole_words) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", ""},
          {"end_of_word_suffix", ""},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", whole_words},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}};
}

Json byte_level_json(const artifact::TokenizerRecord& record, const data::Tokenizer& tokenizer,
                     const std::string& where) {
  const ByteLevelFiles files = data::unpack_byte_level(record.model, where);
  Json merges = Json::array();
  bool first = true;
  for (const std::string& line : support::split(files.merges, '\n')) {
    const std::string pair = line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
    if (!pair.empty() && !(first && pair.starts_with("#version"))) merges.push_back(pair);
    first = false;
  }
  const Json vocab = support::require_json(files.vocab, {.depth = 1});
  Json added = Json::array();
  for (std::size_t list = 0; list < files.cut_first.size(); ++list) {
    for (const std::string& piece : files.cut_first[list]) {
      Json token = added_token(vocab.at(piece), piece);
      token["special"] = false;
      token["normalized"] = list > 0;  // the package cuts these out after the others
      added.push_back(std::move(token));
    }
  }
  Json made = document(record, tokenizer, nullptr, pre_tokenizer_of(files.words), byte_level(true),
                       byte_level_model(vocab, std::move(merges), files.whole_words));
  made["added_tokens"].insert(made["added_tokens"].end(), added.begin(), added.end());
  return made;
}

Json bytes_json(const artifact::TokenizerRecord& record, const data::Tokenizer& tokenizer) {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[data::letter_of_byte(byte)] = byte;
  for (std::int64_t id = 256; id < record.vocabulary; ++id) vocab[tokenizer.piece(id)] = id;
  return document(record, tokenizer, nullptr, byte_level(false), byte_level(true),
                  byte_level_model(std::move(vocab), Json::array(), false));
}

}  // namespace

Json tokenizer_json(const artifact::TokenizerRecord& record, const std::string& where) {
  const std::unique_ptr<data::Tokenizer> tokenizer = data::make_tokenizer(record, where);
  if (record.kind == "sentencepiece") return sentencepiece_json(record, *tokenizer, where);
  if (record.kind == data::kByteLevelBpe) return byte_level_json(record, *tokenizer, where);
  if (record.kind == "bytes") return bytes_json(record, *tokenizer);
  no_form(where, cat("its kind is '", record.kind, "'"));
}

std::map<std::string, std::string> control_tokens(const artifact::TokenizerRecord& record, const std::string& where) {
  const std::unique_ptr<data::Tokenizer> tokenizer = data::make_tokenizer(record, where);
  std::map<std::string, std::string> tokens;
  for (const auto& [name, id] : {std::pair{"bos_token", record.bos_id},
                                 {"eos_token", record.eos_id},
                                 {"unk_token", record.unk_id},
                                 {"pad_token", record.pad_id}}) {
    if (id >= 0) tokens.emplace(name, tokenizer->piece(id));
  }
  return tokens;
}

Json tokenizer_config_json(const artifact::TokenizerRecord& record, std::int64_t length, const std::string& where) {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"model_max_length", length},
                 {"clean_up_tokenization_spaces", false},
                 {"add_bos_token", record.bos_before_documents},
                 {"model_input_names", {"input_ids", "attention_mask"}}};
  for (const auto& [name, token] : control_tokens(record, where)) config[name] = token;
  return config;
}

// ---- in

namespace {

/// @return whether there were rows to fill
bool fill_rows(Json& vocab, const TokenizerHints& hints, const std::string& where) {
  auto id = static_cast<std::int64_t>(vocab.size());
  const std::vector<std::string> more = unused_row_pieces(id, hints, where);
  for (const std::string& piece : more) vocab[piece] = id++;
  return !more.empty();
}

/// Lists of the pieces that are cut out of text. Control tokens are none: text that spells one stays text.
data::CutPieces cut_pieces(const std::vector<AddedToken>& tokens, const TokenizerHints& hints,
                           const std::string& where) {
  std::vector<std::string> first, then;
  for (const AddedToken& token : tokens) {
    if (token.special || token.content == hints.bos || token.content == hints.eos) continue;
    if (token.takes_more) {
      throw ArtifactError(cat(quote(where), ": added token ", support::escaped(token.content, 60),
                              ": lstrip, rstrip or single_word is true, expected false where special is false"));
    }
    (token.normalized ? then : first).push_back(token.content);
  }
  data::CutPieces lists;
  for (std::vector<std::string>* list : {&first, &then}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
    if (!list->empty()) lists.push_back(std::move(*list));
  }
  return lists;
}

class JsonTokenizer {
 public:
  JsonTokenizer(std::string_view text, const std::string& where, std::string& note) : where_(where), note_(note) {
    const support::JsonBounds bounds{.depth = 16, .values = 1u << 23, .bytes = kLargestFile};
    json_ = support::parse_json(text, bounds);
    if (json_.is_discarded()) fail(support::json_problem(text, bounds));
    if (!json_.is_object() || !part("model").is_object())
      fail("expected a tokenizer with a model, found something else");
  }

  ByteLevelFiles files(const TokenizerHints& hints) {
    const Json& model = part("model");
    const std::string type = text_of(model, "type", "BPE");  // old files leave it out
    if (type != "BPE") fail(cat("expected a model of type BPE, found ", support::escaped(type, 40)));
    if (model.value("byte_fallback", Json()) == true) {
      fail("this is a sentencepiece model", "put its tokenizer.model into the folder");
    }
    if (!model.value("dropout", Json()).is_null()) fail("its merges drop out by chance");
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!text_of(model, name, "").empty()) fail(cat("model.", name, " is not supported"));
    }
    check_normalizer(part("normalizer"));
    ByteLevelFiles files;
    files.words = word_rule(part("pre_tokenizer"));
    files.whole_words = model.value("ignore_merges", Json()) == true;
    files.bos = hints.bos;
    files.eos = hints.eos;
    std::vector<AddedToken> tokens;
    Json vocab = vocabulary(model, tokens);
    // The package brings such a token into its form, too, and finds it in text that has this form.
    for (const AddedToken& token : tokens) {
      const bool is_ascii = std::none_of(token.content.begin(), token.content.end(),
                                         [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
      const bool cut = !token.special && token.content != hints.bos && token.content != hints.eos;
      if (!part("normalizer").is_null() && token.normalized && cut && !is_ascii)
        fail(cat("added token ", support::escaped(token.content, 60), " is normalized, which only ASCII may be here"));
    }
    files.cut_first = cut_pieces(tokens, hints, where_);
    fill_rows(vocab, hints, where_);
    files.vocab = vocab.dump();
    files.merges = merges(model);
    return files;
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const {
    throw ArtifactError(cat(quote(where_), ": ", what), hint);
  }

  const Json& part(const char* name) const {
    static const Json none;
    const auto found = json_.find(name);
    return found == json_.end() ? none : *found;
  }

  std::string text_of(const Json& object, const char* name, const std::string& fallback) const {
    const auto found = object.is_object() ? object.find(name) : object.end();
    if (!object.is_object() || found == object.end() || found->is_null()) return fallback;
    if (!found->is_string()) fail(cat(name, " is no text"));
    return found->get<std::string>();
  }

  void check_normalizer(const Json& normalizer) {
    if (normalizer.is_null()) return;
    const std::string type = text_of(normalizer, "type", "");
    if (type != "NFC") fail(cat("normalizer ", support::escaped(type, 40), " is not supported"));
    note_ += kNormalisationIsLeftOut;
  }

  WordRule word_rule(const Json& pre) const {
    const auto is_byte_level = [&](const Json& step, bool regex) {
      return text_of(step, "type", "") == "ByteLevel" && step.value("add_prefix_space", Json()) == false &&
             step.value("use_regex", Json(true)) == regex;
    };
    if (is_byte_level(pre, true)) return WordRule::kGpt2;
    const Json merges = part("model").value("merges", Json::array());
    if (is_byte_level(pre, false) && merges.is_array() && merges.empty())
      return WordRule::kGpt2;  // bytes: words are one byte
    if (text_of(pre, "type", "") == "Sequence" && pre.contains("pretokenizers") && pre["pretokenizers"].is_array() &&
        pre["pretokenizers"].size() == 2) {
      const Json &first = pre["pretokenizers"][0], &second = pre["pretokenizers"][1];
      const std::string type = text_of(first, "type", "");
      if (type == "Digits" && first.value("individual_digits", Json()) == true && is_byte_level(second, true)) {
        return WordRule::kDigits;
      }
      const bool isolates = type == "Split" && first.value("behavior", Json()) == "Isolated" &&
                            first.value("invert", Json(false)) == false && first.value("pattern", Json()).is_object();
      if (isolates && is_byte_level(second, false)) {
        const std::string pattern = text_of(first["pattern"], "Regex", "");
        if (pattern == kLlama3Split) return WordRule::kLlama3;
        if (pattern == kQwen2Split) return WordRule::kQwen2;
      }
    }
    fail(
        cat("pre_tokenizer ", support::escaped(pre.dump(), 300),
            " is not supported; known are ByteLevel without a prefix space (GPT-2), Digits before it (SmolLM), and the "
            "patterns of Llama 3 and Qwen 2"));
  }

  /// Pieces of the model, and added tokens that it lacks. `tokens` gets the added ones.
  Json vocabulary(const Json& model, std::vector<AddedToken>& tokens) const {
    if (!model.contains("vocab") || !model["vocab"].is_object()) fail("model.vocab is no object");
    Json vocab = model["vocab"];
    const Json& added = part("added_tokens");
    if (!added.is_null() && !added.is_array()) fail("added_tokens is no list");
    for (const Json& token : added) {
      const Json id = token.is_object() ? token.value("id", Json()) : Json();
      if (!id.is_number_integer()) fail("an added token lacks its id");
      tokens.push_back(read_added_token(token, where_));
      const std::string& content = tokens.back().content;
      const auto [known, is_new] = vocab.emplace(content, id);
      if (!is_new && *known != id) {
        fail(cat("added token ", support::escaped(content, 60), " has id ", id.dump(), ", in model.vocab ",
                 known->dump()));
      }
    }
    return vocab;
  }

  std::string merges(const Json& model) const {
    if (!model.contains("merges") || !model["merges"].is_array()) fail("model.merges is no list");
    std::string lines = "#version: 0.2\n";
    for (const Json& merge : model["merges"]) {
      if (merge.is_string()) {
        lines += merge.get_ref<const std::string&>();
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        lines += cat(merge[0].get_ref<const std::string&>(), " ", merge[1].get_ref<const std::string&>());
      } else {
        fail(cat("merge ", support::escaped(merge.dump(), 60), " is no pair of pieces"));
      }
      lines += '\n';
    }
    return lines;
  }

 private:
  const std::string& where_;
  std::string& note_;
  Json json_;
};

}  // namespace

AddedToken read_added_token(const Json& token, const std::string& where) {
  const Json content = token.is_object() ? token.value("content", Json()) : Json();
  if (!content.is_string() || content.get_ref<const std::string&>().empty())
    throw ArtifactError(cat(quote(where), ": an added token lacks its content"));
  AddedToken made{.content = content.get<std::string>()};
  const auto truth = [&](const char* name, bool fallback) {
    const Json value = token.value(name, Json());
    if (!value.is_null() && !value.is_boolean()) {
      throw ArtifactError(cat(quote(where), ": added token ", support::escaped(made.content, 60), ": ", name, " is ",
                              support::escaped(value.dump(), 60), ", expected true or false"));
    }
    return value.is_null() ? fallback : value.get<bool>();
  };
  made.special = truth("special", false);
  made.normalized = truth("normalized", !made.special);
  for (const char* name : {"lstrip", "rstrip", "single_word"}) made.takes_more |= truth(name, false);
  return made;
}

std::vector<std::string> unused_row_pieces(std::int64_t pieces, const TokenizerHints& hints, const std::string& where) {
  std::vector<std::string> texts;
  if (hints.rows == 0 || hints.rows == pieces) return texts;
  if (hints.rows < pieces || !hints.unused_rows) {
    throw ArtifactError(
        cat(quote(where), ": the tokenizer has ", pieces, " pieces, the embedding ", hints.rows, " rows"),
        hints.rows < pieces ? "the tokenizer belongs to another model"
                            : "if the last rows belong to no token, set import.unused_rows: true");
  }
  for (std::int64_t id = pieces; id < hints.rows; ++id) texts.push_back(cat("<|unused_row_", id, "|>"));
  return texts;
}

std::string byte_level_from_json(std::string_view text, const TokenizerHints& hints, const std::string& where,
                                 std::string& note) {
  std::string packed = data::pack_byte_level(JsonTokenizer(text, where, note).files(hints), where);
  data::make_byte_level(packed, where);  // says what else is wrong
  return packed;
}

std::string byte_level_from_files(std::string_view vocab, std::string_view merges, const TokenizerHints& hints,
                                  const std::string& where) {
  Json pieces = support::parse_json(vocab, {.depth = 2, .values = 1u << 23, .bytes = kLargestFile});
  if (!pieces.is_object()) throw ArtifactError(cat(quote(where), ": vocab.json: expected an object of pieces and ids"));
  const std::size_t before = pieces.size();
  std::vector<AddedToken> tokens;
  for (const auto& [id, token] : hints.added) {
    tokens.push_back(token);
    const auto [known, is_new] = pieces.emplace(token.content, id);
    if (!is_new && *known != id) {
      throw ArtifactError(cat(quote(where), ": added token ", support::escaped(token.content, 60), " has id ", id,
                              ", in vocab.json ", known->dump()));
    }
  }
  const bool filled = fill_rows(pieces, hints, where) || pieces.size() > before;
  const bool known =
      (hints.bos.empty() || pieces.contains(hints.bos)) && (hints.eos.empty() || pieces.contains(hints.eos));
  std::string packed = data::pack_byte_level({.vocab = filled ? pieces.dump() : std::string(vocab),
                                              .merges = std::string(merges),
                                              .words = hints.words,
                                              .bos = known ? hints.bos : "",
                                              .eos = known ? hints.eos : "",
                                              .cut_first = cut_pieces(tokens, hints, where)},
                                             where);
  data::make_byte_level(packed, where);
  return packed;
}

}  // namespace pe::interop
