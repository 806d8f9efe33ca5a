/// @file
/// A network of two layers over all heads of each pair of a query and a key (PeCudaPairNetwork). A warp takes 32
/// adjacent distances and walks over rows, so that sums by distance stay with their lanes. The taps of the outer
/// distances need neighbours, which the next warps' tiles contain, too.
///
/// Products are by tensor cores with fp32 sums. Each factor is the sum of two bf16 parts, so about 16 bits of its
/// fraction count. Hidden values never leave the registers.
#pragma once

#include "cuda/attention/tiles.h"

namespace pe::cuda {

inline constexpr int kHidden = pe_cuda_network_hidden;  ///< hidden values of a pair, four blocks of 8
inline constexpr int kSlots = 4;                        ///< blocks of 8 distances of a warp

/// Two numbers of a lane as a high and a low bf16 part.
template <typename W>
struct Halves {
  Per<std::uint32_t, W> high, low;

  PE_BODY void split(const Per<float, W>& a, const Per<float, W>& b) {
    high = W::pack(a, b);
    low = W::pack(a - W::first_half(high), b - W::second_half(high));
  }
};

/// Four rows of a tile of 16 × 16, as the left operand of a product.
template <typename W>
struct LeftHalves {
  Per<std::uint32_t, W> high[4], low[4];

  /// From two results of 16 × 8.
  PE_BODY void split(const Per<float, W> (&a)[4], const Per<float, W> (&b)[4]) {
    PE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const auto& half = i < 2 ? a : b;
      Halves<W> both;
      both.split(half[i % 2 * 2], half[i % 2 * 2 + 1]);
      high[i] = both.high;
      low[i] = both.low;
    }
  }
  /// The transpose. @param keeps  which of the lane's two rows count before it, for the others zeros
  PE_BODY void transpose(W& w, const LeftHalves& of, const Per<float, W> (&keeps)[2]) {
    PE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int from = i % 2 * 2 + i / 2;
      const auto kept = keeps[from % 2] > 0.0F;
      high[i] = w.transpose(W::select(kept, of.high[from], Per<std::uint32_t, W>(0U)));
      low[i] = w.transpose(W::select(kept, of.low[from], Per<std::uint32_t, W>(0U)));
    }
  }
  /// sums += this · right, without the product of the low parts.
  PE_BODY void multiply(W& w, Per<float, W> (&sums)[4], const Halves<W>& right0, const Halves<W>& right1) const {
    w.multiply_add(sums, high, right0.high, right1.high);
    w.multiply_add(sums, low, right0.high, right1.high);
    w.multiply_add(sums, high, right0.low, right1.low);
  }
};

/// Parts that both passes share. @tparam taps 1 or 3
template <int taps>
struct PairNetworkTile {
  static constexpr int kHalo = taps / 2, kWide = 32 - 2 * kHalo;

  PeCudaPairNetwork of;
  int rows, strips;  ///< of a strip; of a sequence
  std::int64_t columns, parameters;

  explicit PairNetworkTile(const PeCudaPairNetwork& network)
      : of(network),
        rows(static_cast<int>(pe_cuda_network_rows(of))),
        strips(static_cast<int>(pe_cuda_network_strips(of))),
        columns(pe_cuda_network_columns(of)),
        parameters(pe_cuda_network_parameters(of)) {}
  std::int64_t blocks() const { return pe_cuda_network_blocks(of); }

  PE_SIZE int heads() const { return static_cast<int>(of.heads); }
  PE_SIZE int channels() const { return static_cast<int>(of.base != nullptr ? 2 * of.heads : of.heads); }
  PE_SIZE int head_groups() const { return tiles(heads(), 8); }
  PE_SIZE int channel_groups() const { return tiles(channels(), 8); }

  /// Of a row of a sequence.
  struct Row {
    int stands, start, document;  ///< key rows: its own, the first that it sees, the first of its document
    std::int64_t at;              ///< of the pair with key row 0 and head 0
  };
  /// Of a lane: the distance of row 0 of its tile.
  struct Place {
    int sequence, first, end;  ///< rows
    int lowest;
  };

