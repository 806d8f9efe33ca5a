/// @file
/// Prompts of keys with values, as many as fit, one of them asked for: nothing but look-up, without any prose.
///
///     [BOS]  filler…  "Keys and their values:"  "red table": 48213,  …  The value of "red table" is  48213
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/retrieval/haystack.h"

namespace pe::evaluation {

struct KvPrompt {
  HaystackPrompt prompt;            ///< exactly as long as asked for; the control has filler in the place of the line
  std::vector<std::string> others;  ///< values of other lines, to rank the true one among
};

class KvPrompts {
 public:
  explicit KvPrompts(const TextCodec& codec) : codec_(codec), numbers_(codec, 5), filler_(codec, filler_unit()) {}

  /// @param depth of the line that is asked for: 0 the first, 1 the last.
  /// @param candidates Number of values to rank, including its own.
  /// @return absent where the length holds fewer lines than candidates.
  std::optional<KvPrompt> build(std::int64_t length, double depth, std::int64_t candidates,
                                support::Xoshiro& random) const;

 private:
  const TextCodec& codec_;
  NumberSource numbers_;
  UnitHaystack filler_;
};

}  // namespace pe::evaluation
