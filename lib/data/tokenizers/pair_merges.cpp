#include "data/tokenizers/pair_merges.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace pe::data {

namespace {

std::uint64_t key_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

void PairMerges::reserve(std::size_t merges) {
  std::size_t slots = 64;
  while (slots < 2 * merges) slots *= 2;
  slots_.assign(slots, {});
}

bool PairMerges::add(std::int32_t left, std::int32_t right, std::uint32_t rank, std::int32_t joined) {
  Slot& slot = slots_[place(key_of(left, right))];
  if (slot.key != kFree) return false;
  slot = {key_of(left, right), {rank, joined}};
  ++size_;
  return true;
}

std::size_t PairMerges::place(std::uint64_t key) const {
  const std::uint64_t h = key * 0x9E3779B97F4A7C15ULL;
  std::size_t at = (h ^ h >> 32) & (slots_.size() - 1);
  while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  return at;
}

PairMerges::Merge PairMerges::find(std::int32_t left, std::int32_t right) const {
  return slots_[place(key_of(left, right))].merge;
}

std::size_t PairMerges::merge(std::span<std::int32_t> symbols) const {
  if (symbols.size() < 2) return symbols.size();
  return symbols.size() <= kShort ? merge_short(symbols) : merge_long(symbols);
}

std::size_t PairMerges::merge_short(std::span<std::int32_t> symbols) const {
  std::uint32_t ranks[kShort];  // of a symbol with the next one
  std::int32_t joined[kShort];
  std::size_t count = symbols.size();
  const auto look_up = [&](std::size_t at) {
    const Merge merge = find(symbols[at], symbols[at + 1]);
    ranks[at] = merge.rank;
    joined[at] = merge.joined;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    const std::size_t at = static_cast<std::size_t>(std::min_element(ranks, ranks + count - 1) - ranks);
    if (ranks[at] == kNoRank) break;
    symbols[at] = joined[at];
    if (at + 2 < count) {
      std::copy(&symbols[at + 2], symbols.data() + count, &symbols[at + 1]);
      std::copy(ranks + at + 2, ranks + count - 1, ranks + at + 1);
      std::copy(joined + at + 2, joined + count - 1, joined + at + 1);
    }
    --count;
    if (at + 1 < count) look_up(at);
    if (at > 0) look_up(at - 1);
  }
  return count;
}

/// With a queue and a linked list: a word of a million bytes takes n log n.
std::size_t PairMerges::merge_long(std::span<std::int32_t> symbols) const {
  struct Links {
    std::size_t previous, next;
  };
  struct Pair {
    std::uint32_t rank;
    std::int32_t left, right, joined;
    std::size_t at;
    bool operator>(const Pair& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  constexpr std::int32_t kGone = std::numeric_limits<std::int32_t>::min();
  std::vector<Links> links(symbols.size());
  for (std::size_t i = 0; i < links.size(); ++i)
    links[i] = {i == 0 ? kNone : i - 1, i + 1 == links.size() ? kNone : i + 1};
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> queue;
  const auto consider = [&](std::size_t at) {
    if (at == kNone || links[at].next == kNone) return;
    const std::int32_t left = symbols[at], right = symbols[links[at].next];
    if (const Merge merge = find(left, right); merge.rank != kNoRank)
      queue.push({merge.rank, left, right, merge.joined, at});
  };
  for (std::size_t i = 0; i < links.size(); ++i) consider(i);
  while (!queue.empty()) {
    const Pair pair = queue.top();
    queue.pop();
    const std::size_t right = links[pair.at].next;
    if (symbols[pair.at] != pair.left || right == kNone || symbols[right] != pair.right) continue;  // joined meanwhile
    symbols[pair.at] = pair.joined;
    symbols[right] = kGone;
    links[pair.at].next = links[right].next;
    if (links[pair.at].next != kNone) links[links[pair.at].next].previous = pair.at;
    consider(links[pair.at].previous);
    consider(pair.at);
  }
  std::size_t count = 0;
  for (std::size_t at = 0; at != kNone; at = links[at].next) symbols[count++] = symbols[at];
  return count;
}

}  // namespace pe::data
