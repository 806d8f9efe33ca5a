// As many keys with values as fit into the context, and one of them asked for.
#include "evaluation/retrieval/kv_prompt.h"

#include "evaluation/retrieval/retrieval_scoring.h"

namespace pe::evaluation {

namespace {

class KvJson final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("depths", depths_, "Position of the requested line: 0 the first, 1 the last.",
            {.min = 0, .max = 1, .neutral = Json(depths_)});
    v.field("trials", trials_, "Items at each length and depth.", {.min = 1, .max = 99999, .neutral = Json(20)});
    v.field("candidates", candidates_,
            "Values among which the true one is ranked (S3), itself included, all of them shown.",
            {.min = 1, .max = 1000, .neutral = Json(10)});
    v.check(!depths_.empty(), "kv_json needs at least one depth");
  }

  void run(TaskContext& context) const override {
    const KvPrompts prompts(context.text);
    run_retrieval(context, {.name = "kv_json", .variant = "lines", .depths = depths_}, [&](std::int64_t length) {
      return items_at_depths("kv_json", length, depths_, trials_,
                             [&](support::Xoshiro& random, double depth) -> std::optional<RetrievalItem> {
                               auto made = prompts.build(length, depth, candidates_, random);
                               if (!made) return std::nullopt;
                               const double landed = made->prompt.landed.front();
                               return RetrievalItem{.prompt = std::move(made->prompt),
                                                    .others = std::move(made->others),
                                                    .landed = landed};
                             });
    });
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
