#include "data/tokenizers/tokenizer_training.h"

#include <optional>
#include <unordered_map>

#include "data/tokenizers/sentencepiece_library.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::data {

using support::cat;
using support::ConfigError;

namespace {

/// The number behind the last `mark` of a message.
std::optional<std::int64_t> number_after(std::string_view message, std::string_view mark) {
  const std::size_t at = message.rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = support::trim(message.substr(at + mark.size()));
  return support::parse_integer(rest.substr(0, rest.find_first_not_of("0123456789")));
}

}  // namespace

std::string train_bpe(const BpeOptions& options, const std::function<bool(std::string& text)>& next) {
  const auto yes_no = [](bool value) { return std::string(value ? "true" : "false"); };
  const std::unordered_map<std::string, std::string> settings{
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(options.vocabulary)},
      {"character_coverage", support::shortest(options.character_coverage)},
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", yes_no(options.dummy_prefix)},
      {"split_digits", yes_no(options.split_digits)},
      {"allow_whitespace_only_pieces", "true"},
      {"user_defined_symbols", "\n"},   // else a newline is three bytes of noise
      {"max_sentence_length", "1073741824"},
      {"num_threads", "1"},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"pad_id", "-1"},
      {"minloglevel", "2"},
  };
  std::string model;
  const std::string why = sentencepiece_library().train(settings, next, model);
  if (why.empty()) return model;

  if (why.find("too high") != std::string::npos) {
    const auto possible = number_after(why, "<=");
    throw ConfigError(cat("vocabulary: the texts do not yield ", options.vocabulary, " pieces"), {},
                      possible ? cat("at most ", *possible, " are possible with these texts") : "");
  }
  if (why.find("smaller than required") != std::string::npos || why.find("Vocabulary size is smaller") != std::string::npos ||
      why.find("required_chars") != std::string::npos) {
    const auto needed = number_after(why.substr(0, why.rfind(". ")), "vs ");
    throw ConfigError(cat("vocabulary: ", options.vocabulary, " pieces cannot hold the texts' characters",
                          needed ? cat(", of which there are ", *needed) : ""),
                      {}, "raise vocabulary, or lower bpe.character_coverage");
  }
  throw ConfigError(cat("the tokenizer could not be trained: ", why));
}

}  // namespace pe::data