  template <typename W>
  PE_BODY Place place(const W& w, std::int64_t block) const {
    const int column = static_cast<int>(block % columns), strip = static_cast<int>(block / columns % strips);
    const int lowest = (column * kWarps + w.warp()) * kWide - kHalo;
    const int visible = lowest - static_cast<int>(of.keys - of.queries);  // the first row with a key so far away
    return {static_cast<int>(block / columns / strips), larger(strip * rows, visible),
            smaller(of.queries, (strip + 1) * rows), lowest};
  }
  /// Calls with(row) for each row that sees a pair of the tile.
  template <typename With>
  PE_BODY void each_row(const Place& tile, const With& with) const {
    PE_LOOP
    for (int t = tile.first; t < tile.end; ++t) {
      Row row{static_cast<int>(of.keys - of.queries) + t, 0, 0, (tile.sequence * of.heads * of.queries + t) * of.keys};
      if (of.starts != nullptr)
        row.start = static_cast<int>(of.starts[tile.sequence * of.starts_by_sequence + row.stands]);
      if (of.documents != nullptr)
        row.document = static_cast<int>(of.documents[tile.sequence * of.documents_by_sequence + row.stands]);
      if (tile.lowest <= row.stands - row.start + kHalo) with(row);
    }
  }

  /// Numbers of a channel at a distance: a head's logit, then a head's number of the base; 0 for pairs that are hidden.
  /// @param group  uniform: which eight channels
  template <typename W>
  PE_BODY Per<float, W> input(const Row& row, int group, const Per<int, W>& channel,
                              const Per<int, W>& distance) const {
    const auto seen = (distance >= 0) & (distance <= row.stands - row.start);
    Per<float, W> value = 0.0F;
    if (8 * group < heads()) value = logit<W>(of.logits, row, channel, distance, seen) * of.scale;
    if (of.base != nullptr && 8 * group + 8 > heads()) {
      const auto based = (channel >= heads()) & (channel < 2 * heads());
      const Per<std::int64_t, W> at =
          Per<std::int64_t, W>(channel - heads()) * of.keys + Per<std::int64_t, W>(distance);
      value = value + W::read(of.base, at, based & seen);
    }
    return value;
  }
  template <typename W, typename Seen>
  PE_BODY Per<float, W> logit(const float* from, const Row& row, const Per<int, W>& head, const Per<int, W>& distance,
                              const Seen& seen) const {
    return W::read(from, pair<W>(row, head, distance), seen & (head < heads()));
  }
  template <typename W>
  PE_BODY Per<std::int64_t, W> pair(const Row& row, const Per<int, W>& head, const Per<int, W>& distance) const {
    return Per<std::int64_t, W>(head) * (of.queries * of.keys) + Per<std::int64_t, W>(row.stands - distance) + row.at;
  }

