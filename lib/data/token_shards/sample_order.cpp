#include "data/token_shards/sample_order.h"

#include "support/error.h"
#include "support/hash.h"

namespace pe::data {

SampleOrder::SampleOrder(std::uint64_t seed, std::uint64_t windows) : seed_(seed), windows_(windows) {
  if (windows == 0)
    throw support::Error(support::kExitBug, support::Diagnostic{"an order of no windows was asked for"});
}

std::uint64_t SampleOrder::operator()(std::uint64_t k) const {
  const std::uint64_t wanted = k / windows_;
  std::shared_ptr<const support::Permutation> permutation;
  {
    const std::lock_guard lock(mutex_);
    if (!permutation_ || epoch_ != wanted) {
      permutation_ = std::make_shared<const support::Permutation>(
          support::make_key({seed_, support::fnv1a64("data order"), wanted}), windows_);
      epoch_ = wanted;
    }
    permutation = permutation_;
  }
  return (*permutation)(k % windows_);
}

}  // namespace pe::data
