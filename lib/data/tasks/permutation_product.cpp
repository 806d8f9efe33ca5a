// Products of permutations: after each element of a group, the product of all so far. No sum of the elements gives this
// state, in groups that are not commutative.
#include <array>

#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

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

class PermutationProduct final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.choice("group", group_, {{"s3", Group::kS3}, {"a5", Group::kA5}, {"s5", Group::kS5}},
             "All permutations of three points, the even ones of five, or all of five.");
    v.choice("mode", mode_, {{"prefix", Mode::kPrefix}, {"final", Mode::kFinal}},
             "The product is asked for at every element, or once behind SEP.");
    v.choice("only", only_, {{"all", Only::kAll}, {"swaps", Only::kSwaps}},
             "Elements to draw from: all of the group, or the identity and those that swap two points.");
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

TaskGenerator permutation_product_task() {
  return task<PermutationProduct>(
      {.name = "permutation_product",
       .summary = "Permutations g1 g2 …; at each the product of all so far, the newest applied last.",
       .reference = "Liu et al. 2023, arXiv:2210.10749; Movahedi et al. 2025, arXiv:2511.17388",
       .length = "permutations",
       .train = {1, 32},
       .test = {33, 512}});
}

}  // namespace pe::data
