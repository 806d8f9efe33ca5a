/// @file
/// Heads of queries and keys out of a packed projection, with their norm and rotation, and rotations alone. A team of
/// lanes takes a token, and `lanes` of them share a head, so that several heads are under way together. Values that all
/// heads of a token share (cosines, sines, the place of the token) are found once. Indices within a token are 32 bits
/// wide, packs at most 16 bytes.
///
/// A body has `tokens`, `per_tile`, `parts()`, `slots(part)`, and for each lane an `Own`. A team does one part of the
/// tokens of a tile. It calls `open`, then for every token `begin`. Then it calls for each slot `partial`, whose
/// results are summed over the lanes of a head, and `finish`. At last it calls `close`, when the `kSums` of `Own::sums`
/// are sums over all heads under way.
#pragma once

#include "cuda/rows.h"

namespace pe::cuda {

/// Which values of a head a lane holds: unit u is two packs of n values, whose pairs are u·n … u·n + n − 1 where they
/// rotate. Pair p of a head is (p, p + pairs) or (2p, 2p + 1); n divides width and pairs.
template <int n>
struct HeadUnits {
  std::uint32_t width = 0, pairs = 0;
  bool half = true;
  std::uint32_t lanes = 1;  ///< of a head; a power of two

  PE_BOTH bool rotates(std::uint32_t unit) const { return unit * n < pairs; }
  PE_BOTH std::uint32_t first(std::uint32_t unit) const { return half && rotates(unit) ? unit * n : 2 * unit * n; }
  PE_BOTH std::uint32_t second(std::uint32_t unit) const {
    return half && rotates(unit) ? pairs + unit * n : (2 * unit + 1) * n;
  }
  PE_BOTH std::uint32_t heads_at_once() const { return kLanes / lanes; }
};

/// n floats, 16 bytes at a time where they are so many.
template <int n>
PE_BOTH void read_floats(const float* from, float* to) {
  constexpr int wide = n >= 4 ? 4 : n;
  PE_UNROLL
  for (int j = 0; j < n; j += wide) {
    const Pack<float, wide> read = load<wide>(from + j);
    PE_UNROLL
    for (int i = 0; i < wide; ++i) to[j + i] = read.at[i];
  }
}

/// The n cosines and sines of a unit.
template <int n>
struct Angles {
  float cos[n], sin[n];
  PE_BOTH void read(const PeCudaTurn& turn, std::int64_t row, std::uint32_t unit) {
    read_floats<n>(turn.cos + row + unit * n, cos);
    read_floats<n>(turn.sin + row + unit * n, sin);
  }
  /// Rotates the unit x, its first pack and then its second; `sign` −1: back.
  PE_BOTH void rotate(float (&x)[2 * n], bool half, float sign) const {
    if (half) {  // two loops: indices must be constants, or x would not be in registers
      PE_UNROLL
      for (int j = 0; j < n; ++j) rotate_pair(x[j], x[n + j], j, sign);
    } else {
      PE_UNROLL
      for (int j = 0; j < n; ++j) rotate_pair(x[2 * j], x[2 * j + 1], j, sign);
    }
  }

 private:
  PE_BOTH void rotate_pair(float& a, float& b, int j, float sign) const {
    const float u = a, v = b, s = sign * sin[j];
    a = u * cos[j] - v * s;
    b = u * s + v * cos[j];
  }
};

template <int n, typename Value>
PE_BOTH void read_unit(const Value* from, std::uint32_t first, std::uint32_t second, bool whole, float (&x)[2 * n]) {
  const Pack<Value, n> a = load<n>(from + first);
  Pack<Value, n> b{};
  if (whole) b = load<n>(from + second);
  PE_UNROLL
  for (int j = 0; j < n; ++j) x[j] = static_cast<float>(a.at[j]), x[n + j] = static_cast<float>(b.at[j]);
}

template <int n, typename Value>
PE_BOTH void write_unit(Value* to, std::uint32_t first, std::uint32_t second, bool whole, const float (&x)[2 * n]) {
  Pack<Value, n> a, b;
  PE_UNROLL
  for (int j = 0; j < n; ++j) a.at[j] = static_cast<Value>(x[j]), b.at[j] = static_cast<Value>(x[n + j]);
  store<n>(to + first, a);
  if (whole) store<n>(to + second, b);
}

/// Places of tokens, heads and tables, which forward and backward share.
/// @tparam units of a lane: heads are at most 2 · n · units · kLanes wide
template <typename Value, int n, int units, bool kBackward>
struct SplitHeads {
  static constexpr int kSums = kBackward ? units * 2 * n : 0;  ///< of the part's weight
  /// Blocks that a multiprocessor's registers are to hold: it is memory that is waited for, so that many should wait.
  static constexpr int kAtOnce = units > 1 ? 1 : n < 8 ? 4 : kBackward ? 2 : 3;
  PeCudaSplit of;
  HeadUnits<n> at;
  const Value* packed;
  Value* dpacked;   ///< backward only
  float* partials;  ///< [2, tiles, width]; null: no gradients by weights
  std::int64_t tokens, per_tile, tiles;

