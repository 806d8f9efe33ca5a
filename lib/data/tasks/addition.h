/// @file
/// Sums of two numbers, for tasks that draw the same operands and differ in how they write digits down.
#pragma once

#include "data/tasks/task_base.h"

namespace pe::data {

class Addition : public QuestionTask {
 public:
  std::vector<std::string> symbols() const override;  ///< ten digits and +
  std::vector<std::int32_t> answers() const override { return ids_of(0, 10); }
  /// All ordered pairs of digit counts are equally frequent; 2n - 1 of them have n as the larger one.
  double weight(std::int64_t n) const override { return n >= 1 ? static_cast<double>(2 * n - 1) : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override;
  Symbols answer(const Symbols& input) const override;

 private:
  /// A number, most significant digit first, as the task writes it where numbers may have `places` digits.
  virtual Symbols written(Symbols digits, std::int64_t places) const = 0;
  /// The number that is written so: zeros in front do no harm.
  virtual Symbols read(Symbols written) const { return written; }
};

}  // namespace pe::data
