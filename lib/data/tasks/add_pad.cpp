// Addition of operands padded with zeros to the same number of digits.
#include "data/tasks/addition.h"

namespace pe::data {

namespace {

class PaddedAddition final : public Addition {
  Symbols written(Symbols digits, std::int64_t places) const override {
    digits.insert(digits.begin(), static_cast<std::size_t>(places) - digits.size(), 0);
    return digits;
  }
};

}  // namespace

TaskGenerator add_pad_task() {
  return task<PaddedAddition>({.name = "add_pad",
                               .summary = "Digits + digits, padded with zeros to n; the sum, padded to n + 1.",
                               .reference = "E 3.10",
                               .length = "digits of the longer operand",
                               .train = {1, 8},
                               .test = {9, 16}});
}

}  // namespace pe::data
