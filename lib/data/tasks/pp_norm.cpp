// A copy, to be read with an added encoding whose norm is scaled (the option pe_scale of the model): how much does
// magnitude swamp content?
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class CopyForNorm final : public QuestionTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("alphabet", alphabet_, "Symbols to draw from.", {.min = 2, .max = 100000});
  }
  std::vector<std::string> symbols() const override { return numbered("s", alphabet_); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, alphabet_); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return draw_many(random, n, alphabet_); }
  Symbols answer(const Symbols& input) const override { return input; }

 private:
  std::int64_t alphabet_ = 32;
};

}  // namespace

TaskGenerator pp_norm_task() {
  return task<CopyForNorm>({.name = "pp_norm",
                            .summary = "n symbols; the same again, under added encodings of several norms.",
                            .reference = "E 3.9",
                            .length = "symbols",
                            .train = {8, 64},
                            .test = {65, 256}});
}

}  // namespace pe::data
