// Answers that depend on places and distances (E 3.5, E 3.8, E 3.9).
#include <cmath>

#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

constexpr std::int32_t kDigits = 32;

/// An address: which symbol has this index?
class NthSymbol final : public QuestionTask {
 public:
  std::vector<std::string> symbols() const override { return numbered("s", 32) + numbered("", 10); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 32); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input = draw_many(random, n, 32);
    for (const std::int32_t digit : digits_of(draw(random, n))) input.push_back(kDigits + digit);
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    std::size_t index = 0;
    for (const std::int32_t symbol : input) {
      if (symbol >= kDigits) index = index * 10 + static_cast<std::size_t>(symbol - kDigits);
    }
    return {input[index]};
  }
};

/// An absolute place: the index of a mark, modulo sixteen.
class MarkIndex final : public QuestionTask {
  enum : std::int32_t { kMark = 32, kClasses };

 public:
  std::vector<std::string> symbols() const override {
    return numbered("s", 32) + std::vector<std::string>{"M"} + numbered("", 16);
  }
  std::vector<std::int32_t> answers() const override { return ids_of(kClasses, kClasses + 16); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input = draw_many(random, n, 32);
    input[random.below(static_cast<std::uint64_t>(n))] = kMark;
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    return {kClasses + static_cast<std::int32_t>((std::find(input.begin(), input.end(), kMark) - input.begin()) % 16)};
  }
};

/// An offset at every place: the symbol so many places back.
class SymbolBack final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor&) override {}
  std::vector<std::string> symbols() const override { return numbered("s", 32) + numbered("back", 17); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 32); }
  double weight(std::int64_t n) const override { return n >= 2 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    const std::int64_t back = draw_between(random, 1, std::min<std::int64_t>(16, length - 1));
    const Symbols content = draw_many(random, length, 32);
    out.id(kTaskBos);
    out.symbol(32 + static_cast<std::int32_t>(back));
    for (std::int64_t i = 0; i < length; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (i < back)
        out.symbol(content[at]);
      else
        out.symbol(content[at], content[at - static_cast<std::size_t>(back)]);
    }
    return std::move(out.example);
  }
};

/// The magnitude of a displacement: how far apart are the marks?
class MarkDistance final : public QuestionTask {
  enum : std::int32_t { kMark = 32, kClasses };  // then distances 1 to 32

 public:
  std::vector<std::string> symbols() const override {
    std::vector<std::string> names = numbered("s", 32) + std::vector<std::string>{"M"};
    for (int distance = 1; distance <= 32; ++distance) names.push_back(std::to_string(distance));
    return names;
  }
  std::vector<std::int32_t> answers() const override { return ids_of(kClasses, kClasses + 32); }
  double weight(std::int64_t n) const override { return n >= 2 ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input = draw_many(random, n, 32);
    const std::int64_t distance = draw_between(random, 1, std::min<std::int64_t>(32, n - 1));
    const std::int64_t first = draw(random, n - distance);
    input[static_cast<std::size_t>(first)] = input[static_cast<std::size_t>(first + distance)] = kMark;
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    const auto first = std::find(input.begin(), input.end(), kMark);
    const auto second = std::find(first + 1, input.end(), kMark);
    return {kClasses + static_cast<std::int32_t>(second - first) - 1};
  }
};

/// The sign of a displacement: which mark came first?
class WhichFirst final : public QuestionTask {
  enum : std::int32_t { kA = 32, kB, kYes, kNo };

 public:
  std::vector<std::string> symbols() const override {
    return numbered("s", 32) + std::vector<std::string>{"A", "B", "yes", "no"};
  }
  std::vector<std::int32_t> answers() const override { return ids_of(kYes, kNo + 1); }
  double weight(std::int64_t n) const override { return n >= 2 ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input = draw_many(random, n, 32);
    const std::vector<std::uint64_t> places = random.sample(static_cast<std::uint64_t>(n), 2);
    input[places[0]] = kA;
    input[places[1]] = kB;
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    return {std::find(input.begin(), input.end(), kA) < std::find(input.begin(), input.end(), kB) ? kYes : kNo};
  }
};

