/// @file
/// Pairs of words that belong together because a line says so: some are for tuning, the others for contexts.
#pragma once

#include <string>
#include <vector>

#include "evaluation/retrieval/haystack.h"

namespace pe::evaluation {

struct WordPair {
  std::string coded;    ///< has a code
  std::string partner;  ///< the answer of questions
};

/// 24 pairs that training data may state, and 8 that it may not; the same for all runs.
const std::vector<WordPair>& trained_pairs();
const std::vector<WordPair>& untrained_pairs();

/// Asks for the code of a partner's word: "What is the code of the partner of {partner}? It is".
/// @param depth of the code's line. @param told whether a line states which words are partners, at a drawn depth
/// @param candidates numbers to rank, the true one among them
Question association_question(const WordPair& pair, const NumberSource& numbers, double depth, bool told,
                              std::int64_t candidates, support::Xoshiro& random);

}  // namespace pe::evaluation
