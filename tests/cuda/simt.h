/// @file
/// Blocks of warps on the CPU, for the bodies of lib/cuda/attention.h. Instructions follow the text of the PTX ISA and
/// are written independently of attention.cu. A warp is a thread, and one runs at a time, from one barrier to the next,
/// so that runs do not differ.
///
/// Shared memory knows who wrote and read each word since the last barrier. It finds words read before they are written
/// or during a copy to them, and words that two warps or two lanes use without a barrier between them. It also finds
/// places out of bounds or not aligned, barriers that not all warps reach, and conflicts of banks (except for copies).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/attention.h"

namespace pe::test {

template <typename T>
struct Lanes {
  static constexpr int kCount = cuda::kWarpLanes;
  std::array<T, kCount> at;

  /// A value that was never set shows.
  Lanes() { at.fill(std::is_floating_point_v<T> ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(0x5B5B5B5B)); }
  Lanes(T same) { at.fill(same); }  // NOLINT: as a plain value becomes one of each lane
  template <typename From>
  explicit Lanes(const Lanes<From>& from) {
    for (int i = 0; i < kCount; ++i) at[i] = static_cast<T>(from.at[i]);
  }
  template <typename Function>
  static Lanes of(const Function& function) {
    Lanes made(T{});
    for (int i = 0; i < kCount; ++i) made.at[i] = function(i);
    return made;
  }
};

template <typename T>
concept Plain = std::is_arithmetic_v<T>;

#define PE_LANEWISE(sign)                                                                   \
  template <typename A, typename B>                                                         \
  auto operator sign(const Lanes<A>& a, const Lanes<B>& b) {                                \
    return Lanes<decltype(A {} sign B{})>::of([&](int i) { return a.at[i] sign b.at[i]; }); \
  }                                                                                         \
  template <typename A, Plain B>                                                            \
  auto operator sign(const Lanes<A>& a, B b) {                                              \
    return Lanes<decltype(A {} sign b)>::of([&](int i) { return a.at[i] sign b; });         \
  }                                                                                         \
  template <Plain A, typename B>                                                            \
  auto operator sign(A a, const Lanes<B>& b) {                                              \
    return Lanes<decltype(a sign B{})>::of([&](int i) { return a sign b.at[i]; });          \
  }
PE_LANEWISE(+)
PE_LANEWISE(-)
PE_LANEWISE(*)
PE_LANEWISE(<)
PE_LANEWISE(<=)
PE_LANEWISE(>)
PE_LANEWISE(>=)
PE_LANEWISE(==)
#undef PE_LANEWISE

template <typename T>
Lanes<T> operator/(const Lanes<T>& a, int by) {
  return Lanes<T>::of([&](int i) { return a.at[i] / by; });
}
inline Lanes<float> operator/(float a, const Lanes<float>& by) {
  return Lanes<float>::of([&](int i) { return a / by.at[i]; });
}
template <typename T>
Lanes<T> operator%(const Lanes<T>& a, int by) {
  return Lanes<T>::of([&](int i) { return a.at[i] % by; });
}
inline Lanes<bool> operator&(const Lanes<bool>& a, const Lanes<bool>& b) {
  return Lanes<bool>::of([&](int i) { return a.at[i] && b.at[i]; });
}

inline float from_bf16(std::uint32_t half) { return std::bit_cast<float>(half << 16); }
/// To the nearest, ties to even.
inline std::uint32_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return 0x7FFF;
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

/// Common state of the warps of a block.
class SimtBlock {
 public:
  explicit SimtBlock(int shared_bytes) : bytes_(static_cast<std::size_t>(shared_bytes)), words_(bytes_.size() / 4) {}

