/// @file
/// Brackets of several kinds, each balanced by itself, interleaved; after each prefix the set of kinds that may close.
#pragma once

#include "data/tasks/task_base.h"

namespace pe::data {

class InterleavedBrackets : public AlgorithmicTask {
 public:
  /// Brackets, then the sets of kinds that may close: bit k of a set stands for kind k. Opening is always legal.
  std::vector<std::string> symbols() const override;
  std::vector<std::int32_t> answers() const override {
    return ids_of(first_set(), first_set() + (std::int64_t{1} << kinds_));
  }
  double weight(std::int64_t n) const override { return n >= 2 && n % 2 == 0 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split split) const override;

 protected:
  explicit InterleavedBrackets(std::int64_t kinds) : kinds_(kinds) {}
  std::int64_t kinds_;

 private:
  std::int32_t first_set() const { return static_cast<std::int32_t>(2 * kinds_); }
};

}  // namespace pe::data
