#include "evaluation/windows.h"

#include <algorithm>
#include <cassert>

namespace pe::evaluation {

const char* protocol_name(Protocol protocol) {
  switch (protocol) {
    case Protocol::kPrefix: return "prefix";
    case Protocol::kBlocks: return "blocks";
    case Protocol::kSliding: return "sliding";
  }
  return "";
}

const char* bos_policy_name(BosPolicy policy) {
  switch (policy) {
    case BosPolicy::kNone: return "none";
    case BosPolicy::kDocStart: return "doc_start";
    case BosPolicy::kEveryWindow: return "every_window";
  }
  return "";
}

std::vector<Window> windows(Protocol protocol, std::int64_t n, std::int64_t length, std::int64_t stride,
                            std::int64_t shortest_block) {
  assert(length >= 1);
  std::vector<Window> result;
  if (n <= 0) return result;
  if (protocol == Protocol::kPrefix) {
    const std::int64_t end = std::min(n, length);
    return {{0, end, 0, end}};
  }
  if (protocol == Protocol::kBlocks) {
    for (std::int64_t begin = 0; begin < n; begin += length) {
      const std::int64_t end = std::min(begin + length, n);
      // A document shorter than a window is one window, however short: prefix and sliding score it too.
      if (begin > 0 && end - begin < length && end - begin < shortest_block) break;
      result.push_back({begin, end, begin, end});
    }
    return result;
  }
  assert(stride >= 1 && stride <= length);
  std::int64_t scored = 0;
  for (std::int64_t begin = 0;; begin += stride) {
    const std::int64_t end = std::min(begin + length, n);
    result.push_back({begin, end, scored, end});
    scored = end;
    if (end == n) return result;
  }
}

std::int64_t default_stride(std::int64_t length) {
  return length >= 1024 ? 256 : std::max<std::int64_t>(1, length / 4);
}

}  // namespace pe::evaluation
