// A needle that the question does not name: it asks for the partner of a word. Another line names the partners, or the
// model learned them before.
#include "evaluation/retrieval/retrieval_scoring.h"
#include "evaluation/retrieval/word_pairs.h"

namespace pe::evaluation {

namespace {

enum class PairsFrom { kInContext, kTrained };

class NeedleAssoc final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("depths", depths_, "Place of the needle: 0 at the beginning, 1 at the end.",
            {.min = 0, .max = 1, .neutral = Json(depths_)});
    v.field("trials", trials_, "Items at each length and depth.", {.min = 1, .max = 99999, .neutral = Json(20)});
    v.choice("mode", mode_, {{"in_context", PairsFrom::kInContext}, {"trained", PairsFrom::kTrained}},
             "Source of the pairs: a line of the context at a separate depth, or tuning on data of pe-mix.",
             {.neutral = Json("in_context")});
    v.field("candidates", candidates_,
            "Numbers among which the true one is ranked (S3), itself included; 1 leaves ranking out.",
            {.min = 1, .max = 1000, .neutral = Json(10)});
    v.check(!depths_.empty(), "needle_assoc needs at least one depth");
  }

  void run(TaskContext& context) const override {
    const DocumentHaystack haystack(context.documents, context.text);
    const NumberSource numbers(context.text, 5);
    const std::string variant = mode_ == PairsFrom::kTrained ? "trained" : "in_context";
    const std::vector<WordPair>& pairs = mode_ == PairsFrom::kTrained ? trained_pairs() : untrained_pairs();
    run_retrieval(
        context, {.name = "needle_assoc", .variant = variant, .depths = depths_, .available = haystack.tokens()},
        [&](std::int64_t length) {
          return items_at_depths("needle_assoc", length, depths_, trials_, [&](support::Xoshiro& random, double depth) {
            const WordPair& pair = pairs[random.below(pairs.size())];
            const Question question =
                association_question(pair, numbers, depth, mode_ == PairsFrom::kInContext, candidates_, random);
            return item_of(build_prompt(context.text, haystack, question, length, random), question);
          });
        });
  }

 private:
  std::vector<double> depths_ = {0, 0.25, 0.5, 0.75, 1};
  std::int64_t trials_ = 20;
  PairsFrom mode_ = PairsFrom::kInContext;
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
