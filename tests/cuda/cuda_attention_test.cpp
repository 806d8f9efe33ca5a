// Attention of the CUDA plug-in, on the CPU, against naive loops in float64 over the same inputs.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cuda/attention/pair_network.h"
#include "host_plugin.h"
#include "simt.h"
#include "support/random.h"

namespace {

using pe::cuda::AttentionLaunchers;
using pe::test::Lanes;
using pe::test::Simt;
using pe::test::SimtWarp;

/// Slopes: without a gradient; gates: a gated distance; bent: a bent distance; pairs: each pair's. Stick: none, and a
/// stick is broken in place of softmax, without or with the row's own key. Counts: of gates. Edges: costs of keys on
/// the way.
enum class Bias {
  kNone,
  kSlopes,
  kLearned,
  kQueryGates,
  kBothGates,
  kBent,
  kPairs,
  kStick,
  kStickWithOwn,
  kCounts,
  kEdges
};
constexpr std::int64_t kNumbers = pe_cuda_edge_numbers;
constexpr std::int64_t kPositions = 13;        ///< counts of gates
enum class Documents { kOne, kShared, kOwn };  ///< starts: none, [S], [B, S]

struct Case {
  std::int64_t queries, keys, width;
  std::int64_t groups = 2, sharing = 1;  ///< heads of a group
  Bias bias = Bias::kNone;
  Documents documents = Documents::kOne;
  bool packed = false;  ///< heads are inside rows, as a projection leaves them
  std::int64_t batch = 2;
  std::int64_t window = 0;                            ///< distances from here on have a bias of −∞; 0: none
  double raised = 0;                                  ///< added to all biases
  std::int64_t scratch_rows = 0;                      ///< of S floats; 0: as many as are asked for
  bool sequences_share = false, heads_share = false;  ///< the bias of pairs

  std::int64_t heads() const { return groups * sharing; }
  bool has_table() const { return bias == Bias::kSlopes || bias == Bias::kLearned; }
  bool is_gated() const { return bias == Bias::kQueryGates || bias == Bias::kBothGates; }
  bool is_bent() const { return bias == Bias::kBent; }
  bool breaks() const { return bias == Bias::kStick || bias == Bias::kStickWithOwn; }
  bool has_pairs() const { return bias == Bias::kPairs; }
  bool counts() const { return bias == Bias::kCounts; }
  bool has_edges() const { return bias == Bias::kEdges; }
  std::int64_t count_logits() const { return counts() ? batch * heads() * queries * kPositions : 0; }
  PeCudaPairs pairs(const float* from) const {
    const std::int64_t size = queries * keys;
    return {from, sequences_share ? 0 : (heads_share ? 1 : heads()) * size, heads_share ? 0 : size};
  }
  std::int64_t pair_count() const {
    return has_pairs() ? (sequences_share ? 1 : batch) * (heads_share ? 1 : heads()) * queries * keys : 0;
  }
  std::int64_t pair(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) const {
    const PeCudaPairs at = pairs(nullptr);
    return b * at.by_sequence + h * at.by_head + t * keys + s;
  }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "T " << c.queries << " S " << c.keys << " d_h " << c.width << " G " << c.groups << " H/G " << c.sharing
             << " bias " << static_cast<int>(c.bias) << " documents " << static_cast<int>(c.documents) << " packed "
             << c.packed;
}

constexpr std::uint16_t kGuard = 0x7FC1;  // a NaN that nothing computes
constexpr float kFloatGuard = 12345.5F;
constexpr float kBefore = 0.5F;  // the table's gradient
constexpr std::size_t kMargin = 64;
constexpr std::int64_t kKnots = pe_cuda_knots;

/// bf16 values [B, heads, rows, width] with room around and, where packed, between them.
struct Matrix {
  std::int64_t batch, heads, rows, width;
  PeCudaStrides strides;
  std::vector<std::uint16_t> memory;

  Matrix(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t w, bool packed)
      : batch(b), heads(h), rows(r), width(w) {
    const std::int64_t gap = 16;
    if (packed)
      strides = {.by_sequence = r * (h * w + gap), .by_head = w, .by_row = h * w + gap};
    else
      strides = {.by_sequence = h * r * w, .by_head = r * w, .by_row = w};
    memory.assign(static_cast<std::size_t>(b * strides.by_sequence) + 2 * kMargin, kGuard);
  }
  void fill(std::uint64_t key, double scale) {
    std::vector<double> values(static_cast<std::size_t>(batch * heads * rows * width));
    pe::support::philox_normal(key, values.data(), values.size());
    auto next = values.begin();
    each([&](std::size_t at) {
      memory[at] = static_cast<std::uint16_t>(pe::test::to_bf16(static_cast<float>(*next++ * scale)));
    });
  }
  std::uint16_t* data() { return memory.data() + kMargin; }
  const std::uint16_t* data() const { return memory.data() + kMargin; }
  std::size_t index(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t i) const {
    return kMargin + static_cast<std::size_t>(b * strides.by_sequence + h * strides.by_head + r * strides.by_row + i);
  }
  const std::uint16_t* row(std::int64_t b, std::int64_t h, std::int64_t r) const { return &memory[index(b, h, r, 0)]; }
  template <typename Function>
  void each(const Function& function) const {
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t i = 0; i < width; ++i) function(index(b, h, r, i));
  }
  std::vector<double> values() const {
    std::vector<double> all;
    each([&](std::size_t at) { all.push_back(static_cast<double>(pe::test::from_bf16(memory[at]))); });
    return all;
  }
  bool keeps_guards() const {
    std::vector<bool> owned(memory.size());
    each([&](std::size_t at) { owned[at] = true; });
    for (std::size_t at = 0; at < memory.size(); ++at)
      if (!owned[at] && memory[at] != kGuard) return false;
    return true;
  }
};

struct Floats {
  std::vector<float> memory;
  explicit Floats(std::int64_t count) : memory(static_cast<std::size_t>(count) + 2 * kMargin, kFloatGuard) {}
  float* data() { return memory.data() + kMargin; }
  std::size_t count() const { return memory.size() - 2 * kMargin; }
  bool keeps_guards() const {
    const auto guards = [](auto from) {
      return std::all_of(from, from + kMargin, [](float value) { return value == kFloatGuard; });
    };
    return guards(memory.begin()) && guards(memory.end() - kMargin);
  }
};

