// Several keys with values, asked for again after gaps that are nearly 1/x.
#include <cmath>

#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class AssociativeRecall final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("pairs", pairs_, "Keys with values at the beginning.", {.min = 1, .max = 4096});
    v.field("vocabulary", vocabulary_, "Half of it are keys, half are values.", {.min = 4, .max = 1 << 20});
    v.field("power", power_, "Gaps g are drawn with a weight of (g + 1)^(power - 1); 1 is uniform.",
            {.min = 0, .max = 10});
    v.field("random_others", random_others_, "Random symbols where nothing is asked, rather than symbol 0.");
    v.check(pairs_ <= vocabulary_ / 2 - 1, "there are not as many keys as pairs");
  }
  std::vector<std::string> symbols() const override { return numbered("", vocabulary_); }
  std::vector<std::int32_t> answers() const override {
    return ids_of(static_cast<std::int32_t>(vocabulary_ / 2), vocabulary_);
  }
  double weight(std::int64_t n) const override { return n % 2 == 0 && n >= 4 * pairs_ ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    const auto half = static_cast<std::uint64_t>(vocabulary_ / 2), count = static_cast<std::uint64_t>(pairs_);
    const std::vector<std::uint64_t> keys = random.sample(half - 1, count);  // 1 to V/2 - 1
    const std::vector<std::uint64_t> values = random.sample(static_cast<std::uint64_t>(vocabulary_) - half, count);
    Symbols ids, labels(static_cast<std::size_t>(length), -1);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      append(ids, {static_cast<std::int32_t>(keys[i] + 1), static_cast<std::int32_t>(half + values[i])});
    }
    const std::size_t queries = ids.size();
    while (static_cast<std::int64_t>(ids.size()) < length)
      ids.push_back(random_others_ ? draw(random, vocabulary_) : 0);
    std::vector<double> weights;
    for (std::size_t g = 0; g < (ids.size() - queries) / 2; ++g)
      weights.push_back(std::pow(static_cast<double>(g + 1), power_ - 1));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      double total = 0;
      for (const double weight : weights) total += weight;
      double drawn = random.uniform() * total;
      std::size_t gap = 0, last = 0;
      for (std::size_t g = 0; g < weights.size(); ++g) {
        if (weights[g] == 0) continue;
        last = gap = g;
        drawn -= weights[g];
        if (drawn < 0) break;
      }
      gap = drawn < 0 ? gap : last;
      weights[gap] = 0;  // no slot twice
      ids[queries + 2 * gap] = static_cast<std::int32_t>(keys[i] + 1);
      labels[queries + 2 * gap] = static_cast<std::int32_t>(half + values[i]);
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (labels[i] < 0)
        out.symbol(ids[i]);
      else
        out.symbol(ids[i], labels[i]);
    }
    return std::move(out.example);
  }

 private:
  std::int64_t pairs_ = 4, vocabulary_ = 8192;
  double power_ = 0.01;
  bool random_others_ = false;
};

}  // namespace

TaskGenerator mqar_task() {
  return task<AssociativeRecall>(
      {.name = "mqar",
       .summary = "k1 v1 … kp vp, then keys at random gaps; at each its value, which does not follow it.",
       .reference = "Arora et al. 2023 (zoology), arXiv:2312.04927; E 3.6",
       .length = "tokens",
       .train = {64, 64},
       .test = {64, 512}});
}

}  // namespace pe::data
