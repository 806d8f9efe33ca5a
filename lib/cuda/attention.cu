// The warps of attention.h on a GPU. Instructions are from sm_80, by their names in the PTX ISA.
#include <cuda_runtime.h>

#include "cuda/attention.h"
#include "cuda/attention/pair_network.h"
#include "cuda/kernels.h"

namespace pe::cuda {
namespace {

extern __shared__ __align__(16) char shared_bytes[];

class DeviceWarp {
 public:
  template <typename T>
  using Lanes = T;

  // The shuffle tells the compiler that a warp's number is the same in all its lanes.
  __device__ __forceinline__ DeviceWarp()
      : base_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared_bytes))),
        warp_(__shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / kWarpLanes, 0)) {}

  __device__ __forceinline__ int warp() const { return warp_; }
  __device__ __forceinline__ int lane() const { return static_cast<int>(threadIdx.x) % kWarpLanes; }
  __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x); }

  __device__ __forceinline__ void sync() const { __syncthreads(); }

  /// cp.async; a source of 0 bytes gives zeros.
  template <int bytes>
  __device__ __forceinline__ void copy(int to, const void* from, std::int64_t offset, bool present) const {
    const char* source = static_cast<const char*>(from) + offset;
    if constexpr (bytes == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(base_ + to), "l"(source), "r"(present ? 16 : 0) : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(base_ + to), "l"(source), "n"(bytes), "r"(present ? bytes : 0)
                   : "memory");
    }
  }
  __device__ __forceinline__ void commit() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int left>
  __device__ __forceinline__ void wait() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
  }

  __device__ __forceinline__ void matrices(std::uint32_t (&to)[4], int from) const {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(base_ + from));
  }
  __device__ __forceinline__ void matrices_transposed(std::uint32_t (&to)[4], int from) const {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(base_ + from));
  }
  __device__ __forceinline__ void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) const {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }

  __device__ __forceinline__ float load(int from) const { return *reinterpret_cast<const float*>(shared_bytes + from); }
  __device__ __forceinline__ float load(int from, bool present) const { return present ? load(from) : 0.0F; }
  __device__ __forceinline__ void load_two(float (&to)[2], int from) const {
    const auto both = *reinterpret_cast<const float2*>(shared_bytes + from);
    to[0] = both.x;
    to[1] = both.y;
  }
  __device__ __forceinline__ void store(int to, float value) const { *reinterpret_cast<float*>(shared_bytes + to) = value; }

  /// Two bf16 values of a lane.
  __device__ __forceinline__ std::uint32_t load_bits(int from) const { return *reinterpret_cast<const std::uint32_t*>(shared_bytes + from); }
  __device__ __forceinline__ void store_bits(int to, std::uint32_t bits) const { *reinterpret_cast<std::uint32_t*>(shared_bytes + to) = bits; }

  /// A matrix of 8 × 8 bf16 values, of which lane l has values 2 (l % 4) and the next of row l / 4.
  __device__ __forceinline__ std::uint32_t transpose(std::uint32_t rows) const {
    std::uint32_t columns;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(columns) : "r"(rows));
    return columns;
  }

  __device__ __forceinline__ float shuffle(float value, int from) const { return __shfl_sync(0xffffffffU, value, from); }
  __device__ __forceinline__ float shuffle_xor(float value, int mask) const { return __shfl_xor_sync(0xffffffffU, value, mask); }

  /// In how many lanes a condition holds, and the largest of the lanes' values.
  __device__ __forceinline__ int count(bool condition) const { return __popc(__ballot_sync(0xffffffffU, condition)); }
  __device__ __forceinline__ float highest(float value) const {
    #pragma unroll
    for (int mask = 1; mask < kWarpLanes; mask *= 2) value = fmaxf(value, shuffle_xor(value, mask));
    return value;
  }

  template <typename T>
  __device__ __forceinline__ static T read(const T* from, std::int64_t at, bool present) {
    return present ? from[at] : T{};
  }
  template <typename T>
  __device__ __forceinline__ static void write(T* to, std::int64_t at, T value, bool present) {
    if (present) to[at] = value;
  }
  template <typename T>
  __device__ __forceinline__ static T select(bool condition, T a, T b) {
    return condition ? a : b;
  }
  __device__ __forceinline__ static float larger(float a, float b) { return fmaxf(a, b); }
  __device__ __forceinline__ static float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  __device__ __forceinline__ static float log2(float x) { return log2f(x); }
  /// Two values rounded to bf16, the first one in the lower half.
  __device__ __forceinline__ static std::uint32_t pack(float low, float high) {
    std::uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
  }
  __device__ __forceinline__ static float first_half(std::uint32_t both) { return __uint_as_float(both << 16); }
  __device__ __forceinline__ static float second_half(std::uint32_t both) { return __uint_as_float(both & 0xFFFF0000U); }

 private:
  std::uint32_t base_;
  int warp_;
};

template <typename Body>
__global__ void __launch_bounds__(kThreads, Body::kAtOnce) run_blocks(const __grid_constant__ Body body) {
  DeviceWarp warp;
  body(warp, blockIdx.x);
}

struct OnDevice {
  template <typename Body>
  static int blocks(const Body& body, void* stream) {
    const int shared = shared_of(body);
    if (shared > 48 * 1024) {  // the default of a kernel
      const cudaError_t status = cudaFuncSetAttribute(run_blocks<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
      if (status != cudaSuccess) return status;
    }
    run_blocks<<<static_cast<unsigned>(body.blocks()), kThreads, shared, static_cast<cudaStream_t>(stream)>>>(body);
    return cudaGetLastError();
  }
};

bool attends(int device, std::int64_t width) {
  int bytes = 0;
  return pe_cuda_attends(width) && cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
         bytes >= AttentionLaunchers<OnDevice>::shared_for(width);
}

bool takes_pair_network(int device, const PeCudaPairNetwork* of) {
  int bytes = 0;
  return PairNetworkLaunchers<OnDevice>::takes(*of) &&
         cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
         bytes >= PairNetworkLaunchers<OnDevice>::shared_for(*of);
}

}  // namespace

void fill_attention_kernels(PeCudaTable& table) {
  AttentionLaunchers<OnDevice>::fill(table);
  PairNetworkLaunchers<OnDevice>::fill(table);
  table.attends = attends;
  table.takes_pair_network = takes_pair_network;
}

}  // namespace pe::cuda