/// Numbers of edges, and the two bf16 parts of each in PeCudaEdges' order.
struct EdgeNumbers {
  std::vector<double> values;
  std::vector<std::uint16_t> halves;

  /// @param is_low  which two of a row's four parts are the low ones
  void fill(std::uint64_t key, std::int64_t rows, const std::array<bool, 4>& is_low) {
    values.resize(static_cast<std::size_t>(rows * kNumbers));
    pe::support::philox_normal(key, values.data(), values.size());
    for (auto row = values.begin(); row != values.end(); row += kNumbers) {
      std::array<std::uint16_t, kNumbers> parts[2];
      for (std::size_t i = 0; i < kNumbers; ++i) {
        double& number = row[static_cast<std::ptrdiff_t>(i)];
        double sum = 0;
        for (auto& part : parts) {
          part[i] = static_cast<std::uint16_t>(pe::test::to_bf16(static_cast<float>(number - sum)));
          sum += static_cast<double>(pe::test::from_bf16(part[i]));
        }
        number = sum;
      }
      for (const bool low : is_low) halves.insert(halves.end(), parts[low].begin(), parts[low].end());
    }
  }
};

struct Inputs {
  Matrix q, k, v, dout;
  EdgeNumbers edge_queries, edge_keys;
  std::vector<float> edge_slopes;
  std::vector<std::int64_t> starts;
  std::vector<float> table, places, query_gates, key_gates;
  std::vector<float> measure, derivative, numbers, knots, bends, pieces, pairs, counts;
  std::vector<double> dlse;

  explicit Inputs(const Case& c)
      : q(c.batch, c.heads(), c.queries, c.width, c.packed),
        k(c.batch, c.groups, c.keys, c.width, c.packed),
        v(c.batch, c.groups, c.keys, c.width, c.packed),
        dout(c.batch, c.heads(), c.queries, c.width, c.packed) {
    q.fill(1, 1);
    k.fill(2, 1);
    v.fill(3, 1);
    dout.fill(4, 1);
    if (c.is_gated()) {  // places rise by steps, as running sums do
      const std::int64_t heads = c.batch * c.heads();
      for (std::int64_t i = 0; i < heads * c.keys; ++i) {
        const float step = 0.05F + 0.03F * std::sin(static_cast<float>(i * i % 97));
        places.push_back(i % c.keys == 0 ? step : places.back() + step);
        if (c.bias == Bias::kBothGates) key_gates.push_back(0.4F * std::cos(static_cast<float>(i * 7 % 31)));
      }
      for (std::int64_t i = 0; i < heads * c.queries; ++i)
        query_gates.push_back(1.0F + 0.5F * std::sin(static_cast<float>(i * 5 % 23)));
    }
    if (c.is_bent()) bend(c);
    if (c.counts()) {
      std::vector<double> noise(static_cast<std::size_t>(c.count_logits()));
      pe::support::philox_normal(8, noise.data(), noise.size());
      counts.assign(noise.begin(), noise.end());
    }
    if (c.has_edges()) {
      edge_queries.fill(9, c.batch * c.heads() * c.queries, {false, true, false, true});
      edge_keys.fill(10, c.batch * c.heads() * c.keys, {false, false, true, true});
      for (std::int64_t h = 0; h < c.heads(); ++h) edge_slopes.push_back(std::exp2(-static_cast<float>(h + 2)));
    }
    if (c.has_pairs()) {
      std::vector<double> noise(static_cast<std::size_t>(c.pair_count()));
      pe::support::philox_normal(7, noise.data(), noise.size());
      pairs.assign(noise.begin(), noise.end());
      for (std::int64_t at = 0; at < c.pair_count(); ++at) {  // pairs that no query sees
        if (at % c.keys > c.keys - c.queries + at / c.keys % c.queries)
          pairs[static_cast<std::size_t>(at)] = std::numeric_limits<float>::quiet_NaN();
      }
    }
    if (c.has_table()) {
      std::vector<double> noise(static_cast<std::size_t>(c.heads() * c.keys));
      pe::support::philox_normal(5, noise.data(), noise.size());
      for (std::int64_t h = 0; h < c.heads(); ++h) {
        for (std::int64_t d = 0; d < c.keys; ++d) {
          const double slope = -static_cast<double>(d) * std::pow(2.0, -static_cast<double>(h + 3));
          const bool hidden = c.window > 0 && d >= c.window;
          table.push_back(hidden
                              ? -std::numeric_limits<float>::infinity()
                              : static_cast<float>(c.raised + (c.bias == Bias::kSlopes ? slope : noise[table.size()])));
        }
      }
    }
    dlse.resize(static_cast<std::size_t>(c.batch * c.heads() * c.queries));
    pe::support::philox_normal(6, dlse.data(), dlse.size());
    const std::int64_t sequences = c.documents == Documents::kOne ? 0 : c.documents == Documents::kShared ? 1 : c.batch;
    for (std::int64_t b = 0; b < sequences; ++b) {
      // Documents of growing length; the last sequence's second one begins with a tile.
      std::int64_t start = 0, end = b + 1 < c.batch ? 7 + 22 * b : 64;
      for (std::int64_t s = 0; s < c.keys; ++s) {
        if (s == end) start = s, end = s + 23 + 20 * b;
        starts.push_back(start);
      }
    }
  }

