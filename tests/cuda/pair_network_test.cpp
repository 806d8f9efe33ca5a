// The plug-in's network of pairs, on the CPU, against naive loops in float64.
#include "cuda/attention/pair_network.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "simt.h"
#include "support/random.h"

namespace {

using pe::test::Simt;
using Launch = pe::cuda::PairNetworkLaunchers<Simt>;

constexpr std::int64_t kUnits = pe_cuda_network_hidden;
constexpr double kSlope = 0.01;
constexpr float kUntouched = 12345.5F;

struct Case {
  std::int64_t queries, keys, heads, taps;
  bool based = true;
  bool documents = false;
  std::int64_t window = 0;  ///< keys that a row sees; 0: all
  std::int64_t batch = 2;

  std::int64_t channels() const { return based ? 2 * heads : heads; }
  std::int64_t pairs() const { return batch * heads * queries * keys; }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "T " << c.queries << " S " << c.keys << " H " << c.heads << " taps " << c.taps << " base " << c.based
             << " documents " << c.documents << " window " << c.window;
}

/// Multiples of `step` with ten bits: more than one bf16 value has, and so few that hidden values are exact in fp32. A
/// hidden value has the same sign in float64.
std::vector<float> numbers(std::uint64_t key, std::int64_t count, double step) {
  std::vector<double> drawn(static_cast<std::size_t>(count));
  pe::support::philox_uniform(key, drawn.data(), drawn.size());
  std::vector<float> made;
  for (const double value : drawn) made.push_back(static_cast<float>((std::floor(value * 1024) - 512) * step));
  return made;
}

struct Inputs {
  std::vector<float> logits, base, offset, first, first_bias, second, dpairs;
  std::vector<std::int64_t> starts, documents;

  explicit Inputs(const Case& c)
      : logits(numbers(1, c.pairs(), 1.0 / 32)),
        base(numbers(2, c.based ? c.heads * c.keys : 0, 1.0 / 128)),
        offset(numbers(3, c.heads * c.keys, 1.0 / 64)),
        first(numbers(4, kUnits * c.channels() * c.taps, 1.0 / 1024)),
        first_bias(numbers(5, kUnits, 1.0 / 1024)),
        second(numbers(6, c.heads * kUnits * c.taps, 1.0 / 1024)),
        dpairs(numbers(7, c.pairs(), 1.0 / 256)) {
    for (std::int64_t b = 0; b < c.batch && (c.documents || c.window > 0); ++b) {
      std::int64_t document = 0;
      for (std::int64_t s = 0; s < c.keys; ++s) {
        if (c.documents && s % (23 + 16 * b) == 7) document = s;
        documents.push_back(document);
        starts.push_back(std::max(document, c.window > 0 ? s - c.window + 1 : 0));
      }
    }
  }

  PeCudaPairNetwork network(const Case& c) const {
    return {.batch = c.batch,
            .heads = c.heads,
            .queries = c.queries,
            .keys = c.keys,
            .taps = c.taps,
            .logits = logits.data(),
            .base = c.based ? base.data() : nullptr,
            .offset = offset.data(),
            .first = first.data(),
            .first_bias = first_bias.data(),
            .second = second.data(),
            .scale = 0.25F,
            .slope = static_cast<float>(kSlope),
            .starts = starts.empty() ? nullptr : starts.data(),
            .documents = documents.empty() ? nullptr : documents.data(),
            .starts_by_sequence = c.keys,
            .documents_by_sequence = c.keys};
  }
};

struct Outcome {
  std::vector<double> pairs, logits, base, offset, first, first_bias, second;
};

/// By keys, as the definition has it, where the kernel counts distances.
class Reference {
 public:
  Reference(const Case& c, const Inputs& in) : c_(c), in_(in) {
    found.pairs = found.logits = std::vector<double>(in.logits.size());
    found.base.resize(in.base.size());
    found.offset.resize(in.offset.size());
    found.first.resize(in.first.size());
    found.first_bias.resize(in.first_bias.size());
    found.second.resize(in.second.size());
    for (std::int64_t b = 0; b < c.batch; ++b)
      for (std::int64_t t = 0; t < c.queries; ++t) add_row(b, t);
  }
  Outcome found;

