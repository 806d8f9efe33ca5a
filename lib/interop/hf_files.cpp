#include "interop/hf_files.h"

#include <cstdint>
#include <map>

#include "data/tokenizers/byte_level_bpe.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "interop/tokenizer_json.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::interop {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr std::uint64_t kLargestHfJson = 64u << 20;
constexpr std::uint64_t kLargestTokenizer = 64u << 20;

/// A token as tokenizer_config.json names it: a text, or an object with one.
std::string token_of(const Json& config, const char* name) {
  const auto found = config.is_object() ? config.find(name) : config.end();
  if (!config.is_object() || found == config.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (found->is_object() && found->value("content", Json()).is_string()) return (*found)["content"].get<std::string>();
  return {};
}

Json json_if_there(const fs::path& path) { return support::is_there(path) ? read_hf_json(path) : Json::object(); }

artifact::TokenizerRecord sentencepiece_record(const fs::path& file, std::int64_t rows, bool unused_rows) {
  std::string model = support::read_file(file, kLargestTokenizer);
  const auto tokenizer = data::make_sentencepiece(model, file.string());
  const std::vector<std::string> more =
      unused_row_pieces(tokenizer->vocabulary(), {.rows = rows, .unused_rows = unused_rows}, file.string());
  if (more.empty()) return tokenizer->record();
  return data::make_sentencepiece(data::with_unused_pieces(std::move(model), more), file.string())->record();
}

/// How the text of vocab.json and merges.txt is cut into words.
data::WordRule words_of_files(const fs::path& folder, const Json& config, const std::string& architecture) {
  const Json prefix = config.value("add_prefix_space", Json());
  if (!prefix.is_null() && prefix != false) {
    throw ArtifactError(cat(quote((folder / "tokenizer_config.json").string()), ": add_prefix_space is ",
                            support::escaped(prefix.dump(), 40), "; only false is supported"));
  }
  const auto found = config.find("tokenizer_class");
  const std::string name = found != config.end() && found->is_string() ? found->get<std::string>() : "";
  const std::string tokenizer = name.ends_with("Fast") ? name.substr(0, name.size() - 4) : name;
  if (tokenizer == "GPT2Tokenizer" || (name.empty() && architecture == "gpt2")) return data::WordRule::kGpt2;
  if (tokenizer == "Qwen2Tokenizer" || (name.empty() && architecture.starts_with("qwen")))
    return data::WordRule::kQwen2;
  throw ArtifactError(
      cat(quote(folder.string()), ": vocab.json and merges.txt do not say how text is cut into words, and ",
          name.empty() ? cat("the model is ", quote(architecture))
                       : cat("tokenizer_class is ", support::escaped(name, 60)),
          "; known are GPT2Tokenizer and Qwen2Tokenizer"),
      "save the tokenizer as tokenizer.json: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)");
}

/// Added tokens of tokenizer_config.json by their ids.
std::map<std::int64_t, AddedToken> added_tokens(const fs::path& folder, const Json& config) {
  const std::string where = (folder / "tokenizer_config.json").string();
  std::map<std::int64_t, AddedToken> added;
  const auto found = config.find("added_tokens_decoder");
  if (found == config.end() || !found->is_object()) return added;
  for (const auto& [id, token] : found->items()) {
    const auto number = support::parse_integer(id);
    if (!number || *number < 0 || !token.is_object() || !token.value("content", Json()).is_string())
      throw ArtifactError(
          cat(quote(where), ": added_tokens_decoder: entry ", support::escaped(id, 40), " is no id with a content"));
    added[*number] = read_added_token(token, where);
  }
  return added;
}

}  // namespace

Json read_hf_json(const fs::path& path) {
  if (!support::is_there(path)) throw ArtifactError(cat(quote(path.string()), ": there is no such file"));
  const std::string text = support::read_file(path, kLargestHfJson);
  Json json = support::parse_json(text, support::kForeignJson);
  if (json.is_discarded()) {
    throw ArtifactError(cat(quote(path.string()), ": ", support::json_problem(text, support::kForeignJson)));
  }
  return json;
}

artifact::TokenizerRecord read_hf_tokenizer(const fs::path& folder, const std::string& architecture,
                                            std::int64_t rows, bool unused_rows, std::string& note) {
  const fs::path pieces = folder / "tokenizer.model", json = folder / "tokenizer.json", vocab = folder / "vocab.json",
                 merges = folder / "merges.txt";
  if (support::is_there(pieces)) return sentencepiece_record(pieces, rows, unused_rows);
  const Json config = json_if_there(folder / "tokenizer_config.json"),
             special = json_if_there(folder / "special_tokens_map.json");
  TokenizerHints hints{.rows = rows, .unused_rows = unused_rows};
  hints.bos = token_of(config, "bos_token").empty() ? token_of(special, "bos_token") : token_of(config, "bos_token");
  hints.eos = token_of(config, "eos_token").empty() ? token_of(special, "eos_token") : token_of(config, "eos_token");
  if (support::is_there(json)) {
    const std::string text = support::read_file(json, kLargestTokenizer);
    return data::make_byte_level(byte_level_from_json(text, hints, json.string(), note), json.string())->record();
  }
  if (support::is_there(vocab) && support::is_there(merges)) {
    hints.words = words_of_files(folder, config, architecture);
    hints.added = added_tokens(folder, config);
    if (hints.words == data::WordRule::kQwen2) note += kNormalisationIsLeftOut;
    const std::string packed =
        byte_level_from_files(support::read_file(vocab, kLargestTokenizer),
                              support::read_file(merges, kLargestTokenizer), hints, vocab.string());
    return data::make_byte_level(packed, vocab.string())->record();
  }
  throw ArtifactError(
      cat(quote(folder.string()), ": has no tokenizer.model, no tokenizer.json, and no vocab.json with merges.txt"));
}

}  // namespace pe::interop
