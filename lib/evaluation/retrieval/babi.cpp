// Lines about a small world among held-out documents, and a question that they decide.
#include <algorithm>
#include <cmath>

#include "evaluation/retrieval/retrieval_scoring.h"
#include "evaluation/retrieval/small_world.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

class Babi final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("tasks", tasks_,
            "Questions: qa1 the place of a person, qa2 the place of a thing, qa3 its earlier place, qa4 the "
            "neighbour of a place, qa5 giver, gift or receiver.",
            {.neutral = Json(world_names())});
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
  /// Depths of its tables are the depth of the last line that decides, to the next quarter.
  void run_one(TaskContext& context, const DocumentHaystack& haystack, const std::string& name) const {
    const std::string task = "babi_" + name;
    run_retrieval(
        context, {.name = task, .variant = "documents", .available = haystack.tokens()}, [&](std::int64_t length) {
          return items_of_trials(task, length, trials_, [&](support::Xoshiro& random) {
            const WorldStory story = draw_story(name.back() - '0', random);
            const Question question = world_question(story, random);
            const std::size_t last = story.deciding.back();
            auto item = item_of(build_ranked_prompt(context.text, haystack, question, length, random), question, last);
            if (item) item->depth = std::round(4 * question.facts[last].depth) / 4;
            return item;
          });
        });
    context.progress.note(cat(task, " is done"));
  }

  std::vector<std::string> tasks_ = world_names();
  std::int64_t trials_ = 20;
};

}  // namespace

TaskEntry babi_task() {
  return {
      .name = "babi",
      .summary =
          "Who is where and who has what: lines about a small world among held-out documents, five kinds of questions.",
      .tables = {"retrieval_trial", "retrieval_summary", "retrieval_ladder"},
      .make = make_task<Babi>};
}

}  // namespace pe::evaluation
