/// @file
/// Symbols that are said twice with NEXT between, each time forwards or backwards.
#pragma once

#include "data/tasks/task_base.h"

namespace pe::data {

class SaidTwice : public QuestionTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("alphabet", alphabet_, "Symbols to draw from.", {.min = 2, .max = 100000});
  }
  std::vector<std::string> symbols() const override {
    return numbered("s", alphabet_) + std::vector<std::string>{"NEXT"};
  }
  std::vector<std::int32_t> answers() const override { return ids_of(0, alphabet_); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return draw_many(random, n, alphabet_); }
  Symbols answer(const Symbols& input) const override {
    Symbols target = said(input, first_);
    target.push_back(static_cast<std::int32_t>(alphabet_));
    append(target, said(input, second_));
    return target;
  }

 protected:
  enum Order { kForwards, kBackwards };
  SaidTwice(Order first, Order second) : first_(first), second_(second) {}

 private:
  static Symbols said(const Symbols& input, Order order) {
    return order == kForwards ? input : Symbols(input.rbegin(), input.rend());
  }

  std::int64_t alphabet_ = 100;
  Order first_, second_;
};

}  // namespace pe::data
