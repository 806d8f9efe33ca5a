/// @file
/// The scoring ladder of retrieval tasks, S0 to S5, and the rows that they share. Teacher-forced: exact match equals that of
/// greedy decoding.
#pragma once

#include <string>
#include <vector>

#include "evaluation/haystack.h"
#include "evaluation/task.h"

namespace pe::evaluation {

struct RetrievalItem {
  HaystackPrompt prompt;
  std::vector<std::string> others;   ///< wrong answers, to rank the true one among; all items alike many
  double depth = 0;                  ///< that was asked for; NaN for several facts
  std::int64_t trial = 0;
  double landed = 0;                 ///< where the fact stands; NaN for several
};

/// Ids that digits have of their own; empty when the tokenizer joins them.
std::vector<std::int32_t> digit_ids(const TextCodec& codec);

/// Rows `retrieval_trial` of the items, and rows that only the journal sees.
Rows score_items(TaskContext& context, const std::string& task, const std::string& variant, std::int64_t length,
                 const std::vector<RetrievalItem>& items);

/// Exact match at a length, for S5; NaN when there is none.
struct RetrievalScore {
  std::int64_t length = 0;
  double exact = 0;
};

/// Adds `retrieval_summary` (by depth, and all) and `retrieval_ladder`. @param rows what score_items gave
RetrievalScore summarise_items(TaskContext& context, const std::string& task, const std::string& variant, std::int64_t length,
                               const std::vector<double>& depths, const Rows& rows);

/// Rows that say why there is no number.
void add_missing(TaskContext& context, const std::string& task, const std::string& variant, std::int64_t length,
                 const std::vector<double>& depths, const char* why);

/// S5 for every length: exact match over that at the training length.
void add_own_context(TaskContext& context, const std::string& task, const std::string& variant,
                     const std::vector<RetrievalScore>& scores);

}  // namespace pe::evaluation
