#include "support/resample.h"

#include "support/hash.h"
#include "support/random.h"

namespace pe::support {

void add_resample(std::uint64_t base, std::size_t items, std::uint64_t b, std::uint16_t* counts) {
  static const std::uint64_t purpose = fnv1a64("bootstrap");
  Xoshiro random(make_key({base, purpose, items, b}));
  for (std::size_t draw = 0; draw < items; ++draw) ++counts[random.below(items)];
}

}  // namespace pe::support