  struct Own {
    Angles<n> angles[units];
    float x[units][2 * n], g[units][2 * n];
    float sums[kSums > 0 ? kSums : 1];
    std::int64_t from, to;  ///< the token's first value in the packed rows, and among the part's heads
    std::int64_t token = 0;
  };

  PE_BOTH int parts() const { return of.v.heads > 0 ? 3 : 2; }
  PE_BOTH const PeCudaPart& part(int p) const { return p == 0 ? of.q : p == 1 ? of.k : of.v; }
  PE_BOTH std::uint32_t slots(int p) const {
    return (static_cast<std::uint32_t>(part(p).heads) + at.heads_at_once() - 1) / at.heads_at_once();
  }
  PE_BOTH bool rotates(int p) const { return p < 2 && at.pairs > 0; }

  PE_BOTH void open(Own& own) const {
    PE_UNROLL
    for (float& sum : own.sums) sum = 0;
  }

  PE_BOTH void begin(std::int64_t token, int p, int lane, Own& own) const {
    const PeCudaPart& which = part(p);
    const auto sequence = static_cast<std::uint32_t>(token) / static_cast<std::uint32_t>(of.length);
    const std::uint32_t row = static_cast<std::uint32_t>(token) - sequence * static_cast<std::uint32_t>(of.length);
    own.token = token;
    own.from = token * of.packed_row + which.column;
    own.to = sequence * which.by_sequence + row * which.by_row;
    if (!rotates(p)) return;
    const std::int64_t angle_row = static_cast<std::int64_t>(sequence) * of.turn.by_sequence + row * of.turn.by_row;
    PE_UNROLL
    for (int i = 0; i < units; ++i) {
      const std::uint32_t unit = lane % at.lanes + i * at.lanes;
      if (at.rotates(unit)) own.angles[i].read(of.turn, angle_row, unit);
    }
  }

  PE_BOTH static void read_weight(const PeCudaPart& part, std::uint32_t first, std::uint32_t second, bool whole,
                                  float (&weight)[2 * n]) {
    read_floats<n>(part.weight + first, weight);
    if (whole) {
      read_floats<n>(part.weight + second, weight + n);
    } else {
      PE_UNROLL
      for (int j = n; j < 2 * n; ++j) weight[j] = 0;
    }
  }

  PE_BOTH std::uint32_t head_of(std::uint32_t slot, int lane) const {
    return slot * at.heads_at_once() + lane / at.lanes;
  }

  PE_BOTH float partial(int p, std::uint32_t slot, int lane, Own& own) const {
    const PeCudaPart& which = part(p);
    const std::uint32_t head = head_of(slot, lane);
    float sum = 0;
    if (head >= static_cast<std::uint32_t>(which.heads)) return sum;
    const Value* heads = static_cast<const Value*>(which.values);
    PE_UNROLL
    for (int i = 0; i < units; ++i) {
      const std::uint32_t unit = lane % at.lanes + i * at.lanes, first = at.first(unit), second = at.second(unit);
      if (first >= at.width) continue;
      const bool whole = second < at.width;
      if (!kBackward || which.weight != nullptr)
        read_unit<n>(packed + own.from + head * at.width, first, second, whole, own.x[i]);
      if constexpr (kBackward) {
        if (heads == nullptr) {
          PE_UNROLL
          for (float& g : own.g[i]) g = 0;
        } else {
          read_unit<n>(heads + own.to + head * which.by_head, first, second, whole, own.g[i]);
        }
        if (rotates(p) && at.rotates(unit)) own.angles[i].rotate(own.g[i], at.half, -1);
      }
      if (which.weight == nullptr) continue;
      float weight[2 * n];
      if constexpr (kBackward) read_weight(which, first, second, whole, weight);
      PE_UNROLL
      for (int j = 0; j < 2 * n; ++j) {  // missing values were read as 0
        sum += kBackward ? own.g[i][j] * weight[j] * own.x[i][j] : own.x[i][j] * own.x[i][j];
      }
    }
    return sum;
  }

