// Needle in a haystack: one sentence about a number, put into held-out documents at every depth, and asked for at the
// end.
#include "evaluation/retrieval/retrieval_scoring.h"

#include <algorithm>

#include "support/error.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

enum class NeedleMode { kPlain, kEasy };

constexpr int kMostDraws = 10000;  ///< of one more number, since a tokenizer may not have all of them

class Needle final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("depths", depths_, "Place of the needle: 0 at the beginning, 1 at the end.",
            {.min = 0, .max = 1, .neutral = Json(depths_)});
    v.field("trials", trials_, "Items at each length and depth.", {.min = 1, .max = 99999, .neutral = Json(10)});
    v.choice("mode", mode_, {{"plain", NeedleMode::kPlain}, {"easy", NeedleMode::kEasy}},
             "easy: the question is also before the needle, so that repeating what followed it is enough.",
             {.neutral = Json("plain")});
    v.field("distractors", distractors_, "Needles about other things, with other numbers, at drawn depths.",
            {.min = 0, .max = 1000, .neutral = Json(0)});
    v.field("digits", digits_, "Digits of a number.", {.min = 1, .max = 18, .neutral = Json(7)});
    v.field("candidates", candidates_,
            "Numbers among which the true one is ranked (S3), itself included; 1 leaves ranking out.",
            {.min = 1, .max = 1000, .neutral = Json(10)});
    v.check(!depths_.empty(), "needle needs at least one depth");
    std::int64_t numbers = 9;  // the first digit is not 0
    for (std::int64_t digit = 1; digit < std::min<std::int64_t>(digits_, 18); ++digit) numbers *= 10;
    v.check(candidates_ + distractors_ <= numbers,
            cat("needle needs ", candidates_ + distractors_, " distinct numbers, and there are ", numbers, " of ",
                digits_, digits_ == 1 ? " digit" : " digits"));
  }

  void run(TaskContext& context) const override {
    const DocumentHaystack haystack(context.documents, context.text);
    const NumberSource numbers(context.text, static_cast<int>(digits_));
    const std::string variant = mode_ == NeedleMode::kEasy ? "easy" : "plain";
    {
      support::Xoshiro random(item_key("needle", Split::kTest, 0, 0));
      context.progress.note(
          cat("needle: from about ", fixed_tokens(context.text, draw(random, numbers, 0)), " tokens on"));
    }
    run_retrieval(context, {.name = "needle", .variant = variant, .depths = depths_, .available = haystack.tokens()},
                  [&](std::int64_t length) {
                    return items_at_depths(
                        "needle", length, depths_, trials_, [&](support::Xoshiro& random, double depth) {
                          const Question question = draw(random, numbers, depth);
                          return item_of(build_prompt(context.text, haystack, question, length, random), question);
                        });
                  });
  }

 private:
  Question draw(support::Xoshiro& random, const NumberSource& numbers, double depth) const {
    const auto things = random.sample(64 * 64, static_cast<std::uint64_t>(1 + distractors_));
    const auto thing = [&](std::uint64_t index) { return adjectives()[index / 64] + " " + nouns()[index % 64]; };
    const std::string number = numbers.draw(random);
    const std::string ask = cat("What is the ", thing(things[0]), " code? ");
    Question question;
    question.question = cat(ask, "The ", thing(things[0]), " code is");
    question.facts.push_back(
        {cat(mode_ == NeedleMode::kEasy ? ask : "", "The ", thing(things[0]), " code is ", number, ".\n"), depth});
    std::vector<std::string> taken = {number};
    const auto other = [&] {
      for (int vain = 0; vain < kMostDraws; ++vain) {
        std::string drawn = numbers.draw(random);
        if (std::find(taken.begin(), taken.end(), drawn) != taken.end()) continue;
        taken.push_back(drawn);
        return drawn;
      }
      throw support::ConfigError(
          cat("needle finds only ", taken.size(), " distinct numbers of ", digits_, " digits that this tokenizer has"),
          {}, "raise eval.needle.digits, or lower eval.needle.candidates");
    };
    for (std::size_t i = 1; i < things.size(); ++i) {
      question.facts.push_back(
          {cat("The ", thing(things[i]), " code is ", other(), ".\n"), random.uniform(), /*decides=*/false});
    }
    question.answers = {" " + number};
    for (std::int64_t i = 1; i < candidates_; ++i) question.others.push_back(" " + other());
    return question;
  }

  std::vector<double> depths_ = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};
  std::int64_t trials_ = 10;
  NeedleMode mode_ = NeedleMode::kPlain;
  std::int64_t distractors_ = 0;
  std::int64_t digits_ = 7;
  std::int64_t candidates_ = 10;
};

}  // namespace

TaskEntry needle_task() {
  return {.name = "needle",
          .summary = "A number stated in one sentence of held-out documents, by length and depth.",
          .tables = {"retrieval_trial", "retrieval_summary", "retrieval_ladder"},
          .make = make_task<Needle>};
}

}  // namespace pe::evaluation
