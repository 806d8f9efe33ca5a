// Answers that need several steps in depth, by Allen-Zhu 2025.
#include <cmath>
#include <set>

#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

constexpr std::int32_t kLastTokens = 64;  // last tokens of words
constexpr std::int64_t kQueries = 10;

/// Walks along a cycle whose edges are given in any order: k steps need k lookups, or depth.
class Depo final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("largest", largest_, "Longest cycle of training; short ones are drawn more often.",
            {.unit = "words", .min = 3, .max = 4096});
    v.field("steps", steps_, "Most steps that are asked for.", {.min = 1, .max = 1024});
    v.field("symbols", symbols_, "Tokens that words are made of, but for their last, of which there are 64 others.",
            {.min = 1, .max = 65536});
    v.field("word_min", word_min_, "Tokens of the shortest words.", {.unit = "tokens", .min = 1, .max = 64});
    v.field("word_max", word_max_, "Tokens of the longest words.", {.unit = "tokens", .min = 1, .max = 64});
    v.check(word_min_ <= word_max_, "word_min lies above word_max");
    v.check(word_count() >= static_cast<double>(largest_), "there are fewer words than the longest cycle has");
  }
  std::vector<std::string> symbols() const override {
    std::vector<std::string> steps;
    for (std::int64_t k = 1; k <= steps_; ++k) steps.push_back(support::cat("STEP_", k));
    return numbered("a", symbols_) + numbered("z", kLastTokens) + steps + std::vector<std::string>{"ANS"};
  }
  std::vector<std::int32_t> answers() const override { return ids_of(0, symbols_ + kLastTokens); }
  double weight(std::int64_t n) const override {
    if (n < 3 || word_count() < static_cast<double>(n)) return 0;
    return 1 / (static_cast<double>(n) + std::sqrt(static_cast<double>(largest_)));
  }
  std::string part() const override { return "steps"; }

  TaskExample example(support::Xoshiro& random, std::int64_t length, Split split) const override {
    const auto n = static_cast<std::size_t>(length);
    std::vector<Symbols> words;
    std::set<Symbols> taken;
    while (words.size() < n) {
      Symbols word = draw_many(random, draw_between(random, word_min_, word_max_) - 1, symbols_);
      word.push_back(static_cast<std::int32_t>(symbols_) + draw(random, kLastTokens));
      if (taken.insert(word).second) words.push_back(std::move(word));
    }
    std::vector<std::size_t> edges(n);
    for (std::size_t i = 0; i < n; ++i) edges[i] = i;
    random.shuffle(edges);

    ExampleWriter out;
    out.id(kTaskBos);
    for (const std::size_t from : edges) {
      out.symbols(words[from]);
      out.symbols(words[(from + 1) % n]);
    }
    const auto first_step = static_cast<std::int32_t>(symbols_) + kLastTokens,
               ask = first_step + static_cast<std::int32_t>(steps_);
    std::vector<std::pair<std::size_t, std::int32_t>> parts;
    for (const std::uint64_t start :
         random.sample(n, static_cast<std::uint64_t>(std::min<std::int64_t>(length, kQueries)))) {
      const std::int64_t k = split == Split::kTest ? power_of_two(random) : draw_between(random, 1, steps_);
      const Symbols& there = words[(start + static_cast<std::uint64_t>(k)) % n];
      out.symbol(first_step + static_cast<std::int32_t>(k) - 1);
      out.symbols(words[start]);
      out.symbol(ask, there[0]);
      for (std::size_t i = 0; i < there.size(); ++i) {
        parts.emplace_back(out.example.ids.size() - 1, static_cast<std::int32_t>(k));
        if (i + 1 < there.size())
          out.symbol(there[i], there[i + 1]);
        else
          out.symbol(there[i]);
      }
    }
    TaskExample& made = out.example;
    made.part.assign(made.ids.size(), 0);
    for (const auto& [at, k] : parts) made.part[at] = k;
    if (word_max_ == 1) {
      for (const Symbols& word : words) made.candidates.push_back(kFirstSymbol + word[0]);
    }
    return std::move(made);
  }

 private:
  double word_count() const {
    return kLastTokens * std::pow(static_cast<double>(symbols_), static_cast<double>(word_max_ - 1));
  }

  /// 1, 2, 4, … up to `steps`.
  std::int64_t power_of_two(support::Xoshiro& random) const {
    std::int64_t powers = 1;
    while (std::int64_t{1} << powers <= steps_) ++powers;
    return std::int64_t{1} << draw(random, powers);
  }

  std::int64_t largest_ = 32, steps_ = 8, symbols_ = 64, word_min_ = 1, word_max_ = 1;
};

/// Expressions in prefix notation modulo 23, without any step written down.
class Mano final : public AlgorithmicTask {
  static constexpr std::int32_t kModulus = 23, kPlus = 23, kMinus = 24, kTimes = 25, kAnswer = 26, kFirstLength = 27;

 public:
  void describe(support::FieldVisitor& v) override {
    v.field("operators", operators_, "Most operators, each number of which has a symbol.", {.min = 1, .max = 1024});
  }
  std::vector<std::string> symbols() const override {
    std::vector<std::string> lengths;
    for (std::int64_t n = 1; n <= operators_; ++n) lengths.push_back(support::cat("LEN_", n));
    return numbered("", kModulus) + std::vector<std::string>{"+", "-", "*", "ANS"} + lengths;
  }
  std::vector<std::int32_t> answers() const override { return ids_of(0, kModulus); }
  double weight(std::int64_t n) const override { return n >= 1 && n <= operators_ ? 1 : 0; }

  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    out.id(kTaskBos);
    out.symbol(kFirstLength + static_cast<std::int32_t>(length) - 1);
    const std::int32_t value = expression(random, length, out);
    out.symbol(kAnswer, value);
    out.symbol(value);
    return std::move(out.example);
  }

 private:
  /// Writes one with so many operators, and says its value.
  static std::int32_t expression(support::Xoshiro& random, std::int64_t operators, ExampleWriter& out) {
    if (operators == 0) {
      const std::int32_t leaf = draw(random, kModulus);
      out.symbol(leaf);
      return leaf;
    }
    const std::int32_t operation = draw(random, 3);
    const std::int64_t left_operators = draw(random, operators);
    out.symbol(kPlus + operation);
    const std::int32_t left = expression(random, left_operators, out);
    const std::int32_t right = expression(random, operators - 1 - left_operators, out);
    const std::int32_t value = operation == 0 ? left + right : operation == 1 ? left - right : left * right;
    return ((value % kModulus) + kModulus) % kModulus;
  }

  std::int64_t operators_ = 10;
};

}  // namespace

std::vector<TaskGenerator> multi_step_tasks() {
  return {
      task<Depo>("depo",
                 "Edges v w of one cycle in any order, then STEP_k v ANS; the word k steps on, for up to ten v.",
                 "Allen-Zhu 2025 (Physics of Language Models 4.1), arXiv:2512.17351", "words", {3, 32}, {32, 64}),
      task<Mano>("mano", "LEN_3, an expression in prefix notation with that many operators, ANS; its value modulo 23.",
                 "Allen-Zhu 2025 (Physics of Language Models 4.1), arXiv:2512.17351", "operators", {1, 10}, {10, 10}),
  };
}

}  // namespace pe::data