 private:
  static double at(const std::vector<float>& from, std::int64_t i) {
    return static_cast<double>(from[static_cast<std::size_t>(i)]);
  }
  std::int64_t pair(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) const {
    return ((b * c_.heads + h) * c_.queries + t) * c_.keys + s;
  }
  bool sees(std::int64_t s) const { return s >= start_ && s <= own_; }
  double input(std::int64_t b, std::int64_t t, std::int64_t s, std::int64_t channel) const {
    if (!sees(s)) return 0;
    if (channel < c_.heads) return 0.25 * at(in_.logits, pair(b, channel, t, s));
    return at(in_.base, (channel - c_.heads) * c_.keys + own_ - s);
  }

  void add_row(std::int64_t b, std::int64_t t) {
    own_ = c_.keys - c_.queries + t;
    const auto place = static_cast<std::size_t>(b * c_.keys + own_);
    start_ = in_.starts.empty() ? 0 : in_.starts[place];
    const std::int64_t document = in_.documents.empty() ? 0 : in_.documents[place], half = c_.taps / 2;
    for (std::int64_t s = start_; s <= own_; ++s) {
      for (std::int64_t h = 0; h < c_.heads; ++h) {
        const double slope = at(in_.dpairs, pair(b, h, t, s));
        found.pairs[static_cast<std::size_t>(pair(b, h, t, s))] += at(in_.offset, h * c_.keys + own_ - s);
        found.offset[static_cast<std::size_t>(h * c_.keys + own_ - s)] += slope;
      }
    }
    // A hidden value at a key gives to results, and takes from inputs, at the keys of its taps.
    for (std::int64_t s = document; s <= own_ + half; ++s)
      for (std::int64_t u = 0; u < kUnits; ++u) add_hidden(b, t, s, u);
  }

  void add_hidden(std::int64_t b, std::int64_t t, std::int64_t s, std::int64_t u) {
    const std::int64_t half = c_.taps / 2;
    double hidden = at(in_.first_bias, u), slope = 0;
    for (std::int64_t channel = 0; channel < c_.channels(); ++channel)
      for (std::int64_t i = 0; i < c_.taps; ++i)
        hidden += at(in_.first, (u * c_.channels() + channel) * c_.taps + i) * input(b, t, s + i - half, channel);
    const double act = hidden > 0 ? hidden : kSlope * hidden;
    for (std::int64_t i = 0; i < c_.taps; ++i) {
      const std::int64_t key = s - i + half;
      for (std::int64_t h = 0; h < c_.heads && sees(key); ++h) {
        const std::int64_t weight = (h * kUnits + u) * c_.taps + i, place = pair(b, h, t, key);
        found.pairs[static_cast<std::size_t>(place)] += at(in_.second, weight) * act;
        found.second[static_cast<std::size_t>(weight)] += at(in_.dpairs, place) * act;
        slope += at(in_.dpairs, place) * at(in_.second, weight);
      }
    }
    if (hidden <= 0) slope *= kSlope;
    found.first_bias[static_cast<std::size_t>(u)] += slope;
    for (std::int64_t channel = 0; channel < c_.channels(); ++channel) {
      for (std::int64_t i = 0; i < c_.taps; ++i) {
        const std::int64_t weight = (u * c_.channels() + channel) * c_.taps + i, key = s + i - half;
        if (!sees(key)) continue;
        found.first[static_cast<std::size_t>(weight)] += slope * input(b, t, key, channel);
        const double by_input = slope * at(in_.first, weight);
        if (channel < c_.heads)
          found.logits[static_cast<std::size_t>(pair(b, channel, t, key))] += 0.25 * by_input;
        else
          found.base[static_cast<std::size_t>((channel - c_.heads) * c_.keys + own_ - key)] += by_input;
      }
    }
  }

