// A needle that the question does not name: it asks for the partner of a word, and which words are partners stands in another
// line, or was learned before.
#include <cmath>

#include "evaluation/retrieval_scoring.h"
#include "evaluation/word_pairs.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

enum class Mode { kInContext, kTrained };

class NeedleAssoc final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("depths", depths_, "Where the needle stands: 0 at the beginning, 1 at the end.", {.min = 0, .max = 1, .neutral = Json(depths_)});
    v.field("trials", trials_, "Items at each length and depth.", {.min = 1, .max = 99999, .neutral = Json(20)});
    v.choice("mode", mode_, {{"in_context", Mode::kInContext}, {"trained", Mode::kTrained}},
             "A line says which words are partners, at a depth of its own; or tuning on data of pe-mix has said so.",
             {.neutral = Json("in_context")});
    v.field("candidates", candidates_, "Numbers among which the true one is ranked (S3), itself included; 1 leaves ranking out.",
            {.min = 1, .max = 1000, .neutral = Json(10)});
    v.check(!depths_.empty(), "needle_assoc needs at least one depth");
  }

  void run(TaskContext& context) const override {
    const DocumentHaystack haystack(context.documents, context.text);
    const NumberSource numbers(context.text, 5);
    const std::string variant = mode_ == Mode::kTrained ? "trained" : "in_context";
    const std::vector<WordPair>& pairs = mode_ == Mode::kTrained ? trained_pairs() : untrained_pairs();
    std::vector<RetrievalScore> scores;
    for (const std::int64_t length : context.lengths) {
      const auto& limit = context.scorer.capabilities().max_positions;
      const char* state = status::kOk;
      if (limit && length > *limit) state = status::kPositions;
      else if (haystack.tokens() < length) state = status::kSkipped;
      std::vector<RetrievalItem> items;
      for (const double depth : depths_) {
        for (std::int64_t trial = 0; trial < trials_ && state == status::kOk; ++trial) {
          support::Xoshiro random(item_key("needle_assoc", Split::kTest, length, std::llround(depth * 10000) * 100000 + trial));
          const WordPair& pair = pairs[random.below(pairs.size())];
          const Question question = association_question(pair, numbers, depth, mode_ == Mode::kInContext, candidates_, random);
          auto prompt = build_prompt(context.text, haystack, question, length, random);
          if (!prompt) {
            state = status::kLength;
            continue;
          }
          const double landed = prompt->landed.front();   // the needle's own, wherever the pair's line stands
          items.push_back({std::move(*prompt), question.others, depth, trial, landed});
        }
      }
      if (state != status::kOk) {
        add_missing(context, "needle_assoc", variant, length, depths_, state);
        continue;
      }
      const Rows& rows = context.results.item(cat("needle_assoc/", length), [&] {
        return score_items(context, "needle_assoc", variant, length, items);
      });
      scores.push_back(summarise_items(context, "needle_assoc", variant, length, depths_, rows));
    }
    add_own_context(context, "needle_assoc", variant, scores);
  }

 private:
  std::vector<double> depths_ = {0, 0.25, 0.5, 0.75, 1};
  std::int64_t trials_ = 20;
  Mode mode_ = Mode::kInContext;
  std::int64_t candidates_ = 10;
};

}  // namespace

TaskEntry needle_assoc_task() {
  return {.name = "needle_assoc",
          .summary = "The code of a word's partner: a needle that the question does not name, by length and depth.",
          .tables = {"retrieval_trial", "retrieval_summary", "retrieval_ladder"},
          .make = make_task<NeedleAssoc>};
}

}  // namespace pe::evaluation
