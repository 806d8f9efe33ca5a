/// @file
/// Device and kernels of a learning stage: each of these settings can change the bits of a result, so all are config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/config.h"
#include "support/json.h"

namespace pe::model {

enum class DeviceKind { kAuto, kCpu, kCuda };
enum class Isa { kAuto, kNative, kAmx, kAvx512, kAvx2, kPortable };
enum class Precision { kAuto, kFp32, kBf16 };
enum class Kernels { kFused, kPlain };
enum class Determinism { kAuto, kOn, kOff };

/// The group `compute`. Values of `auto` are resolved when a pipeline is planned; a stage run by hand resolves them
/// alone (`resolve`). The result is cpu, the machine's instruction sets, fp32 (bf16 on cuda), deterministic, one thread
/// and one rank. Micro-batches are the whole batch (on cuda at most 32,768 tokens). Under mpirun, srun or torchrun,
/// ranks are the processes that were started.
struct ComputeConfig {
  DeviceKind device = DeviceKind::kAuto;
  Isa isa = Isa::kAuto;
  Precision dtype = Precision::kAuto;
  Kernels kernels = Kernels::kFused;
  Determinism deterministic = Determinism::kAuto;
  std::optional<std::int64_t> threads;
  std::optional<std::int64_t> ranks;
  std::optional<std::int64_t> micro_batch;  ///< sequences of one forward and backward pass of a rank
  double rank_timeout = 600;                ///< seconds that a rank waits for the others in one exchange; in no key

  void describe(support::FieldVisitor& v);
};

/// The same without `auto`; `batch` is the sequences of a step, `length` the tokens of one. A rank's part of a batch is
/// `batch` / ranks sequences, a multiple of its micro-batch.
/// @throws ConfigError for settings that exclude each other. These are bf16 on a CPU with plain kernels, amx without
/// bf16, and `deterministic: off` on a CPU. A batch that ranks and micro-batches do not divide is also an error.
ComputeConfig resolve(const ComputeConfig& config, std::int64_t batch = 1, std::int64_t length = 1);

/// Why `batch` sequences cannot be shared by so many ranks in micro-batches of that size; empty when they can. A
/// micro-batch larger than a rank's part counts as that part.
std::string why_not_divided(std::int64_t batch, std::int64_t ranks, std::optional<std::int64_t> micro_batch,
                            const std::string& what = "the batch");

/// For StageInfo::prepare: reads the group `compute` of a stage's config and applies it to this process, whatever its
/// environment was. Variables of `environment_of` are set. Variables that `misleads_libraries` knows are removed, and a
/// line on standard error names them. Libraries read them when loaded, so the program re-executes itself once where
/// they differ. Threads and deterministic kernels follow.
void prepare(const Json& config, int argc, char** argv);

/// Whether a variable of that name changes the results of libraries, or how they share work out: OMP_*, MKL_*,
/// CUBLAS_*, NCCL_PROTO and others, but none that asks for a log. Other variables of NCCL, which describe the network
/// of machines, do not.
bool misleads_libraries(std::string_view name);

/// Variables of NCCL that stay and may still change the order of its sums, for a fingerprint: {"NCCL_P2P_DISABLE":
/// "1"}.
Json nccl_settings();

/// The environment that a config requires, in the order "NAME=value"; for tests and records.
std::vector<std::string> environment_of(const ComputeConfig& config);

/// Threads of this process, which is deterministic from here on, without touching the environment. Tests use it.
void set_threads(std::int64_t threads);

/// Whether LibTorch computes the same from run to run; products of fp32 are never in TF32. Where it does not, cuDNN's
/// attention comes first among LibTorch's forms on a GPU; the order of forms is LibTorch's own otherwise. The device
/// that was opened last decides (model/device.h).
void set_deterministic(bool on);

}  // namespace pe::model
