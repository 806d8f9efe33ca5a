/// @file
/// Passkey prompts of exact token lengths: a number is stated once in filler and asked for at the end.
///
///     [BOS] header  filler…  fact  filler…  question  answer
///
/// Parts are encoded apart and joined as ids; each line ends with a newline, the question does not, the answer begins
/// with a space. The filler is one unit, repeated and cut to the rest of the length; the fact goes to round(depth ·
/// budget), moved back to a unit's boundary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/text_codec.h"
#include "support/config.h"
#include "support/random.h"

namespace pe::evaluation {

/// Texts of the long form; `{K}` is the number. The defaults were written for this project, so that no model has met
/// them; with the texts of another source its prompts are made.
struct PasskeyText {
  std::string header;
  std::string filler;  ///< repeated, and cut to the length
  std::string fact;
  std::string question;
  std::string answer = " {K}";
  std::int64_t digits = 5;  ///< of a number, the first not 0; of both forms
  std::int64_t upto = 0;  ///< not 0: numbers are uniform from 1 to this, of whatever length (Mohtashami and Jaggi 2023)

  PasskeyText();
  void describe(support::FieldVisitor& v);
  bool is_ours() const;  ///< texts are the defaults
};

enum class PasskeyForm {
  kLong,   ///< texts of PasskeyText; ours: header, a fact that states the key twice, a question in words
  kShort,  ///< no header, `Code {K}.`, `Code`: for lengths at which the long one leaves no room
};

const char* passkey_form_name(PasskeyForm form);

struct PasskeyPrompt {
  std::vector<std::int32_t> ids;      ///< prompt and answer: exactly the length asked for
  std::vector<std::int32_t> control;  ///< the same with filler in the fact's place
  std::int64_t answer_begin = 0;      ///< ids[answer_begin ..) is the answer
  std::int64_t fact_begin = 0;        ///< position of the fact
  std::int64_t fact_tokens = 0;
  double landed = 0;  ///< share of the filler before the fact: `depth`, moved back to a unit's boundary
};

class PasskeyBuilder {
 public:
  /// @param spaced_digits writes `7 3 9 1 4`, for tokenizers that join digits
  /// @throws ConfigError when the filler has no tokens, or no number is left that the texts do not hold.
  PasskeyBuilder(const TextCodec& codec, bool spaced_digits, PasskeyText text = {});

  /// A number of the text's kind.
  std::string draw(support::Xoshiro& random) const;

  /// The key of an item: five digits unless the text says otherwise, the first not zero. It is redrawn until the rest
  /// of the prompt does not hold it. Unless numbers go `upto` something, its answer must also have the usual number of
  /// tokens.
  std::string key(std::int64_t length, std::int64_t index) const;

  /// `count` other keys with as many answer tokens, all different and none equal to `key`: candidates for ranking.
  std::vector<std::string> other_keys(const std::string& key, std::int64_t length, std::int64_t index,
                                      std::int64_t count) const;

  /// The shortest length that holds header, fact, question and answer of any usual key.
  std::int64_t minimum(PasskeyForm form) const;

  /// Absent when the length is too short for this key.
  std::optional<PasskeyPrompt> build(PasskeyForm form, std::int64_t length, double depth, const std::string& key) const;

  /// The answer's text for a key, and its tokens.
  std::string answer_text(const std::string& key) const;
  std::vector<std::int32_t> answer(const std::string& key) const;

  std::int64_t unit_tokens() const { return static_cast<std::int64_t>(unit_.size()); }
  /// The usual number; with `upto` the largest.
  std::int64_t answer_tokens() const { return answer_tokens_; }

 private:
  bool usable(const std::string& key, std::optional<std::int64_t> tokens) const;
  std::string written(const std::string& key) const;
  std::vector<std::int32_t> fact(PasskeyForm form, const std::string& key) const;
  std::vector<std::int32_t> filler(std::int64_t begin, std::int64_t tokens) const;

  const TextCodec& codec_;
  bool spaced_digits_;
  PasskeyText text_;
  std::vector<std::int32_t> header_, unit_, question_long_, question_short_;
  std::int64_t answer_tokens_ = 0;
  std::int64_t longest_fact_long_ = 0, longest_fact_short_ = 0;
};

}  // namespace pe::evaluation