/// Another task of the suite after random blanks: does the answer depend on its position?
class ShiftedTask final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("of", of_, "pp_nth, pp_order, pp_dist, pp_index or pp_back.");
    v.field("blanks", blanks_, "Most blanks before the content.", {.unit = "tokens", .min = 0, .max = 100000});
    const std::vector<std::string> known = {"pp_nth", "pp_order", "pp_dist", "pp_index", "pp_back"};
    v.check(std::find(known.begin(), known.end(), of_) != known.end(),
            support::cat("pp_shift shifts pp_nth, pp_order, pp_dist, pp_index or pp_back, not '", of_, "'"));
  }
  std::vector<std::string> symbols() const override { return below()->symbols() + std::vector<std::string>{"_"}; }
  std::vector<std::int32_t> answers() const override { return below()->answers(); }
  double weight(std::int64_t n) const override { return below()->weight(n); }
  TaskExample example(support::Xoshiro& random, std::int64_t n, Split split) const override {
    const std::unique_ptr<AlgorithmicTask> task = below();
    const auto blanks = random.below(static_cast<std::uint64_t>(blanks_) + 1);
    TaskExample made = task->example(random, n, split);
    const auto blank = kFirstSymbol + static_cast<std::int32_t>(task->symbols().size());
    made.ids.insert(made.ids.begin() + 1, blanks, blank);
    made.labels.insert(made.labels.begin() + 1, blanks, kUnlabelled);
    return made;
  }

 private:
  std::unique_ptr<AlgorithmicTask> below() const { return find_task(of_)->make(Json::object()); }
  std::string of_ = "pp_dist";
  std::int64_t blanks_ = 64;
};

/// A copy, to be read with an added encoding whose norm is scaled (the option pe_scale of the model): how much does
/// magnitude swamp content?
class CopyForNorm final : public AlphabetTask {
 public:
  CopyForNorm() : AlphabetTask(32) {}
  Symbols answer(const Symbols& input) const override { return input; }
};

/// The letter so many places from another one.
class IndirectIndex final : public QuestionTask {
  enum : std::int32_t { kComma = 10, kPlus, kMinus, kLetters };  // digits first

 public:
  void describe(support::FieldVisitor& v) override {
    v.field("letters", letters_, "Letters to draw from, none twice.", {.min = 2, .max = 52});
    v.field("max_shift", max_shift_, "Largest distance.", {.unit = "places", .min = 1, .max = 51});
    v.field("allow_zero", allow_zero_, "A shift of 0 may be asked for, as in the source.");
  }
  std::vector<std::string> symbols() const override {
    std::vector<std::string> names = numbered("", 10) + std::vector<std::string>{",", "+", "-"} + letters();
    for (char c = 'A'; c <= 'Z'; ++c) names.emplace_back(1, c);
    return names;
  }
  std::vector<std::int32_t> answers() const override { return ids_of(kLetters, kLetters + letters_); }
  double weight(std::int64_t n) const override { return n >= 2 && n <= letters_ ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input;
    for (const std::uint64_t letter :
         random.sample(static_cast<std::uint64_t>(letters_), static_cast<std::uint64_t>(n))) {
      input.push_back(kLetters + static_cast<std::int32_t>(letter));
    }
    const std::int64_t source = draw(random, n);
    const std::int64_t low = std::max(-max_shift_, -source), high = std::min(max_shift_, n - 1 - source);
    std::int64_t shift = draw_between(random, low, allow_zero_ ? high : high - 1);
    if (!allow_zero_ && shift >= 0) ++shift;
    const std::int32_t letter = input[static_cast<std::size_t>(source)];
    append(input, {kComma, letter, kComma, shift < 0 ? kMinus : kPlus});
    append(input, digits_of(shift < 0 ? -shift : shift));
    input.push_back(kComma);
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    const auto comma = std::find(input.begin(), input.end(), kComma);
    const auto source = std::find(input.begin(), comma, comma[1]);
    std::ptrdiff_t shift = 0;
    for (auto digit = comma + 4; *digit != kComma; ++digit) shift = shift * 10 + *digit;
    return {source[comma[3] == kMinus ? -shift : shift]};
  }

 private:
  std::int64_t letters_ = 52, max_shift_ = 15;
  bool allow_zero_ = false;
};

