// As many keys with values as fit into the context, and one of them asked for.
#include "evaluation/kv_prompt.h"

#include <cmath>

#include "evaluation/retrieval_scoring.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

class KvJson final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("depths", depths_, "Where the line stands that is asked for: 0 the first, 1 the last.",
            {.min = 0, .max = 1, .neutral = Json(depths_)});
    v.field("trials", trials_, "Items at each length and depth.", {.min = 1, .max = 99999, .neutral = Json(20)});
    v.field("candidates", candidates_, "Values among which the true one is ranked (S3), itself included, all of them shown.",
            {.min = 1, .max = 1000, .neutral = Json(10)});
    v.check(!depths_.empty(), "kv_json needs at least one depth");
  }

  void run(TaskContext& context) const override {
    const KvPrompts prompts(context.text);
    std::vector<RetrievalScore> scores;
    for (const std::int64_t length : context.lengths) {
      const auto& limit = context.scorer.capabilities().max_positions;
      const char* state = limit && length > *limit ? status::kPositions : status::kOk;
      std::vector<RetrievalItem> items;
      for (const double depth : depths_) {
        for (std::int64_t trial = 0; trial < trials_ && state == status::kOk; ++trial) {
          support::Xoshiro random(item_key("kv_json", Split::kTest, length, std::llround(depth * 10000) * 100000 + trial));
          auto made = prompts.build(length, depth, candidates_, random);
          if (!made) {
            state = status::kLength;
            continue;
          }
          const double landed = made->prompt.landed.front();
          items.push_back({std::move(made->prompt), std::move(made->others), depth, trial, landed});
        }
      }
      if (state != status::kOk) {
        add_missing(context, "kv_json", "lines", length, depths_, state);
        continue;
      }
      const Rows& rows = context.results.item(cat("kv_json/", length), [&] {
        return score_items(context, "kv_json", "lines", length, items);
      });
      scores.push_back(summarise_items(context, "kv_json", "lines", length, depths_, rows));
    }
    add_own_context(context, "kv_json", "lines", scores);
  }

 private:
  std::vector<double> depths_ = {0, 0.25, 0.5, 0.75, 1};
  std::int64_t trials_ = 20;
  std::int64_t candidates_ = 10;
};

}  // namespace

TaskEntry kv_json_task() {
  return {.name = "kv_json",
          .summary = "One of as many keys with values as fit into the context, by length and depth.",
          .tables = {"retrieval_trial", "retrieval_summary", "retrieval_ladder"},
          .make = make_task<KvJson>};
}

}  // namespace pe::evaluation
