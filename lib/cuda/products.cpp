// Products as plugin.h promises them, over cuBLASLt. The tests build this file with stand-ins for it and for the CUDA
// runtime, and with other records.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/kernels.h"
#include "cuda/place.h"

namespace pe::cuda {

namespace {

constexpr std::uint64_t kMostWorkspace = std::uint64_t{32} << 20;

struct Record {
  Place place;
  PeCudaProduct of;
  PeCudaAlgorithm by;
};
constexpr Record kRecords[] = {
#include "cuda/recorded_products.inc"
    {}};

int first_failure(std::initializer_list<cublasStatus_t> all) {
  const auto* found = std::find_if(all.begin(), all.end(), [](auto status) { return status != CUBLAS_STATUS_SUCCESS; });
  return found == all.end() ? 0 : *found;
}

/// Of the current device; a process keeps it.
int find_handle(cublasLtHandle_t& handle) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = handles.try_emplace(device);
  if (is_new) {
    if (const int status = cublasLtCreate(&found->second); status != 0) {
      handles.erase(found);
      return status;
    }
  }
  handle = found->second;
  return 0;
}

/// cuBLASLt stores columns one after the other, so that it reads a matrix of ours as its transpose. It gets dᵀ = bᵀ ·
/// aᵀ.
struct Description {
  cublasLtMatmulDescOpaque_t product{};
  cublasLtMatrixLayoutOpaque_t a{}, b{}, d{};
  int status;

  explicit Description(const PeCudaProduct& of) {
    const auto lay = [](cublasLtMatrixLayoutOpaque_t& layout, bool wide, bool turned, std::int64_t rows,
                        std::int64_t columns, std::int64_t step) {
      if (turned) std::swap(rows, columns);
      return cublasLtMatrixLayoutInit(&layout, wide ? CUDA_R_32F : CUDA_R_16BF, static_cast<std::uint64_t>(columns),
                                      static_cast<std::uint64_t>(rows), step);
    };
    const cublasOperation_t first = of.b_turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                            second = of.a_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    status =
        first_failure({cublasLtMatmulDescInit(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                       cublasLtMatmulDescSetAttribute(&product, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first),
                       cublasLtMatmulDescSetAttribute(&product, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second),
                       lay(a, false, of.a_turned, of.rows, of.depth, of.a_step),
                       lay(b, false, of.b_turned, of.depth, of.columns, of.b_step),
                       lay(d, of.wide, false, of.rows, of.columns, of.d_step)});
  }
};

int product_algorithms(const PeCudaProduct* of, int most, PeCudaAlgorithm* found, int* count) {
  *count = 0;
  cublasLtHandle_t handle = nullptr;
  Description with(*of);
  cublasLtMatmulPreferenceOpaque_t wanted{};
  // Parts of a sum are kept in fp32, so that an algorithm rounds to the type of d once.
  const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = pe_cuda_product_alignment;
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
    return cublasLtMatmulPreferenceSetAttribute(&wanted, what, &value, sizeof value);
  };
  int status = with.status != 0 ? with.status : find_handle(handle);
  if (status == 0) {
    status = first_failure({cublasLtMatmulPreferenceInit(&wanted),
                            set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace),
                            set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes),
                            set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment),
                            set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment),
                            set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment),
                            set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment)});
  }
  if (status != 0) return status;
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int written = 0;
  status = cublasLtMatmulAlgoGetHeuristic(handle, &with.product, &with.b, &with.a, &with.d, &with.d, &wanted, most,
                                          results.data(), &written);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return 0;  // there is none
  if (status != 0) return status;
  for (int i = 0; i < written; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    PeCudaAlgorithm& to = found[(*count)++];
    static_assert(sizeof to.data == sizeof result.algo);
    std::memcpy(to.data, &result.algo, sizeof to.data);
    to.workspace = result.workspaceSize;
  }
  return 0;
}

bool recorded_product(const PeCudaProduct* of, PeCudaAlgorithm* by) {
  const Record* end = std::end(kRecords) - 1;  // the last one is empty
  const Record* found = std::find_if(std::begin(kRecords), end, [&](const Record& record) { return record.of == *of; });
  if (found == end) return false;
  const Place here = current_place(cublasLtGetVersion());
  found = std::find_if(found, end, [&](const Record& record) { return record.of == *of && record.place == here; });
  if (found == end) return false;
  *by = found->by;
  return true;
}

void write_product_record(const PeCudaProduct* of, const PeCudaAlgorithm* by, char* line, std::size_t size) {
  const Place here = current_place(cublasLtGetVersion());
  const auto word = [](bool value) { return value ? "true" : "false"; };
  const auto long_of = [](std::int64_t value) { return static_cast<long long>(value); };
  const auto bits = [&](int i) { return static_cast<unsigned long long>(by->data[i]); };
  std::snprintf(line, size,
                "{{%d, %d, %zu}, {%lld, %lld, %lld, %lld, %lld, %lld, %s, %s, %s, %s}, "
                "{{%lluU, %lluU, %lluU, %lluU, %lluU, %lluU, %lluU, %lluU}, %lluU}},",
                here.capability, here.multiprocessors, here.version, long_of(of->rows), long_of(of->columns),
                long_of(of->depth), long_of(of->a_step), long_of(of->b_step), long_of(of->d_step), word(of->a_turned),
                word(of->b_turned), word(of->wide), word(of->adds), bits(0), bits(1), bits(2), bits(3), bits(4),
                bits(5), bits(6), bits(7), static_cast<unsigned long long>(by->workspace));
}

int product(const PeCudaProduct* of, const PeCudaAlgorithm* by, const void* a, const void* b, const void* c, void* d,
            void* workspace, void* stream) {
  cublasLtHandle_t handle = nullptr;
  Description with(*of);
  if (with.status != 0) return with.status;
  if (const int status = find_handle(handle); status != 0) return status;
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, by->data, sizeof algorithm);
  const float one = 1, of_c = of->adds ? 1 : 0;
  return cublasLtMatmul(handle, &with.product, &one, b, &with.b, a, &with.a, &of_c, of->adds ? c : d, &with.d, d,
                        &with.d, &algorithm, workspace, by->workspace, static_cast<cudaStream_t>(stream));
}

}  // namespace

void fill_products(PeCudaTable& table) {
  table.product_algorithms = product_algorithms;
  table.recorded_product = recorded_product;
  table.write_product_record = write_product_record;
  table.product = product;
}

}  // namespace pe::cuda