  /// As FIRE: logarithms of distances over logarithms of positions, which begin again in the middle. Many knots are
  /// near 0, some where far distances are, the last above all inputs.
  void bend(const Case& c) {
    for (std::int64_t h = 0; h < c.heads(); ++h) {
      const float by = 0.1F + 0.2F * static_cast<float>(h);
      for (std::int64_t d = 0; d < c.keys; ++d) {
        const auto distance = static_cast<float>(d);
        measure.push_back(std::log1p(by * distance));
        derivative.push_back(distance / (1 + by * distance));
      }
      float slope = 0.7F, value = -0.3F, knot = 0;
      pieces.insert(pieces.end(), {slope, value});
      for (std::int64_t k = 0; k < kKnots; ++k) {
        knot = k + 3 < kKnots ? knot + 0.002F * static_cast<float>(k + 1) : 1e30F;
        const float bend = k + 3 < kKnots ? std::cos(static_cast<float>(5 * k + h)) : 0.0F;
        knots.push_back(knot);
        bends.push_back(bend);
        slope += bend;
        value -= bend * knot;
        pieces.insert(pieces.end(), {slope, value});
      }
    }
    for (std::int64_t i = 0; i < c.batch * c.heads() * c.queries; ++i)
      numbers.push_back(1 / std::log1p(0.1F * static_cast<float>(std::max<std::int64_t>(30, i % c.queries % 70))));
  }
};

struct Outcome {
  std::vector<double> out, lse, delta, dq, dk, dv, dtable;
  std::vector<double> query_gates, query_places, key_gates,
      key_places;  ///< gradients by a gated distance
  std::vector<double> numbers, parameter,
      bent;  ///< by a bent distance; [B, H, 2, 33] the sums past its knots
  std::vector<double> pairs, counts;
  std::vector<double> edge_queries, edge_keys;
};

double half_at(const std::uint16_t* row, std::int64_t i) { return static_cast<double>(pe::test::from_bf16(row[i])); }

/// The mathematics, and the sum of the squares of each result's terms: the variance of their rounding errors is in
/// proportion to it.
struct Expected {
  Outcome value, squares;
};

/// The function of a bent distance, of a head and a row.
struct BentLine {
  const Case& c;
  const Inputs& in;
  std::int64_t h;
  double number = 0;

  BentLine(const Case& of, const Inputs& from, std::int64_t head, std::int64_t row) : c(of), in(from), h(head) {
    if (c.is_bent()) number = static_cast<double>(in.numbers[static_cast<std::size_t>(row)]);
  }
  double of(const std::vector<float>& by_distance, std::int64_t distance) const {
    return static_cast<double>(by_distance[static_cast<std::size_t>(h * c.keys + distance)]);
  }
  double knot(std::int64_t k) const { return static_cast<double>(in.knots[static_cast<std::size_t>(h * kKnots + k)]); }
  double bend(std::int64_t k) const { return static_cast<double>(in.bends[static_cast<std::size_t>(h * kKnots + k)]); }
  /// As the kernel's: which side of a knot an input is on must not depend on its last bit.
  double input(std::int64_t distance) const {
    return static_cast<double>(static_cast<float>(of(in.measure, distance)) * static_cast<float>(number));
  }
  double slope(double x) const {
    double sum = static_cast<double>(0.7F);
    for (std::int64_t k = 0; k < kKnots; ++k) sum += x > knot(k) ? bend(k) : 0;
    return sum;
  }
  double value(double x) const {
    double sum = static_cast<double>(0.7F) * x + static_cast<double>(-0.3F);
    for (std::int64_t k = 0; k < kKnots; ++k) sum += bend(k) * std::max(0.0, x - knot(k));
    return sum;
  }
};

/// A key's gate and count, and the bias at the count.
struct CountOfKey {
  double gate = 0, part = 0, bias = 0, slope = 0;
  std::int64_t below = 0;

  CountOfKey() = default;
  /// @param nearer  the sum of the gates of nearer keys
  CountOfKey(const Inputs& in, std::int64_t row, double score, double nearer) : gate(1 / (1 + std::exp(-score))) {
    const double count = std::min(nearer + gate, static_cast<double>(kPositions - 1));
    below = static_cast<std::int64_t>(count);
    part = count - static_cast<double>(below);
    const auto at = [&](std::int64_t i) {
      return static_cast<double>(in.counts[static_cast<std::size_t>(row * kPositions + i)]);
    };
    slope = below + 1 < kPositions ? at(below + 1) - at(below) : 0;
    bias = at(below) + part * slope;
  }
};

/// A key's x, and its cost: slope · ln σ(x).
struct EdgeOfKey {
  const double* query = nullptr;
  const double* key = nullptr;
  double slope = 0, x = 0;

  EdgeOfKey() = default;
  EdgeOfKey(const Inputs& in, std::int64_t h, std::int64_t row, std::int64_t key_row)
      : query(&in.edge_queries.values[static_cast<std::size_t>(row * kNumbers)]),
        key(&in.edge_keys.values[static_cast<std::size_t>(key_row * kNumbers)]),
        slope(static_cast<double>(in.edge_slopes[static_cast<std::size_t>(h)])) {
    for (std::int64_t i = 0; i < kNumbers; ++i) x += query[i] * key[i];
  }
  double cost() const { return -slope * std::log1p(std::exp(-x)); }
  double by_x() const { return slope / (1 + std::exp(x)); }
};