  const Case& c_;
  const Inputs& in_;
  std::int64_t own_ = 0, start_ = 0;
};

struct Raw {
  std::vector<float> pairs, logits, by_distance, parameters;
  bool operator==(const Raw&) const = default;
};

Raw launch(const Case& c, const Inputs& in) {
  const PeCudaPairNetwork of = in.network(c);
  const auto floats = [](std::int64_t count, float value) {
    return std::vector<float>(static_cast<std::size_t>(count), value);
  };
  Raw made{floats(c.pairs(), kUntouched), floats(c.pairs(), kUntouched),
           floats(c.batch * pe_cuda_network_strips(of) * c.channels() * c.keys, kUntouched),
           floats(pe_cuda_network_blocks(of) * pe_cuda_network_parameters(of), kUntouched)};
  BOOST_TEST(Launch::pair_network(&of, made.pairs.data(), nullptr) == 0, Simt::problem);
  const PeCudaPairNetworkGradients to{made.logits.data(), made.by_distance.data(), made.parameters.data()};
  BOOST_TEST(Launch::pair_network_backward(&of, in.dpairs.data(), &to, nullptr) == 0, Simt::problem);
  return made;
}

/// The sum of parts of `size` numbers each, those from `first` on.
std::vector<double> sum_of_parts(const std::vector<float>& parts, std::int64_t size, std::int64_t first,
                                 std::size_t count) {
  std::vector<double> sums(count);
  for (std::size_t at = static_cast<std::size_t>(first); at + count <= parts.size();
       at += static_cast<std::size_t>(size))
    for (std::size_t i = 0; i < count; ++i) sums[i] += static_cast<double>(parts[at + i]);
  return sums;
}

/// Numbers for hidden pairs must not have been written. They become 0, as the reference has them.
std::vector<double> visible(const Case& c, const Inputs& in, const std::vector<float>& found) {
  std::vector<double> made(found.begin(), found.end());
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i), s = at % c.keys, own = c.keys - c.queries + at / c.keys % c.queries;
    const std::int64_t b = at / c.keys / c.queries / c.heads;
    const std::int64_t start = in.starts.empty() ? 0 : in.starts[static_cast<std::size_t>(b * c.keys + own)];
    if (s >= start && s <= own) continue;
    BOOST_REQUIRE(found[i] == kUntouched);
    made[i] = 0;
  }
  return made;
}

double norm(const std::vector<double>& of) {
  double sum = 0;
  for (const double value : of) sum += value * value;
  return std::sqrt(sum);
}

/// Both parts of a number have 8 bits, so terms are off by at most 2⁻¹⁷. Of a few terms the sum is smaller than they
/// are.
void require_close(const char* name, std::vector<double> found, const std::vector<double>& expected) {
  BOOST_REQUIRE(found.size() == expected.size());
  if (expected.empty()) return;
  const double size = norm(expected);
  for (std::size_t i = 0; i < found.size(); ++i) found[i] -= expected[i];
  const double off = norm(found) / size;
  BOOST_TEST_MESSAGE(name << " is off by " << off);
  BOOST_TEST((size > 0 && off <= 5e-5), name << " is off by " << off);
}

