#include "kernels/cpu.h"

#include <cstddef>
#include <cstring>

// One pass for every instruction set: the pragmas hold for the functions that follow, so all headers stand above.
#pragma GCC diagnostic ignored "-Wpsabi"   // vectors are passed between inlined functions only
#pragma GCC diagnostic ignored "-Wunused-function"   // products are taken from the widest set alone
#pragma GCC optimize("O3")

namespace pe::kernels {

// Tiles of products fit the registers: rows × columns sums, a row of B and a number of A.
#define PE_VECTOR_BYTES 16
#define PE_TILE_ROWS 3
#define PE_TILE_COLUMNS 16
namespace baseline {
#include "kernels/cpu_body.inc"
#include "kernels/cpu_attention.inc"
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
#include "kernels/cpu_body.inc"
#include "kernels/cpu_attention.inc"
}  // namespace avx2
#pragma GCC pop_options
#undef PE_VECTOR_BYTES
#undef PE_TILE_ROWS
#undef PE_TILE_COLUMNS

#define PE_VECTOR_BYTES 64
#define PE_TILE_ROWS 8
#define PE_TILE_COLUMNS 32
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,fma")
namespace avx512 {
#include "kernels/cpu_body.inc"
#include "kernels/cpu_attention.inc"
}  // namespace avx512
#pragma GCC pop_options
#endif

#define PE_TABLE(set, name, product)                                                                                       \
  Table{name,        set::rms_norm,        set::rms_norm_backward, set::split_heads, set::split_heads_backward, \
        set::swiglu, set::swiglu_backward, set::cross_entropy,     product,          set::attention,            \
        set::attention_backward}

const Table& table_for(std::string_view capability) {
  static const Table baseline_table = PE_TABLE(baseline, "portable", nullptr);
#if defined(__x86_64__)
  static const Table avx2_table = PE_TABLE(avx2, "avx2", nullptr);
  static const Table avx512_table = PE_TABLE(avx512, "avx512", avx512::gemm);
  if (capability == "AVX512") return avx512_table;
  if (capability == "AVX2") return avx2_table;
#endif
  return baseline_table;
}

}  // namespace pe::kernels
