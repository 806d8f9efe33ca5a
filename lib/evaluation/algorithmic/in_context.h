/// @file
/// An algorithmic task put to a model of text: solved examples, then one to solve, in the model's own tokens.
///
///     [BOS]  Input: s3 s1\nOutput: s1 s3\n  …  Input: s2 s7\nOutput: s7 s2\n
///
/// Every symbol is encoded apart, with the space before it, so that it has the same tokens at every position.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/tasks/algorithmic_task.h"
#include "evaluation/text_codec.h"

namespace pe::evaluation {

struct InContextItem {
  std::vector<std::int32_t> ids;
  std::int64_t answer_begin = 0;            ///< ids[answer_begin ..) is the answer, its newline included.
  std::vector<std::int64_t> symbol_tokens;  ///< Of each symbol of the answer; the newline is the end.
  std::vector<std::uint8_t> judged;         ///< Of each symbol: 0 where only its loss counts.
  data::TaskChance chance;                  ///< of a guesser who knows the format
};

class InContextPrompts {
 public:
  /// @param codec outlives it. @param shots solved examples before the one that is asked.
  InContextPrompts(const TextCodec& codec, data::ChosenTask task, std::int64_t shots);

  /// The item of that length (in the task's own terms) and number; its solved examples are as long, drawn for this item
  /// alone, and of the split of training. Absent where the task is no question with an answer after it.
  std::optional<InContextItem> item(std::int64_t length, std::int64_t index) const;

 private:
  bool append(const data::TaskExample& example, InContextItem& item, bool asked) const;
  const std::vector<std::int32_t>& symbol(std::int32_t id) const;

  data::ChosenTask task_;
  std::int64_t shots_;
  std::optional<std::int32_t> bos_;
  std::vector<std::int32_t> input_, output_, newline_;
  std::vector<std::vector<std::int32_t>> symbols_;  ///< by id less kFirstSymbol
};

}  // namespace pe::evaluation
