// Twice: cmc2x of the source.
#include "data/tasks/said_twice.h"

namespace pe::data {

namespace {

class CopyMultiTwice final : public SaidTwice {
 public:
  CopyMultiTwice() : SaidTwice(kForwards, kForwards) {}
};

}  // namespace

TaskGenerator copy_multi2_task() {
  return task<CopyMultiTwice>({.name = "copy_multi2",
                               .summary = "n symbols; the same, NEXT, the same.",
                               .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                               .length = "symbols",
                               .train = {1, 20},
                               .test = {21, 40}});
}

}  // namespace pe::data
