// Backwards, then forwards: mcrv of the source.
#include "data/tasks/said_twice.h"

namespace pe::data {

namespace {

class ReverseCopy final : public SaidTwice {
 public:
  ReverseCopy() : SaidTwice(kBackwards, kForwards) {}
};

}  // namespace

TaskGenerator reverse_copy_task() {
  return task<ReverseCopy>({.name = "reverse_copy",
                            .summary = "n symbols; backwards, NEXT, the same.",
                            .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                            .length = "symbols",
                            .train = {1, 20},
                            .test = {21, 40}});
}

}  // namespace pe::data