Expected naive(const Case& c, const Inputs& in, double scale) {
  const std::int64_t H = c.heads(), G = c.groups, T = c.queries, S = c.keys, D = c.width;
  Expected made;
  const auto zeros = [](std::int64_t count) { return std::vector<double>(static_cast<std::size_t>(count)); };
  for (Outcome* outcome : {&made.value, &made.squares}) {
    *outcome = {zeros(c.batch * H * T * D),
                zeros(c.batch * H * T),
                zeros(c.batch * H * T),
                zeros(c.batch * H * T * D),
                zeros(c.batch * G * S * D),
                zeros(c.batch * G * S * D),
                zeros(H * S),
                zeros(c.batch * H * T),
                zeros(c.batch * H * T),
                zeros(c.batch * H * S),
                zeros(c.batch * H * S),
                zeros(c.batch * H * T),
                zeros(c.batch * H * T),
                zeros(c.batch * H * 2 * (kKnots + 1)),
                zeros(c.pair_count()),
                zeros(c.count_logits()),
                zeros(c.has_edges() ? c.batch * H * T * kNumbers : 0),
                zeros(c.has_edges() ? c.batch * H * S * kNumbers : 0)};
  }
  const auto add = [&](std::vector<double> Outcome::*of, std::int64_t at, double value, double size) {
    (made.value.*of)[static_cast<std::size_t>(at)] += value;
    (made.squares.*of)[static_cast<std::size_t>(at)] += size * size;
  };
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t h = 0; h < H; ++h) {
      const std::int64_t g = h / c.sharing;
      for (std::int64_t t = 0; t < T; ++t) {
        const std::int64_t stands = S - T + t, row = (b * H + h) * T + t;
        const std::int64_t start =
            in.starts.empty()
                ? 0
                : in.starts[static_cast<std::size_t>((c.documents == Documents::kOwn ? b * S : 0) + stands)];
        const std::uint16_t *q = in.q.row(b, h, t), *dout = in.dout.row(b, h, t);
        const std::int64_t key_row = (b * H + h) * S;
        const auto way = [&](std::int64_t s) {
          return static_cast<double>(in.places[static_cast<std::size_t>(key_row + s)]) -
                 static_cast<double>(in.places[static_cast<std::size_t>(key_row + stands)]);
        };
        const auto gate = [&](std::int64_t s) {
          const double of_key =
              in.key_gates.empty() ? 0 : static_cast<double>(in.key_gates[static_cast<std::size_t>(key_row + s)]);
          return static_cast<double>(in.query_gates[static_cast<std::size_t>(row)]) + of_key;
        };
        const BentLine line(c, in, h, row);
        std::vector<double> p(static_cast<std::size_t>(S)), wanted(static_cast<std::size_t>(S)),
            sizes(static_cast<std::size_t>(S));
        double top = -std::numeric_limits<double>::infinity(), total = 0;
        for (std::int64_t s = start; s <= stands; ++s) {
          double logit = 0;
          for (std::int64_t i = 0; i < D; ++i) logit += half_at(q, i) * half_at(in.k.row(b, g, s), i);
          logit *= scale;
          if (!in.table.empty()) logit += static_cast<double>(in.table[static_cast<std::size_t>(h * S + stands - s)]);
          if (c.is_gated()) logit += way(s) * gate(s);
          if (c.is_bent()) logit += line.value(line.input(stands - s));
          if (c.has_pairs()) logit += static_cast<double>(in.pairs[static_cast<std::size_t>(c.pair(b, h, t, s))]);
          p[static_cast<std::size_t>(s)] = logit;
          top = std::max(top, logit);
        }
        std::vector<CountOfKey> of_keys(static_cast<std::size_t>(c.counts() ? S : 0));
        if (c.counts()) {
          top = -std::numeric_limits<double>::infinity();
          double sum = 0;
          for (std::int64_t s = stands; s >= start; --s) {
            double& logit = p[static_cast<std::size_t>(s)];
            CountOfKey& key = of_keys[static_cast<std::size_t>(s)];
            key = CountOfKey(in, row, logit, sum);
            sum += key.gate;
            logit += key.bias;
            top = std::max(top, logit);
          }
        }
        if (c.has_edges()) {
          top = -std::numeric_limits<double>::infinity();
          double costs = 0;  // of nearer keys
          for (std::int64_t s = stands; s >= start; --s) {
            double& logit = p[static_cast<std::size_t>(s)];
            logit += costs;
            top = std::max(top, logit);
            costs += EdgeOfKey(in, h, row, key_row + s).cost();
          }
        }
        double taken = 0;  // −ln of the rest of a stick
        std::vector<double> shares(static_cast<std::size_t>(S));
        for (std::int64_t s = stands; s >= start && c.breaks(); --s) {
          const auto at = static_cast<std::size_t>(s);
          const double z = s == stands && c.bias == Bias::kStick ? -std::numeric_limits<double>::infinity() : p[at];
          shares[at] = 1 / (1 + std::exp(-z));
          taken += std::log1p(std::exp(z));
          p[at] = std::exp(z - taken);
        }
        if (c.breaks()) top = taken, total = 1;
        for (std::int64_t s = start; s <= stands && !c.breaks(); ++s)
          total += std::exp(p[static_cast<std::size_t>(s)] - top);
        add(&Outcome::lse, row, top + std::log(total), std::abs(top) + (c.counts() ? kPositions : 1));
        double delta = -in.dlse[static_cast<std::size_t>(row)];
        for (std::int64_t s = start; s <= stands; ++s) {
          const auto at = static_cast<std::size_t>(s);
          if (!c.breaks()) p[at] = std::exp(p[at] - top) / total;
          for (std::int64_t i = 0; i < D; ++i) {
            const double value = half_at(in.v.row(b, g, s), i), d = half_at(dout, i);
            add(&Outcome::out, row * D + i, p[at] * value, p[at] * value);
            add(&Outcome::dv, ((b * G + g) * S + s) * D + i, p[at] * d, p[at] * d);
            wanted[at] += d * value;
            sizes[at] += std::abs(d * value);
          }
          if (!c.breaks()) delta += p[at] * wanted[at];
        }
        double farther = delta;  // of a stick: −dlse, and the sum over keys up to this one
        double by_counts = 0;    // of all keys up to this one
        double by_cost = 0;      // of all keys before this one
        add(&Outcome::delta, row, delta, 0);
        for (std::int64_t s = start; s <= stands; ++s) {
          const auto at = static_cast<std::size_t>(s);
          farther += p[at] * wanted[at];
          double ds = p[at] * wanted[at] - (c.breaks() ? shares[at] * farther : p[at] * delta);
          const double size = p[at] * (sizes[at] + std::abs(delta));
          if (c.counts()) {
            const CountOfKey& key = of_keys[at];
            const std::int64_t below = row * kPositions + key.below;
            add(&Outcome::counts, below, ds * (1 - key.part), size);
            if (key.part > 0) add(&Outcome::counts, below + 1, ds * key.part, size);
            by_counts += ds * key.slope;
            ds += by_counts * key.gate * (1 - key.gate);
          }
          if (c.has_edges()) {
            const EdgeOfKey edge(in, h, row, key_row + s);
            for (std::int64_t i = 0; i < kNumbers; ++i) {
              const double by_query = edge.by_x() * edge.key[i], by_key = edge.by_x() * edge.query[i];
              add(&Outcome::edge_queries, row * kNumbers + i, by_cost * by_query, by_cost * by_query);
              add(&Outcome::edge_keys, (key_row + s) * kNumbers + i, by_cost * by_key, by_cost * by_key);
            }
            by_cost += ds;
          }
          for (std::int64_t i = 0; i < D; ++i) {
            const double by_query = ds * scale * half_at(in.k.row(b, g, s), i), by_key = ds * scale * half_at(q, i);
            add(&Outcome::dq, row * D + i, by_query, by_query);
            add(&Outcome::dk, ((b * G + g) * S + s) * D + i, by_key, by_key);
          }
          if (!in.table.empty()) add(&Outcome::dtable, h * S + stands - s, ds, size);
          if (c.has_pairs()) add(&Outcome::pairs, c.pair(b, h, t, s), ds, size);
          if (c.is_bent()) {
            const double x = line.input(stands - s), slope = line.slope(x);
            const double by_number = slope * line.of(in.measure, stands - s),
                         by_parameter = slope * line.number * line.of(in.derivative, stands - s);
            add(&Outcome::numbers, row, ds * by_number, size * by_number);
            add(&Outcome::parameter, row, ds * by_parameter, size * by_parameter);
            for (std::int64_t k = 0; k <= kKnots; ++k) {
              const std::int64_t at_knot = (b * H + h) * 2 * (kKnots + 1) + k;
              if (k < kKnots && x <= line.knot(k)) continue;
              add(&Outcome::bent, at_knot, ds, size);
              add(&Outcome::bent, at_knot + kKnots + 1, ds * x, size * x);
            }
          }
          if (!c.is_gated()) continue;
          add(&Outcome::query_gates, row, ds * way(s), size * way(s));
          add(&Outcome::query_places, row, -ds * gate(s), size * gate(s));
          add(&Outcome::key_gates, key_row + s, ds * way(s), size * way(s));
          add(&Outcome::key_places, key_row + s, ds * gate(s), size * gate(s));
        }
      }
    }
  }
  return made;
}

