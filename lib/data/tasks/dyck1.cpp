// Brackets of one kind.
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

class DyckOne final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor&) override {}
  /// Brackets, then the sets of kinds that may close: bit k of a set stands for kind k. Opening is always legal.
  std::vector<std::string> symbols() const override {
    return numbered("(", 1) + numbered(")", 1) + numbered("set", std::int64_t{1} << 1);
  }
  std::vector<std::int32_t> answers() const override {
    return ids_of(static_cast<std::int32_t>(2 * 1), 2 * 1 + (std::int64_t{1} << 1));
  }
  double weight(std::int64_t n) const override { return n >= 2 && n % 2 == 0 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, TaskSplit) const override {
    return shuffled(random, length, 1);
  }
};

}  // namespace

TaskGenerator dyck1_task() {
  return task<DyckOne>({.name = "dyck1",
                      .summary = "Brackets of one kind; after each prefix whether one may close.",
                      .reference = "Bhattamishra et al. 2020, arXiv:2009.11264; E 3.7",
                      .length = "brackets",
                      .train = {2, 50},
                      .test = {52, 150}});
}

}  // namespace pe::data