  /// Eight channels of the tile at a tap as left operands: high parts in the first eight columns, low in the others.
  /// @param value  of a channel and a distance
  template <typename W, typename Value>
  PE_BODY static void load_left(W& w, Per<std::uint32_t, W> (&to)[2][4], int group, int lowest, const Value& value) {
    const Per<int, W> channel = w.lane() % 4 * 2 + 8 * group;
    PE_UNROLL
    for (int slot = 0; slot < kSlots; ++slot) {
      const Per<int, W> distance = w.lane() / 4 + (lowest + 8 * slot);
      Halves<W> both;
      both.split(value(channel, distance), value(channel + 1, distance));
      to[slot / 2][slot % 2] = both.high;
      to[slot / 2][slot % 2 + 2] = both.low;
    }
  }
  /// The same numbers of 16 distances as a right operand.
  template <typename W, typename Value>
  PE_BODY static void load_right(W& w, Halves<W> (&to)[2], int group, int lowest, const Value& value) {
    const Per<int, W> channel = w.lane() / 4 + 8 * group;
    PE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Per<int, W> distance = w.lane() % 4 * 2 + (lowest + 8 * half);
      to[half].split(value(channel, distance), value(channel, distance + 1));
    }
  }

  // ---- Weights in shared memory, a word of a lane after the other's: right operands

  PE_SIZE int first_words() const { return 8 * taps * channel_groups(); }
  PE_SIZE int second_words() const { return 8 * taps * head_groups(); }

  template <typename W>
  PE_BODY static Per<int, W> word(W& w, int at) {
    return w.lane() * 4 + at * (4 * kWarpLanes);
  }
  template <typename W>
  PE_BODY Per<float, W> first_weight(const Per<int, W>& unit, const Per<int, W>& channel, int tap) const {
    const Per<int, W> at = (unit * channels() + channel) * taps + tap;
    return W::read(of.first, Per<std::int64_t, W>(at), channel < channels());
  }
  template <typename W>
  PE_BODY Per<float, W> second_weight(const Per<int, W>& unit, const Per<int, W>& head, int tap) const {
    const Per<int, W> at = (head * kHidden + unit) * taps + tap;
    return W::read(of.second, Per<std::int64_t, W>(at), head < heads());
  }

  /// Operands [8 channels, kHidden] for each tap and group; the upper eight rows are as the lower ones.
  /// @param weight  of a unit, a channel and a tap
  template <typename W, typename Weight>
  PE_BODY static void store_rows(W& w, int to, int groups, const Weight& weight) {
    PE_LOOP
    for (int at = w.warp(); at < taps * groups * 4; at += kWarps) {
      const int block = at % 4, group = at / 4 % groups, tap = at / 4 / groups;
      const Per<int, W> channel = w.lane() % 4 * 2 + 8 * group, unit = w.lane() / 4 + 8 * block;
      Halves<W> both;
      both.split(weight(unit, channel, tap), weight(unit, channel + 1, tap));
      w.store_bits(word(w, to + 2 * at), both.high);
      w.store_bits(word(w, to + 2 * at + 1), both.low);
    }
  }
  /// Operands [kHidden, 8 channels] for each tap and group.
  template <typename W, typename Weight>
  PE_BODY static void store_columns(W& w, int to, int groups, const Weight& weight) {
    PE_LOOP
    for (int at = w.warp(); at < taps * groups * 4; at += kWarps) {
      const int block = at % 4, group = at / 4 % groups, tap = at / 4 / groups;
      const Per<int, W> unit = w.lane() % 4 * 2 + 8 * block, channel = w.lane() / 4 + 8 * group;
      Halves<W> both;
      both.split(weight(unit, channel, tap), weight(unit + 1, channel, tap));
      w.store_bits(word(w, to + 2 * at), both.high);
      w.store_bits(word(w, to + 2 * at + 1), both.low);
    }
  }
  /// sums [32 distances, kHidden] += the operand's rows of a tap and a group.
  template <typename W>
  PE_BODY static void multiply_block(W& w, Sums<W, 2, kHidden>& sums, const Per<std::uint32_t, W> (&left)[2][4],
                                     int weights) {
    PE_UNROLL
    for (int n = 0; n < kHidden / 8; ++n) {
      PE_UNROLL
      for (int part = 0; part < 2; ++part) {
        const Per<std::uint32_t, W> right = w.load_bits(word(w, weights + 2 * n + part));
        PE_UNROLL
        for (int strip = 0; strip < 2; ++strip) w.multiply_add(sums[strip][n], left[strip], right, right);
      }
    }
  }
  /// sums [32 distances, 8 channels] = left · the operand's columns of a tap and a group.
  template <typename W>
  PE_BODY static void multiply_hidden(W& w, Per<float, W> (&sums)[2][4], const LeftHalves<W> (&left)[2][2],
                                      int weights) {
    PE_UNROLL
    for (int strip = 0; strip < 2; ++strip) {
      PE_UNROLL
      for (int i = 0; i < 4; ++i) sums[strip][i] = 0.0F;
    }
    PE_UNROLL
    for (int step = 0; step < 2; ++step) {
      Halves<W> right[2];
      PE_UNROLL
      for (int half = 0; half < 2; ++half) {
        right[half].high = w.load_bits(word(w, weights + 4 * step + 2 * half));
        right[half].low = w.load_bits(word(w, weights + 4 * step + 2 * half + 1));
      }
      PE_UNROLL
      for (int strip = 0; strip < 2; ++strip) left[strip][step].multiply(w, sums[strip], right[0], right[1]);
    }
  }

  // ---- Parts of a row's step

  /// Calls with(strip, n, i, slot) for each hidden value of a lane.
  template <typename With>
  PE_BODY static void each_hidden(const With& with) {
    each_score<2, kHidden>([&](int strip, int n, int i) { with(strip, n, i, 2 * strip + i / 2); });
  }
  /// Distances with hidden values: up to the document's first key and, with taps, −1 for the key after the row's.
  template <typename W>
  PE_BODY void find_active(W& w, Per<float, W> (&active)[kSlots], const Row& row, int lowest) const {
    PE_UNROLL
    for (int slot = 0; slot < kSlots; ++slot) {
      const Per<int, W> distance = w.lane() / 4 + (lowest + 8 * slot);
      active[slot] = W::select((distance >= -kHalo) & (distance <= row.stands - row.document), Per<float, W>(1.0F),
                               Per<float, W>(0.0F));
    }
  }
  /// Hidden values before the rectifier.
  template <typename W>
  PE_BODY void find_hidden(W& w, Sums<W, 2, kHidden>& hidden, const Row& row, int lowest, int weights) const {
    clear<W, 2, kHidden>(hidden);
    PE_LOOP
    for (int tap = 0; tap < taps; ++tap) {
      PE_LOOP
      for (int group = 0; group < channel_groups(); ++group) {
        Per<std::uint32_t, W> left[2][4];
        load_left(w, left, group, lowest - (tap - kHalo), [&](const Per<int, W>& channel, const Per<int, W>& distance) {
          return input<W>(row, group, channel, distance);
        });
        multiply_block(w, hidden, left, weights + (tap * channel_groups() + group) * 8);
      }
    }
    PE_UNROLL
    for (int n = 0; n < kHidden / 8; ++n) {
      PE_UNROLL
      for (int e = 0; e < 2; ++e) {
        const Per<std::int64_t, W> unit(w.lane() % 4 * 2 + (8 * n + e));
        const Per<float, W> bias = W::read(of.first_bias, unit, unit < kHidden);
        PE_UNROLL
        for (int slot = 0; slot < kSlots; ++slot) {
          Per<float, W>& value = hidden[slot / 2][n][slot % 2 * 2 + e];
          value = value + bias;
        }
      }
    }
  }
  template <typename W>
  PE_BODY Per<float, W> rectified(const Per<float, W>& x) const {
    return W::select(x > 0.0F, x, x * of.slope);
  }
  template <typename W>
  PE_BODY static void split_hidden(LeftHalves<W> (&to)[2][2], const Sums<W, 2, kHidden>& hidden) {
    PE_UNROLL
    for (int strip = 0; strip < 2; ++strip) {
      PE_UNROLL
      for (int step = 0; step < 2; ++step) to[strip][step].split(hidden[strip][2 * step], hidden[strip][2 * step + 1]);
    }
  }
  /// sums[r] = middle[r] + further[r + 1] + nearer[r − 1] by rows r of distances; the outer rows become wrong.
  template <typename W>
  PE_BODY static void add_neighbours(W& w, Per<float, W> (&sums)[2][4], const Per<float, W> (&further)[2][4],
                                     const Per<float, W> (&nearer)[2][4]) {
    const Per<int, W> after = (w.lane() + 4) % kWarpLanes, before = (w.lane() + (kWarpLanes - 4)) % kWarpLanes;
    PE_UNROLL
    for (int e = 0; e < 2; ++e) {
      Per<float, W> up[kSlots], down[kSlots];
      PE_UNROLL
      for (int slot = 0; slot < kSlots; ++slot) {
        up[slot] = w.shuffle(further[slot / 2][slot % 2 * 2 + e], after);
        down[slot] = w.shuffle(nearer[slot / 2][slot % 2 * 2 + e], before);
      }
      PE_UNROLL
      for (int slot = 0; slot < kSlots; ++slot) {
        const int next = slot + 1 < kSlots ? slot + 1 : slot, last = slot > 0 ? slot - 1 : 0;
        const Per<float, W> of_next = W::select(w.lane() >= kWarpLanes - 4, up[next], up[slot]);
        const Per<float, W> of_last = W::select(w.lane() < 4, down[last], down[slot]);
        Per<float, W>& sum = sums[slot / 2][slot % 2 * 2 + e];
        sum = sum + (of_next + of_last);
      }
    }
  }
  /// Hidden values times the weights of a group, summed over taps at their keys.
  /// @param away  true: tap 0 of a key reads hidden values before it; false: hidden values add to keys before them
  template <bool away, typename W>
  PE_BODY void gather_taps(W& w, Per<float, W> (&sums)[2][4], const LeftHalves<W> (&left)[2][2], int group, int groups,
                           int weights) const {
    multiply_hidden(w, sums, left, weights + (kHalo * groups + group) * 8);
    if constexpr (taps == 3) {
      Per<float, W> low[2][4], high[2][4];
      multiply_hidden(w, low, left, weights + group * 8);
      multiply_hidden(w, high, left, weights + (2 * groups + group) * 8);
      if constexpr (away)
        add_neighbours(w, sums, low, high);
      else
        add_neighbours(w, sums, high, low);
    }
  }
  /// Calls with(slot, e, channel, distance, inner) for each result of a group, e being the lane's first or second
  /// channel; `inner`: another warp's tile does not have it.
  template <typename W, typename With>
  PE_BODY static void each_result(W& w, int group, int lowest, const With& with) {
    PE_UNROLL
    for (int slot = 0; slot < kSlots; ++slot) {
      const Per<int, W> row = w.lane() / 4 + 8 * slot;
      PE_UNROLL
      for (int e = 0; e < 2; ++e)
        with(slot, e, w.lane() % 4 * 2 + (8 * group + e), row + lowest, (row >= kHalo) & (row < 32 - kHalo));
    }
  }
};

