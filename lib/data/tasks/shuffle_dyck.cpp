// Several kinds of brackets, each balanced by itself, interleaved.
#include "data/tasks/interleaved_brackets.h"

namespace pe::data {

namespace {

class ShuffleDyck final : public InterleavedBrackets {
 public:
  ShuffleDyck() : InterleavedBrackets(2) {}
  void describe(support::FieldVisitor& v) override {
    v.field("kinds", kinds_, "Kinds of brackets.", {.min = 1, .max = 8});
  }
};

}  // namespace

TaskGenerator shuffle_dyck_task() {
  return task<ShuffleDyck>({.name = "shuffle_dyck",
                            .summary = "Interleaved brackets; after each prefix the set of kinds that may close.",
                            .reference = "Bhattamishra et al. 2020, arXiv:2009.11264; E 3.7",
                            .length = "brackets",
                            .train = {2, 50},
                            .test = {52, 150}});
}

}  // namespace pe::data
