#include "evaluation/word_pairs.h"

#include "evaluation/haystack.h"
#include "evaluation/items.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

constexpr std::size_t kTrainedPairs = 24;

std::vector<WordPair> pairs(std::size_t begin, std::size_t end) {
  std::vector<std::string> words = nouns();
  support::Xoshiro random(item_key("needle_assoc", Split::kProbe, 0, 0));
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

std::string association(const WordPair& pair) { return support::cat(pair.partner, " goes with ", pair.coded, ".\n"); }

std::string association_question(const WordPair& pair) {
  return support::cat("What is the code of the partner of ", pair.partner, "? It is");
}

}  // namespace pe::evaluation