  PE_BOTH void finish(int p, std::uint32_t slot, int lane, Own& own, float sum) const {
    const PeCudaPart& which = part(p);
    const std::uint32_t head = head_of(slot, lane);
    if (head >= static_cast<std::uint32_t>(which.heads)) return;
    const float width = static_cast<float>(at.width);
    float scale = 1, pull = 0;
    if (which.weight != nullptr) {
      float* rstd = which.rstd + own.token * which.heads + head;
      if constexpr (kBackward) {
        scale = *rstd;
        pull = sum * scale * scale * scale / width;
      } else {
        scale = 1.0F / sqrtf(sum / width + of.eps);
        if (lane % at.lanes == 0) *rstd = scale;
      }
    }
    PE_UNROLL
    for (int i = 0; i < units; ++i) {
      const std::uint32_t unit = lane % at.lanes + i * at.lanes, first = at.first(unit), second = at.second(unit);
      if (first >= at.width) continue;
      const bool whole = second < at.width;
      float(&x)[2 * n] = kBackward ? own.g[i] : own.x[i];
      float weight[2 * n];
      if (which.weight != nullptr) read_weight(which, first, second, whole, weight);
      PE_UNROLL
      for (int j = 0; j < 2 * n; ++j) {
        if (which.weight == nullptr) break;
        const float w = weight[j];
        if constexpr (kBackward) {
          if (p < 2) own.sums[i * 2 * n + j] += own.g[i][j] * own.x[i][j] * scale;
          x[j] = own.g[i][j] * w * scale - own.x[i][j] * pull;
        } else {
          x[j] *= scale * w;
        }
      }
      if constexpr (kBackward) {
        write_unit<n>(dpacked + own.from + head * at.width, first, second, whole, x);
      } else {
        if (rotates(p) && at.rotates(unit)) own.angles[i].rotate(x, at.half, 1);
        write_unit<n>(static_cast<Value*>(which.values) + own.to + head * which.by_head, first, second, whole, x);
      }
    }
  }

  PE_BOTH void close(std::int64_t tile, int p, int lane, const Own& own) const {
    if constexpr (kBackward) {
      if (partials == nullptr || p >= 2 || lane >= static_cast<int>(at.lanes)) return;
      float* to = partials + (p * tiles + tile) * at.width;
      PE_UNROLL
      for (int i = 0; i < units; ++i) {
        const std::uint32_t unit = lane + i * at.lanes, first = at.first(unit), second = at.second(unit);
        PE_UNROLL
        for (int j = 0; j < 2 * n; ++j) {
          const std::uint32_t column = j < n ? first + j : second + j - n;
          if (column < at.width) to[column] = own.sums[i * 2 * n + j];
        }
      }
    }
  }
};

/// Rotates heads by a table of any shape, for those whose rotation is not all that happens to them: row (sequence,
/// head, token) and unit of the cells. Values after the pairs are copied.
template <typename Value, int n>
struct RotateHeads {
  PeCudaRotation of;
  HeadUnits<n> at;
  const Value* x;
  Value* out;

  PE_BOTH void operator()(std::int64_t row, std::int64_t unit) const {
    const auto i = static_cast<std::uint32_t>(row), length = static_cast<std::uint32_t>(of.length);
    const auto heads = static_cast<std::uint32_t>(of.heads), groups = static_cast<std::uint32_t>(of.groups);
    const std::uint32_t head_row = i / length, token = i - head_row * length;
    const std::uint32_t sequence = head_row / heads, head = head_row - sequence * heads;
    const auto u = static_cast<std::uint32_t>(unit);
    const std::uint32_t first = at.first(u), second = at.second(u);
    if (first >= at.width) return;
    const bool whole = second < at.width;
    float values[2 * n];
    read_unit<n>(x + sequence * of.from.by_sequence + head * of.from.by_head + token * of.from.by_row, first, second,
                 whole, values);
    if (at.rotates(u)) {
      Angles<n> angles;
      angles.read(of.turn,
                  sequence * of.turn.by_sequence + head * groups / heads * of.by_group + token * of.turn.by_row, u);
      angles.rotate(values, at.half, of.sign);
    }
    write_unit<n>(out + sequence * of.to.by_sequence + head * of.to.by_head + token * of.to.by_row, first, second,
                  whole, values);
  }
};

}  // namespace pe::cuda
