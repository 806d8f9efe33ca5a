// Passkey: a number stated once in filler and asked for at the end, at exact token lengths and chosen depths.
// Teacher-forced: exact match equals greedy decoding, since a right prefix is fed exactly when decoding had made it.
#include "evaluation/retrieval/passkey_prompt.h"

#include <cmath>

#include "evaluation/retrieval/retrieval_scoring.h"
#include "evaluation/task.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

enum class Wording { kAuto, kLong, kShort };

/// Items of a cell keep their keys when other depths or trials join.
std::int64_t item_index(double depth, std::int64_t trial) { return std::llround(depth * 10000) * 100000 + trial; }

class Passkey final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("depths", depths_, "Where the number is stated: 0 at the beginning, 1 at the end.", {.min = 0, .max = 1});
    v.field("trials", trials_, "Items at each length and depth.", {.min = 1, .max = 99999});
    v.choice("wording", wording_, {{"auto", Wording::kAuto}, {"long", Wording::kLong}, {"short", Wording::kShort}},
             "The prompt's wording, the same at every length; auto takes the long one where the shortest length holds "
             "it, and always "
             "where texts are given.");
    v.field("spaced_digits", spaced_digits_, "Write the number as `7 3 9 1 4`.");
    v.field("candidates", candidates_,
            "Keys among which the true one is ranked (S3), itself included; 1 leaves ranking out, n costs n - 1 more "
            "forward passes an item.",
            {.min = 1, .max = 1000});
    v.group("text", text_, "Text of the long wording.");
    v.check(!depths_.empty(), "passkey needs at least one depth");
    v.check(text_.upto == 0 || candidates_ == 1,
            "numbers `upto` something differ in length, so there is nothing fair to rank among: candidates is 1 then");
  }

  void run(TaskContext& context) const override {
    const PasskeyBuilder builder(context.text, spaced_digits_, text_);
    context.progress.note(cat("passkey: at least ", builder.minimum(PasskeyForm::kLong), " tokens, ",
                              builder.minimum(PasskeyForm::kShort), " in the short wording"));
    const PasskeyForm form = form_of(builder, context.lengths.front());
    std::vector<RetrievalScore> scores;
    for (const std::int64_t length : context.lengths) {
      const auto& limit = context.scorer.capabilities().max_positions;
      const char* state = status::kOk;
      if (length < builder.minimum(form))
        state = status::kLength;
      else if (limit && length > *limit)
        state = status::kPositions;
      if (state != status::kOk) {
        add_missing(context, "passkey", variant(form), length, depths_, state);
        continue;
      }
      const schema::Rows& rows = context.results.item(cat("passkey/", length), [&] {
        return score_items(context, "passkey", variant(form), length, items_at(builder, form, length));
      });
      scores.push_back(summarise_items(context, "passkey", variant(form), length, depths_, rows));
    }
    add_own_context(context, "passkey", variant(form), scores);
  }

 private:
  /// One wording for the whole curve: two would be two tasks, and their border a kink in it.
  PasskeyForm form_of(const PasskeyBuilder& builder, std::int64_t shortest) const {
    if (wording_ == Wording::kShort) return PasskeyForm::kShort;
    // Texts that were given are not exchanged for others.
    if (wording_ == Wording::kLong || !text_.is_ours()) return PasskeyForm::kLong;
    return builder.minimum(PasskeyForm::kLong) <= shortest ? PasskeyForm::kLong : PasskeyForm::kShort;
  }

  const char* variant(PasskeyForm form) const {
    return form == PasskeyForm::kLong && !text_.is_ours() ? "given" : passkey_form_name(form);
  }

  std::vector<RetrievalItem> items_at(const PasskeyBuilder& builder, PasskeyForm form, std::int64_t length) const {
    std::vector<RetrievalItem> items;
    for (const double depth : depths_) {
      for (std::int64_t trial = 0; trial < trials_; ++trial) {
        // A key whose fact is longer than any that was probed could overflow the shortest length: take the next one.
        std::int64_t index = item_index(depth, trial);
        std::string key = builder.key(length, index);
        std::optional<PasskeyPrompt> prompt = builder.build(form, length, depth, key);
        for (std::int64_t again = 1; !prompt; ++again) {
          index = item_index(depth, trial) + again * 10'000'000'000;
          key = builder.key(length, index);
          prompt = builder.build(form, length, depth, key);
        }
        RetrievalItem item{.depth = depth, .trial = trial, .landed = prompt->landed};
        for (const std::string& other : builder.other_keys(key, length, index, candidates_ - 1)) {
          item.others.push_back(builder.answer_text(other));
        }
        const std::int64_t answer = static_cast<std::int64_t>(prompt->ids.size()) - prompt->answer_begin;
        item.prompt = {.ids = std::move(prompt->ids),
                       .control = std::move(prompt->control),
                       .answer_begin = prompt->answer_begin,
                       .fact_begins = {prompt->fact_begin},
                       .landed = {prompt->landed},
                       .answer_tokens = {answer}};
        items.push_back(std::move(item));
      }
    }
    return items;
  }

  std::vector<double> depths_ = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};
  std::int64_t trials_ = 20;
  Wording wording_ = Wording::kAuto;
  bool spaced_digits_ = false;
  PasskeyText text_;
  std::int64_t candidates_ = 1;
};

}  // namespace

TaskEntry passkey_task() {
  return {.name = "passkey",
          .summary = "A number stated once in filler, asked for at the end: exact match and information gain.",
          .tables = {"retrieval_trial", "retrieval_summary", "retrieval_ladder"},
          .make = make_task<Passkey>};
}

}  // namespace pe::evaluation
