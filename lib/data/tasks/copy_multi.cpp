// Symbols drawn freely: cmc of the source.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class CopyMulti final : public QuestionTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("alphabet", alphabet_, "Symbols to draw from.", {.min = 2, .max = 100000});
    v.field("distinct", distinct_, "No symbol twice.");
  }
  std::vector<std::string> symbols() const override { return numbered("s", alphabet_); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, alphabet_); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    if (!distinct_) return draw_many(random, n, alphabet_);
    Symbols input;
    for (const std::uint64_t symbol :
         random.sample(static_cast<std::uint64_t>(alphabet_), static_cast<std::uint64_t>(n))) {
      input.push_back(static_cast<std::int32_t>(symbol));
    }
    return input;
  }
  Symbols answer(const Symbols& input) const override { return input; }
  double weight(std::int64_t n) const override { return n >= 1 && (!distinct_ || n <= alphabet_) ? 1 : 0; }

 private:
  std::int64_t alphabet_ = 100;
  bool distinct_ = false;
};

}  // namespace

TaskGenerator copy_multi_task() {
  return task<CopyMulti>({.name = "copy_multi",
                          .summary = "n symbols; the same again.",
                          .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                          .length = "symbols",
                          .train = {1, 20},
                          .test = {21, 40}});
}

}  // namespace pe::data
