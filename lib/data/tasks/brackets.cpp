// Languages of balanced brackets (E 3.7).
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

/// Brackets of several kinds, each balanced by itself, interleaved; after each prefix the set of kinds that may close.
class InterleavedBrackets : public AlgorithmicTask {
 public:
  /// Brackets, then the sets of kinds that may close: bit k of a set stands for kind k. Opening is always legal.
  std::vector<std::string> symbols() const override;
  std::vector<std::int32_t> answers() const override {
    return ids_of(first_set(), first_set() + (std::int64_t{1} << kinds_));
  }
  double weight(std::int64_t n) const override { return n >= 2 && n % 2 == 0 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split split) const override;

 protected:
  explicit InterleavedBrackets(std::int64_t kinds) : kinds_(kinds) {}
  std::int64_t kinds_;

 private:
  std::int32_t first_set() const { return static_cast<std::int32_t>(2 * kinds_); }
};

std::vector<std::string> InterleavedBrackets::symbols() const {
  return numbered("(", kinds_) + numbered(")", kinds_) + numbered("set", std::int64_t{1} << kinds_);
}

TaskExample InterleavedBrackets::example(support::Xoshiro& random, std::int64_t length, Split) const {
  std::vector<std::int64_t> open(static_cast<std::size_t>(kinds_), 0);
  const auto legal = [&] {
    std::int32_t set = 0;
    for (std::size_t kind = 0; kind < open.size(); ++kind) set |= open[kind] > 0 ? 1 << kind : 0;
    return first_set() + set;
  };
  ExampleWriter out;
  out.id(kTaskBos, kFirstSymbol + legal());
  std::int64_t all = 0;
  for (std::int64_t left = length; left > 0; --left) {
    const bool close = all == left || (all > 0 && random.below(2) == 0);
    std::size_t kind = random.below(open.size());
    if (close) {
      while (open[kind] == 0) kind = (kind + 1) % open.size();
    }
    open[kind] += close ? -1 : 1;
    all += close ? -1 : 1;
    out.symbol(static_cast<std::int32_t>(kind) + (close ? static_cast<std::int32_t>(kinds_) : 0), legal());
  }
  return std::move(out.example);
}

/// Brackets of several kinds, nested to a bounded depth: a language model, judged where a bracket closes.
class Dyck final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("kinds", kinds_, "Kinds of brackets (k).", {.min = 1, .max = 1000});
    v.field("depth", depth_, "Deepest nesting (m).", {.min = 1, .max = 1000});
  }
  std::vector<std::string> symbols() const override { return numbered("(", kinds_) + numbered(")", kinds_); }
  std::vector<std::int32_t> answers() const override { return ids_of(static_cast<std::int32_t>(kinds_), 2 * kinds_); }
  std::vector<std::int32_t> rivals() const override { return answers(); }
  double weight(std::int64_t n) const override { return n >= 2 && n % 2 == 0 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    // The automaton of Hewitt et al. with END refused before the length, and closings forced where it would be
    // exceeded.
    Symbols string, stack;
    for (std::int64_t left = length; left > 0; --left) {
      const auto open = static_cast<std::int64_t>(stack.size());
      const bool close = open == depth_ || open == left || (open > 0 && random.below(2) == 0);
      if (close) {
        string.push_back(static_cast<std::int32_t>(kinds_) + stack.back());
        stack.pop_back();
      } else {
        stack.push_back(draw(random, kinds_));
        string.push_back(stack.back());
      }
    }
    out.id(kTaskBos, kFirstSymbol + string[0]);
    for (std::size_t i = 0; i < string.size(); ++i) {
      out.id(kFirstSymbol + string[i], i + 1 < string.size() ? kFirstSymbol + string[i + 1] : kTaskEos);
    }
    out.id(kTaskEos);
    // Which bracket opens next, and when, cannot be known.
    out.example.unjudged.assign(out.example.ids.size(), 1);
    out.example.distance.assign(out.example.ids.size(), 0);
    std::vector<std::size_t> opened;
    for (std::size_t i = 0; i < string.size(); ++i) {
      const bool closes = string[i] >= kinds_;
      out.example.unjudged[i] = closes ? 0 : 1;
      if (closes) {
        out.example.distance[i] = static_cast<std::int32_t>(i - opened.back());
        opened.pop_back();
      } else {
        opened.push_back(i);
      }
    }
    return std::move(out.example);
  }

 private:
  std::int64_t kinds_ = 8, depth_ = 10;
};

/// Brackets of one kind.
class DyckOne final : public InterleavedBrackets {
 public:
  DyckOne() : InterleavedBrackets(1) {}
  void describe(support::FieldVisitor&) override {}
};

/// Several kinds of brackets, each balanced by itself, interleaved.
class ShuffleDyck final : public InterleavedBrackets {
 public:
  ShuffleDyck() : InterleavedBrackets(2) {}
  void describe(support::FieldVisitor& v) override {
    v.field("kinds", kinds_, "Kinds of brackets.", {.min = 1, .max = 8});
  }
};

}  // namespace

std::vector<TaskGenerator> brackets_tasks() {
  return {
      task<Dyck>("dyck", "Brackets; every next symbol is learned, closing ones are judged.",
                 "Hewitt et al. 2020; Yao et al. 2021, arXiv:2105.11115; E 3.7", "brackets", {2, 100}, {102, 200}),
      task<DyckOne>("dyck1", "Brackets of one kind; after each prefix whether one may close.",
                    "Bhattamishra et al. 2020, arXiv:2009.11264; E 3.7", "brackets", {2, 50}, {52, 150}),
      task<ShuffleDyck>("shuffle_dyck", "Interleaved brackets; after each prefix the set of kinds that may close.",
                        "Bhattamishra et al. 2020, arXiv:2009.11264; E 3.7", "brackets", {2, 50}, {52, 150}),
  };
}

}  // namespace pe::data
