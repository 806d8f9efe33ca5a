#include "data/tasks/interleaved_brackets.h"

namespace pe::data {

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

}  // namespace pe::data
