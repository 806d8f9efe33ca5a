/// @file
/// Little stories from a built-in grammar, for studies that need no network. A story is a small world: people with
/// trades and door numbers, things that are somewhere or are carried, and events. Later lines ask for facts of earlier
/// ones, so that position and distance matter; one story in twenty holds a line that is repeated word for word.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pe::data {

/// A sentence says something that an earlier one said. A reader who remembers that needs so much less information.
struct Recall {
  std::int64_t at = 0;        ///< where the sentence begins, bytes
  std::int64_t distance = 0;  ///< from the end of the last sentence that said it, bytes
  double nats = 0;            ///< that it saves at least
};

struct Story {
  std::string text;  ///< paragraphs parted by blank lines, no newline at the end
  std::int64_t words = 0;
  std::string repeated_line;  ///< empty for most
  std::vector<Recall> recalls;
};

/// Story number `index` of the supply with that seed; depends on nothing else. Between min_words (50 at least) and
/// max_words (150 or more above it) words; lengths are drawn with density ∝ w^(-3/2), so most are short.
Story make_story(std::uint64_t seed, std::uint64_t index, std::int64_t min_words, std::int64_t max_words);

}  // namespace pe::data