/// A block for each strip of rows and four tiles of distances.
template <int taps>
struct PairNetworkForward {
  static constexpr int kAtOnce = 4;

  PairNetworkTile<taps> tile;
  float* to;

  std::int64_t blocks() const { return tile.blocks(); }
  int shared() const { return 4 * kWarpLanes * (tile.first_words() + tile.second_words()); }

  template <typename W>
  PE_BODY void operator()(W& w, std::int64_t block) const {
    const int second = tile.first_words();
    tile.store_rows(w, 0, tile.channel_groups(), [&](const auto& unit, const auto& channel, int tap) {
      return tile.template first_weight<W>(unit, channel, tap);
    });
    tile.store_columns(w, second, tile.head_groups(), [&](const auto& unit, const auto& head, int tap) {
      return tile.template second_weight<W>(unit, head, tap);
    });
    w.sync();
    const auto place = tile.place(w, block);
    tile.each_row(place, [&](const auto& row) {
      LeftHalves<W> left[2][2];
      {
        Sums<W, 2, kHidden> hidden;
        Per<float, W> active[kSlots];
        tile.find_hidden(w, hidden, row, place.lowest, 0);
        tile.find_active(w, active, row, place.lowest);
        tile.each_hidden([&](int strip, int n, int i, int slot) {
          hidden[strip][n][i] = tile.template rectified<W>(hidden[strip][n][i]) * active[slot];
        });
        tile.split_hidden(left, hidden);
      }
      PE_LOOP
      for (int group = 0; group < tile.head_groups(); ++group) {
        Per<float, W> sums[2][4];
        tile.template gather_taps<true>(w, sums, left, group, tile.head_groups(), second);
        tile.each_result(
            w, group, place.lowest,
            [&](int slot, int e, const Per<int, W>& head, const Per<int, W>& distance, const auto& inner) {
              const auto there = inner & (head < tile.heads()) & (distance >= 0) & (distance <= row.stands - row.start);
              const Per<std::int64_t, W> at =
                  Per<std::int64_t, W>(head) * tile.of.keys + Per<std::int64_t, W>(distance);
              const Per<float, W> value = sums[slot / 2][slot % 2 * 2 + e] + W::read(tile.of.offset, at, there);
              W::write(to, tile.template pair<W>(row, head, distance), value, there);
            });
      }
    });
  }
};

