// A state that a text changes step by step (E 3.4).
#include <cmath>

#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

/// Counters in a program: what is the value of a variable after these lines?
class Count final : public QuestionTask {
  enum : std::int32_t { kEquals, kSemicolon, kIncrement, kPass, kPrint, kValues };  // then values 0 to 10, then names
  static constexpr std::int32_t kLargest = 10;
  static constexpr std::int32_t kNames = kValues + kLargest + 1;

 public:
  void describe(support::FieldVisitor& v) override {
    v.field("variables", variables_, "Names that a program may use.", {.min = 1, .max = 26});
    v.field("max_tokens", max_tokens_, "Longer programs lose their beginning, and some their answer; 0: none does.",
            {.unit = "tokens", .min = 0});
  }
  std::vector<std::string> symbols() const override {
    std::vector<std::string> names = {"=", ";", "++", "pass", "print"};
    for (std::int32_t value = 0; value <= kLargest; ++value) names.push_back(std::to_string(value));
    return names + letters();
  }
  std::vector<std::int32_t> answers() const override { return ids_of(kValues, kNames); }
  Symbols ask(support::Xoshiro& random, std::int64_t lines) const override {
    for (;;) {
      Symbols input, declared;
      std::vector<std::int32_t> value(26, -1);
      for (std::int64_t line = 0; line < lines;) {
        const std::int64_t kind = draw(random, 58);  // set 1, pass 50, increment 7
        if (kind == 0) {
          const std::int32_t name = draw(random, variables_);
          if (value[static_cast<std::size_t>(name)] < 0) declared.push_back(name);
          value[static_cast<std::size_t>(name)] = 0;
          append(input, {kNames + name, kEquals, kValues, kSemicolon});
        } else if (kind <= 50) {
          input.push_back(kPass);
        } else {
          if (declared.empty()) continue;
          const std::int32_t name = declared[random.below(declared.size())];
          if (value[static_cast<std::size_t>(name)] == kLargest) continue;
          ++value[static_cast<std::size_t>(name)];
          append(input, {kNames + name, kIncrement});
        }
        ++line;
      }
      if (declared.empty()) continue;
      append(input, {kPrint, kNames + declared[random.below(declared.size())]});
      return input;
    }
  }
  Symbols answer(const Symbols& input) const override {
    std::int32_t value = 0;
    for (std::size_t i = 0; i + 2 < input.size(); ++i) {
      if (input[i] != input.back()) continue;
      if (input[i + 1] == kEquals) value = 0;
      if (input[i + 1] == kIncrement) ++value;
    }
    return {kValues + value};
  }
  TaskExample example(support::Xoshiro& random, std::int64_t lines, Split split) const override {
    TaskExample made = QuestionTask::example(random, lines, split);
    if (max_tokens_ > 0 && static_cast<std::int64_t>(made.ids.size()) > max_tokens_) {
      const auto cut = static_cast<std::ptrdiff_t>(made.ids.size()) - max_tokens_;
      made.ids.erase(made.ids.begin(), made.ids.begin() + cut);
      made.labels.erase(made.labels.begin(), made.labels.begin() + cut);
    }
    return made;
  }

 private:
  std::int64_t variables_ = 3;
  std::int64_t max_tokens_ = 0;
};

/// Write, read and ignore: what was written last?
class FlipFlop final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("ignore", ignore_, "Share of ignore instructions: 0.8 in training; 0.98 (sparse) and 0.1 (dense) in tests.",
            {.min = 0, .max = 1});
  }
  std::vector<std::string> symbols() const override { return {"w", "r", "i", "0", "1"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(3, 5); }
  double weight(std::int64_t length) const override { return length >= 4 && length % 2 == 0 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    enum : std::int32_t { kWrite, kRead, kIgnore, kZero };
    out.id(kTaskBos);
    std::int32_t memory = 0;
    const std::int64_t pairs = length / 2;
    for (std::int64_t i = 0; i < pairs; ++i) {
      std::int32_t instruction = kIgnore;
      if (i == 0)
        instruction = kWrite;
      else if (i + 1 == pairs)
        instruction = kRead;
      else if (random.uniform() >= ignore_)
        instruction = random.below(2) == 0 ? kWrite : kRead;
      std::int32_t bit = draw(random, 2);
      if (instruction == kRead) bit = memory;
      if (instruction == kWrite) memory = bit;
      if (instruction == kRead)
        out.symbol(kRead, kZero + bit);
      else
        out.symbol(instruction);
      out.symbol(kZero + bit);
    }
    return std::move(out.example);
  }

 private:
  double ignore_ = 0.8;
};

constexpr std::int64_t kData = 16;
constexpr std::int32_t kBlank = kData;

/// Data among blanks: say the data in order.
class SelectiveCopy final : public QuestionTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("blanks", blanks_, "Blanks for each data symbol: 1 in training, 0.5 (dense) and 2 (sparse) in tests.",
            {.min = 0, .max = 100});
  }
  std::vector<std::string> symbols() const override { return numbered("d", kData) + std::vector<std::string>{"_"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, kData); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    const auto all =
        static_cast<std::uint64_t>(n) + static_cast<std::uint64_t>(std::llround(blanks_ * static_cast<double>(n)));
    Symbols input(all, kBlank);
    for (const std::uint64_t place : random.sample(all, static_cast<std::uint64_t>(n)))
      input[place] = draw(random, kData);
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    Symbols data;
    for (const std::int32_t symbol : input) {
      if (symbol != kBlank) data.push_back(symbol);
    }
    return data;
  }

 private:
  double blanks_ = 1;
};

