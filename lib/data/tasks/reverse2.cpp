// Backwards twice: mc2x of the source, "Reverse" of its main figure.
#include "data/tasks/said_twice.h"

namespace pe::data {

namespace {

class ReverseTwice final : public SaidTwice {
 public:
  ReverseTwice() : SaidTwice(kBackwards, kBackwards) {}
};

}  // namespace

TaskGenerator reverse2_task() {
  return task<ReverseTwice>({.name = "reverse2",
                             .summary = "n symbols; backwards, NEXT, backwards.",
                             .reference = "Kazemnejad et al. 2023, arXiv:2305.19466; E 3.2",
                             .length = "symbols",
                             .train = {1, 20},
                             .test = {21, 40}});
}

}  // namespace pe::data
