// One symbol, repeated twice as often: rsc2x of the source.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class CopyRepeatTwice final : public QuestionTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("alphabet", alphabet_, "Symbols to draw from.", {.min = 2, .max = 100000});
  }
  std::vector<std::string> symbols() const override { return numbered("s", alphabet_); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, alphabet_); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    return Symbols(static_cast<std::size_t>(n), draw(random, alphabet_));
  }
  Symbols answer(const Symbols& input) const override {
    Symbols target = input;
    append(target, input);
    return target;
  }

 private:
  std::int64_t alphabet_ = 26;
};

}  // namespace

TaskGenerator copy_repeat2_task() {
  return task<CopyRepeatTwice>({.name = "copy_repeat2",
                                .summary = "One symbol n times; the same 2n times.",
                                .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                                .length = "symbols",
                                .train = {1, 20},
                                .test = {21, 40}});
}

}  // namespace pe::data
