#include "cuda/kernels.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "cuda/launchers.h"

namespace pe::cuda {
namespace {

constexpr std::int64_t kMostBlocksY = 65535;  // of a grid

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
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; i < columns; i += step) body(blockIdx.x, i);
}

/// One row, however long.
template <typename Body>
__global__ void run_line(Body body, std::int64_t columns) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < columns; i += step) body(0, i);
}

/// A block for each row.
template <typename Body>
__global__ void __launch_bounds__(Body::kThreads, Body::kAtOnce) run_lines(Body body) {
  const std::int64_t row = blockIdx.x;
  const int thread = threadIdx.x, lane = thread % kLanes, warp = thread / kLanes;
  typename Body::Own own;
  LogSum mine = body.begin(row, thread, own);
  const auto fold = [&](LogSum sum, int lanes) {
    for (int half = lanes / 2; half > 0; half /= 2) {
      const LogSum other{__shfl_xor_sync(0xffffffffU, sum.top, half), __shfl_xor_sync(0xffffffffU, sum.total, half)};
      sum = merge(sum, other);
    }
    return sum;
  };
  constexpr int kWarps = Body::kThreads / kLanes;
  __shared__ LogSum of_warps[kWarps];
  mine = fold(mine, kLanes);
  if (lane == 0) of_warps[warp] = mine;
  __syncthreads();   // all of the row has been read, too
  body.finish(row, thread, own, fold(of_warps[lane % kWarps], kWarps));
}

/// A block for each part of the rows.
template <typename Body>
__global__ void __launch_bounds__(kTeams* kLanes, Body::kAtOnce) run_tiles(TileParts<Body> tiled) {
  extern __shared__ float of_columns[];
  const int warp = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  const std::int64_t first = blockIdx.x * tiled.step, end = first + tiled.step < tiled.rows ? first + tiled.step : tiled.rows;
  typename Body::Own own;
  PE_UNROLL
  for (float& sum : own.sums) sum = 0;
  for (std::int64_t row = first + warp; row < end; row += kTeams) {
    float sum = tiled.body.partial(row, lane, own);
    for (int half = kLanes / 2; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, half);
    tiled.body.finish(row, lane, own, sum);
  }
  for (int turn = 0; turn < kTeams; ++turn) {
    if (warp == turn) {
      PE_UNROLL
      for (int i = 0; i < Body::kSums; ++i) {
        const std::int64_t column = tiled.body.column(lane, i);
        if (column < tiled.width) of_columns[column] = turn == 0 ? own.sums[i] : of_columns[column] + own.sums[i];
      }
    }
    __syncthreads();
  }
  for (std::int64_t column = threadIdx.x; column < tiled.width; column += blockDim.x) {
    tiled.parts[blockIdx.x * tiled.width + column] = of_columns[column];
  }
}

/// A part's number is a constant, or sums and parameters would not be in registers.
template <int part, typename Body>
__device__ __forceinline__ void run_part(const Body& body, std::int64_t tile, int lane) {
  typename Body::Own own;
  body.open(own);
  const std::int64_t first = tile * body.per_tile, end = first + body.per_tile < body.tokens ? first + body.per_tile : body.tokens;
  for (std::int64_t token = first; token < end; ++token) {
    body.begin(token, part, lane, own);
    for (std::uint32_t slot = 0; slot < body.slots(part); ++slot) {
      float sum = body.partial(part, slot, lane, own);
      for (int half = static_cast<int>(body.at.lanes) / 2; half > 0; half /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, half);
      body.finish(part, slot, lane, own, sum);
    }
  }
  if (part < 2) {
    PE_UNROLL
    for (int i = 0; i < Body::kSums; ++i) {
      for (int half = static_cast<int>(body.at.lanes); half < kLanes; half *= 2)
        own.sums[i] += __shfl_xor_sync(0xffffffffU, own.sums[i], half);
    }
    body.close(tile, part, lane, own);
  }
}

/// A warp for each part of each tile of tokens.
template <typename Body>
__global__ void __launch_bounds__(kTeams* kLanes, Body::kAtOnce) run_heads(Body body, std::int64_t tiles) {
  const std::int64_t tile = static_cast<std::int64_t>(blockIdx.x) * kTeams + threadIdx.x / kLanes;
  if (tile >= tiles) return;   // the whole warp
  const int lane = threadIdx.x % kLanes;
  if (blockIdx.y == 0) run_part<0>(body, tile, lane);
  else if (blockIdx.y == 1) run_part<1>(body, tile, lane);
  else run_part<2>(body, tile, lane);
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
      const std::int64_t blocks = (columns + threads - 1) / threads;
      const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(blocks < kMostBlocksY ? blocks : kMostBlocksY));
      run_cells<<<grid, threads, 0, on>>>(body, columns);
    }
    return cudaGetLastError();
  }

  template <typename Body>
  static int lines(const Body& body, std::int64_t rows, void* stream) {
    if (rows == 0) return cudaSuccess;
    run_lines<<<static_cast<unsigned>(rows), Body::kThreads, 0, static_cast<cudaStream_t>(stream)>>>(body);
    return cudaGetLastError();
  }

  template <typename Body>
  static int heads(const Body& body, std::int64_t tiles, void* stream) {
    if (tiles == 0) return cudaSuccess;
    const dim3 grid(static_cast<unsigned>((tiles + kTeams - 1) / kTeams), static_cast<unsigned>(body.parts()));
    run_heads<<<grid, kTeams * kLanes, 0, static_cast<cudaStream_t>(stream)>>>(body, tiles);
    return cudaGetLastError();
  }

  template <typename Body>
  static int tiles(const TileParts<Body>& tiled, std::int64_t parts, void* stream) {
    if (tiled.rows == 0) return cudaSuccess;
    const std::size_t shared = sizeof(float) * static_cast<std::size_t>(tiled.width);
    run_tiles<<<static_cast<unsigned>(parts), kTeams * kLanes, shared, static_cast<cudaStream_t>(stream)>>>(tiled);
    return cudaGetLastError();
  }
};

}  // namespace

void fill_row_kernels(PeCudaTable& table) { Launchers<OnDevice>::fill(table); }

}  // namespace pe::cuda
