#include "model/compute.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/SDPBackend.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/product_bf16.h"
#include "support/cpu.h"
#include "support/error.h"
#include "support/ranks.h"
#include "support/text.h"

extern char** environ;

namespace pe::model {
namespace {

using support::cat;
using support::ConfigError;

constexpr std::pair<Isa, const char*> kIsas[] = {
    {Isa::kAmx, "amx"}, {Isa::kAvx512, "avx512"}, {Isa::kAvx2, "avx2"}, {Isa::kPortable, "portable"}};

Isa isa_named(std::string_view name) {
  return std::find_if(std::begin(kIsas), std::end(kIsas), [&](const auto& isa) { return isa.second == name; })->first;
}

const char* isa_name(Isa isa) {
  return std::find_if(std::begin(kIsas), std::end(kIsas), [&](const auto& known) { return known.first == isa; })
      ->second;
}

/// Variables by which libraries share out work or choose how they compute; with a star, all that begin so.
constexpr const char* kMisleading[] = {
    "OMP_*", "GOMP_*", "KMP_*", "MKL_*", "ATEN_*", "ONEDNN_*", "DNNL_*", "GLIBC_TUNABLES",
    // LibTorch's
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_BLAS_PREFER_CUBLASLT", "TORCH_CUBLASLT_UNIFIED_WORKSPACE",
    "TORCH_CUDNN_*", "TORCH_LINALG_PREFER_CUSOLVER", "TORCH_LINEAR_FLATTEN_3D", "TORCH_MKLDNN_*", "PYTORCH_TUNABLEOP_*",
    // NVIDIA's
    "CUBLAS_*", "CUBLASLT_*", "CUDNN_*", "NVIDIA_TF32_OVERRIDE",
    // The order of NCCL's sums. Its other variables say how machines are wired, and stay.
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_NTHREADS", "NCCL_BUFFSIZE", "NCCL_CHUNK_SIZE", "NCCL_LL_BUFFSIZE",
    "NCCL_LL128_BUFFSIZE", "NCCL_LL128_NTHREADS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NRINGS",
    "NCCL_MAX_NRINGS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_NCHANNELS_PER_NET_PEER", "NCCL_NVLS_*", "NCCL_COLLNET_*",
    "NCCL_TUNER_*"};

/// The name of a variable that holds the number of the process that has prepared itself: executing a program keeps it.
constexpr const char* kMarker = "PE_COMPUTE_PREPARED";

bool matches(std::string_view name, std::string_view pattern) {
  return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1)) : name == pattern;
}

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) names.emplace_back(*entry, std::strcspn(*entry, "="));
  std::sort(names.begin(), names.end());
  return names;
}

/// @param removed names, in order
void tell_of_removed(const std::string& program, const std::vector<std::string>& removed) {
  if (removed.empty() || !support::own_ranks().is_first()) return;
  std::string text;
  for (const std::string& name : removed) text += cat(text.empty() ? "" : ", ", name, "=", std::getenv(name.c_str()));
  std::fprintf(stderr, "%s: left out of the environment, since it would change what libraries compute: %s\n",
               program.c_str(), text.c_str());
}

/// Number of times that a thread of OpenMP polls for the others before it sleeps: some ten microseconds, which is about
/// the difference between parts of an operation. The default of libgomp, 300,000, is milliseconds. With other work on
/// the machine, a waiting thread then keeps the CPU from the thread that it waits for.
constexpr const char* kSpins = "GOMP_SPINCOUNT=1000";

}  // namespace