/// The same blocks, which compute hidden values again. Sums over rows and distances are in shared memory, where each
/// lane has its own words, and the block's parameters are summed over its warps at the end.
template <int taps>
struct PairNetworkBackward {
  static constexpr int kAtOnce = 3;

  PairNetworkTile<taps> tile;
  const float* dpairs;
  PeCudaPairNetworkGradients to;

  std::int64_t blocks() const { return tile.blocks(); }
  PE_SIZE int columns_of_first() const { return tile.first_words() + tile.second_words(); }
  PE_SIZE int weight_words() const { return columns_of_first() + tile.first_words(); }
  /// Of a warp: gradients by the first layer's weights, the second's, the hidden biases, then sums by distance of
  /// channels and of heads.
  PE_SIZE int second_sums() const { return tile.first_words(); }
  PE_SIZE int bias_sums() const { return second_sums() + tile.second_words(); }
  PE_SIZE int base_sums() const { return bias_sums() + 8; }
  PE_SIZE int offset_sums() const { return base_sums() + 8 * tile.channel_groups(); }
  PE_SIZE int sum_words() const { return offset_sums() + 8 * tile.head_groups(); }
  int shared() const { return 4 * kWarpLanes * (weight_words() + kWarps * sum_words()); }

  template <typename W>
  PE_BODY void operator()(W& w, std::int64_t block) const {
    begin(w);
    const auto place = tile.place(w, block);
    const int own = weight_words() + w.warp() * sum_words();
    Per<float, W> owned[kSlots];  // hidden values that no other tile counts
    PE_UNROLL
    for (int slot = 0; slot < kSlots; ++slot) {
      const Per<int, W> row = w.lane() / 4 + 8 * slot;
      const int first = place.lowest < 0 ? 0 : tile.kHalo;
      owned[slot] = W::select((row >= first) & (row < 32 - tile.kHalo), Per<float, W>(1.0F), Per<float, W>(0.0F));
    }
    tile.each_row(place, [&](const auto& row) {
      Sums<W, 2, kHidden> hidden, slopes;
      tile.find_hidden(w, hidden, row, place.lowest, 0);
      find_slopes(w, slopes, row, place.lowest, own + offset_sums());
      {
        Per<float, W> active[kSlots];
        tile.find_active(w, active, row, place.lowest);
        tile.each_hidden([&](int strip, int n, int i, int slot) {
          Per<float, W>&value = hidden[strip][n][i], &slope = slopes[strip][n][i];
          slope = W::select(value > 0.0F, slope, slope * tile.of.slope) * active[slot];
          value = tile.template rectified<W>(value) * active[slot];
        });
      }
      add_bias_sums(w, slopes, owned, own + bias_sums());
      LeftHalves<W> left[2][2];
      tile.split_hidden(left, hidden);
      sum_weights(
          w, left, owned, own + second_sums(), tile.head_groups(), place.lowest, 1,
          [&](int, const Per<int, W>& head, const Per<int, W>& distance) { return slope_of<W>(row, head, distance); });
      tile.split_hidden(left, slopes);
      find_inputs_slopes(w, left, row, place.lowest, own + base_sums());
      sum_weights(w, left, owned, own, tile.channel_groups(), place.lowest, -1,
                  [&](int group, const Per<int, W>& channel, const Per<int, W>& distance) {
                    return tile.template input<W>(row, group, channel, distance);
                  });
    });
    write_by_distance(w, place, block / tile.columns, own);
    w.sync();
    write_parameters(w, block);
  }

