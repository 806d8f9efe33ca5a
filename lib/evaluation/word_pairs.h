/// @file
/// Pairs of words that belong together because a line says so: some are for tuning, the others for contexts.
#pragma once

#include <string>
#include <vector>

namespace pe::evaluation {

struct WordPair {
  std::string coded;     ///< has a code
  std::string partner;   ///< is what questions name
};

/// 24 that training data may tell of, and 8 that it may not; the same for all runs.
const std::vector<WordPair>& trained_pairs();
const std::vector<WordPair>& untrained_pairs();

/// "{partner} goes with {coded}." and a newline.
std::string association(const WordPair& pair);

/// "What is the code of the partner of {partner}? It is"
std::string association_question(const WordPair& pair);

}  // namespace pe::evaluation
