#include "evaluation/passkey_prompt.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>

#include "evaluation/items.h"
#include "support/text.h"

namespace pe::evaluation {

using support::cat;

namespace {

// Wording of our own, so that no model has met it.
constexpr const char* kHeader =
    "A secret number is written somewhere in the text below. Keep it in mind, it will be asked for at the end.\n";
constexpr const char* kUnit =
    "The river is wide. The hill is steep. The road is long. We walk on. Then we walk back.\n";
constexpr const char* kQuestionLong = "What is the secret number? The secret number is";
constexpr const char* kQuestionShort = "Code";

/// Keys that are tried to learn how a tokenizer cuts five digits.
constexpr std::int64_t kProbeKeys = 256;

std::string draw_key(support::Xoshiro& random) { return cat(10000 + random.below(90000)); }

void append(std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& part) {
  ids.insert(ids.end(), part.begin(), part.end());
}

std::int64_t count(const std::vector<std::int32_t>& ids) { return static_cast<std::int64_t>(ids.size()); }

}  // namespace

const char* passkey_form_name(PasskeyForm form) { return form == PasskeyForm::kLong ? "long" : "short"; }

PasskeyBuilder::PasskeyBuilder(const TextCodec& codec, bool spaced_digits)
    : codec_(codec),
      spaced_digits_(spaced_digits),
      header_(codec.encode_inside(kHeader)),
      unit_(codec.encode_inside(kUnit)),
      question_long_(codec.encode_inside(kQuestionLong)),
      question_short_(codec.encode_inside(kQuestionShort)) {
  support::Xoshiro random(item_key("passkey.probe", Split::kProbe, 0, 0));
  std::map<std::int64_t, std::int64_t> seen;
  std::vector<std::string> keys;
  for (std::int64_t i = 0; i < kProbeKeys; ++i) {
    keys.push_back(draw_key(random));
    ++seen[count(answer(keys.back()))];
  }
  std::int64_t most = 0;
  for (const auto& [tokens, times] : seen) {
    if (times > most) {
      most = times;
      modal_tokens_ = tokens;
    }
  }
  for (const std::string& key : keys) {
    if (count(answer(key)) != modal_tokens_) continue;
    longest_fact_long_ = std::max(longest_fact_long_, count(fact(PasskeyForm::kLong, key)));
    longest_fact_short_ = std::max(longest_fact_short_, count(fact(PasskeyForm::kShort, key)));
  }
}

std::string PasskeyBuilder::written(const std::string& key) const {
  if (!spaced_digits_) return key;
  std::string text;
  for (char digit : key) text += text.empty() ? std::string(1, digit) : std::string{' ', digit};
  return text;
}

std::vector<std::int32_t> PasskeyBuilder::answer(const std::string& key) const {
  return codec_.encode_inside(" " + written(key));
}

std::vector<std::int32_t> PasskeyBuilder::fact(PasskeyForm form, const std::string& key) const {
  const std::string digits = written(key);
  return codec_.encode_inside(form == PasskeyForm::kLong
                                   ? cat("The secret number is ", digits, ". Do not forget it. ", digits,
                                         " is the secret number.\n")
                                   : cat("Code ", digits, ".\n"));
}

std::vector<std::int32_t> PasskeyBuilder::filler(std::int64_t begin, std::int64_t tokens) const {
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(tokens));
  for (std::int64_t i = 0; i < tokens; ++i) {
    ids.push_back(unit_[static_cast<std::size_t>((begin + i) % count(unit_))]);
  }
  return ids;
}

std::string PasskeyBuilder::key(std::int64_t length, std::int64_t index) const {
  support::Xoshiro random(item_key("passkey", Split::kTest, length, index));
  for (;;) {
    std::string key = draw_key(random);
    if (count(answer(key)) == modal_tokens_) return key;
  }
}

std::vector<std::string> PasskeyBuilder::other_keys(const std::string& key, std::int64_t length, std::int64_t index,
                                                    std::int64_t wanted) const {
  support::Xoshiro random(item_key("passkey.candidates", Split::kTest, length, index));
  std::vector<std::string> keys;
  while (static_cast<std::int64_t>(keys.size()) < wanted) {
    std::string other = draw_key(random);
    if (other == key || count(answer(other)) != modal_tokens_) continue;
    if (std::find(keys.begin(), keys.end(), other) == keys.end()) keys.push_back(std::move(other));
  }
  return keys;
}

std::int64_t PasskeyBuilder::minimum(PasskeyForm form) const {
  const std::int64_t bos = codec_.bos() ? 1 : 0;
  return form == PasskeyForm::kLong ? bos + count(header_) + longest_fact_long_ + count(question_long_) + modal_tokens_
                                    : bos + longest_fact_short_ + count(question_short_) + modal_tokens_;
}

std::optional<PasskeyPrompt> PasskeyBuilder::build(PasskeyForm form, std::int64_t length, double depth,
                                                   const std::string& key) const {
  assert(depth >= 0 && depth <= 1);
  const bool is_long = form == PasskeyForm::kLong;
  const std::vector<std::int32_t> fact_ids = fact(form, key);
  const std::vector<std::int32_t> answer_ids = answer(key);
  const std::vector<std::int32_t>& question = is_long ? question_long_ : question_short_;
  std::vector<std::int32_t> head;
  if (codec_.bos()) head.push_back(*codec_.bos());
  if (is_long) append(head, header_);
  const std::int64_t budget = length - count(head) - count(fact_ids) - count(question) - count(answer_ids);
  if (budget < 0) return std::nullopt;

  const std::int64_t wanted = std::llround(depth * static_cast<double>(budget));
  const std::int64_t before = wanted / unit_tokens() * unit_tokens();

  PasskeyPrompt prompt;
  prompt.ids = std::move(head);
  append(prompt.ids, filler(0, before));
  prompt.fact_begin = count(prompt.ids);
  prompt.fact_tokens = count(fact_ids);
  append(prompt.ids, fact_ids);
  append(prompt.ids, filler(before, budget - before));
  append(prompt.ids, question);
  prompt.answer_begin = count(prompt.ids);
  append(prompt.ids, answer_ids);

  prompt.control = prompt.ids;
  const std::vector<std::int32_t> instead = filler(0, prompt.fact_tokens);
  std::copy(instead.begin(), instead.end(), prompt.control.begin() + prompt.fact_begin);
  return prompt;
}

}  // namespace pe::evaluation