using Permutation = std::vector<int>;  ///< image of each point

/// In lexicographic order of their images.
std::vector<Permutation> permutations(int points, bool even_only) {
  std::vector<Permutation> all;
  Permutation images(static_cast<std::size_t>(points));
  for (int i = 0; i < points; ++i) images[static_cast<std::size_t>(i)] = i;
  do {
    int inversions = 0;
    for (std::size_t i = 0; i < images.size(); ++i) {
      for (std::size_t j = i + 1; j < images.size(); ++j) inversions += images[i] > images[j] ? 1 : 0;
    }
    if (!even_only || inversions % 2 == 0) all.push_back(images);
  } while (std::next_permutation(images.begin(), images.end()));
  return all;
}

/// Products of permutations: after each element of a group, the product of all so far. No sum of the elements gives
/// this state, in groups that are not commutative.
class PermutationProduct final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.choice("group", group_, {{"s3", Group::kS3}, {"a5", Group::kA5}, {"s5", Group::kS5}},
             "All permutations of three points, the even ones of five, or all of five.");
    v.choice("mode", mode_, {{"prefix", Mode::kPrefix}, {"final", Mode::kFinal}},
             "The product is asked for at every element, or once behind SEP.");
    v.choice("only", only_, {{"all", Only::kAll}, {"swaps", Only::kSwaps}},
             "Elements to draw from: all of the group, or the identity and all swaps of two points.");
    v.check(only_ == Only::kAll || group_ != Group::kA5, "group a5 holds no element that swaps two points");
    elements_ = permutations(group_ == Group::kS3 ? 3 : 5, group_ == Group::kA5);
    drawn_.clear();
    for (std::size_t e = 0; e < elements_.size(); ++e) {
      int moved = 0;
      for (std::size_t x = 0; x < elements_[e].size(); ++x) moved += elements_[e][x] != static_cast<int>(x) ? 1 : 0;
      if (only_ == Only::kAll || moved == 0 || moved == 2) drawn_.push_back(static_cast<std::int32_t>(e));
    }
  }
  std::vector<std::string> symbols() const override {
    return numbered("e", static_cast<std::int64_t>(elements_.size()));
  }
  std::vector<std::int32_t> answers() const override { return ids_of(0, static_cast<std::int64_t>(elements_.size())); }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    out.id(kTaskBos);
    std::int32_t product = 0;  // the identity comes first
    for (std::int64_t i = 1; i <= length; ++i) {
      const std::int32_t next = drawn_[random.below(drawn_.size())];
      product = after(next, product);
      if (mode_ == Mode::kPrefix)
        out.symbol(next, product);
      else
        out.symbol(next);
    }
    TaskExample& made = out.example;
    if (mode_ == Mode::kPrefix) {
      made.unjudged.assign(made.ids.size(), 0);
      made.unjudged[1] = 1;  // the first product is the element itself
      made.part.assign(made.ids.size(), 0);
      std::int32_t power = 1;
      for (std::int32_t i = 2; i <= length; ++i) {
        if (i >= 2 * power) power *= 2;
        made.part[static_cast<std::size_t>(i)] = power;
      }
      if (length == 1) made.unjudged[1] = 0;  // else nothing would be judged
      return std::move(made);
    }
    out.id(kTaskSep, kFirstSymbol + product);
    out.id(kFirstSymbol + product, kTaskEos);
    out.id(kTaskEos);
    return std::move(made);
  }
  std::string part() const override { return mode_ == Mode::kPrefix ? "elements_from" : ""; }

 private:
  enum class Group { kS3, kA5, kS5 };
  enum class Mode { kPrefix, kFinal };
  enum class Only { kAll, kSwaps };

  /// (a∘b)(x) = a(b(x))
  std::int32_t after(std::int32_t a, std::int32_t b) const {
    const Permutation &outer = elements_[static_cast<std::size_t>(a)], &inner = elements_[static_cast<std::size_t>(b)];
    Permutation both(inner.size());
    for (std::size_t x = 0; x < inner.size(); ++x) both[x] = outer[static_cast<std::size_t>(inner[x])];
    const auto at = std::lower_bound(elements_.begin(), elements_.end(), both);
    return static_cast<std::int32_t>(at - elements_.begin());
  }

  Group group_ = Group::kS3;
  Mode mode_ = Mode::kPrefix;
  Only only_ = Only::kAll;
  std::vector<Permutation> elements_;
  std::vector<std::int32_t> drawn_;  ///< what inputs are drawn from
};

}  // namespace

std::vector<TaskGenerator> state_tracking_tasks() {
  return {
      task<Count>("count", "Lines `v = 0 ;`, `v ++` and `pass`, then print v; its value.",
                  "Golovneva et al. 2024 (CoPE), arXiv:2405.18719; E 3.4", "lines", {3, 128}, {129, 512}),
      task<FlipFlop>("flipflop", "Pairs of w, r, i and a bit; after r the bit written last.",
                     "Liu et al. 2023, arXiv:2306.00946; E 3.4", "tokens", {512, 512}, {512, 1024}),
      task<SelectiveCopy>("selcopy", "n data symbols at random places among blanks; the data in order.",
                          "Gu and Dao 2023, in the splits of CoPE; E 3.4", "data symbols", {32, 32}, {32, 32}),
      task<PermutationProduct>("permutation_product",
                               "Permutations g1 g2 …; at each the product of all so far, the newest applied last.",
                               "Liu et al. 2023, arXiv:2210.10749; Movahedi et al. 2025, arXiv:2511.17388",
                               "permutations", {1, 32}, {33, 512}),
  };
}

}  // namespace pe::data