struct Run {
  Outcome outcome;
  std::vector<std::vector<std::uint16_t>> halves;  ///< memory of results
  std::vector<std::vector<float>> floats;
};

Run attend(const Case& c, const Inputs& in, const std::vector<double>& delta_of_rows, float scale) {
  PeCudaAttention of{
      .batch = c.batch, .heads = c.heads(), .groups = c.groups, .queries = c.queries, .keys = c.keys, .width = c.width};
  Matrix out(c.batch, c.heads(), c.queries, c.width, c.packed), dq(c.batch, c.heads(), c.queries, c.width, c.packed);
  Matrix dk(c.batch, c.groups, c.keys, c.width, c.packed), dv(c.batch, c.groups, c.keys, c.width, c.packed);
  of.q = in.q.strides, of.k = in.k.strides, of.v = in.v.strides, of.dout = in.dout.strides;
  of.out = out.strides, of.dq = dq.strides, of.dk = dk.strides, of.dv = dv.strides;
  if (!in.starts.empty()) of.starts = in.starts.data();
  if (c.documents == Documents::kOwn) of.starts_by_sequence = c.keys;
  if (!in.table.empty()) of.table = in.table.data();
  if (c.is_gated()) of.places = in.places.data(), of.query_gates = in.query_gates.data();
  if (!in.key_gates.empty()) of.key_gates = in.key_gates.data();
  if (c.is_bent()) {
    of.bent = {in.measure.data(), in.derivative.data(), in.numbers.data(),
               in.knots.data(),   in.bends.data(),      in.pieces.data()};
  }
  of.scale = scale;

  if (c.has_pairs()) of.pairs = c.pairs(in.pairs.data());
  const bool scans = c.breaks() || c.counts() || c.has_edges();
  const std::int64_t borders = scans ? c.batch * c.heads() * pe_cuda_scan_blocks(c.keys) * c.queries : 0;
  Floats nearer(borders), farther(borders), counts(c.count_logits());
  Floats edge_queries(static_cast<std::int64_t>(in.edge_queries.values.size())),
      edge_keys(static_cast<std::int64_t>(in.edge_keys.values.size()));
  if (c.has_edges()) of.edges = {in.edge_queries.halves.data(), in.edge_keys.halves.data(), in.edge_slopes.data()};
  if (scans) of.scan = {nearer.data(), farther.data()};
  if (c.breaks()) of.stick = {true, c.bias == Bias::kStick ? 1 : 0};
  if (c.counts()) of.counts = {in.counts.data(), kPositions};
  for (Floats* zeros : {&nearer, &farther, &counts}) std::fill(zeros->data(), zeros->data() + zeros->count(), 0.0F);

  const std::int64_t rows = c.batch * c.heads() * c.queries;
  const std::int64_t scratch_floats = c.scratch_rows > 0 ? c.scratch_rows * c.keys : pe_cuda_attention_scratch(of);
  Floats lse(rows), delta(rows), dtable(c.heads() * c.keys), scratch(scratch_floats);
  std::fill(dtable.data(), dtable.data() + dtable.count(), kBefore);
  const std::int64_t key_rows = c.batch * c.heads() * c.keys;
  Floats query_gates(rows), query_places(rows), key_gates(key_rows), key_places(key_rows);
  const std::int64_t parts = pe_cuda_bent_parts(c.queries), sums_of_part = 2 * (kKnots + 1);
  Floats numbers(rows), parameter(rows), bent(c.batch * c.heads() * parts * sums_of_part), pairs(c.pair_count());
  const PeCudaBiasGradients dbias{{query_gates.data(), query_places.data(), key_gates.data(), key_places.data()},
                                  {numbers.data(), parameter.data(), bent.data()},
                                  c.has_pairs() ? pairs.data() : nullptr,
                                  c.counts() ? counts.data() : nullptr,
                                  {edge_queries.data(), edge_keys.data()}};
  using Launch = AttentionLaunchers<Simt>;
  BOOST_TEST_REQUIRE(
      Launch::attention(&of, in.q.data(), in.k.data(), in.v.data(), out.data(), lse.data(), nullptr) == 0,
      Simt::problem);
  std::copy(delta_of_rows.begin(), delta_of_rows.end(), delta.data());
  const bool summed = c.bias == Bias::kLearned;
  BOOST_TEST_REQUIRE(Launch::backward(&of, in.q.data(), in.k.data(), in.v.data(), in.dout.data(), lse.data(),
                                      delta.data(), dq.data(), dk.data(), dv.data(), summed ? dtable.data() : nullptr,
                                      summed ? scratch.data() : nullptr, scratch_floats, &dbias, nullptr) == 0,
                     Simt::problem);
  for (float& sum : dtable.memory) sum = sum == kFloatGuard ? sum : sum - kBefore;
  for (const Matrix* matrix : {&out, &dq, &dk, &dv}) BOOST_TEST(matrix->keeps_guards());
  for (const Floats* floats : {&lse, &dtable, &scratch, &query_gates, &query_places, &key_gates, &key_places, &numbers,
                               &parameter, &bent, &pairs, &nearer, &farther, &counts, &edge_queries, &edge_keys})
    BOOST_TEST(floats->keeps_guards());
  const auto doubles = [](Floats& floats) {
    return std::vector<double>(floats.data(), floats.data() + floats.count());
  };
  std::vector<double> folded(static_cast<std::size_t>(c.batch * c.heads() * sums_of_part));
  for (std::size_t i = 0; i < bent.count(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    folded[static_cast<std::size_t>(at / (parts * sums_of_part) * sums_of_part + at % sums_of_part)] +=
        static_cast<double>(bent.data()[i]);
  }
  return {{out.values(),
           doubles(lse),
           {},
           dq.values(),
           dk.values(),
           dv.values(),
           summed ? doubles(dtable) : std::vector<double>(),
           doubles(query_gates),
           doubles(query_places),
           doubles(key_gates),
           doubles(key_places),
           doubles(numbers),
           doubles(parameter),
           folded,
           doubles(pairs),
           doubles(counts),
           doubles(edge_queries),
           doubles(edge_keys)},
          {out.memory, dq.memory, dk.memory, dv.memory},
          {lse.memory, dtable.memory, query_gates.memory, query_places.memory, key_gates.memory, key_places.memory,
           numbers.memory, parameter.memory, bent.memory, pairs.memory, nearer.memory, farther.memory, counts.memory,
           edge_queries.memory, edge_keys.memory}};
}

struct Allowed {
  double of_value = 0, of_root = 0;  ///< of the root of the sum of squares
};

void compare(const char* name, const std::vector<double>& found, const std::vector<double>& expected,
             const std::vector<double>& squares, const Allowed& allowed) {
  BOOST_TEST_REQUIRE(found.size() == expected.size());
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double limit = allowed.of_value * std::abs(expected[i]) + allowed.of_root * std::sqrt(squares[i]) + 1e-6;
    const double error = std::abs(found[i] - expected[i]) / limit;
    if (!(error <= worst)) worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : error, where = i;
  }
  BOOST_TEST(worst <= 1, name << " " << where << ": " << found[where] << ", expected " << expected[where]
                              << "; error in what is allowed: " << worst);
}

