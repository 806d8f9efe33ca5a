#include "data/token_shards/widen.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pe::data {

namespace {

template <typename Stored, typename T>
Stored widen_each(const std::byte* from, std::size_t first, std::size_t count, T* out, Stored largest) {
  for (std::size_t i = first; i < count; ++i) {
    Stored id;
    std::memcpy(&id, from + i * sizeof(Stored), sizeof(Stored));
    largest = std::max(largest, id);
    out[i] = static_cast<T>(id);
  }
  return largest;
}

#if defined(__x86_64__)

/// The first four of `ids`; and the larger of each two. The last argument selects the width.
__attribute__((target("avx2"))) inline __m256i four(__m128i ids, std::uint16_t) { return _mm256_cvtepu16_epi64(ids); }
__attribute__((target("avx2"))) inline __m256i four(__m128i ids, std::uint32_t) { return _mm256_cvtepu32_epi64(ids); }
__attribute__((target("avx2"))) inline __m128i larger(__m128i a, __m128i b, std::uint16_t) {
  return _mm_max_epu16(a, b);
}
__attribute__((target("avx2"))) inline __m128i larger(__m128i a, __m128i b, std::uint32_t) {
  return _mm_max_epu32(a, b);
}

/// 16 bytes of ids at a time: eight of 16 bits, four of 32.
template <typename Stored>
__attribute__((target("avx2"))) Stored widen_avx2(const std::byte* from, std::size_t count, std::int64_t* out) {
  constexpr std::size_t kStep = 16 / sizeof(Stored);
  __m128i most = _mm_setzero_si128();
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const __m128i ids = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * sizeof(Stored)));
    auto* to = reinterpret_cast<__m256i*>(out + i);
    most = larger(most, ids, Stored());
    _mm256_storeu_si256(to, four(ids, Stored()));
    if constexpr (kStep == 8) _mm256_storeu_si256(to + 1, four(_mm_srli_si128(ids, 8), Stored()));
  }
  Stored lanes[kStep];  // stored at the end: with its address taken, GCC keeps `most` in memory all along
  _mm_storeu_si128(reinterpret_cast<__m128i*>(lanes), most);
  return widen_each(from, i, count, out, *std::max_element(lanes, lanes + kStep));
}

#endif

}  // namespace

template <typename Stored, typename T>
std::uint32_t widen(const std::byte* from, std::size_t count, T* out) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, std::int64_t>) {
    static const bool has_avx2 = __builtin_cpu_supports("avx2");
    if (has_avx2) return widen_avx2<Stored>(from, count, out);
  }
#endif
  return widen_each<Stored>(from, 0, count, out, 0);
}

template std::uint32_t widen<std::uint16_t>(const std::byte*, std::size_t, std::int64_t*);
template std::uint32_t widen<std::uint16_t>(const std::byte*, std::size_t, std::int32_t*);
template std::uint32_t widen<std::uint32_t>(const std::byte*, std::size_t, std::int64_t*);
template std::uint32_t widen<std::uint32_t>(const std::byte*, std::size_t, std::int32_t*);

void prefetch(const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(from + at);
  if (bytes > 0) __builtin_prefetch(from + bytes - 1);
}

}  // namespace pe::data
