// Addition, most significant digit first.
#include "data/tasks/addition.h"

namespace pe::data {

namespace {

class Add final : public Addition {
  Symbols written(Symbols digits, std::int64_t) const override { return digits; }
};

}  // namespace

TaskGenerator add_task() {
  return task<Add>({.name = "add",
                    .summary = "Digits + digits; the digits of the sum.",
                    .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                    .length = "digits of the longer operand",
                    .train = {1, 8},
                    .test = {9, 16}});
}

}  // namespace pe::data