// bf16 rounds by at most u = 2⁻⁸ of a value: a result once, and each term with the rounding of p or dS. The latter
// errors are independent, so that their sum's standard deviation is at most u/√3 of the root of the squares' sum.
constexpr double kUnit = 1.0 / 256, kDeviation = kUnit / 1.7320508;
constexpr Allowed kRounded{1.01 * kUnit, 5 * kDeviation};

void check(const Case& c) {
  BOOST_TEST_CONTEXT(c) {
    const Inputs in(c);
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.width)));
    const Expected expected = naive(c, in, static_cast<double>(scale));
    const Run run = attend(c, in, expected.value.delta, scale);
    const auto against = [&](const char* name, std::vector<double> Outcome::*of, const Allowed& allowed) {
      compare(name, run.outcome.*of, expected.value.*of, expected.squares.*of, allowed);
    };
    against("out", &Outcome::out, kRounded);
    against("lse", &Outcome::lse, {0, 1e-6});
    against("dq", &Outcome::dq, kRounded);
    against("dk", &Outcome::dk, kRounded);
    against("dv", &Outcome::dv, kRounded);
    if (c.bias == Bias::kLearned)
      against("dtable", &Outcome::dtable, {1e-6, 5e-6 + 1e-6 * c.raised});  // fp32 throughout
    constexpr Allowed kSums{1e-6, 1e-5};                                    // fp32 throughout
    if (c.is_bent()) {
      against("gradient by numbers", &Outcome::numbers, kSums);
      against("gradient by the parameter", &Outcome::parameter, kSums);
      against("sums past knots", &Outcome::bent, kSums);
    }
    if (c.counts()) against("gradient by logits of counts", &Outcome::counts, kSums);
    if (c.has_edges()) {
      against("gradient by edges' numbers of queries", &Outcome::edge_queries, kRounded);
      against("gradient by edges' numbers of keys", &Outcome::edge_keys, kRounded);
    }
    if (c.has_pairs()) against("gradient by pairs", &Outcome::pairs, kSums);
    if (c.is_gated()) {
      against("gradient by gates of queries", &Outcome::query_gates, kSums);
      against("gradient by places of queries", &Outcome::query_places, kSums);
      against("gradient by gates of keys", &Outcome::key_gates, kSums);
      against("gradient by places of keys", &Outcome::key_places, kSums);
    }
    BOOST_TEST(Simt::conflicts == 0);
  }
}

