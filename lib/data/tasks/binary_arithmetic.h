/// @file
/// Two binary numbers, low bit first with a 2 between them, and their result in the same form, a 2, zeros.
#pragma once

#include "data/tasks/task_base.h"

namespace pe::data {

class BinaryArithmetic : public ChomskyTask {
 public:
  std::vector<std::string> own_symbols() const override { return {"0", "1", "2"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 3); }
  std::int32_t terminator() const override { return 2; }
  double weight(std::int64_t n) const override { return n >= 3 ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override;
  Symbols answer(const Symbols& input) const override;

 private:
  /// Low bit first; zeros behind the highest one do no harm.
  virtual Symbols combined(const Symbols& x, const Symbols& y) const = 0;
  /// How many symbols the output has for so many of input.
  virtual std::size_t output_symbols(std::size_t input) const = 0;
};

}  // namespace pe::data
