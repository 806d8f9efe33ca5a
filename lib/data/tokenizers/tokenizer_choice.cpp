#include "data/tokenizers/tokenizer_choice.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "data/tokenizers/byte_level_bpe.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "data/tokenizers/tokenizer_training.h"
#include "support/child_work.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/text.h"

namespace pe::data {

using support::cat;
using support::with_commas;

void TokenizerConfig::Bpe::describe(support::FieldVisitor& v) {
  v.field("character_coverage", character_coverage,
          "Share of the text's characters that get a piece; the rest become bytes.", {.min = 0.98, .max = 1.0});
  v.field("split_digits", split_digits, "Make every digit a separate piece.");
  v.field("dummy_prefix", dummy_prefix, "Put a space before each document, so its first word is like any other.");
  v.field("train_bytes", train_bytes, "Text that the training sees: documents of the train split, drawn by their hash.",
          {.unit = "bytes", .min = 1000, .max = 2e9});
}

void TokenizerConfig::describe_fields(support::FieldVisitor& v, bool with_input) {
  if (with_input) {
    v.choice("tokenizer", tokenizer,
             {{"bpe", Tokenizer::kBpe},
              {"bytes", Tokenizer::kBytes},
              {"file", Tokenizer::kFile},
              {"gpt2", Tokenizer::kGpt2},
              {"input", Tokenizer::kInput}},
             "bpe trains a sentencepiece model on the text, and bytes needs no model. The choice file reads a "
             "sentencepiece model (BPE or unigram), and gpt2 reads vocab.json and merges.txt. The choice input uses "
             "the tokenizer of input 'tokenizer'.");
  } else {
    v.choice("tokenizer", tokenizer,
             {{"bpe", Tokenizer::kBpe},
              {"bytes", Tokenizer::kBytes},
              {"file", Tokenizer::kFile},
              {"gpt2", Tokenizer::kGpt2}},
             "bpe trains a sentencepiece model on the text, and bytes needs no model. The choice file reads a "
             "sentencepiece model (BPE or unigram), and gpt2 reads vocab.json and merges.txt.");
  }
  v.field("vocabulary", vocabulary, "Pieces of a trained model, the 256 bytes and 3 control pieces among them.",
          {.unit = "tokens", .min = 300, .max = 1 << 20});
  v.path("tokenizer_model", model, "A sentencepiece model, for tokenizer: file; a vocab.json, for gpt2.");
  v.path("tokenizer_merges", merges, "A merges.txt, for tokenizer: gpt2.");
  v.group("bpe", bpe, "How a BPE model is trained.");
  v.check(tokenizer != Tokenizer::kFile || !model.empty(), "tokenizer: file needs tokenizer_model");
  v.check(tokenizer != Tokenizer::kGpt2 || (!model.empty() && !merges.empty()),
          "tokenizer: gpt2 needs tokenizer_model and tokenizer_merges");
  v.check(tokenizer == Tokenizer::kFile || tokenizer == Tokenizer::kGpt2 || model.empty(),
          "tokenizer_model belongs to tokenizer: file or gpt2");
  v.check(tokenizer == Tokenizer::kGpt2 || merges.empty(), "tokenizer_merges belongs to tokenizer: gpt2");
}

void warn_of_normaliser(const Tokenizer& tokenizer, support::Progress& progress) {
  const artifact::TokenizerRecord record = tokenizer.record();
  if (record.kind != "sentencepiece") return;
  const ParsedModel model = parse_model(record.model, "the tokenizer");
  if (model.charsmap_bytes == 0 && !model.remove_extra_whitespaces) return;
  progress.warn(cat("the model normalises text (",
                    model.normalizer_name.empty() ? "unnamed rules" : support::escaped(model.normalizer_name, 60),
                    model.remove_extra_whitespaces ? ", and joins white space" : "",
                    "): it does not come back byte for byte, and bits per byte count the changed text"));
}

std::int64_t training_memory(std::int64_t text_bytes) {
  // 49, 87, 133 and 255 MiB for 2, 5, 10 and 20 MB of web pages and books: the growth slows down, and this stays above
  // it.
  return (32LL << 20) + 12 * text_bytes;
}

void tell_training_memory(std::int64_t text_bytes, std::int64_t available, support::Progress& progress) {
  const auto bytes = [](std::int64_t value) { return support::short_bytes(static_cast<double>(value)); };
  const std::int64_t memory = training_memory(text_bytes);
  progress.note(
      cat("training a tokenizer on ", bytes(text_bytes), " of text takes about ", bytes(memory), " of memory"));
  if (available > 0 && memory > available) {
    progress.warn(cat("training the tokenizer needs about ", bytes(memory), " of memory, ", bytes(available),
                      " are available; a lower bpe.train_bytes needs less"));
  }
}

namespace {

/// Bytes available without swapping; 0 when the system does not say.
std::int64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("MemAvailable:")) continue;
    const std::string_view number = support::trim(std::string_view(line).substr(13));
    return support::parse_integer(number.substr(0, number.find(' '))).value_or(0) * 1024;
  }
  return 0;
}

