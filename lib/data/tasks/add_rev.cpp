// Addition, least significant digit first.
#include "data/tasks/addition.h"

namespace pe::data {

namespace {

class ReversedAddition final : public Addition {
  Symbols written(Symbols digits, std::int64_t) const override { return read(std::move(digits)); }
  Symbols read(Symbols written) const override { return {written.rbegin(), written.rend()}; }
};

}  // namespace

TaskGenerator add_rev_task() {
  return task<ReversedAddition>(
      {.name = "add_rev",
       .summary = "Digits + digits and their sum, all with the least significant digit first.",
       .reference = "E 3.10",
       .length = "digits of the longer operand",
       .train = {1, 8},
       .test = {9, 16}});
}

}  // namespace pe::data