/// Sequences that continue by a rule on places.
class PosGen final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.choice("rule", rule_,
             {{"recursive", Rule::kRecursive}, {"chain_of_thought", Rule::kChain}, {"semi_recursive", Rule::kSemi}},
             "Sum of the previous j + k symbols, or of the first j and the previous k. Or of the previous k and of j "
             "from a place that moves after every second symbol.");
    v.field("modulus", modulus_, "Symbols 0 to modulus - 1 (m).", {.min = 2, .max = 1000});
    v.field("j", j_, "See rule.", {.min = 1, .max = 20});
    v.field("k", k_, "See rule.", {.min = 1, .max = 20});
    v.check(std::pow(static_cast<double>(modulus_), static_cast<double>(j_ + k_)) >= 1000,
            "posgen: modulus to the power of j + k is below 1,000, so a split may have no beginning");
  }
  std::vector<std::string> symbols() const override { return numbered("", modulus_); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, modulus_); }
  double weight(std::int64_t n) const override { return n > j_ + k_ ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split split) const override {
    ExampleWriter out;
    // Beginnings of training, validation and test are disjoint: a hash says to which a tuple belongs.
    Symbols start;
    for (;;) {
      start = draw_many(random, j_ + k_, modulus_);
      std::uint64_t hash = support::fnv1a64("posgen");
      for (const std::int32_t symbol : start) hash = support::mix(hash ^ static_cast<std::uint64_t>(symbol));
      const std::uint64_t part = hash % 10;
      const Split belongs = part < 8 ? Split::kTrain : part == 8 ? Split::kValidation : Split::kTest;
      if (belongs == split) break;
    }
    const Symbols x = continued(start, length);
    out.id(kTaskBos);
    for (std::size_t i = 0; i + 1 < x.size(); ++i) {
      if (i + 1 < start.size())
        out.symbol(x[i]);
      else
        out.symbol(x[i], x[i + 1]);
    }
    out.symbol(x.back());
    return std::move(out.example);
  }

  /// `start` continued to `length`.
  Symbols continued(Symbols x, std::int64_t length) const {
    const auto j = static_cast<std::size_t>(j_), k = static_cast<std::size_t>(k_);
    const std::size_t given = x.size();
    while (static_cast<std::int64_t>(x.size()) < length) {
      const std::size_t pointer = rule_ == Rule::kSemi    ? (x.size() - given) / 2
                                  : rule_ == Rule::kChain ? 0
                                                          : x.size() - j - k;
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < j; ++i) sum += x[pointer + i];
      for (std::size_t i = 0; i < k; ++i) sum += x[x.size() - k + i];
      x.push_back(static_cast<std::int32_t>(sum % modulus_));
    }
    return x;
  }

 private:
  enum class Rule { kRecursive, kChain, kSemi };
  Rule rule_ = Rule::kRecursive;
  std::int64_t modulus_ = 17, j_ = 1, k_ = 3;
};

}  // namespace

std::vector<TaskGenerator> positions_tasks() {
  const char* source = "E 3.9";
  return {
      task<NthSymbol>("pp_nth", "n symbols and an index in digits, from 0; the symbol there.", source, "symbols",
                      {8, 64}, {65, 256}),
      task<MarkIndex>("pp_index", "Symbols with a mark; its index modulo 16, from 0.", source, "symbols", {8, 64},
                      {65, 256}),
      task<SymbolBack>("pp_back", "An offset r from 1 to 16, then symbols; at each the one r places back.", source,
                       "symbols", {8, 64}, {65, 256}),
      task<MarkDistance>("pp_dist", "Symbols with two marks; their distance, 1 to 32.", source, "symbols", {8, 64},
                         {65, 256}),
      task<WhichFirst>("pp_order", "Symbols with marks A and B; did A come first?", source, "symbols", {8, 64},
                       {65, 256}),
      task<ShiftedTask>("pp_shift", "Another task of this suite behind up to 64 blanks; its answer.", source, "symbols",
                        {8, 64}, {65, 256}),
      task<CopyForNorm>("pp_norm", "n symbols; the same again, under added encodings of several norms.", source,
                        "symbols", {8, 64}, {65, 256}),
      task<IndirectIndex>("indirect_index", "string , letter , shift , ; the letter that stands so far from it.",
                          "PoPE, arXiv:2509.10534; E 3.5", "letters of the string", {20, 40}, {20, 40}),
      task<PosGen>("posgen", "j + k symbols; all that follow by the rule.",
                   "Wang et al. 2024 (Resonance RoPE), arXiv:2403.00071; E 3.8", "symbols", {64, 64}, {65, 256}),
  };
}

}  // namespace pe::data
