// Copying as strings: whole, or what follows an n-gram that occurs once.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

enum : std::int32_t { kDollar = 26, kBar, kStop };

class CopyLm final : public QuestionTask {
 public:
  enum class Variant { kCopy, kPrefix, kSuffix };
  void describe(support::FieldVisitor& v) override {
    v.choice("variant", variant_,
             {{"copy", Variant::kCopy}, {"prefix", Variant::kPrefix}, {"suffix", Variant::kSuffix}},
             "The string again; what follows an n-gram named before it; or behind it.");
    v.field("ngram", ngram_, "Letters of the n-gram.", {.unit = "letters", .min = 1, .max = 20});
    v.field("answer", answer_, "Largest number of letters after the n-gram.",
            {.unit = "letters", .min = 1, .max = 1000});
  }
  std::vector<std::string> symbols() const override {
    std::vector<std::string> names;
    for (char c = 'a'; c <= 'z'; ++c) names.emplace_back(1, c);
    return names + std::vector<std::string>{"$", "|", "."};
  }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 26); }
  double weight(std::int64_t n) const override { return n > (variant_ == Variant::kCopy ? 0 : ngram_) ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    for (;;) {
      const Symbols s = draw_many(random, n, 26);
      Symbols input = {kDollar};
      if (variant_ == Variant::kCopy) {
        append(input, s);
        input.push_back(kBar);
        return input;
      }
      const auto at = s.begin() + static_cast<std::ptrdiff_t>(random.below(static_cast<std::uint64_t>(n - ngram_)));
      const Symbols gram(at, at + ngram_);
      if (std::search(at + 1, s.end(), gram.begin(), gram.end()) != s.end() ||
          std::search(s.begin(), s.end(), gram.begin(), gram.end()) != at) {
        continue;  // it occurs twice
      }
      if (variant_ == Variant::kPrefix) {
        append(input, gram);
        input.push_back(kBar);
        append(input, s);
        input.push_back(kBar);
      } else {
        append(input, s);
        input.push_back(kBar);
        append(input, gram);
      }
      return input;
    }
  }
  Symbols answer(const Symbols& input) const override {
    const auto bar = std::find(input.begin(), input.end(), kBar);
    Symbols target(input.begin() + 1, bar);
    if (variant_ != Variant::kCopy) {
      Symbols s = target, gram(bar + 1, input.end());
      if (variant_ == Variant::kPrefix) {
        gram = target;
        s.assign(bar + 1, input.end() - 1);
      }
      const auto after =
          std::search(s.begin(), s.end(), gram.begin(), gram.end()) + static_cast<std::ptrdiff_t>(gram.size());
      target.assign(after, after + std::min<std::ptrdiff_t>(answer_, s.end() - after));
    }
    target.push_back(kStop);
    return target;
  }

  /// As in the source there is no separator: the input ends with the bar or the n-gram, the answer with a full stop.
  TaskExample example(support::Xoshiro& random, std::int64_t n, Split) const override {
    const Symbols input = ask(random, n), target = answer(input);
    ExampleWriter out;
    for (std::size_t i = 0; i + 1 < input.size(); ++i) out.symbol(input[i]);
    out.symbol(input.back(), target[0]);
    for (std::size_t i = 0; i + 1 < target.size(); ++i) out.symbol(target[i], target[i + 1]);
    out.symbol(target.back());
    return std::move(out.example);
  }

 private:
  Variant variant_ = Variant::kCopy;
  std::int64_t ngram_ = 2, answer_ = 5;
};

}  // namespace

TaskGenerator copy_lm_task() {
  return task<CopyLm>({.name = "copy_lm",
                       .summary = "$ s | ; s and a full stop, or what follows an n-gram of s.",
                       .reference = "Jelassi et al. 2024, arXiv:2402.01032; E 3.6",
                       .length = "letters",
                       .train = {5, 50},
                       .test = {51, 300}});
}

}  // namespace pe::data
