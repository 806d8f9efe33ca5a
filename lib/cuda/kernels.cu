#include "cuda/kernels.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "cuda/launchers.h"

namespace pe::cuda {
namespace {

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline void from_float(float value, float& to) { to = value; }
__device__ inline void from_float(float value, __nv_bfloat16& to) { to = __float2bfloat16(value); }

// A block for each place of the sorted order; the first of a run of equal ids adds the run, in order, column by column.
// No atomics: two runs of the program add in the same order.
template <typename Row>
__global__ void embedding_gradient(const std::int64_t* ids, const std::int64_t* order, const Row* rows, float* gradient,
                                   std::int64_t count, std::int64_t width, float scale) {
  const std::int64_t at = blockIdx.x;
  const std::int64_t id = ids[order[at]];
  if (id < 0 || (at > 0 && ids[order[at - 1]] == id)) return;
  for (std::int64_t column = threadIdx.x; column < width; column += blockDim.x) {
    float sum = 0;
    for (std::int64_t i = at; i < count && ids[order[i]] == id; ++i) sum += to_float(rows[order[i] * width + column]);
    gradient[id * width + column] += scale * sum;
  }
}

struct Partial {
  float top;
  float total;   // of exp(x - top)
};

__device__ inline Partial merge(Partial a, Partial b) {
  const float top = fmaxf(a.top, b.top);
  if (top == -INFINITY) return {top, 0};
  return {top, a.total * __expf(a.top - top) + b.total * __expf(b.top - top)};
}

constexpr int kThreads = 256;

// A block for each row: the maximum and the sum in one pass, the gradient in place in a second.
template <typename Logit>
__global__ void cross_entropy(Logit* logits, const std::int64_t* targets, float* loss, std::int64_t vocabulary,
                              bool gradient) {
  const std::int64_t row = blockIdx.x;
  Logit* values = logits + row * vocabulary;
  const std::int64_t target = targets[row];
  if (target < 0) {
    if (threadIdx.x == 0) loss[row] = 0;
    if (gradient) {
      for (std::int64_t i = threadIdx.x; i < vocabulary; i += kThreads) from_float(0, values[i]);
    }
    return;
  }
  Partial mine{-INFINITY, 0};
  for (std::int64_t i = threadIdx.x; i < vocabulary; i += kThreads) {
    const float x = to_float(values[i]);
    if (x > mine.top) {
      mine.total = mine.total * __expf(mine.top - x) + 1;
      mine.top = x;
    } else {
      mine.total += __expf(x - mine.top);   // NaN goes on into the sum
    }
  }
  __shared__ Partial partials[kThreads];
  partials[threadIdx.x] = mine;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partials[threadIdx.x] = merge(partials[threadIdx.x], partials[threadIdx.x + half]);
    __syncthreads();
  }
  const Partial all = partials[0];
  if (threadIdx.x == 0) loss[row] = logf(all.total) + all.top - to_float(values[target]);
  if (!gradient) return;
  __syncthreads();   // the target's logit is read before it is overwritten
  const float scale = 1 / all.total;
  for (std::int64_t i = threadIdx.x; i < vocabulary; i += kThreads) {
    const float probability = __expf(to_float(values[i]) - all.top) * scale;
    from_float(i == target ? probability - 1 : probability, values[i]);
  }
}

// ---- Bodies of rows.h -----------------------------------------------------------------------------------------------

constexpr int kTeams = 8;   // rows of a block

/// A warp for each row.
template <typename Body>
__global__ void run_rows(Body body, std::int64_t rows) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kTeams + threadIdx.x / kLanes;
  if (row >= rows) return;   // the whole warp
  const int lane = threadIdx.x % kLanes;
  float sum = body.partial(row, lane);
  for (int half = kLanes / 2; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, half);
  body.finish(row, lane, sum);
}

template <typename Body>
__global__ void run_cells(Body body, std::int64_t columns) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (column < columns) body(blockIdx.x, column);
}

/// One row, however long.
template <typename Body>
__global__ void run_line(Body body, std::int64_t columns) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < columns; i += step) body(0, i);
}

struct OnDevice {
  using Half = __nv_bfloat16;

  template <typename Body>
  static int rows(const Body& body, std::int64_t rows, void* stream) {
    if (rows == 0) return cudaSuccess;
    const auto blocks = static_cast<unsigned>((rows + kTeams - 1) / kTeams);
    run_rows<<<blocks, kTeams * kLanes, 0, static_cast<cudaStream_t>(stream)>>>(body, rows);
    return cudaGetLastError();
  }

  template <typename Body>
  static int cells(const Body& body, std::int64_t rows, std::int64_t columns, void* stream) {
    if (rows == 0 || columns == 0) return cudaSuccess;
    const auto on = static_cast<cudaStream_t>(stream);
    if (rows == 1) {
      const std::int64_t blocks = (columns + 255) / 256;
      run_line<<<static_cast<unsigned>(blocks < 16384 ? blocks : 16384), 256, 0, on>>>(body, columns);
    } else {
      const unsigned threads = columns < 256 ? static_cast<unsigned>((columns + 31) / 32 * 32) : 256;
      const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>((columns + threads - 1) / threads));
      run_cells<<<grid, threads, 0, on>>>(body, columns);
    }
    return cudaGetLastError();
  }
};

}  // namespace

void fill_row_kernels(PeCudaTable& table) { Launchers<OnDevice>::fill(table); }

int launch_embedding_gradient(const std::int64_t* ids, const std::int64_t* order, const void* rows, bool rows_bf16,
                              float* gradient, std::int64_t count, std::int64_t width, float scale, void* stream) {
  if (count == 0) return cudaSuccess;
  const auto on = static_cast<cudaStream_t>(stream);
  const unsigned blocks = static_cast<unsigned>(count);
  if (rows_bf16) {
    embedding_gradient<<<blocks, 256, 0, on>>>(ids, order, static_cast<const __nv_bfloat16*>(rows), gradient, count, width, scale);
  } else {
    embedding_gradient<<<blocks, 256, 0, on>>>(ids, order, static_cast<const float*>(rows), gradient, count, width, scale);
  }
  return cudaGetLastError();
}

int launch_cross_entropy(void* logits, bool logits_bf16, const std::int64_t* targets, float* loss, std::int64_t rows,
                         std::int64_t vocabulary, bool gradient, void* stream) {
  if (rows == 0) return cudaSuccess;
  const auto on = static_cast<cudaStream_t>(stream);
  const unsigned blocks = static_cast<unsigned>(rows);
  if (logits_bf16) {
    cross_entropy<<<blocks, kThreads, 0, on>>>(static_cast<__nv_bfloat16*>(logits), targets, loss, vocabulary, gradient);
  } else {
    cross_entropy<<<blocks, kThreads, 0, on>>>(static_cast<float*>(logits), targets, loss, vocabulary, gradient);
  }
  return cudaGetLastError();
}

}  // namespace pe::cuda
