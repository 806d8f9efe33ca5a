// Brackets of one kind.
#include "data/tasks/interleaved_brackets.h"

namespace pe::data {

namespace {

class DyckOne final : public InterleavedBrackets {
 public:
  DyckOne() : InterleavedBrackets(1) {}
  void describe(support::FieldVisitor&) override {}
};

}  // namespace

TaskGenerator dyck1_task() {
  return task<DyckOne>({.name = "dyck1",
                        .summary = "Brackets of one kind; after each prefix whether one may close.",
                        .reference = "Bhattamishra et al. 2020, arXiv:2009.11264; E 3.7",
                        .length = "brackets",
                        .train = {2, 50},
                        .test = {52, 150}});
}

}  // namespace pe::data
