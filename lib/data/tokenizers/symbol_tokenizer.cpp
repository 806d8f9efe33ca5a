#include "data/tokenizers/symbol_tokenizer.h"

#include <sstream>
#include <unordered_map>

#include "support/hash.h"
#include "support/parse_json.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::data {

using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

const std::vector<std::string>& shared_names() {
  static const std::vector<std::string> names = {"<pad>", "<bos>", "<eos>", "<sep>"};
  return names;
}

class SymbolTokenizer final : public Tokenizer {
 public:
  using Tokenizer::encode;

  explicit SymbolTokenizer(const Json& model) : model_(model), names_(shared_names()) {
    for (const Json& name : model.at("symbols")) names_.push_back(name.get<std::string>());
    for (std::size_t i = 0; i < names_.size(); ++i) ids_.emplace(names_[i], static_cast<std::int32_t>(i));
  }
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    ids.clear();
    std::istringstream in{std::string(text)};
    for (std::string word; in >> word;) {
      const auto found = ids_.find(word);
      if (found == ids_.end()) {
        throw support::ConfigError(
            cat("the tokenizer of task ", quote(display()), " has no symbol ", quote(word)), {},
            cat("models of a task read its symbols, not text; ", support::suggestion(word, names_)));
      }
      ids.push_back(found->second);
    }
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) text += (text.empty() ? "" : " ") + names_.at(static_cast<std::size_t>(id));
    return text;
  }
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(names_.size()); }
  std::int64_t bos_id() const override { return kTaskBos; }
  std::int64_t eos_id() const override { return kTaskEos; }
  std::int64_t pad_id() const override { return kTaskPad; }
  std::int64_t unk_id() const override { return -1; }
  std::string piece(std::int64_t id) const override { return names_.at(static_cast<std::size_t>(id)); }
  bool is_text(std::int64_t id) const override { return id >= kFirstSymbol && id < vocabulary(); }
  artifact::TokenizerRecord record() const override {
    artifact::TokenizerRecord record;
    record.kind = kSymbolTokenizer;
    record.model = model_.dump();
    record.vocabulary = vocabulary();
    record.bos_id = bos_id();
    record.eos_id = eos_id();
    record.pad_id = pad_id();
    record.token_bytes.assign(names_.size(), 0);  // symbols have no text
    record.content_hash = support::sha256_hex(record.model);
    record.library = "symbols 1";
    return record;
  }

 private:
  std::string display() const { return support::display(model_.at("task")); }
  Json model_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

}  // namespace

artifact::TokenizerRecord symbol_tokenizer_record(const Json& task) {
  const ChosenTask chosen = choose_task(task);
  return SymbolTokenizer({{"task", task}, {"symbols", chosen.task->symbols()}}).record();
}

std::unique_ptr<Tokenizer> make_symbol_tokenizer(const std::string& model, const std::string& where) {
  const Json json = support::parse_json(model);
  if (!json.is_object() || !json.contains("task") || !json.contains("symbols") || !json["symbols"].is_array()) {
    throw ArtifactError(cat(quote(where), ": the tokenizer of a task holds no list of symbols"), "the file is corrupt");
  }
  for (const Json& name : json["symbols"]) {
    if (!name.is_string())
      throw ArtifactError(cat(quote(where), ": a symbol is not a string: ", name.dump()), "the file is corrupt");
  }
  return std::make_unique<SymbolTokenizer>(json);
}

Json task_of_tokenizer(const artifact::TokenizerRecord& record, const std::string& where) {
  make_symbol_tokenizer(record.model, where);  // its checks
  return support::require_json(record.model).at("task");
}

}  // namespace pe::data
