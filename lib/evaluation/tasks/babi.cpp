// Lines about a small world among held-out documents, and a question that they decide.
#include <algorithm>
#include <cmath>

#include "evaluation/retrieval_scoring.h"
#include "evaluation/small_world.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

class Babi final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("tasks", tasks_,
            "Which: qa1 where somebody is, qa2 where a thing is, qa3 where it was before, qa4 what lies beside a place, qa5 who "
            "gave what to whom.", {.neutral = Json(world_names())});
    v.field("trials", trials_, "Items at each length.", {.min = 1, .max = 99999, .neutral = Json(20)});
    v.check(!tasks_.empty(), "babi needs at least one of its tasks");
    for (const std::string& name : tasks_) {
      v.check(std::find(world_names().begin(), world_names().end(), name) != world_names().end(),
              cat("unknown task of babi ", support::quote(name), "; ", support::suggestion(name, world_names())));
    }
  }

  void run(TaskContext& context) const override {
    const DocumentHaystack haystack(context.documents, context.text);
    for (const std::string& name : tasks_) run_one(context, haystack, name);
  }

 private:
  /// Depths of its tables are those of the last line that decides, to the next quarter.
  void run_one(TaskContext& context, const DocumentHaystack& haystack, const std::string& name) const {
    const std::string task = "babi_" + name;
    std::vector<RetrievalScore> scores;
    for (const std::int64_t length : context.lengths) {
      const auto& limit = context.scorer.capabilities().max_positions;
      const char* state = status::kOk;
      if (limit && length > *limit) state = status::kPositions;
      else if (haystack.tokens() < length) state = status::kSkipped;
      std::vector<RetrievalItem> items;
      std::vector<double> depths;
      for (std::int64_t trial = 0; trial < trials_ && state == status::kOk; ++trial) {
        support::Xoshiro random(item_key(task, Split::kTest, length, trial));
        const WorldStory story = draw_story(name.back() - '0', random);
        const Question question = world_question(story, random);
        auto prompt = build_ranked_prompt(context.text, haystack, question, length, random);
        if (!prompt) {
          state = status::kLength;
          continue;
        }
        const std::size_t last = story.deciding.back();
        const double depth = std::round(4 * question.facts[last].depth) / 4, landed = prompt->landed[last];
        items.push_back({std::move(*prompt), question.others, depth, trial, landed});
        if (std::find(depths.begin(), depths.end(), depth) == depths.end()) depths.push_back(depth);
      }
      std::sort(depths.begin(), depths.end());
      if (state != status::kOk) {
        add_missing(context, task, "documents", length, {}, state);
        continue;
      }
      const Rows& rows = context.results.item(cat(task, "/", length), [&] {
        return score_items(context, task, "documents", length, items);
      });
      scores.push_back(summarise_items(context, task, "documents", length, depths, rows));
    }
    add_own_context(context, task, "documents", scores);
    context.progress.note(cat(task, " is done"));
  }

  std::vector<std::string> tasks_ = world_names();
  std::int64_t trials_ = 20;
};

}  // namespace

TaskEntry babi_task() {
  return {.name = "babi",
          .summary = "Who is where and who has what: lines about a small world among held-out documents, five kinds of questions.",
          .tables = {"retrieval_trial", "retrieval_summary", "retrieval_ladder"},
          .make = make_task<Babi>};
}

}  // namespace pe::evaluation
