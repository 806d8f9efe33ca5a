/// @file
/// Prompts that hide facts in a haystack and ask for them, at exact token lengths.
///
///     [BOS]  head  haystack… fact haystack… fact haystack…  question  answer
///
/// Parts are encoded apart and joined as ids. A fact goes to round(depth · budget) of the haystack, moved back to the
/// end of a sentence where there is one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/documents.h"
#include "evaluation/items.h"
#include "evaluation/stream_documents.h"
#include "evaluation/text_codec.h"
#include "support/random.h"

namespace pe::evaluation {

/// Two lists of 64 common words each, chosen for this project.
const std::vector<std::string>& adjectives();
const std::vector<std::string>& nouns();

struct Fact {
  std::string text;     ///< a separate line, newline included
  double depth = 0;     ///< 0 first, 1 last
  bool decides = true;  ///< the control does without it
};

struct Question {
  std::string head;  ///< before the haystack; may be empty
  std::vector<Fact> facts;
  std::string question;              ///< after it, without a newline
  std::vector<std::string> answers;  ///< joined to the answer; each begins with its separator
  std::vector<std::string> others;   ///< for one answer: wrong ones with as many tokens, to rank it among
};

struct HaystackPrompt {
  std::vector<std::int32_t> ids;      ///< prompt and answer: exactly the length asked for
  std::vector<std::int32_t> control;  ///< the same with haystack in the places of facts that decide
  std::int64_t answer_begin = 0;
  std::vector<std::int64_t> fact_begins;    ///< positions of the facts, in the order of the question's
  std::vector<double> landed;               ///< share of the haystack before each: its depth, moved to a sentence's end
  std::vector<std::int64_t> answer_tokens;  ///< of each answer
};

/// Where filler comes from. @param count tokens wanted
class Haystack {
 public:
  virtual ~Haystack() = default;
  virtual std::vector<std::int32_t> read(support::Xoshiro& random, std::int64_t count) const = 0;
  /// Ids after which a fact is allowed.
  virtual bool ends_sentence(std::int32_t id) const = 0;
};

/// Held-out documents, or the passkey's filler where there are none to fill `longest` tokens.
class DocumentHaystack final : public Haystack {
 public:
  DocumentHaystack(const DocumentSource& source, const TextCodec& codec);
  std::int64_t tokens() const { return tokens_; }
  std::vector<std::int32_t> read(support::Xoshiro& random, std::int64_t count) const override;
  bool ends_sentence(std::int32_t id) const override { return id == period_ || id == newline_; }

 private:
  mutable StreamDocuments stream_;
  std::int64_t tokens_;
  std::int32_t period_ = -1, newline_ = -1;
};

/// One unit of text, repeated.
class UnitHaystack final : public Haystack {
 public:
  UnitHaystack(const TextCodec& codec, const std::string& unit);
  std::vector<std::int32_t> read(support::Xoshiro& random, std::int64_t count) const override;
  bool ends_sentence(std::int32_t id) const override { return id == last_; }

 private:
  std::vector<std::int32_t> unit_;
  std::int32_t last_;
};

/// The passkey's filler.
const std::string& filler_unit();

/// Tokens that everything but the haystack takes.
std::int64_t fixed_tokens(const TextCodec& codec, const Question& question);

/// Absent when the length is too short.
std::optional<HaystackPrompt> build_prompt(const TextCodec& codec, const Haystack& haystack, const Question& question,
                                           std::int64_t length, support::Xoshiro& random);

/// The same for others of any length: the prompt leaves room for the longest, and is shorter where the answer is.
std::optional<HaystackPrompt> build_ranked_prompt(const TextCodec& codec, const Haystack& haystack,
                                                  const Question& question, std::int64_t length,
                                                  support::Xoshiro& random);

/// The ids of an answer among its others: the prompt with the answer replaced.
std::vector<std::int32_t> with_answer(const TextCodec& codec, const HaystackPrompt& prompt, const std::string& answer);

/// Digits whose text " 1234" has as many tokens as most such numbers have, the first not 0.
class NumberSource {
 public:
  NumberSource(const TextCodec& codec, int digits);
  std::string draw(support::Xoshiro& random) const;
  std::int64_t tokens() const { return tokens_; }

 private:
  const TextCodec& codec_;
  int digits_;
  std::int64_t tokens_ = 0;
};

}  // namespace pe::evaluation