/// One block of 128 floats.
template <typename Function>
struct Mistake {
  static constexpr int kShared = 512;
  Function function;
  std::int64_t blocks() const { return 1; }
  void operator()(SimtWarp& warp, std::int64_t) const { function(warp); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_attention)

// Lengths at, next to and between ends of tiles, and queries that are the last of more keys. Of 90 and 91 the last
// query of a tile, and of a warp, alone sees the first key of the next. Of 66 and 96 the first query of a warp alone
// does not see the last key of a tile.
constexpr std::pair<std::int64_t, std::int64_t> kLengths[] = {{1, 1},     {64, 64},  {65, 65}, {100, 100},
                                                              {130, 130}, {37, 101}, {90, 91}, {66, 96}};

BOOST_AUTO_TEST_CASE(it_agrees_with_float64_at_each_length_and_width) {
  for (const auto& [queries, keys] : kLengths) {
    for (const std::int64_t width : {32, 64, 128}) {
      for (const Bias bias : {Bias::kNone, Bias::kSlopes, Bias::kLearned}) check({queries, keys, width, 1, 2, bias});
    }
  }
}

BOOST_AUTO_TEST_CASE(documents_hide_what_lies_before_them) {
  for (const auto& [queries, keys] : kLengths) {
    for (const Documents documents : {Documents::kShared, Documents::kOwn}) {
      for (const Bias bias : {Bias::kNone, Bias::kLearned}) check({queries, keys, 32, 1, 1, bias, documents});
    }
  }
  for (const std::int64_t width : {64, 128}) check({201, 230, width, 1, 2, Bias::kLearned, Documents::kOwn});
}

BOOST_AUTO_TEST_CASE(heads_may_lie_inside_rows_and_share_keys) {
  for (const std::int64_t width : {32, 64, 128}) {
    for (const std::int64_t sharing : {1, 2, 3})
      check({100, 130, width, 2, sharing, Bias::kLearned, Documents::kOwn, true});
  }
}

// Lengths around tiles, every width, documents shared and own, keys shared by heads, keys with gates and without.
BOOST_AUTO_TEST_CASE(gated_distances_agree_with_float64_and_give_the_gradients_of_rows_and_keys) {
  for (const auto& [queries, keys] : kLengths) {
    for (const Bias bias : {Bias::kQueryGates, Bias::kBothGates}) check({queries, keys, 32, 1, 2, bias});
  }
  for (const std::int64_t width : {64, 128}) {
    for (const Bias bias : {Bias::kQueryGates, Bias::kBothGates})
      check({100, 130, width, 2, 3, bias, Documents::kOwn, true});
  }
  check({201, 230, 32, 2, 2, Bias::kBothGates, Documents::kShared});
}

// Rows with many knots among their inputs and rows with none, documents, shared keys, heads inside rows.
BOOST_AUTO_TEST_CASE(bent_distances_agree_with_float64_and_give_the_gradients_of_rows_and_knots) {
  for (const auto& [queries, keys] : kLengths) check({queries, keys, 32, 1, 2, Bias::kBent});
  for (const std::int64_t width : {64, 128}) check({100, 130, width, 2, 3, Bias::kBent, Documents::kOwn, true});
  check({201, 330, 32, 2, 2, Bias::kBent, Documents::kShared});
}

BOOST_AUTO_TEST_CASE(biases_of_pairs_agree_with_float64_and_give_the_gradient_of_all_that_share_them) {
  for (const auto& [queries, keys] : kLengths) check({queries, keys, 32, 1, 2, Bias::kPairs});
  for (const bool sequences_share : {false, true}) {
    for (const bool heads_share : {false, true}) {
      for (const std::int64_t width : {32, 64, 128}) {
        check({.queries = 100,
               .keys = 130,
               .width = width,
               .sharing = 2,
               .bias = Bias::kPairs,
               .documents = Documents::kOwn,
               .packed = true,
               .sequences_share = sequences_share,
               .heads_share = heads_share});
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(sticks_agree_with_float64_and_give_all_gradients) {
  for (const auto& [queries, keys] : kLengths) {
    for (const Bias bias : {Bias::kStick, Bias::kStickWithOwn}) check({queries, keys, 32, 1, 2, bias});
  }
  for (const std::int64_t width : {64, 128}) {
    for (const Bias bias : {Bias::kStick, Bias::kStickWithOwn})
      check({201, 230, width, 2, 3, bias, Documents::kOwn, true});
  }
  check({201, 330, 32, 2, 2, Bias::kStick, Documents::kShared});
}

// Most rows reach the bound; tiles beyond it have one bias a row.
BOOST_AUTO_TEST_CASE(counts_agree_with_float64_and_give_all_gradients) {
  for (const auto& [queries, keys] : kLengths) check({queries, keys, 32, 1, 2, Bias::kCounts});
  for (const std::int64_t width : {64, 128}) check({201, 230, width, 2, 3, Bias::kCounts, Documents::kOwn, true});
  check({201, 330, 32, 2, 2, Bias::kCounts, Documents::kShared});
}

BOOST_AUTO_TEST_CASE(edges_agree_with_float64_and_give_all_gradients) {
  for (const auto& [queries, keys] : kLengths) check({queries, keys, 32, 1, 2, Bias::kEdges});
  for (const std::int64_t width : {64, 128}) check({201, 230, width, 2, 3, Bias::kEdges, Documents::kOwn, true});
  check({201, 330, 32, 2, 2, Bias::kEdges, Documents::kShared});
}

BOOST_AUTO_TEST_CASE(a_table_may_end_in_minus_infinity) {
  for (const std::int64_t width : {32, 128})
    check({.queries = 130, .keys = 130, .width = width, .groups = 1, .bias = Bias::kLearned, .window = 20});
}

// Past the last query there is no logsumexp to take from a logit: its exponential overflows.
BOOST_AUTO_TEST_CASE(biases_may_be_large) {
  check({.queries = 100, .keys = 110, .width = 64, .groups = 1, .bias = Bias::kLearned, .raised = 120});
}

// 2 · 3 heads' sums over 2 · 3 tiles, in slices of 5 rows: within a head, across heads, and one of a single row.
BOOST_AUTO_TEST_CASE(the_tables_gradient_comes_in_slices_where_scratch_memory_is_short) {
  for (const std::int64_t rows : {1, 5, 36}) {
    check({.queries = 130,
           .keys = 140,
           .width = 32,
           .groups = 2,
           .sharing = 3,
           .bias = Bias::kLearned,
           .documents = Documents::kOwn,
           .scratch_rows = rows});
  }
}

BOOST_AUTO_TEST_CASE(scratch_memory_is_bounded) {
  PeCudaAttention of{.batch = 2, .heads = 3, .groups = 3, .queries = 65, .keys = 100, .width = 32};
  BOOST_TEST(pe_cuda_attention_scratch(of) == 2 * 3 * 2 * 100);
  of.batch = 1 << 20;
  BOOST_TEST(pe_cuda_attention_scratch(of) == 1 << 24);
  of.keys = (1 << 24) + 1;
  BOOST_TEST(pe_cuda_attention_scratch(of) == of.keys);
}

BOOST_AUTO_TEST_CASE(two_runs_give_the_same_bits) {
  for (const Bias bias :
       {Bias::kLearned, Bias::kBothGates, Bias::kBent, Bias::kPairs, Bias::kStick, Bias::kCounts, Bias::kEdges}) {
    const Case c{130, 201, 64, 1, 2, bias, Documents::kOwn};
    const Inputs in(c);
    const std::vector<double> delta(in.dlse);
    const Run once = attend(c, in, delta, 0.125F), again = attend(c, in, delta, 0.125F);
    BOOST_TEST((once.halves == again.halves));
    BOOST_TEST((once.floats == again.floats));
  }
}

BOOST_AUTO_TEST_CASE(other_widths_strides_and_groups_are_refused) {
  using Launch = AttentionLaunchers<Simt>;
  const PeCudaStrides strides{.by_sequence = 64, .by_head = 64, .by_row = 32};
  const PeCudaAttention good{
      .batch = 0, .heads = 2, .groups = 1, .queries = 2, .keys = 2, .width = 32, .q = strides, .dv = strides};
  const auto status = [](const PeCudaAttention& of) {
    const int forward = Launch::attention(&of, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    const int backward = Launch::attention_backward(&of, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                                    nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    BOOST_TEST(forward == backward);
    return forward;
  };
  BOOST_TEST(status(good) == 0);  // nothing to do
  for (const std::int64_t width : {0, 16, 48, 96, 256}) {
    PeCudaAttention of = good;
    of.width = width;
    BOOST_TEST(status(of) != 0);
  }
  PeCudaAttention of = good;
  of.groups = 3;
  BOOST_TEST(status(of) != 0);
  of = good;
  of.queries = 3;
  BOOST_TEST(status(of) != 0);
  of = good;
  of.q.by_row = 36;
  BOOST_TEST(status(of) != 0);
  of = good;
  of.dv.by_head = 4;
  BOOST_TEST(status(of) != 0);
  float gradient = 0;  // by a table that is not there
  BOOST_TEST(Launch::attention_backward(&good, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                        nullptr, &gradient, nullptr, nullptr, nullptr) != 0);
}

// Premises of the proof: mistakes that a GPU would not report.
BOOST_AUTO_TEST_CASE(mistakes_with_shared_memory_are_found) {
  const auto problem = [](auto body) {
    Simt::blocks(Mistake<decltype(body)>{body}, nullptr);
    return Simt::problem;
  };
  static const float source[8] = {};
  const Lanes<std::int64_t> from(0);
  const Lanes<bool> all(true);
  BOOST_TEST(problem([](SimtWarp& w) {
               w.store(w.thread() * 4, 1.0F);
               w.sync();
               w.load(w.lane() * 4);
             }) == "");
  BOOST_TEST(problem([](SimtWarp& w) { w.load(w.lane() * 4); }) == "read before it is written");
  BOOST_TEST(problem([](SimtWarp& w) {
               w.store(w.thread() * 4, 1.0F);
               w.load(w.lane() * 4);
             }) == "read without a barrier after the write");
  BOOST_TEST(problem([](SimtWarp& w) {
               w.store(w.thread() * 4, 1.0F);
               w.load((w.thread() + 1) % 128 * 4);  // the next lane's
             }) == "read without a barrier after the write");
  BOOST_TEST(problem([](SimtWarp& w) {
               w.store(w.thread() * 4, 1.0F);
               w.sync();
               if (w.warp() == 0) w.load(w.lane() * 4 + 128);  // the next warp's
               w.store(w.thread() * 4, 2.0F);
             }) == "written without a barrier after a read");
  BOOST_TEST(problem([](SimtWarp& w) { w.store(w.lane() * 4, 1.0F); }) == "written twice without a barrier");
  BOOST_TEST(problem([](SimtWarp& w) { w.store(w.thread() * 4 + 4, 1.0F); }) ==
             "a place in shared memory that is none: 512");
  BOOST_TEST(problem([](SimtWarp& w) {
               if (w.warp() == 2) w.sync();
             }) == "warps part at a barrier");
  BOOST_TEST(problem([&](SimtWarp& w) {
               w.copy<4>(w.thread() * 4, source, from, all);
               w.commit();
               w.sync();
               w.load(w.lane() * 4);
             }) == "read while a copy is on its way");
  BOOST_TEST(problem([&](SimtWarp& w) {
               w.copy<4>(w.thread() * 4, source, from, all);
               w.commit();
               w.wait<0>();
               w.sync();
               w.load(w.lane() * 4);
             }) == "");
  BOOST_TEST(problem([&](SimtWarp& w) { w.copy<4>(w.thread() * 4, source, from + 2, all); }) ==
             "a copy from a place not aligned");
  BOOST_TEST(Simt::conflicts == 0);
  problem([](SimtWarp& w) {
    if (w.warp() == 0) w.store(w.lane() % 16 * 8 + w.lane() / 16 * 4 * 64, 1.0F);
  });
  BOOST_TEST(Simt::conflicts > 0);
  Simt::conflicts = 0;
}

BOOST_AUTO_TEST_SUITE_END()

namespace pe::test {

void fill_attention(PeCudaTable& table) {
  AttentionLaunchers<Simt>::fill(table);
  cuda::PairNetworkLaunchers<Simt>::fill(table);
  table.takes_pair_network = [](int, const PeCudaPairNetwork* of) {
    constexpr int kMost = 227 * 1024;  // bytes of a block's shared memory, as an H100 has
    return cuda::PairNetworkLaunchers<Simt>::takes(*of) && cuda::PairNetworkLaunchers<Simt>::shared_for(*of) <= kMost;
  };
  table.attends = [](int, std::int64_t width) { return pe_cuda_attends(width); };
}

}  // namespace pe::test
