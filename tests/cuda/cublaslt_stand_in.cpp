#include "cublaslt_stand_in.h"

#include <cublasLt.h>

#include <cstring>

#include "bf16_numbers.h"
#include "cuda/kernels.h"

namespace pe::stand_in {

namespace {

constexpr std::uint64_t kMark = 0xC0B1A5;  ///< of every algorithm, behind its number of parts
constexpr int kAlgorithms = 3;
constexpr std::size_t kPartBytes = 256;  ///< of workspace
std::int64_t calls = 0;

/// A number at a place of a matrix that may be transposed.
float value_at(const void* from, const cublasLtMatrixLayoutOpaque_t& is, std::uint64_t row, std::uint64_t column) {
  const std::uint64_t at = row + column * static_cast<std::uint64_t>(is.step);
  return is.type == CUDA_R_32F ? static_cast<const float*>(from)[at]
                               : wide(static_cast<const std::uint16_t*>(from)[at]);
}

bool are_alike(const cublasLtMatrixLayoutOpaque_t& c, const cublasLtMatrixLayoutOpaque_t& d) {
  return c.type == d.type && c.rows == d.rows && c.columns == d.columns && c.step == d.step;
}

/// The depth of the sum; 0 where descriptions do not fit together.
std::uint64_t depth_of(const cublasLtMatmulDescOpaque_t& how, const cublasLtMatrixLayoutOpaque_t& a,
                       const cublasLtMatrixLayoutOpaque_t& b, const cublasLtMatrixLayoutOpaque_t& d) {
  const bool turned = how.turns[0] == CUBLAS_OP_T, b_turned = how.turns[1] == CUBLAS_OP_T;
  const std::uint64_t depth = turned ? a.rows : a.columns;
  const bool fits = how.compute == CUBLAS_COMPUTE_32F && how.scale == CUDA_R_32F && a.type == CUDA_R_16BF &&
                    b.type == CUDA_R_16BF && (turned ? a.columns : a.rows) == d.rows &&
                    (b_turned ? b.rows : b.columns) == d.columns && (b_turned ? b.columns : b.rows) == depth;
  return fits ? depth : 0;
}

}  // namespace

std::size_t cublasLtGetVersion() { return 130001; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static char made;
  *handle = reinterpret_cast<cublasLtHandle_t>(&made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t of, cublasComputeType_t compute, cudaDataType_t scale) {
  *of = {compute, scale, {CUBLAS_OP_N, CUBLAS_OP_N}};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t what,
                                              const void* value, std::size_t size) {
  if (size != sizeof(cublasOperation_t)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&of->turns[what - CUBLASLT_MATMUL_DESC_TRANSA], value, size);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t of, cudaDataType_t type, std::uint64_t rows,
                                        std::uint64_t columns, std::int64_t step) {
  if (step < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *of = {type, rows, columns, step};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t of) {
  *of = {0, 7, {256, 256, 256, 256}};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t of,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void* value,
                                                    std::size_t size) {
  void* to = what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES     ? static_cast<void*>(&of->workspace)
             : what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK ? &of->schemes
                                                                  : &of->alignments[what - 5];
  if (size != (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? 8 : 4)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, value, size);
  return CUBLAS_STATUS_SUCCESS;
}

/// Asked for more than fp32 parts it would give an algorithm that rounds too often; the last one has a failed state.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t wanted, int most,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  *count = 0;
  if (depth_of(*how, *a, *b, *d) == 0 || !are_alike(*c, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (wanted->schemes != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const std::uint32_t alignment : wanted->alignments)
    if (alignment != 16) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (int parts = 1; parts <= kAlgorithms && *count < most; ++parts) {
    const std::size_t workspace = parts == 1 ? 0 : static_cast<std::size_t>(parts) * kPartBytes;
    if (workspace <= wanted->workspace) {
      found[(*count)++] = {{{kMark, static_cast<std::uint64_t>(parts)}}, workspace, CUBLAS_STATUS_SUCCESS};
    }
  }
  if (*count < most) found[(*count)++] = {{}, 0, CUBLAS_STATUS_NOT_SUPPORTED};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t how, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_is, const void* b, cublasLtMatrixLayout_t b_is, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_is, void* d, cublasLtMatrixLayout_t d_is,
                              const cublasLtMatmulAlgo_t* by, void* workspace, std::size_t workspace_size,
                              cudaStream_t) {
  const std::uint64_t depth = depth_of(*how, *a_is, *b_is, *d_is), parts = by->data[1];
  const bool in_place = c == d;
  if (depth == 0 || !are_alike(*c_is, *d_is) || by->data[0] != kMark || c == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (parts > 1 && (workspace == nullptr || workspace_size < parts * kPartBytes)) return CUBLAS_STATUS_INVALID_VALUE;
  if (parts > 1) std::memset(workspace, in_place ? 1 : 2, parts * kPartBytes);  // as long as it says
  ++calls;
  const float one = *static_cast<const float*>(alpha), of_c = *static_cast<const float*>(beta);
  const bool turned = how->turns[0] == CUBLAS_OP_T, b_turned = how->turns[1] == CUBLAS_OP_T;
  for (std::uint64_t row = 0; row < d_is->rows; ++row) {
    for (std::uint64_t column = 0; column < d_is->columns; ++column) {
      float sum = of_c == 0 ? 0 : of_c * value_at(c, *c_is, row, column);
      for (std::uint64_t part = 0; part < parts; ++part) {
        double of_part = 0;
        for (std::uint64_t i = depth * part / parts; i < depth * (part + 1) / parts; ++i) {
          of_part += static_cast<double>(turned ? value_at(a, *a_is, i, row) : value_at(a, *a_is, row, i)) *
                     (b_turned ? value_at(b, *b_is, column, i) : value_at(b, *b_is, i, column));
        }
        sum += one * static_cast<float>(of_part);
      }
      const std::uint64_t at = row + column * static_cast<std::uint64_t>(d_is->step);
      if (d_is->type == CUDA_R_32F)
        static_cast<float*>(d)[at] = sum;
      else
        static_cast<std::uint16_t*>(d)[at] = narrow(sum);
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace pe::stand_in

namespace pe::test {

std::int64_t cublaslt_calls() { return stand_in::calls; }

}  // namespace pe::test
