#include "kernels/cpu.h"

#include <cstddef>
#include <cstring>
#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

// One pass for every instruction set: the pragmas hold for the functions that follow, so all headers come first.
#pragma GCC diagnostic ignored "-Wpsabi"            // vectors are passed between inlined functions only
#pragma GCC diagnostic ignored "-Wunused-function"  // products are taken from the widest set alone
#pragma GCC diagnostic ignored \
    "-Wmaybe-uninitialized"  // of GCC's own intrinsics, whose undefined operands are so meant
#pragma GCC optimize("O3")

namespace pe::kernels {

// Tiles of products fit the registers: rows × columns sums, a row of B and a number of A.
#define PE_VECTOR_BYTES 16
#define PE_OWN_PRODUCTS false
#define PE_TILE_ROWS 3
#define PE_TILE_COLUMNS 16
namespace baseline {
constexpr const char* kName = "portable";
#include "kernels/cpu_body.inc"
// which has the vectors of:
#include "kernels/cpu_bf16_plain.inc"
}  // namespace baseline
#undef PE_VECTOR_BYTES
#undef PE_TILE_ROWS
#undef PE_TILE_COLUMNS

#if defined(__x86_64__)
#define PE_VECTOR_BYTES 32
#define PE_TILE_ROWS 6
#define PE_TILE_COLUMNS 16
#pragma GCC push_options
#pragma GCC target("avx2,fma")
namespace avx2 {
constexpr const char* kName = "avx2";
#include "kernels/cpu_body.inc"
// which has the vectors of:
#include "kernels/cpu_bf16_plain.inc"
}  // namespace avx2
#pragma GCC pop_options
#undef PE_VECTOR_BYTES
#undef PE_TILE_ROWS
#undef PE_TILE_COLUMNS

#define PE_VECTOR_BYTES 64
#undef PE_OWN_PRODUCTS
#define PE_OWN_PRODUCTS true  // the library's own are as good where vectors are narrower
#define PE_TILE_ROWS 8
#define PE_TILE_COLUMNS 32
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,fma")
namespace avx512 {
constexpr const char* kName = "avx512";
#include "kernels/cpu_body.inc"
}  // namespace avx512
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,fma")
namespace avx512_bf16 {
using avx512::transpose16;
#include "kernels/cpu_bf16_avx512.inc"
}  // namespace avx512_bf16
#pragma GCC pop_options
#endif

const Table& table_for(std::string_view capability) {
#if defined(__x86_64__)
  if (capability == "AVX512") return avx512::kTable;
  if (capability == "AVX2") return avx2::kTable;
#endif
  return baseline::kTable;
}

const Bf16Table* avx512_bf16_table() {
#if defined(__x86_64__)
  static const bool has =
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
  if (has) return &avx512_bf16::kBf16Table;
#endif
  return nullptr;
}

const Bf16Table& plain_bf16_table(std::string_view capability) {
#if defined(__x86_64__)
  if (capability == "AVX2") return avx2::kBf16Table;
#endif
  return baseline::kBf16Table;
}

}  // namespace pe::kernels
