#include "data/tokenizers/tokenizer_training.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "data/tokenizers/sentencepiece_library.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::data {

using support::cat;
using support::ConfigError;

namespace {

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

/// The number behind the last `mark` of a message.
std::optional<std::int64_t> number_after(std::string_view message, std::string_view mark) {
  const std::size_t at = message.rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = support::trim(message.substr(at + mark.size()));
  return support::parse_integer(rest.substr(0, rest.find_first_not_of("0123456789")));
}

/// Texts in parts that sentencepiece can train on; each text is dropped behind its last part.
class TrainableTexts {
 public:
  explicit TrainableTexts(const std::function<bool(std::string& text)>& next) {
    for (std::string text; next(text); text.clear()) {
      characters_ += 1 + static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
      spaces_ += 1 + static_cast<std::size_t>(std::count(text.begin(), text.end(), ' '));  // one by the dummy prefix
      texts_.push_back(std::move(text));
    }
  }
  double share_of_spaces() const {
    return static_cast<double>(spaces_) / static_cast<double>(std::max<std::size_t>(1, characters_));
  }
  bool next(std::string& part) {
    if (texts_.empty()) return false;
    const std::string_view rest = std::string_view(texts_.front()).substr(at_);
    part = rest.substr(0, trainable_bytes(rest));
    at_ += part.size();
    if (at_ < texts_.front().size()) return true;
    texts_.pop_front();
    at_ = 0;
    return true;
  }

 private:
  std::deque<std::string> texts_;
  std::size_t at_ = 0;  // of the first text
  std::size_t characters_ = 0, spaces_ = 0;
};

}  // namespace

std::size_t trainable_bytes(std::string_view text) {
  std::size_t characters = 0, newline = 0;  // of the run; a run begins with its spaces
  bool after_space = true;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool space = text[at] == ' ' || text.substr(at, kSpaceMark.size()) == kSpaceMark;
    if (!begins_character(text[at])) continue;
    if (space && !after_space) characters = newline = 0;
    after_space = space;
    if (++characters > kLongestRun) return newline > 0 ? newline : at;
    if (text[at] == '\n') newline = at + 1;
  }
  return text.size();
}

std::string train_bpe(const BpeOptions& options, const std::function<bool(std::string& text)>& next) {
  const auto yes_no = [](bool value) { return std::string(value ? "true" : "false"); };
  std::unordered_map<std::string, std::string> settings{
      {"model_type", "bpe"},
      {"vocab_size", std::to_string(options.vocabulary)},
      {"character_coverage", support::shortest(options.character_coverage)},
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", yes_no(options.dummy_prefix)},
      {"split_digits", yes_no(options.split_digits)},
      {"allow_whitespace_only_pieces", "true"},
      {"user_defined_symbols", "\n"},  // else a newline is three bytes of noise
      {"max_sentence_length", "1073741824"},
      {"num_threads", "1"},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"pad_id", "-1"},
      {"minloglevel", "2"},
  };
  TrainableTexts texts(next);
  // The mark of a space gets a piece, even if it is so rare that the coverage leaves it out. Otherwise the dummy prefix
  // becomes three bytes that decode to the mark itself.
  if (texts.share_of_spaces() <= 1 - options.character_coverage) settings["required_chars"] = kSpaceMark;
  std::string model;
  const std::string why = sentencepiece_library().train(
      settings, [&](std::string& part) { return texts.next(part); }, model);
  if (why.empty()) return model;

  if (why.find("too high") != std::string::npos) {
    const auto possible = number_after(why, "<=");
    throw ConfigError(cat("vocabulary: the texts do not yield ", options.vocabulary, " pieces"), {},
                      possible ? cat("at most ", *possible, " are possible with these texts") : "");
  }
  if (why.find("smaller than required") != std::string::npos ||
      why.find("Vocabulary size is smaller") != std::string::npos || why.find("required_chars") != std::string::npos) {
    const auto needed = number_after(why.substr(0, why.rfind(". ")), "vs ");
    throw ConfigError(cat("vocabulary: ", options.vocabulary, " pieces cannot hold the texts' characters",
                          needed ? cat(", of which there are ", *needed) : ""),
                      {}, "raise vocabulary, or lower bpe.character_coverage");
  }
  throw ConfigError(cat("the tokenizer could not be trained: ", why));
}

}  // namespace pe::data