std::string train_model(const TokenizerConfig& config, const SplitRule& rule, artifact::RawTextReader& reader,
                        support::Progress& progress) {
  // Drawn by hash as the split is, so that neither order nor a further file changes who is in the sample.
  const double of_text = std::max(1.0, static_cast<double>(reader.bytes()) * std::max(rule.train_share(), 1e-9));
  const double share = std::min(1.0, static_cast<double>(config.bpe.train_bytes) / of_text);
  const auto expected = static_cast<std::int64_t>(share * of_text);
  tell_training_memory(expected, available_memory(), progress);
  struct SampleSize {
    std::uint64_t documents = 0, bytes = 0;
  } taken;
  const double started = support::steady_s();
  const auto next = [&](std::string& text) {
    artifact::RawTextReader::Document document;
    while (reader.next(document)) {
      if (document.text.empty() || support::find_invalid_utf8(document.text) != std::string_view::npos) continue;
      const TextHash hash = hash_of(document.text);
      if (rule.of(hash, document.source) != artifact::Split::kTrain || fraction(hash, 8) >= share) continue;
      text = document.text;
      ++taken.documents;
      taken.bytes += text.size();
      return true;
    }
    return false;
  };
  // The library trains in one call, for minutes.
  const std::string answer = support::in_child(
      "training the tokenizer", "the system may have been short of memory: a lower bpe.train_bytes needs less", [&] {
        const std::string model = train_bpe(
            {config.vocabulary, config.bpe.character_coverage, config.bpe.split_digits, config.bpe.dummy_prefix}, next);
        rule.require_all_matched();  // a misspelt pattern would train on the text of a test
        return std::string(reinterpret_cast<const char*>(&taken), sizeof taken) + model;
      });
  std::memcpy(&taken, answer.data(), sizeof taken);
  const double seconds = support::steady_s() - started;
  progress.note(cat("tokenizer: ", with_commas(config.vocabulary), " pieces, trained on ",
                    with_commas(static_cast<std::int64_t>(taken.documents)), " documents (",
                    support::short_bytes(static_cast<double>(taken.bytes)), ") in ", support::short_duration(seconds)));
  return answer.substr(sizeof taken);
}

std::string read_named(const char* field, const std::string& path, std::uint64_t most) {
  if (!support::is_there(path))
    throw support::ConfigError(cat(field, ": ", support::quote(path), ": there is no such file"));
  return support::read_file(path, most);
}

std::unique_ptr<Tokenizer> open_tokenizer(const TokenizerConfig& config, const SplitRule& rule,
                                          artifact::RawTextReader* raw, support::Progress& progress) {
  switch (config.tokenizer) {
    case TokenizerConfig::Tokenizer::kBytes:
      return make_byte_tokenizer();
    case TokenizerConfig::Tokenizer::kFile:
      return make_sentencepiece(read_named("tokenizer_model", config.model, 1ULL << 30), config.model);
    case TokenizerConfig::Tokenizer::kGpt2:
      return make_byte_level(pack_byte_level({read_named("tokenizer_model", config.model, 32 << 20),
                                              read_named("tokenizer_merges", config.merges, 32 << 20)},
                                             config.model),
                             config.model);
    case TokenizerConfig::Tokenizer::kInput:
    case TokenizerConfig::Tokenizer::kBpe:
      break;
  }
  if (raw == nullptr) throw support::ConfigError("tokenizer: bpe needs an input 'raw' to train on");
  return make_sentencepiece(train_model(config, rule, *raw, progress), "the trained model");
}

}  // namespace

std::unique_ptr<Tokenizer> choose_tokenizer(const TokenizerConfig& config, const SplitRule& rule,
                                            artifact::RawTextReader* raw, support::Progress& progress) {
  auto tokenizer = open_tokenizer(config, rule, raw, progress);
  warn_of_normaliser(*tokenizer, progress);
  return tokenizer;
}

}  // namespace pe::data