void ComputeConfig::describe(support::FieldVisitor& v) {
  v.choice("device", device, {{"auto", DeviceKind::kAuto}, {"cpu", DeviceKind::kCpu}, {"cuda", DeviceKind::kCuda}},
           "Where tensors live. auto: cuda where the stage's resources ask for GPUs, else cpu.");
  v.choice("isa", isa,
           {{"auto", Isa::kAuto},
            {"native", Isa::kNative},
            {"amx", Isa::kAmx},
            {"avx512", Isa::kAvx512},
            {"avx2", Isa::kAvx2},
            {"portable", Isa::kPortable}},
           "Instruction sets of the CPU. portable gives the same bytes on every x86-64, and amx is for products in "
           "bf16. auto and native use the machine's.");
  v.choice(
      "dtype", dtype, {{"auto", Precision::kAuto}, {"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}},
      "Type of products, and on cuda of activations; weights, norms, softmax and losses stay in fp32. bf16 is fast "
      "on a CPU with AVX512-BF16 or AMX. auto: bf16 on cuda, else fp32.");
  v.choice("kernels", kernels, {{"fused", Kernels::kFused}, {"plain", Kernels::kPlain}},
           "Operations between matrix products: our kernels, or LibTorch's operators, which are slower and for "
           "comparison.",
           {.neutral = Json("fused")});
  v.choice("deterministic", deterministic,
           {{"auto", Determinism::kAuto}, {"on", Determinism::kOn}, {"off", Determinism::kOff}},
           "Whether two runs give the same bytes. off, on cuda alone, lets LibTorch, cuDNN and NCCL sum in any order, "
           "which may be faster. "
           "auto: on.",
           {.neutral = Json("on")});
  v.field("threads", threads,
          "CPU threads of a rank. auto: the CPUs of the stage's resources, shared among the ranks; 1 by hand.",
          {.min = 1, .max = 1024});
  v.field("ranks", ranks,
          "Processes that share a batch. auto: one per GPU, or the number that mpirun or srun started, or 1.",
          {.min = 1, .max = 65536});
  v.field("micro_batch", micro_batch,
          "Sequences of one forward and backward pass of a rank. On a CPU, auto is the whole part of the batch of a "
          "rank. On cuda, auto is the largest divisor of that part with at most 32,768 tokens.",
          {.unit = "sequences", .min = 1, .max = 1 << 24});
  v.field("rank_timeout", rank_timeout, "How long a rank waits for the others in one exchange before it gives up.",
          {.unit = "s", .min = 0.1, .max = 1e7, .hashed = false});
}

ComputeConfig resolve(const ComputeConfig& config, std::int64_t batch, std::int64_t length) {
  ComputeConfig result = config;
  if (result.device == DeviceKind::kAuto) result.device = DeviceKind::kCpu;
  const bool cuda = result.device == DeviceKind::kCuda;
  if (result.dtype == Precision::kAuto) result.dtype = cuda ? Precision::kBf16 : Precision::kFp32;
  const bool bf16_on_cpu = !cuda && result.dtype == Precision::kBf16;
  if (result.isa == Isa::kAuto || result.isa == Isa::kNative)
    result.isa = isa_named(support::best_instruction_set(bf16_on_cpu));
  if (const Isa widest = isa_named(support::widest_instruction_set()); result.isa < widest) {  // widest sets come first
    throw ConfigError(
        cat("compute.isa is ", isa_name(result.isa), ", but this machine has no more than ", isa_name(widest)), {},
        "use 'portable' for results that every machine can give");
  }
  if (result.isa == Isa::kAmx && !bf16_on_cpu) {
    throw ConfigError("compute.isa is amx, which only products in bf16 on a CPU use", {},
                      "set compute.isa: avx512 or native, or compute.dtype: bf16");
  }
  if (bf16_on_cpu && result.kernels == Kernels::kPlain) {
    throw ConfigError("compute.kernels is plain, but products in bf16 on a CPU need our kernel", {},
                      "set compute.kernels: fused, or compute.dtype: fp32");
  }
  if (result.deterministic == Determinism::kAuto) result.deterministic = Determinism::kOn;
  if (!cuda && result.deterministic == Determinism::kOff) {
    throw ConfigError("compute.deterministic is off, but what runs on a CPU is always deterministic", {},
                      "set compute.deterministic: auto, or compute.device: cuda");
  }
  if (!result.threads) result.threads = 1;
  if (!result.ranks) result.ranks = support::own_ranks().count;
  const std::string why = why_not_divided(batch, *result.ranks, result.micro_batch);
  if (!why.empty()) throw ConfigError(why);
  const std::int64_t part = batch / *result.ranks;
  if (!result.micro_batch) {
    result.micro_batch = cuda ? support::gpu_micro_batch(part, length) : part;
  }
  result.micro_batch = std::min(*result.micro_batch, part);
  return result;
}

std::string why_not_divided(std::int64_t batch, std::int64_t ranks, std::optional<std::int64_t> micro_batch,
                            const std::string& what) {
  if (batch % ranks != 0) {
    std::int64_t nearest = std::min(ranks, batch);
    while (batch % nearest != 0) --nearest;
    return cat(what, " of ", batch, " sequences does not divide among ", ranks,
               " ranks (compute.ranks); it does among ", nearest);
  }
  const std::int64_t part = batch / ranks;
  if (!micro_batch || *micro_batch >= part || part % *micro_batch == 0) return "";
  if (ranks == 1)
    return cat("compute.micro_batch is ", *micro_batch, ", which does not divide ", what, " of ", batch, " sequences");
  return cat("compute.micro_batch is ", *micro_batch, ", which does not divide a rank's ", part, " sequences of ", what,
             " of ", batch);
}

std::vector<std::string> environment_of(const ComputeConfig& config) {
  ComputeConfig alone = config;  // how work is shared is no matter of the environment
  alone.ranks = alone.micro_batch = 1;
  const ComputeConfig compute = resolve(alone);
  const std::string threads = std::to_string(*compute.threads);
  std::vector<std::string> result{"OMP_NUM_THREADS=" + threads, "MKL_NUM_THREADS=" + threads, "OMP_DYNAMIC=FALSE",
                                  kSpins, "MKL_DYNAMIC=FALSE"};
  if (compute.deterministic == Determinism::kOn) {
    result.insert(result.end(), {"CUBLAS_WORKSPACE_CONFIG=:4096:8", "NCCL_ALGO=Ring"});
  }
  switch (compute.isa) {
    case Isa::kAmx:
    case Isa::kAvx512:
      result.insert(result.end(), {"ATEN_CPU_CAPABILITY=avx512", "MKL_CBWR=AVX512",
                                   compute.isa == Isa::kAmx ? "ONEDNN_MAX_CPU_ISA=AVX512_CORE_AMX"
                                                            : "ONEDNN_MAX_CPU_ISA=AVX512_CORE"});
      break;
    case Isa::kAvx2:
      result.insert(result.end(), {"ATEN_CPU_CAPABILITY=avx2", "MKL_CBWR=AVX2", "ONEDNN_MAX_CPU_ISA=AVX2"});
      break;
    default:
      result.insert(result.end(), {"ATEN_CPU_CAPABILITY=default", "MKL_CBWR=COMPATIBLE", "ONEDNN_MAX_CPU_ISA=SSE41"});
  }
  return result;
}

bool misleads_libraries(std::string_view name) {
  if (name.find("_LOG") != std::string_view::npos) return false;  // logs do not change results
  return std::any_of(std::begin(kMisleading), std::end(kMisleading),
                     [&](const char* pattern) { return matches(name, pattern); });
}

Json nccl_settings() {
  Json settings = Json::object();
  for (const std::string& name : environment_names()) {
    const bool wiring_alone =
        name.starts_with("NCCL_DEBUG") || name == "NCCL_SOCKET_IFNAME" || name.starts_with("NCCL_IB_");
    if (name.starts_with("NCCL_") && !wiring_alone && !misleads_libraries(name))
      settings[name] = std::getenv(name.c_str());
  }
  return settings;
}

void set_threads(std::int64_t threads) {
  at::set_num_threads(static_cast<int>(threads));
  if (at::get_num_interop_threads() != 1) {
    try {
      at::set_num_interop_threads(1);
    } catch (const c10::Error&) {
      // Parallel work has begun; nothing of ours runs between operators, so the number does not matter then.
    }
  }
  set_deterministic(true);
  // Large blocks stay with the process: a fresh mapping for every activation costs a page fault for each 4 KiB.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
}

void set_deterministic(bool on) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(on, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
  // fp32 is fp32: TF32 keeps ten bits of a factor, and LibTorch has it on for convolutions.
  context.setAllowTF32CuDNN(false);
  context.setAllowTF32CuBLAS(false);
  static std::vector<std::int64_t> own;  // LibTorch's order of attention's forms, kept while it is another
  if (!on && own.empty()) {
    for (const at::SDPBackend backend : context.sDPPriorityOrder()) own.push_back(static_cast<std::int64_t>(backend));
    std::vector<std::int64_t> order = own;
    const auto cudnn =
        std::find(order.begin(), order.end(), static_cast<std::int64_t>(at::SDPBackend::cudnn_attention));
    std::rotate(order.begin(), cudnn, cudnn + 1);
    context.setSDPPriorityOrder(order);
  } else if (on && !own.empty()) {
    context.setSDPPriorityOrder(std::exchange(own, {}));
  }
}

void prepare(const Json& config, int argc, char** argv) {
  ComputeConfig compute;
  const auto group = config.find("compute");
  if (group != config.end()) compute = support::make_config<ComputeConfig>(*group, "compute");
  const std::vector<std::string> wanted = environment_of(compute);

  std::vector<std::string> names, surplus;
  bool differs = false;
  for (const std::string& entry : wanted) {
    const std::size_t equals = entry.find('=');
    names.push_back(entry.substr(0, equals));
    const char* now = std::getenv(names.back().c_str());
    if (now == nullptr || entry.substr(equals + 1) != now) differs = true;
  }
  for (const std::string& name : environment_names()) {
    if (misleads_libraries(name) && std::find(names.begin(), names.end(), name) == names.end()) surplus.push_back(name);
  }
  const char* marker = std::getenv(kMarker);
  const std::string own = std::to_string(::getpid());
  const bool is_prepared = marker != nullptr && marker == own;  // one of a user, or of a parent, says nothing
  if ((differs || !surplus.empty()) && !is_prepared) {
    tell_of_removed(argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "stage", surplus);
    for (const std::string& name : surplus) unsetenv(name.c_str());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      setenv(names[i].c_str(), wanted[i].c_str() + names[i].size() + 1, 1);
    }
    setenv(kMarker, own.c_str(), 1);
    execv("/proc/self/exe", argv);
    support::throw_errno("run again", argc > 0 ? argv[0] : "this program");
  }
  unsetenv(kMarker);
  set_threads(compute.threads.value_or(1));
}

}  // namespace pe::model
