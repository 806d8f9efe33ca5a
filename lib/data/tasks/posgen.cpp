// Sequences that continue by a rule on places.
#include "data/tasks/task_base.h"
#include "support/hash.h"

namespace pe::data {

namespace {

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

TaskGenerator posgen_task() {
  return task<PosGen>({.name = "posgen",
                       .summary = "j + k symbols; all that follow by the rule.",
                       .reference = "Wang et al. 2024 (Resonance RoPE), arXiv:2403.00071; E 3.8",
                       .length = "symbols",
                       .train = {64, 64},
                       .test = {65, 256}});
}

}  // namespace pe::data
