#include "training/documents.h"

#include <algorithm>

namespace pe::training {

void document_starts(const data::TokenDataset& dataset, data::Split split, std::uint64_t first,
                     std::span<std::int64_t> out) {
  const std::uint64_t count = dataset.documents(split);
  // The last document that begins at or before `first`; empty ones begin where the next does.
  std::uint64_t low = 0, high = count;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (dataset.document(split, middle).first <= first)
      low = middle;
    else
      high = middle;
  }
  std::uint64_t next = low + 1;
  std::uint64_t border = next < count ? dataset.document(split, next).first : ~std::uint64_t{0};
  std::int64_t start = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    while (first + i >= border) {
      start = static_cast<std::int64_t>(border - first);
      ++next;
      border = next < count ? dataset.document(split, next).first : ~std::uint64_t{0};
    }
    out[i] = start;
  }
}

}  // namespace pe::training
