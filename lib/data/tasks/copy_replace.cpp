// One symbol by another: rdc of the source.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class CopyReplace final : public QuestionTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("alphabet", alphabet_, "Symbols to draw from.", {.min = 2, .max = 100000});
  }
  std::vector<std::string> symbols() const override {
    return numbered("s", alphabet_) + std::vector<std::string>{"MAP", "IN"};
  }
  std::vector<std::int32_t> answers() const override { return ids_of(0, alphabet_); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    const std::int32_t from = draw(random, alphabet_);
    std::int32_t to = draw(random, alphabet_ - 1);
    if (to >= from) ++to;
    Symbols input = {map(), from, to, in()};
    append(input, Symbols(static_cast<std::size_t>(n), from));
    return input;
  }
  Symbols answer(const Symbols& input) const override { return Symbols(input.size() - 4, input[2]); }
  std::int32_t map() const { return static_cast<std::int32_t>(alphabet_); }
  std::int32_t in() const { return static_cast<std::int32_t>(alphabet_) + 1; }

 private:
  std::int64_t alphabet_ = 26;
};

}  // namespace

TaskGenerator copy_replace_task() {
  return task<CopyReplace>({.name = "copy_replace",
                            .summary = "MAP c e IN c n times; e n times.",
                            .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                            .length = "symbols",
                            .train = {1, 20},
                            .test = {21, 40}});
}

}  // namespace pe::data