  const std::string& problem() const { return problem_; }
  std::int64_t conflicts() const { return conflicts_; }
  void fail(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  void begin_block() {
    std::fill(bytes_.begin(), bytes_.end(), std::uint8_t{0xFF});
    std::fill(words_.begin(), words_.end(), Word{});
    epoch_ = 1;
  }

  /// Waits until it is the warp's turn for the first time.
  void enter(int warp) { wait_for(warp); }
  /// Lets the other warps come to the same place: a barrier, or the end of the block.
  void pass(int warp, bool ends) {
    if (warp == 0)
      ends_ = ends;
    else if (ends != ends_)
      fail("warps part at a barrier");
    hand_on(warp, false);
    wait_for(warp);
  }
  void leave(int warp) { hand_on(warp, true); }

  void read(int warp, int lane, int from, void* to, int size) {
    if (!inside(from, size)) return;
    for (int at = from / 4; at < (from + size) / 4; ++at) {
      Word& word = words_[static_cast<std::size_t>(at)];
      if (word.copying) fail("read while a copy is on its way");
      if (word.written == 0) fail("read before it is written");
      if (word.written == epoch_ && (word.writer != warp || word.lane != lane))
        fail("read without a barrier after the write");
      const bool first = word.read != epoch_;
      word.reader = first || word.reader == warp ? warp : kSeveral;
      word.reader_lane = first || word.reader_lane == lane ? lane : kSeveral;
      word.read = epoch_;
    }
    std::memcpy(to, bytes_.data() + from, static_cast<std::size_t>(size));
  }

  void write(int warp, int lane, int to, const void* from, int size) {
    if (!mark(warp, lane, to, size, false)) return;
    std::memcpy(bytes_.data() + to, from, static_cast<std::size_t>(size));
  }

  /// A copy begins, or ends with its data.
  void expect(int warp, int lane, int to, int size) { mark(warp, lane, to, size, true); }
  void arrive(int warp, int lane, int to, const void* from, int size) {
    if (!inside(to, size)) return;
    for (int at = to / 4; at < (to + size) / 4; ++at) {
      Word& word = words_[static_cast<std::size_t>(at)];
      word.copying = false;
      word.written = epoch_;
    }
    std::memcpy(bytes_.data() + to, from, static_cast<std::size_t>(size));
  }

  /// Requests of one pass over the banks: each bank gives one word of four bytes.
  void count_conflicts(const int* from, const bool* present, int lanes, int size) {
    std::array<int, 32> held;
    held.fill(-1);
    for (int lane = 0; lane < lanes; ++lane) {
      if (!present[lane]) continue;
      for (int word = from[lane] / 4; word < (from[lane] + size) / 4; ++word) {
        int& bank = held[static_cast<std::size_t>(word) % 32];
        conflicts_ += bank != -1 && bank != word;
        bank = word;
      }
    }
  }

 private:
  static constexpr int kSeveral = -2;

  struct Word {
    int written = 0, read = 0;  ///< epoch of the last; 0: never
    int writer = 0, lane = 0, reader = 0, reader_lane = 0;
    bool copying = false;
  };

  bool inside(int at, int size) {
    if (at >= 0 && at % size == 0 && at + size <= static_cast<int>(bytes_.size())) return true;
    fail("a place in shared memory that is none: " + std::to_string(at));
    return false;
  }

  bool mark(int warp, int lane, int to, int size, bool copying) {
    if (!inside(to, size)) return false;
    for (int at = to / 4; at < (to + size) / 4; ++at) {
      Word& word = words_[static_cast<std::size_t>(at)];
      if (word.copying) fail("written while a copy is on its way");
      if (word.written == epoch_ && (word.writer != warp || word.lane != lane)) fail("written twice without a barrier");
      if (word.read == epoch_ && (word.reader != warp || word.reader_lane != lane))
        fail("written without a barrier after a read");
      word.written = epoch_;
      word.writer = warp;
      word.lane = lane;
      word.copying = copying;
    }
    return true;
  }

  void hand_on(int warp, bool leaves) {
    const std::lock_guard lock(mutex_);
    left_[static_cast<std::size_t>(warp)] = leaves;
    do {
      turn_ = (turn_ + 1) % cuda::kWarps;
      if (turn_ == 0) ++epoch_;
    } while (left_[static_cast<std::size_t>(turn_)] && turn_ != warp);
    changed_.notify_all();
  }
  void wait_for(int warp) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == warp; });
  }

  std::vector<std::uint8_t> bytes_;
  std::vector<Word> words_;
  int epoch_ = 1;
  std::int64_t conflicts_ = 0;
  bool ends_ = false;
  std::array<bool, cuda::kWarps> left_{};
  std::string problem_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int turn_ = 0;
};

/// The W of attention.h.
class SimtWarp {
 public:
  template <typename T>
  using Lanes = test::Lanes<T>;

  SimtWarp(SimtBlock& block, int warp) : block_(&block), warp_(warp) {}

  int warp() const { return warp_; }
  Lanes<int> lane() const {
    return Lanes<int>::of([](int i) { return i; });
  }
  Lanes<int> thread() const { return lane() + warp_ * cuda::kWarpLanes; }

  void sync() { block_->pass(warp_, false); }

  /// The source of a copy is read as late as possible: at the wait for it.
  template <int bytes>
  void copy(const Lanes<int>& to, const void* from, const Lanes<std::int64_t>& offset, const Lanes<bool>& present) {
    for (int i = 0; i < 32; ++i) {
      const auto place = reinterpret_cast<std::uintptr_t>(from) + static_cast<std::uintptr_t>(offset.at[i]);
      if (place % bytes != 0) block_->fail("a copy from a place not aligned");
      block_->expect(warp_, i, to.at[i], bytes);
      begun_.push_back({i, to.at[i], bytes, present.at[i] ? static_cast<const char*>(from) + offset.at[i] : nullptr});
    }
  }
  void commit() { groups_.push_back(std::move(begun_)), begun_.clear(); }
  template <int left>
  void wait() {
    while (groups_.size() > left) {
      for (const Copy& copy : groups_.front()) {
        std::array<char, 16> zeros{};
        block_->arrive(warp_, copy.lane, copy.to, copy.from == nullptr ? zeros.data() : copy.from, copy.bytes);
      }
      groups_.erase(groups_.begin());
    }
  }

