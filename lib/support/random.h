/// @file
/// The project's random functions. Standard-library distributions differ between libraries, so none is used anywhere.
/// Data and tasks: SplitMix64 keys and xoshiro256**. Weights and training draws: Philox4x32-10, addressed by
/// (key, counter), so a draw depends on its name and never on who drew before.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace pe::support {

/// SplitMix64: one step and its finaliser.
std::uint64_t mix(std::uint64_t z);

/// h = 0; for each v: h = mix(h ^ v).
std::uint64_t make_key(std::initializer_list<std::uint64_t> values);

/// xoshiro256**, its state made of four SplitMix64 outputs of the key.
class Xoshiro {
 public:
  explicit Xoshiro(std::uint64_t key);
  std::uint64_t next();
  /// Uniform in [0, bound), Lemire's multiply-shift with rejection. `bound` > 0.
  std::uint64_t below(std::uint64_t bound);
  /// Uniform in [0, 1): (x >> 11) · 2⁻⁵³.
  double uniform();
  const std::array<std::uint64_t, 4>& state() const { return state_; }

  /// Fisher–Yates from the last element.
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

  /// `count` of [0, n) without replacement, in the order drawn: partial Fisher–Yates from the front.
  std::vector<std::uint64_t> sample(std::uint64_t n, std::uint64_t count);

 private:
  std::array<std::uint64_t, 4> state_;
};

/// Four 32-bit words of Philox4x32-10; key and counter, low word first.
std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter);

/// Fills `out[i]` with uniforms (x >> 8) · 2⁻²⁴ of element `first + i`; the element's block is element / 4.
void philox_uniform(std::uint64_t key, double* out, std::size_t count, std::uint64_t first = 0);

/// Fills `out[i]` with standard normals: Box–Muller on pairs, computed in float64.
void philox_normal(std::uint64_t key, double* out, std::size_t count, std::uint64_t first = 0);

/// A keyed bijection on [0, n): the order in which samples are visited, computed without a table.
/// Feistel over the smallest even-width domain that holds n, with cycle walking; below 2¹⁶ a seeded Fisher–Yates table.
class Permutation {
 public:
  Permutation(std::uint64_t key, std::uint64_t n);
  std::uint64_t operator()(std::uint64_t index) const;
  std::uint64_t size() const { return n_; }

 private:
  std::uint64_t key_;
  std::uint64_t n_;
  unsigned half_bits_ = 0;
  std::vector<std::uint32_t> table_;
};

}  // namespace pe::support
