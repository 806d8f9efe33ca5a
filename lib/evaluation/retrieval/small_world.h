/// @file
/// A small world of people, places and things in lines of text, and questions that the lines decide. There are five
/// kinds, after the first of the bAbI tasks (Kuratov et al. 2024, arXiv:2406.10149, hide those in long texts).
#pragma once

#include <string>
#include <vector>

#include "evaluation/retrieval/haystack.h"
#include "support/random.h"

namespace pe::evaluation {

struct WorldStory {
  std::vector<std::string> lines;     ///< in order, without newlines
  std::vector<std::size_t> deciding;  ///< lines without which the question has no answer; ascending
  std::string question;               ///< "Where is Anna?"
  std::string answer;                 ///< one word
  std::vector<std::string> sort;      ///< the eight words that the answer is one of
};

/// 1: place of a person. 2: place of a thing. 3: its earlier place. 4: neighbour of a place. 5: who gave what to whom.
constexpr int kWorldTasks = 5;

/// "qa1" to "qa5".
const std::vector<std::string>& world_names();

/// @param task 1 to 5
WorldStory draw_story(int task, support::Xoshiro& random);

/// Its lines at drawn depths, in order; the control omits the deciding lines, and the answer is ranked among its sort.
Question world_question(const WorldStory& story, support::Xoshiro& random);

}  // namespace pe::evaluation
