#include "evaluation/retrieval/passkey_prompt.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>

#include "evaluation/items.h"
#include "evaluation/retrieval/token_ids.h"
#include "support/text.h"

namespace pe::evaluation {

using support::cat;

namespace {

constexpr const char* kHeader =
    "A secret number is written somewhere in the text below. Keep it in mind, it will be asked for at the end.\n";
constexpr const char* kUnit =
    "The river is wide. The hill is steep. The road is long. We walk on. Then we walk back.\n";
constexpr const char* kFact = "The secret number is {K}. Do not forget it. {K} is the secret number.\n";
constexpr const char* kQuestionLong = "What is the secret number? The secret number is";
constexpr const char* kFactShort = "Code {K}.\n";
constexpr const char* kQuestionShort = "Code";
constexpr std::string_view kPlace = "{K}";

/// Keys that are tried to learn how a tokenizer cuts five digits.
constexpr std::int64_t kProbeKeys = 256;

/// Numbers in a row that are drawn in vain before it is said that there are none.
constexpr int kVainDraws = 100'000;

std::string filled(std::string text, const std::string& number) {
  for (std::size_t at = 0; (at = text.find(kPlace, at)) != std::string::npos; at += number.size()) {
    text.replace(at, kPlace.size(), number);
  }
  return text;
}

std::vector<std::int32_t> encoded(const TextCodec& codec, const std::string& text) {
  return text.empty() ? std::vector<std::int32_t>() : codec.encode_inside(text);
}

std::string kind_of_number(const PasskeyText& text) {
  return text.upto > 0 ? cat("up to ", text.upto) : cat("of ", text.digits, " digits");
}

}  // namespace

PasskeyText::PasskeyText() : header(kHeader), filler(kUnit), fact(kFact), question(kQuestionLong) {}

bool PasskeyText::is_ours() const {
  const PasskeyText ours;
  return header == ours.header && filler == ours.filler && fact == ours.fact && question == ours.question &&
         answer == ours.answer && digits == ours.digits && upto == ours.upto;
}

void PasskeyText::describe(support::FieldVisitor& v) {
  v.field("header", header, "Before the filler.", {.neutral = Json(kHeader)});
  v.field("filler", filler, "Repeated around the fact; the end is cut to the length.", {.neutral = Json(kUnit)});
  v.field("fact", fact, "States the number, {K}, once or more.", {.neutral = Json(kFact)});
  v.field("question", question, "Text after the filler; the model continues from it.",
          {.neutral = Json(kQuestionLong)});
  v.field("answer", answer, "Expected answer: {K}, with the text between the question and the number.",
          {.neutral = Json(" {K}")});
  v.field("digits", digits, "Digits of a number, the first not 0.", {.min = 1, .max = 18, .neutral = Json(5)});
  v.field("upto", upto, "Numbers are uniform from 1 to this; 0: numbers of `digits` digits.",
          {.min = 0, .max = 1e15, .neutral = Json(0)});
  const auto holds = [](const std::string& text) { return text.find(kPlace) != std::string::npos; };
  v.check(!filler.empty(), "the filler is empty");
  v.check(holds(fact), "the fact lacks {K}, the place of the number");
  v.check(holds(answer), "the answer lacks {K}, the place of the number");
  v.check(!holds(header) && !holds(filler) && !holds(question),
          "{K} is in the header, the filler or the question; only fact and answer may contain it");
}

const char* passkey_form_name(PasskeyForm form) { return form == PasskeyForm::kLong ? "long" : "short"; }

PasskeyBuilder::PasskeyBuilder(const TextCodec& codec, bool spaced_digits, PasskeyText text)
    : codec_(codec),
      spaced_digits_(spaced_digits),
      text_(std::move(text)),
      header_(encoded(codec, text_.header)),
      unit_(encoded(codec, text_.filler)),
      question_long_(encoded(codec, text_.question)),
      question_short_(encoded(codec, kQuestionShort)) {
  if (unit_.empty()) throw support::ConfigError("the passkey's filler has no tokens with this tokenizer");
  support::Xoshiro random(probe_key("passkey.probe", 0, 0));
  std::map<std::int64_t, std::int64_t> seen;
  std::vector<std::string> keys;
  for (std::int64_t i = 0; i < kProbeKeys; ++i) {
    keys.push_back(draw(random));
    ++seen[count(answer(keys.back()))];
  }
  std::int64_t most = 0;
  for (const auto& [tokens, times] : seen) {
    if (text_.upto > 0 || times > most) {  // in ascending order
      most = times;
      answer_tokens_ = tokens;
    }
  }
  for (const std::string& key : keys) {
    if (text_.upto == 0 && count(answer(key)) != answer_tokens_) continue;
    longest_fact_long_ = std::max(longest_fact_long_, count(fact(PasskeyForm::kLong, key)));
    longest_fact_short_ = std::max(longest_fact_short_, count(fact(PasskeyForm::kShort, key)));
  }
}

std::string PasskeyBuilder::draw(support::Xoshiro& random) const {
  if (text_.upto > 0) return cat(1 + random.below(static_cast<std::uint64_t>(text_.upto)));
  std::uint64_t least = 1;
  for (std::int64_t i = 1; i < text_.digits; ++i) least *= 10;
  return cat(least + random.below(9 * least));
}

/// Of so many tokens, where that matters, and said by fact and answer alone.
bool PasskeyBuilder::usable(const std::string& key, std::optional<std::int64_t> tokens) const {
  if (tokens && count(answer(key)) != *tokens) return false;
  const std::string number = written(key);
  for (const std::string* text : {&text_.header, &text_.filler, &text_.question}) {
    if (text->find(number) != std::string::npos) return false;
  }
  return true;
}

std::string PasskeyBuilder::written(const std::string& key) const {
  if (!spaced_digits_) return key;
  std::string text;
  for (char digit : key) text += text.empty() ? std::string(1, digit) : std::string{' ', digit};
  return text;
}

std::string PasskeyBuilder::answer_text(const std::string& key) const { return filled(text_.answer, written(key)); }

std::vector<std::int32_t> PasskeyBuilder::answer(const std::string& key) const {
  return codec_.encode_inside(answer_text(key));
}

std::vector<std::int32_t> PasskeyBuilder::fact(PasskeyForm form, const std::string& key) const {
  return codec_.encode_inside(filled(form == PasskeyForm::kLong ? text_.fact : kFactShort, written(key)));
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
  const std::optional<std::int64_t> tokens = text_.upto > 0 ? std::nullopt : std::optional(answer_tokens_);
  for (int vain = 0; vain < kVainDraws; ++vain) {
    std::string key = draw(random);
    if (usable(key, tokens)) return key;
  }
  throw support::ConfigError(
      cat("no number ", kind_of_number(text_), " was found that the passkey's texts do not hold"), {},
      "use more digits, or texts without numbers");
}

std::vector<std::string> PasskeyBuilder::other_keys(const std::string& key, std::int64_t length, std::int64_t index,
                                                    std::int64_t wanted) const {
  support::Xoshiro random(item_key("passkey.candidates", Split::kTest, length, index));
  std::vector<std::string> keys;
  const std::int64_t tokens = count(answer(key));
  int vain = 0;
  while (static_cast<std::int64_t>(keys.size()) < wanted) {
    std::string other = draw(random);
    if (other != key && usable(other, tokens) && std::find(keys.begin(), keys.end(), other) == keys.end()) {
      keys.push_back(std::move(other));
    } else if (++vain == kVainDraws) {
      throw support::ConfigError(
          cat("there are no ", wanted + 1, " different numbers ", kind_of_number(text_), " to rank among"), {},
          "use more digits or fewer candidates");
    }
  }
  return keys;
}

std::int64_t PasskeyBuilder::minimum(PasskeyForm form) const {
  const std::int64_t bos = codec_.bos() ? 1 : 0;
  return form == PasskeyForm::kLong ? bos + count(header_) + longest_fact_long_ + count(question_long_) + answer_tokens_
                                    : bos + longest_fact_short_ + count(question_short_) + answer_tokens_;
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
  prompt.landed = budget > 0 ? static_cast<double>(before) / static_cast<double>(budget) : 0;
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
