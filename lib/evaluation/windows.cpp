#include "evaluation/windows.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "evaluation/items.h"

namespace pe::evaluation {

const char* bos_policy_name(BosPolicy policy) {
  switch (policy) {
    case BosPolicy::kNone:
      return "none";
    case BosPolicy::kDocStart:
      return "doc_start";
    case BosPolicy::kEveryWindow:
      return "every_window";
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

std::vector<Window> sliding_windows(std::int64_t n, std::int64_t length, std::int64_t stride, std::int64_t from) {
  if (from == 0) return windows(Protocol::kSliding, n, length, stride);
  std::vector<Window> result;
  for (std::int64_t scored = from; scored < n;) {
    const std::int64_t end = std::min(scored + stride, n);
    result.push_back({std::max<std::int64_t>(0, end - length), end, scored, end});
    scored = end;
  }
  return result;
}

std::vector<Window> rolling_windows(std::int64_t n, std::int64_t length, std::int64_t from) {
  assert(length >= 1 && from >= 0);
  std::vector<Window> result;
  for (std::int64_t scored = from; scored < n;) {
    const std::int64_t end = std::min(scored + length, n);
    result.push_back({std::max<std::int64_t>(0, end - length - 1), end, scored, end});
    scored = end;
  }
  return result;
}

Window tail_window(std::int64_t n, std::int64_t length, std::int64_t targets) {
  const std::int64_t end = std::min(n, length);
  return {0, end, std::max<std::int64_t>(0, end - targets), end};
}

std::vector<Window> anchored_windows(std::int64_t end, std::int64_t length, std::int64_t targets) {
  const std::int64_t each = targets_within(targets, length);
  std::vector<Window> result;
  for (std::int64_t scored = end - targets; scored < end;) {
    const std::int64_t to = std::min(scored + each, end);
    assert(to >= length);
    result.push_back({to - length, to, scored, to});
    scored = to;
  }
  return result;
}

std::vector<std::int64_t> anchors(std::int64_t id, std::int64_t n, std::int64_t longest, std::int64_t count) {
  assert(n >= longest);
  support::Xoshiro random(item_key("anchored", Split::kTest, longest, id));
  std::set<std::int64_t> ends;
  for (std::int64_t i = 0; i < count; ++i) {
    ends.insert(longest + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(n - longest + 1))));
  }
  return {ends.begin(), ends.end()};
}

std::int64_t targets_within(std::int64_t wanted, std::int64_t length) {
  return std::max<std::int64_t>(1, std::min(wanted, length / 2));
}

std::int64_t default_stride(std::int64_t length) {
  return length >= 1024 ? 256 : std::max<std::int64_t>(1, length / 4);
}

}  // namespace pe::evaluation
