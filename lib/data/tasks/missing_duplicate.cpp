// Context-sensitive: the bit that one of two copies hides.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

enum : std::int32_t { kHidden = 2, kPadding };

class MissingDuplicate final : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1", "?", "_"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 2); }
  double weight(std::int64_t n) const override { return n >= 2 ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input = draw_many(random, n / 2, 2);
    const Symbols copy = input;
    append(input, copy);
    input[random.below(input.size())] = kHidden;
    if (n % 2 != 0) input.push_back(kPadding);
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    const std::size_t half = input.size() / 2;
    const auto at = static_cast<std::size_t>(std::find(input.begin(), input.end(), kHidden) - input.begin());
    return {input[at < half ? at + half : at - half]};
  }
};

}  // namespace

TaskGenerator missing_duplicate_task() {
  return task<MissingDuplicate>({.name = "missing_duplicate",
                                 .summary = "A word of bits twice with one bit hidden; that bit.",
                                 .reference = "Deletang et al. 2022, arXiv:2207.02098; E 3.3",
                                 .length = "symbols of input",
                                 .train = {2, 40},
                                 .test = {41, 500}});
}

}  // namespace pe::data