 private:
  template <typename W>
  PE_BODY void begin(W& w) const {
    const auto first = [&](const auto& unit, const auto& channel, int tap) {
      return tile.template first_weight<W>(unit, channel, tap);
    };
    tile.store_rows(w, 0, tile.channel_groups(), first);
    tile.store_rows(w, tile.first_words(), tile.head_groups(), [&](const auto& unit, const auto& head, int tap) {
      return tile.template second_weight<W>(unit, head, tap);
    });
    tile.store_columns(w, columns_of_first(), tile.channel_groups(), first);
    const int own = weight_words() + w.warp() * sum_words();
    PE_LOOP
    for (int at = 0; at < sum_words(); ++at) w.store(tile.word(w, own + at), Per<float, W>(0.0F));
    w.sync();
  }

  /// The slope of a result, 0 where the pair is hidden.
  template <typename W>
  PE_BODY Per<float, W> slope_of(const typename PairNetworkTile<taps>::Row& row, const Per<int, W>& head,
                                 const Per<int, W>& distance) const {
    return tile.template logit<W>(dpairs, row, head, distance, (distance >= 0) & (distance <= row.stands - row.start));
  }
  template <typename W>
  PE_BODY void add_to(W& w, int at, const Per<float, W>& value) const {
    const Per<int, W> place = tile.word(w, at);
    w.store(place, w.load(place) + value);
  }

  /// Slopes of hidden values after the rectifier. Sums slopes of results by distance.
  template <typename W>
  PE_BODY void find_slopes(W& w, Sums<W, 2, kHidden>& slopes, const typename PairNetworkTile<taps>::Row& row,
                           int lowest, int sums) const {
    clear<W, 2, kHidden>(slopes);
    PE_LOOP
    for (int tap = 0; tap < taps; ++tap) {
      PE_LOOP
      for (int group = 0; group < tile.head_groups(); ++group) {
        Per<std::uint32_t, W> left[2][4];
        tile.load_left(
            w, left, group, lowest + (tap - tile.kHalo),
            [&](const Per<int, W>& head, const Per<int, W>& distance) { return slope_of<W>(row, head, distance); });
        tile.multiply_block(w, slopes, left, tile.first_words() + (tap * tile.head_groups() + group) * 8);
      }
    }
    PE_LOOP
    for (int group = 0; group < tile.head_groups(); ++group) {
      tile.each_result(w, group, lowest,
                       [&](int slot, int e, const Per<int, W>& head, const Per<int, W>& distance, const auto&) {
                         add_to(w, sums + 8 * group + 2 * slot + e, slope_of<W>(row, head, distance));
                       });
    }
  }

