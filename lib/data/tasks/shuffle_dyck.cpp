// Several kinds of brackets, each balanced by itself, interleaved.
#include "data/tasks/kit.h"

namespace pe::data {

namespace {

/// Which brackets may follow each prefix, of balanced strings of one kind each, interleaved.
TaskExample shuffled(support::Xoshiro& random, std::int64_t length, std::int64_t kinds) {
  std::vector<std::int64_t> open(static_cast<std::size_t>(kinds), 0);
  const auto first_set = static_cast<std::int32_t>(2 * kinds);
  const auto legal = [&] {
    std::int32_t set = 0;
    for (std::size_t kind = 0; kind < open.size(); ++kind) set |= open[kind] > 0 ? 1 << kind : 0;
    return first_set + set;
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
    out.symbol(static_cast<std::int32_t>(kind) + (close ? static_cast<std::int32_t>(kinds) : 0), legal());
  }
  return std::move(out.example);
}

class ShuffleDyck final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("kinds", kinds_, "Kinds of brackets.", {.min = 1, .max = 8});
  }
  /// Brackets, then the sets of kinds that may close: bit k of a set stands for kind k. Opening is always legal.
  std::vector<std::string> symbols() const override {
    return numbered("(", kinds_) + numbered(")", kinds_) + numbered("set", std::int64_t{1} << kinds_);
  }
  std::vector<std::int32_t> answers() const override {
    return ids_of(static_cast<std::int32_t>(2 * kinds_), 2 * kinds_ + (std::int64_t{1} << kinds_));
  }
  double weight(std::int64_t n) const override { return n >= 2 && n % 2 == 0 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, TaskSplit) const override {
    return shuffled(random, length, kinds_);
  }

 private:
  std::int64_t kinds_ = 2;
};

}  // namespace

TaskGenerator shuffle_dyck_task() {
  return task<ShuffleDyck>({.name = "shuffle_dyck",
                          .summary = "Interleaved brackets; after each prefix the set of kinds that may close.",
                          .reference = "Bhattamishra et al. 2020, arXiv:2009.11264; E 3.7",
                          .length = "brackets",
                          .train = {2, 50},
                          .test = {52, 150}});
}

}  // namespace pe::data