void compare(const Case& c) {
  BOOST_TEST_CONTEXT(c) {
    const Inputs in(c);
    const Raw got = launch(c, in), again = launch(c, in);
    BOOST_TEST((got == again), "two runs differ");
    const Reference reference(c, in);
    const Outcome& expected = reference.found;
    require_close("pairs", visible(c, in, got.pairs), expected.pairs);
    require_close("logits", visible(c, in, got.logits), expected.logits);
    const std::int64_t by_distance = c.channels() * c.keys, of_base = by_distance - c.heads * c.keys;
    require_close("base", sum_of_parts(got.by_distance, by_distance, 0, expected.base.size()), expected.base);
    require_close("offset", sum_of_parts(got.by_distance, by_distance, of_base, expected.offset.size()),
                  expected.offset);
    const std::int64_t of_first = std::ssize(expected.first), of_second = std::ssize(expected.second),
                       all = pe_cuda_network_parameters(in.network(c));
    BOOST_TEST(all == of_first + of_second + kUnits);
    require_close("first", sum_of_parts(got.parameters, all, 0, expected.first.size()), expected.first);
    require_close("second", sum_of_parts(got.parameters, all, of_first, expected.second.size()), expected.second);
    require_close("first_bias", sum_of_parts(got.parameters, all, of_first + of_second, kUnits), expected.first_bias);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pair_network)

BOOST_AUTO_TEST_CASE(a_pair_at_a_time_agrees_with_float64) {
  for (const std::int64_t heads : {1, 3, 4, 8, 12}) {
    compare({.queries = 40, .keys = 40, .heads = heads, .taps = 1});
    compare({.queries = 17, .keys = 33, .heads = heads, .taps = 1, .based = false});
  }
}

BOOST_AUTO_TEST_CASE(neighbouring_keys_agree_with_float64) {
  for (const std::int64_t heads : {1, 3, 4, 8, 12}) {
    compare({.queries = 40, .keys = 40, .heads = heads, .taps = 3});
    compare({.queries = 17, .keys = 33, .heads = heads, .taps = 3, .based = false});
  }
}

// More than one strip of rows and one block of distances; lengths around a tile of 30 and of 32.
BOOST_AUTO_TEST_CASE(ragged_lengths_agree_with_float64) {
  for (const std::int64_t taps : {1, 3}) {
    for (const std::int64_t keys : {1, 2, 29, 30, 31, 32, 33, 61, 140})
      compare({.queries = keys, .keys = keys, .heads = 2, .taps = taps});
    compare({.queries = 1, .keys = 70, .heads = 2, .taps = taps});
    compare({.queries = 70, .keys = 135, .heads = 2, .taps = taps, .batch = 1});
  }
}

BOOST_AUTO_TEST_CASE(documents_and_windows_agree_with_float64) {
  for (const std::int64_t taps : {1, 3}) {
    compare({.queries = 90, .keys = 90, .heads = 4, .taps = taps, .documents = true});
    compare({.queries = 90, .keys = 90, .heads = 4, .taps = taps, .window = 20});
    compare({.queries = 50, .keys = 90, .heads = 4, .taps = taps, .documents = true, .window = 11});
    compare({.queries = 50, .keys = 90, .heads = 4, .taps = taps, .based = false, .documents = true, .window = 1});
  }
}

BOOST_AUTO_TEST_CASE(other_taps_and_lengths_are_refused) {
  float offset = 0;
  const PeCudaPairNetwork good{.batch = 0, .heads = 2, .queries = 2, .keys = 2, .taps = 3, .offset = &offset};
  const auto status = [](const PeCudaPairNetwork& of) {
    const PeCudaPairNetworkGradients to;
    const int forward = Launch::pair_network(&of, nullptr, nullptr);
    BOOST_TEST(forward == Launch::pair_network_backward(&of, nullptr, &to, nullptr));
    return forward;
  };
  BOOST_TEST(status(good) == 0);  // nothing to do
  PeCudaPairNetwork of = good;
  of.taps = 5;
  BOOST_TEST(status(of) != 0);
  of = good;
  of.queries = 3;
  BOOST_TEST(status(of) != 0);
}

// Sums by distance of long texts do not fill the memory.
BOOST_AUTO_TEST_CASE(parts_of_sums_are_bounded) {
  for (const std::int64_t keys : {1024, 4096, 32768}) {
    const PeCudaPairNetwork of{.batch = 8, .heads = 8, .queries = keys, .keys = keys};
    const std::int64_t parts = of.batch * pe_cuda_network_strips(of);
    BOOST_TEST((parts * 2 * of.heads * keys <= 1 << 24 || parts == of.batch));
  }
}

BOOST_AUTO_TEST_CASE(no_banks_conflict) {
  Simt::conflicts = 0;
  const Case c{.queries = 40, .keys = 40, .heads = 4, .taps = 3};
  launch(c, Inputs(c));
  BOOST_TEST(Simt::conflicts == 0);
}

BOOST_AUTO_TEST_SUITE_END()