  template <typename W>
  PE_BODY void add_bias_sums(W& w, const Sums<W, 2, kHidden>& slopes, const Per<float, W> (&owned)[kSlots],
                             int sums) const {
    PE_UNROLL
    for (int n = 0; n < kHidden / 8; ++n) {
      PE_UNROLL
      for (int e = 0; e < 2; ++e) {
        Per<float, W> sum = 0.0F;
        PE_UNROLL
        for (int slot = 0; slot < kSlots; ++slot) sum = sum + slopes[slot / 2][n][slot % 2 * 2 + e] * owned[slot];
        add_to(w, sums + 2 * n + e, sum);
      }
    }
  }

  /// Sums gradients by weights [kHidden, 8 channels] of taps and groups.
  /// @param towards  1: a tap of a channel's key reads hidden values before it; −1: hidden values read keys after
  /// theirs
  /// @param value    of a group, a channel and a distance
  template <typename W, typename Value>
  PE_BODY void sum_weights(W& w, const LeftHalves<W> (&left)[2][2], const Per<float, W> (&owned)[kSlots], int sums,
                           int groups, int lowest, int towards, const Value& value) const {
    LeftHalves<W> units[2][2];  // by strip and by 16 units
    PE_UNROLL
    for (int strip = 0; strip < 2; ++strip) {
      const Per<float, W> keeps[2] = {owned[2 * strip], owned[2 * strip + 1]};
      PE_UNROLL
      for (int step = 0; step < 2; ++step) units[strip][step].transpose(w, left[strip][step], keeps);
    }
    PE_LOOP
    for (int at = 0; at < taps * groups; ++at) {
      const int group = at % groups, tap = at / groups;
      Halves<W> right[2][2];
      PE_UNROLL
      for (int strip = 0; strip < 2; ++strip) {
        tile.load_right(
            w, right[strip], group, lowest + 16 * strip + towards * (tap - tile.kHalo),
            [&](const Per<int, W>& channel, const Per<int, W>& distance) { return value(group, channel, distance); });
      }
      PE_UNROLL
      for (int step = 0; step < 2; ++step) {
        Per<float, W> sum[4];
        PE_UNROLL
        for (int i = 0; i < 4; ++i) sum[i] = w.load(tile.word(w, sums + at * 8 + step * 4 + i));
        PE_UNROLL
        for (int strip = 0; strip < 2; ++strip) units[strip][step].multiply(w, sum, right[strip][0], right[strip][1]);
        PE_UNROLL
        for (int i = 0; i < 4; ++i) w.store(tile.word(w, sums + at * 8 + step * 4 + i), sum[i]);
      }
    }
  }

  /// Gradients by logits, written, and by the base, summed by distance.
  template <typename W>
  PE_BODY void find_inputs_slopes(W& w, const LeftHalves<W> (&left)[2][2],
                                  const typename PairNetworkTile<taps>::Row& row, int lowest, int sums) const {
    PE_LOOP
    for (int group = 0; group < tile.channel_groups(); ++group) {
      Per<float, W> found[2][4];
      tile.template gather_taps<false>(w, found, left, group, tile.channel_groups(), columns_of_first());
      tile.each_result(
          w, group, lowest,
          [&](int slot, int e, const Per<int, W>& channel, const Per<int, W>& distance, const auto& inner) {
            const auto seen = inner & (distance >= 0) & (distance <= row.stands - row.start);
            const Per<float, W>& slope = found[slot / 2][slot % 2 * 2 + e];
            W::write(to.logits, tile.template pair<W>(row, channel, distance), slope * tile.of.scale,
                     seen & (channel < tile.heads()));
            add_to(w, sums + 8 * group + 2 * slot + e, W::select(seen, slope, Per<float, W>(0.0F)));
          });
    }
  }

  template <typename W>
  PE_BODY void write_by_distance(W& w, const typename PairNetworkTile<taps>::Place& place, std::int64_t part,
                                 int own) const {
    const int heads = tile.heads(), channels = tile.channels(), keys = static_cast<int>(tile.of.keys);
    float* base = to.by_distance + part * channels * tile.of.keys;
    float* offset = base + (channels - heads) * tile.of.keys;
    PE_LOOP
    for (int group = 0; group < tile.channel_groups(); ++group) {
      tile.each_result(
          w, group, place.lowest,
          [&](int slot, int e, const Per<int, W>& channel, const Per<int, W>& distance, const auto& inner) {
            const auto there = inner & (distance < keys) & (channel < channels);
            const Per<std::int64_t, W> at(distance);
            W::write(base, Per<std::int64_t, W>(channel - heads) * tile.of.keys + at,
                     w.load(tile.word(w, own + base_sums() + 8 * group + 2 * slot + e)), there & (channel >= heads));
          });
    }
    PE_LOOP
    for (int group = 0; group < tile.head_groups(); ++group) {
      tile.each_result(w, group, place.lowest,
                       [&](int slot, int e, const Per<int, W>& head, const Per<int, W>& distance, const auto& inner) {
                         W::write(offset, Per<std::int64_t, W>(head) * tile.of.keys + Per<std::int64_t, W>(distance),
                                  w.load(tile.word(w, own + offset_sums() + 8 * group + 2 * slot + e)),
                                  inner & (distance < keys) & (head < heads));
                       });
    }
  }

