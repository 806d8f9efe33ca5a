// Backwards: mc of the source.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class Reverse final : public QuestionTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("alphabet", alphabet_, "Symbols to draw from.", {.min = 2, .max = 100000});
  }
  std::vector<std::string> symbols() const override { return numbered("s", alphabet_); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, alphabet_); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return draw_many(random, n, alphabet_); }
  Symbols answer(const Symbols& input) const override { return {input.rbegin(), input.rend()}; }

 private:
  std::int64_t alphabet_ = 100;
};

}  // namespace

TaskGenerator reverse_task() {
  return task<Reverse>({.name = "reverse",
                        .summary = "n symbols; the same backwards.",
                        .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                        .length = "symbols",
                        .train = {1, 20},
                        .test = {21, 40}});
}

}  // namespace pe::data
