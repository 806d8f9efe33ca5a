// Context-sensitive: sorted.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class BucketSort final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1", "2", "3", "4"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 5); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return draw_many(random, n, 5); }
  Symbols answer(const Symbols& input) const override {
    Symbols sorted = input;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }
};

}  // namespace

TaskGenerator bucket_sort_task() {
  return task<BucketSort>({.name = "bucket_sort",
                           .summary = "n symbols 0 to 4; sorted.",
                           .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
                           .length = "symbols of input",
                           .train = {1, 40},
                           .test = {41, 500}});
}

}  // namespace pe::data