  /// Sums of the four warps, in their order, in the layout of the parameters.
  template <typename W>
  PE_BODY void write_parameters(W& w, std::int64_t block) const {
    const int channels = tile.channels(), heads = tile.heads();
    float* first = to.parameters + block * tile.parameters;
    float *second = first + kHidden * channels * taps, *bias = second + kHidden * heads * taps;
    PE_LOOP
    for (int at = w.warp(); at < base_sums(); at += kWarps) {
      Per<float, W> sum = 0.0F;
      PE_UNROLL
      for (int warp = 0; warp < kWarps; ++warp)
        sum = sum + w.load(tile.word(w, weight_words() + warp * sum_words() + at));
      if (at >= bias_sums()) {
        PE_UNROLL
        for (int mask = 4; mask < kWarpLanes; mask *= 2) sum = sum + w.shuffle_xor(sum, mask);
        const int n = (at - bias_sums()) / 2, e = (at - bias_sums()) % 2;
        W::write(bias, Per<std::int64_t, W>(w.lane() % 4 * 2 + (8 * n + e)), sum, w.lane() < 4);
        continue;
      }
      const bool of_second = at >= second_sums();
      const int from = of_second ? at - second_sums() : at, i = from % 4, step = from / 4 % 2;
      const int groups = of_second ? tile.head_groups() : tile.channel_groups();
      const int group = from / 8 % groups, tap = from / 8 / groups;
      const Per<int, W> unit = w.lane() / 4 + (16 * step + i / 2 * 8);
      const Per<int, W> channel = w.lane() % 4 * 2 + (8 * group + i % 2);
      const Per<int, W> place =
          of_second ? (channel * kHidden + unit) * taps + tap : (unit * channels + channel) * taps + tap;
      W::write(of_second ? second : first, Per<std::int64_t, W>(place), sum, channel < (of_second ? heads : channels));
    }
  }
};

/// `On` as of AttentionLaunchers.
template <typename On>
struct PairNetworkLaunchers {
  static constexpr int kRefused = 1;  ///< cudaErrorInvalidValue

  static bool takes(const PeCudaPairNetwork& of) {
    return (of.taps == 1 || of.taps == 3) && of.queries <= of.keys && of.offset != nullptr;
  }
  static bool is_empty(const PeCudaPairNetwork& of) { return of.batch == 0 || of.heads == 0 || of.queries == 0; }
  /// Of shared memory that a block needs, in bytes.
  static int shared_for(const PeCudaPairNetwork& of) {
    return of.taps == 1 ? PairNetworkBackward<1>{PairNetworkTile<1>(of), nullptr, {}}.shared()
                        : PairNetworkBackward<3>{PairNetworkTile<3>(of), nullptr, {}}.shared();
  }

  static int pair_network(const PeCudaPairNetwork* of, float* pairs, void* stream) {
    if (!takes(*of)) return kRefused;
    if (is_empty(*of)) return 0;
    return of->taps == 1 ? On::blocks(PairNetworkForward<1>{PairNetworkTile<1>(*of), pairs}, stream)
                         : On::blocks(PairNetworkForward<3>{PairNetworkTile<3>(*of), pairs}, stream);
  }
  static int pair_network_backward(const PeCudaPairNetwork* of, const float* dpairs,
                                   const PeCudaPairNetworkGradients* to, void* stream) {
    if (!takes(*of)) return kRefused;
    if (is_empty(*of)) return 0;
    return of->taps == 1 ? On::blocks(PairNetworkBackward<1>{PairNetworkTile<1>(*of), dpairs, *to}, stream)
                         : On::blocks(PairNetworkBackward<3>{PairNetworkTile<3>(*of), dpairs, *to}, stream);
  }
  static void fill(PeCudaTable& table) {
    table.pair_network = pair_network;
    table.pair_network_backward = pair_network_backward;
  }
};

}  // namespace pe::cuda
