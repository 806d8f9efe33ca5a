// Symbols of an ordered alphabet, sorted.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class SortSingle final : public QuestionTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("alphabet", alphabet_, "Symbols to draw from.", {.min = 2, .max = 100000});
  }
  std::vector<std::string> symbols() const override { return numbered("s", alphabet_); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, alphabet_); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return draw_many(random, n, alphabet_); }
  Symbols answer(const Symbols& input) const override {
    Symbols target = input;
    std::sort(target.begin(), target.end());
    return target;
  }

 private:
  std::int64_t alphabet_ = 50;
};

}  // namespace

TaskGenerator sort_single_task() {
  return task<SortSingle>({.name = "sort_single",
                           .summary = "n symbols of an ordered alphabet; the same sorted.",
                           .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                           .length = "symbols",
                           .train = {2, 8},
                           .test = {9, 16}});
}

}  // namespace pe::data
