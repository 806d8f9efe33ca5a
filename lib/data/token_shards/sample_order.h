/// @file
/// The order in which a training sees its windows. Sample k of a run belongs to epoch k / n; within an epoch a keyed
/// bijection says which window it is. So the state of the data is one number, k: resuming, changing the micro-batch or
/// the number of ranks leaves the order alone.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "support/random.h"

namespace pe::data {

class SampleOrder {
 public:
  /// `windows` > 0. The epoch's key is make_key({seed, fnv1a64("data order"), epoch}).
  SampleOrder(std::uint64_t seed, std::uint64_t windows);
  /// The window that sample k of the run reads; thread-safe.
  std::uint64_t operator()(std::uint64_t k) const;
  std::uint64_t windows() const { return windows_; }

 private:
  std::uint64_t seed_;
  std::uint64_t windows_;
  mutable std::mutex mutex_;
  mutable std::uint64_t epoch_ = ~0ULL;
  mutable std::shared_ptr<const support::Permutation> permutation_;
};

}  // namespace pe::data
