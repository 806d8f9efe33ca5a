#include "support/random.h"

#include <Random123/philox.h>

#include <bit>
#include <cmath>
#include <numbers>
#include <unordered_map>

namespace pe::support {

namespace {
constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;
}

std::uint64_t mix(std::uint64_t z) {
  z += kGolden;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

std::uint64_t make_key(std::initializer_list<std::uint64_t> values) {
  std::uint64_t h = 0;
  for (const std::uint64_t value : values) h = mix(h ^ value);
  return h;
}

Xoshiro::Xoshiro(std::uint64_t key)
    : state_{mix(key), mix(key + kGolden), mix(key + 2 * kGolden), mix(key + 3 * kGolden)} {}

std::uint64_t Xoshiro::next() {
  auto& s = state_;
  const std::uint64_t result = std::rotl(s[1] * 5, 7) * 9;
  const std::uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = std::rotl(s[3], 45);
  return result;
}

std::uint64_t Xoshiro::below(std::uint64_t bound) {
  unsigned __int128 product = static_cast<unsigned __int128>(next()) * bound;
  auto low = static_cast<std::uint64_t>(product);
  if (low < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    while (low < threshold) {
      product = static_cast<unsigned __int128>(next()) * bound;
      low = static_cast<std::uint64_t>(product);
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double Xoshiro::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

std::vector<std::uint64_t> Xoshiro::sample(std::uint64_t n, std::uint64_t count) {
  // Only touched places are kept, so drawing a few of many costs a few.
  std::unordered_map<std::uint64_t, std::uint64_t> moved;
  const auto at = [&](std::uint64_t i) {
    const auto found = moved.find(i);
    return found == moved.end() ? i : found->second;
  };
  std::vector<std::uint64_t> out;
  for (std::uint64_t i = 0; i < count && i < n; ++i) {
    const std::uint64_t j = i + below(n - i);
    const std::uint64_t drawn = at(j);
    moved[j] = at(i);
    moved[i] = drawn;
    out.push_back(drawn);
  }
  return out;
}

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter) {
  const r123::Philox4x32::ctr_type position = {
      {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}};
  const r123::Philox4x32::key_type words = {{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}};
  const auto out = r123::Philox4x32()(position, words);
  return {out[0], out[1], out[2], out[3]};
}

void philox_uniform(std::uint64_t key, double* out, std::size_t count, std::uint64_t first) {
  std::array<std::uint32_t, 4> block{};
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t element = first + i;
    if (i == 0 || element % 4 == 0) block = philox(key, element / 4);
    out[i] = static_cast<double>(block[element % 4] >> 8) * 0x1p-24;
  }
}

void philox_normal(std::uint64_t key, double* out, std::size_t count, std::uint64_t first) {
  double normals[4] = {};
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t element = first + i;
    if (i == 0 || element % 4 == 0) {
      const auto x = philox(key, element / 4);
      for (int pair = 0; pair < 4; pair += 2) {
        const double u1 = static_cast<double>((x[static_cast<std::size_t>(pair)] >> 8) + 1) * 0x1p-24;
        const double u2 = static_cast<double>(x[static_cast<std::size_t>(pair) + 1] >> 8) * 0x1p-24;
        const double radius = std::sqrt(-2 * std::log(u1));
        normals[pair] = radius * std::cos(2 * std::numbers::pi * u2);
        normals[pair + 1] = radius * std::sin(2 * std::numbers::pi * u2);
      }
    }
    out[i] = normals[element % 4];
  }
}

namespace {
constexpr std::uint64_t kTableLimit = 1u << 16;
constexpr int kRounds = 6;
}  // namespace

Permutation::Permutation(std::uint64_t key, std::uint64_t n) : key_(key), n_(n) {
  if (n_ < kTableLimit) {
    // With few bits six rounds are visibly uneven, and a table is small.
    table_.resize(static_cast<std::size_t>(n_));
    for (std::size_t i = 0; i < table_.size(); ++i) table_[i] = static_cast<std::uint32_t>(i);
    Xoshiro(key_).shuffle(table_);
    return;
  }
  half_bits_ = (static_cast<unsigned>(std::bit_width(n_ - 1)) + 1) / 2;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  if (half_bits_ == 0) return table_[static_cast<std::size_t>(index)];
  const std::uint64_t mask = (1ULL << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_, right = index & mask;
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (make_key({key_, static_cast<std::uint64_t>(round), right}) & mask);
      left = right;
      right = next;
    }
    index = left << half_bits_ | right;
  } while (index >= n_);
  return index;
}

}  // namespace pe::support