  /// ldmatrix .x4: lanes 8i to 8i + 7 name the rows of matrix i; of each, lane l gets values 2 (l % 4) and the next of
  /// row l / 4.
  void matrices(Lanes<std::uint32_t> (&to)[4], const Lanes<int>& from) { matrices(to, from, false); }
  /// .trans: as if columns were rows.
  void matrices_transposed(Lanes<std::uint32_t> (&to)[4], const Lanes<int>& from) { matrices(to, from, true); }

  /// mma.m16n8k16, .bf16. Let g = lane >> 2 and c = lane % 4. Value i < 8 of A is at row g, for i / 2 odd at g + 8. Its
  /// column is 2c + i % 2, from 4 on 8 further. Value i < 4 of B is at row 2c + i % 2, from 2 on 8 further, and column
  /// g. Value i < 4 of C and D is at row g, from 2 on g + 8, and column 2c + i % 2.
  void multiply_add(Lanes<float> (&sums)[4], const Lanes<std::uint32_t> (&a)[4], const Lanes<std::uint32_t>& b0,
                    const Lanes<std::uint32_t>& b1) {
    float left[16][16], right[16][8], result[16][8];
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane >> 2, c = lane % 4;
      for (int i = 0; i < 8; ++i) {
        left[i / 2 % 2 == 0 ? g : g + 8][2 * c + i % 2 + (i < 4 ? 0 : 8)] = half(a[i / 2].at[lane], i % 2);
      }
      for (int i = 0; i < 4; ++i) right[2 * c + i % 2 + (i < 2 ? 0 : 8)][g] = half((i < 2 ? b0 : b1).at[lane], i % 2);
      for (int i = 0; i < 4; ++i) result[i < 2 ? g : g + 8][2 * c + i % 2] = sums[i].at[lane];
    }
    for (int row = 0; row < 16; ++row)
      for (int k = 0; k < 16; ++k)
        for (int column = 0; column < 8; ++column) result[row][column] += left[row][k] * right[k][column];
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) sums[i].at[lane] = result[i < 2 ? lane >> 2 : (lane >> 2) + 8][lane % 4 * 2 + i % 2];
  }

  Lanes<float> load(const Lanes<int>& from) { return load(from, all()); }
  Lanes<float> load(const Lanes<int>& from, const Lanes<bool>& present) {
    Lanes<float> values(0.0F);
    for (int i = 0; i < 32; ++i)
      if (present.at[i]) block_->read(warp_, i, from.at[i], &values.at[i], 4);
    block_->count_conflicts(from.at.data(), present.at.data(), 32, 4);
    return values;
  }
  void load_two(Lanes<float> (&to)[2], const Lanes<int>& from) {
    for (int i = 0; i < 32; ++i) {
      float both[2] = {};
      block_->read(warp_, i, from.at[i], both, 8);
      to[0].at[i] = both[0];
      to[1].at[i] = both[1];
    }
    for (int i = 0; i < 32; i += 16) block_->count_conflicts(&from.at[i], all().at.data(), 16, 8);
  }
  void store(const Lanes<int>& to, const Lanes<float>& values) {
    for (int i = 0; i < 32; ++i) block_->write(warp_, i, to.at[i], &values.at[i], 4);
    block_->count_conflicts(to.at.data(), all().at.data(), 32, 4);
  }

  Lanes<std::uint32_t> load_bits(const Lanes<int>& from) {
    const Lanes<float> values = load(from);
    return Lanes<std::uint32_t>::of([&](int i) { return std::bit_cast<std::uint32_t>(values.at[i]); });
  }
  void store_bits(const Lanes<int>& to, const Lanes<std::uint32_t>& bits) {
    store(to, Lanes<float>::of([&](int i) { return std::bit_cast<float>(bits.at[i]); }));
  }

  /// movmatrix .trans: lane l has values 2 (l % 4) and the next of row l / 4.
  Lanes<std::uint32_t> transpose(const Lanes<std::uint32_t>& rows) const {
    std::uint32_t matrix[8][8];
    for (int i = 0; i < 64; ++i) matrix[i / 8][i % 8] = rows.at[i / 2] >> (i % 2 * 16) & 0xFFFF;
    return Lanes<std::uint32_t>::of(
        [&](int i) { return matrix[i % 4 * 2 + 1][i / 4] << 16 | matrix[i % 4 * 2][i / 4]; });
  }

  Lanes<float> shuffle(const Lanes<float>& values, const Lanes<int>& from) const {
    return Lanes<float>::of([&](int i) { return values.at[from.at[i]]; });
  }
  Lanes<float> shuffle_xor(const Lanes<float>& values, int mask) const {
    return Lanes<float>::of([&](int i) { return values.at[i ^ mask]; });
  }

  static int count(const Lanes<bool>& condition) {
    return static_cast<int>(std::count(condition.at.begin(), condition.at.end(), true));
  }
  static float highest(const Lanes<float>& values) { return *std::max_element(values.at.begin(), values.at.end()); }

  template <typename T>
  static Lanes<std::remove_const_t<T>> read(T* from, const Lanes<std::int64_t>& at, const Lanes<bool>& present) {
    return Lanes<std::remove_const_t<T>>::of([&](int i) { return present.at[i] ? from[at.at[i]] : T{}; });
  }
  template <typename T>
  static void write(T* to, const Lanes<std::int64_t>& at, const Lanes<T>& values, const Lanes<bool>& present) {
    for (int i = 0; i < 32; ++i)
      if (present.at[i]) to[at.at[i]] = values.at[i];
  }
  template <typename T>
  static Lanes<T> select(const Lanes<bool>& condition, const Lanes<T>& a, const Lanes<T>& b) {
    return Lanes<T>::of([&](int i) { return condition.at[i] ? a.at[i] : b.at[i]; });
  }
  static Lanes<float> larger(const Lanes<float>& a, const Lanes<float>& b) {
    return Lanes<float>::of([&](int i) { return a.at[i] > b.at[i] || std::isnan(b.at[i]) ? a.at[i] : b.at[i]; });
  }
  static Lanes<float> exp2(const Lanes<float>& x) {
    return Lanes<float>::of([&](int i) { return std::exp2(x.at[i]); });
  }
  static Lanes<float> log2(const Lanes<float>& x) {
    return Lanes<float>::of([&](int i) { return std::log2(x.at[i]); });
  }
  static Lanes<std::uint32_t> pack(const Lanes<float>& low, const Lanes<float>& high) {
    return Lanes<std::uint32_t>::of([&](int i) { return to_bf16(high.at[i]) << 16 | to_bf16(low.at[i]); });
  }
  static Lanes<float> first_half(const Lanes<std::uint32_t>& both) {
    return Lanes<float>::of([&](int i) { return half(both.at[i], 0); });
  }
  static Lanes<float> second_half(const Lanes<std::uint32_t>& both) {
    return Lanes<float>::of([&](int i) { return half(both.at[i], 1); });
  }

 private:
  struct Copy {
    int lane, to, bytes;
    const char* from;
  };

  static const Lanes<bool>& all() {
    static const Lanes<bool> lanes(true);
    return lanes;
  }
  static float half(std::uint32_t pair, int which) { return from_bf16(pair >> (16 * which) & 0xFFFF); }

  void matrices(Lanes<std::uint32_t> (&to)[4], const Lanes<int>& from, bool transposed) {
    for (int i = 0; i < 4; ++i) {
      std::uint16_t matrix[8][8] = {};
      for (int row = 0; row < 8; ++row) block_->read(warp_, -1, from.at[8 * i + row], matrix[row], 16);
      block_->count_conflicts(&from.at[8 * i], all().at.data(), 8, 16);
      for (int lane = 0; lane < 32; ++lane) {
        const int row = lane / 4, column = lane % 4 * 2;
        const std::uint32_t first = transposed ? matrix[column][row] : matrix[row][column];
        const std::uint32_t second = transposed ? matrix[column + 1][row] : matrix[row][column + 1];
        to[i].at[lane] = second << 16 | first;
      }
    }
  }

  SimtBlock* block_;
  int warp_;
  std::vector<Copy> begun_;
  std::vector<std::vector<Copy>> groups_;
};

/// The On of attention.h.
struct Simt {
  static inline std::string problem;         ///< the last launch's, empty where there was none
  static inline std::int64_t conflicts = 0;  ///< of all launches

  template <typename Body>
  static int blocks(const Body& body, void*) {
    SimtBlock block(cuda::shared_of(body));
    std::array<std::thread, cuda::kWarps> warps;
    for (int warp = 0; warp < cuda::kWarps; ++warp) {
      warps[static_cast<std::size_t>(warp)] = std::thread([&, warp] {
        block.enter(warp);
        for (std::int64_t at = 0; at < body.blocks(); ++at) {
          if (warp == 0) block.begin_block();  // the others have ended the one before
          SimtWarp self(block, warp);
          body(self, at);
          block.pass(warp, true);
        }
        block.leave(warp);
      });
    }
    for (std::thread& warp : warps) warp.join();
    problem = block.problem();
    conflicts += block.conflicts();
    return problem.empty() ? 0 : -1;
  }
};

}  // namespace pe::test
