#include "evaluation/retrieval/word_pairs.h"

#include <algorithm>

#include "evaluation/items.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

constexpr std::size_t kTrainedPairs = 24;

std::vector<WordPair> pairs(std::size_t begin, std::size_t end) {
  std::vector<std::string> words = nouns();
  support::Xoshiro random(probe_key("needle_assoc", 0, 0));
  random.shuffle(words);
  std::vector<WordPair> made;
  for (std::size_t i = begin; i < end; ++i) made.push_back({words[2 * i], words[2 * i + 1]});
  return made;
}

}  // namespace

const std::vector<WordPair>& trained_pairs() {
  static const std::vector<WordPair> made = pairs(0, kTrainedPairs);
  return made;
}

const std::vector<WordPair>& untrained_pairs() {
  static const std::vector<WordPair> made = pairs(kTrainedPairs, nouns().size() / 2);
  return made;
}

Question association_question(const WordPair& pair, const NumberSource& numbers, double depth, bool told,
                              std::int64_t candidates, support::Xoshiro& random) {
  std::vector<std::string> taken = {numbers.draw(random)};
  Question question;
  question.facts.push_back({cat("The ", pair.coded, " code is ", taken[0], ".\n"), depth});
  if (told) question.facts.push_back({cat(pair.partner, " goes with ", pair.coded, ".\n"), random.uniform()});
  question.question = cat("What is the code of the partner of ", pair.partner, "? It is");
  question.answers = {" " + taken[0]};
  while (static_cast<std::int64_t>(taken.size()) < candidates) {
    std::string other = numbers.draw(random);
    if (std::find(taken.begin(), taken.end(), other) != taken.end()) continue;
    question.others.push_back(" " + other);
    taken.push_back(std::move(other));
  }
  return question;
}

}  // namespace pe::evaluation
