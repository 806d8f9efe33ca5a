/// @file
/// The scoring ladder of retrieval tasks, S0 to S5, and their common rows. Teacher-forced: exact match equals greedy
/// decoding.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/retrieval/haystack.h"
#include "evaluation/task.h"

namespace pe::evaluation {

struct RetrievalItem {
  HaystackPrompt prompt;
  std::vector<std::string> others;  ///< wrong answers, to rank the true one among; all items alike many
  double depth = std::numeric_limits<double>::quiet_NaN();  ///< that was asked for; NaN for several facts
  std::int64_t trial = 0;
  double landed = std::numeric_limits<double>::quiet_NaN();  ///< position of the fact; NaN for several
};
using RetrievalItems = std::vector<RetrievalItem>;

/// An item as it lands, of which `fact` is asked. Absent where there is no prompt.
std::optional<RetrievalItem> item_of(std::optional<HaystackPrompt> prompt, const Question& question,
                                     std::size_t fact = 0);

/// Items of a task at a length, each with separate random numbers. Absent where one of them cannot be made.
std::optional<RetrievalItems> items_at_depths(
    const std::string& task, std::int64_t length, const std::vector<double>& depths, std::int64_t trials,
    const std::function<std::optional<RetrievalItem>(support::Xoshiro&, double depth)>& make);
/// The same where no depth is asked for.
std::optional<RetrievalItems> items_of_trials(
    const std::string& task, std::int64_t length, std::int64_t trials,
    const std::function<std::optional<RetrievalItem>(support::Xoshiro&)>& make);

struct RetrievalTask {
  std::string name, variant;
  std::vector<double> depths;  ///< depths of its tables; none: depths of its items, if they have any
  std::int64_t available = std::numeric_limits<std::int64_t>::max();  ///< tokens that the haystack has
};

/// Runs a retrieval task: its items at every length of the evaluation are scored and summarised, or the reason for
/// their absence is recorded.
/// @param make Items at a length; absent where that is too short.
void run_retrieval(TaskContext& context, const RetrievalTask& task,
                   const std::function<std::optional<RetrievalItems>(std::int64_t length)>& make);

/// Ids of single digits; empty when the tokenizer joins them.
std::vector<std::int32_t> digit_ids(const TextCodec& codec);

/// Rows `retrieval_trial` of the items, and rows that only the journal sees.
schema::Rows score_items(TaskContext& context, const std::string& task, const std::string& variant, std::int64_t length,
                         const std::vector<RetrievalItem>& items);

/// Exact match at a length, for S5; NaN when there is none.
struct RetrievalScore {
  std::int64_t length = 0;
  double exact = 0;
};

/// Adds `retrieval_summary` (by depth, and all) and `retrieval_ladder`. @param rows results of score_items
RetrievalScore summarise_items(TaskContext& context, const std::string& task, const std::string& variant,
                               std::int64_t length, const std::vector<double>& depths, const schema::Rows& rows);

/// Rows that say why there is no number.
void add_missing(TaskContext& context, const std::string& task, const std::string& variant, std::int64_t length,
                 const std::vector<double>& depths, const char* why);

/// S5 for every length: exact match over that at the training length.
void add_own_context(TaskContext& context, const std::string& task, const std::string& variant,
                     const std::vector<RetrievalScore>& scores);

}  // namespace pe::evaluation
