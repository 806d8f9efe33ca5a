// Passkey: a number stated once in filler and asked for at the end, at exact token lengths and chosen depths.
// Teacher-forced: exact match equals that of greedy decoding, since a right prefix is fed exactly when decoding had made it.
#include "evaluation/passkey_prompt.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "evaluation/summary.h"
#include "evaluation/task.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// From here on the long wording is used where it fits.
constexpr std::int64_t kLongFrom = 128;

enum class Wording { kAuto, kLong, kShort };

double sum(const std::vector<double>& values) {
  double total = 0;
  for (double value : values) total += value;
  return total;
}

/// Items of a cell keep their keys when other depths or trials join.
std::int64_t item_index(double depth, std::int64_t trial) { return std::llround(depth * 10000) * 100000 + trial; }

class Passkey final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("depths", depths_, "Where the number is stated: 0 at the beginning, 1 at the end.", {.min = 0, .max = 1});
    v.field("trials", trials_, "Items at each length and depth.", {.min = 1, .max = 99999});
    v.choice("wording", wording_, {{"auto", Wording::kAuto}, {"long", Wording::kLong}, {"short", Wording::kShort}},
             "The prompt's wording; auto takes the long one from 128 tokens on where it fits, and always where texts are given.");
    v.field("spaced_digits", spaced_digits_, "Write the number as `7 3 9 1 4`.");
    v.field("candidates", candidates_,
            "Keys among which the true one is ranked (S3), itself included; 1 leaves ranking out, n costs n - 1 more "
            "forward passes an item.",
            {.min = 1, .max = 1000});
    v.group("text", text_, "What the long wording says.");
    v.check(!depths_.empty(), "passkey needs at least one depth");
    v.check(text_.upto == 0 || candidates_ == 1,
            "numbers `upto` something differ in length, so there is nothing fair to rank among: candidates is 1 then");
  }

  void run(TaskContext& context) const override {
    const PasskeyBuilder builder(context.text, spaced_digits_, text_);
    context.progress.note(cat("passkey: at least ", builder.minimum(PasskeyForm::kLong), " tokens, ",
                              builder.minimum(PasskeyForm::kShort), " in the short wording"));
    for (const std::int64_t length : context.lengths) {
      const PasskeyForm form = form_at(builder, length);
      const auto& limit = context.scorer.capabilities().max_positions;
      const char* state = status::kOk;
      if (length < builder.minimum(form)) state = status::kLength;
      else if (limit && length > *limit) state = status::kPositions;
      if (state != status::kOk) {
        context.progress.note(cat("passkey at ", length, " tokens: ", state));
        for (const double depth : depths_) context.results.add(missing(form, length, support::shortest(depth), state));
        context.results.add(missing(form, length, "all", state));
        continue;
      }
      const Rows& rows = context.results.item(cat("passkey/", length), [&] {
        return trials_at(context, builder, form, length);
      });
      summarise(context, form, length, rows.at("retrieval_trial"));
    }
  }

 private:
  PasskeyForm form_at(const PasskeyBuilder& builder, std::int64_t length) const {
    // Texts that were given are not exchanged for others.
    if (wording_ == Wording::kLong || (wording_ == Wording::kAuto && !text_.is_ours())) return PasskeyForm::kLong;
    if (wording_ == Wording::kShort || length < kLongFrom) return PasskeyForm::kShort;
    return builder.minimum(PasskeyForm::kLong) <= length ? PasskeyForm::kLong : PasskeyForm::kShort;
  }

  const char* variant(PasskeyForm form) const {
    return form == PasskeyForm::kLong && !text_.is_ours() ? "given" : passkey_form_name(form);
  }

  Rows missing(PasskeyForm form, std::int64_t length, const std::string& depth, const char* state) const {
    return {{"retrieval_summary",
             {{"passkey", variant(form), length, depth, 0, kMissing, kMissing, kMissing, kMissing, kMissing,
               kMissing, kMissing, kMissing, kMissing, kMissing, state}}}};
  }

  Rows trials_at(TaskContext& context, const PasskeyBuilder& builder, PasskeyForm form, std::int64_t length) const {
    // Per item: the prompt, its control, then the prompt with each other candidate's answer.
    std::vector<Sequence> sequences;
    struct Item {
      double depth;
      std::int64_t trial, prompt_tokens;
    };
    std::vector<Item> items;
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
        const auto end = static_cast<std::int64_t>(prompt->ids.size());
        items.push_back({depth, trial, prompt->answer_begin});
        sequences.push_back({prompt->ids, prompt->answer_begin, end});
        sequences.push_back({prompt->control, prompt->answer_begin, end});
        for (const std::string& other : builder.other_keys(key, length, index, candidates_ - 1)) {
          Sequence sequence = sequences[sequences.size() - 1];
          sequence.ids = prompt->ids;
          const std::vector<std::int32_t> answer = builder.answer(other);
          std::copy(answer.begin(), answer.end(), sequence.ids.begin() + prompt->answer_begin);
          sequences.push_back(std::move(sequence));
        }
      }
    }
    const std::vector<MeanScore> scores = score_all(context.scorer, sequences, context.settings.draws);
    Rows rows;
    const auto stride = static_cast<std::size_t>(candidates_ + 1);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const MeanScore& asked = scores[i * stride];
      const double nll = sum(asked.nll);
      double better = 0, tied = 1;
      for (std::size_t c = 2; c < stride; ++c) {
        const double other = sum(scores[i * stride + c].nll);
        if (other < nll) better += 1;
        if (other == nll) tied += 1;
      }
      const bool ranked = candidates_ > 1;
      rows["retrieval_trial"].push_back(
          {"passkey", variant(form), length, items[i].depth, items[i].trial, items[i].prompt_tokens,
           asked.exact, sum(asked.correct), asked.nll.size(), nll, sum(scores[i * stride + 1].nll),
           ranked ? 1 + better + (tied - 1) / 2 : kMissing, ranked ? (better == 0 ? 1 / tied : 0) : kMissing,
           candidates_});
    }
    return rows;
  }

  void summarise(TaskContext& context, PasskeyForm form, std::int64_t length, const std::vector<Row>& trials) const {
    Rows rows;
    const auto cell = [&](const std::string& name, const std::function<bool(const Row&)>& belongs) {
      std::vector<double> exact, correct, tokens, nll, control, gain, ranked;
      for (const Row& row : trials) {
        if (!belongs(row)) continue;
        const double m = number(row[8]);
        exact.push_back(number(row[6]));
        correct.push_back(number(row[7]));
        tokens.push_back(m);
        nll.push_back(number(row[9]));
        control.push_back(number(row[10]));
        gain.push_back((control.back() - nll.back()) / m);
        ranked.push_back(candidates_ > 1 ? number(row[12]) : kMissing);
      }
      const double n = static_cast<double>(exact.size());
      const Interval interval = wilson(sum(exact), n);
      const double token = ratio(nll, tokens).value, token_control = ratio(control, tokens).value;
      const Ratio mean_gain = mean(gain);
      rows["retrieval_summary"].push_back(
          {"passkey", variant(form), length, name, exact.size(), sum(exact) / n, interval.low, interval.high,
           ratio(correct, tokens).value, token, token_control, mean_gain.value, mean_gain.se,
           token_control > 0 ? mean_gain.value / token_control : kMissing, sum(ranked) / n,
           std::isfinite(token) ? status::kOk : status::kOverflow});
    };
    for (const double depth : depths_) {
      cell(support::shortest(depth), [&](const Row& row) { return number(row[3]) == depth; });
    }
    cell("all", [](const Row&) { return true; });
    context.results.add(rows);
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
          .tables = {"retrieval_trial", "retrieval_summary"},
          .make = make_task<Passkey>};
}

}  // namespace pe::evaluation
