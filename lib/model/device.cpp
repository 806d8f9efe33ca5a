#include "model/device.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <torch/version.h>
#include <unistd.h>

#include <cctype>
#include <fstream>

#include "cuda/plugin.h"
#include "kernels/cuda_error.h"
#include "kernels/dispatch.h"
#include "kernels/product_bf16.h"
#include "support/cpu.h"
#include "support/error.h"
#include "support/plugin.h"
#include "support/plugin_layouts.h"
#include "support/process.h"
#include "support/ranks.h"
#include "support/text.h"

namespace pe::model {
namespace {

using support::cat;
using support::ConfigError;

constexpr const char* kWayOut = "set compute.device: cpu, or leave gpus out of the stage's resources";

std::string dl_problem() {
  const char* text = dlerror();
  return text == nullptr ? "unknown reason" : text;
}

const PeCudaTable& load_plugin() {
  if (const PeCudaTable* loaded = kernels::plugin()) return *loaded;
  const bool is_built = !support::find_plugin("cuda", "pe-cuda").empty();
  // In this order, and before the first backward pass: afterwards LibTorch keeps its stubs for the life of the process.
  if (is_built && dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    throw ConfigError(cat("a GPU was asked for, but LibTorch's CUDA library does not load: ", dl_problem()), {},
                      cat("install the CUDA wheels (./bootstrap --cuda build), or ", kWayOut));
  }
  const auto* table = static_cast<const PeCudaTable*>(
      support::load_plugin({.folder = "cuda",
                            .name = "pe-cuda",
                            .symbol = "pe_cuda",
                            .layout = PE_CUDA_LAYOUT,
                            .reason = "a GPU was asked for",
                            .if_absent = cat("build it where nvcc is found (./bootstrap --cuda build), or ", kWayOut),
                            .if_unusable = kWayOut}));
  kernels::set_plugin(table);
  return *table;
}

/// The unit that multiplies in bf16 on the CPU, if the config asks for bf16.
kernels::Bf16Unit bf16_unit(const ComputeConfig& compute) {
  if (compute.device == DeviceKind::kCuda || compute.dtype != Precision::kBf16) return kernels::Bf16Unit::kNone;
  if (compute.isa == Isa::kAmx) return kernels::Bf16Unit::kAmx;
  return compute.isa == Isa::kAvx512 ? kernels::Bf16Unit::kAvx512 : kernels::Bf16Unit::kPlain;
}

/// The plug-in has no code for GPUs before Ampere.
void require_kernels_for(const PeCudaTable& table, int index) {
  constexpr int kOldest = 8;
  PeCudaDevice properties{};
  if (table.device_properties(index, &properties) != 0 || properties.major >= kOldest) return;
  throw ConfigError(cat("GPU ", index, " (", properties.name, ") has compute capability ", properties.major, ".",
                        properties.minor, "; the kernels need ", kOldest, ".0 or later"),
                    {}, kWayOut);
}

/// Whether the word occurs and ends there: "NVIDIA L40" holds no "L4".
bool has_word(const std::string& name, const std::string& word) {
  const std::size_t at = name.find(word), end = at + word.size();
  return at != std::string::npos && (end == name.size() || std::isalnum(static_cast<unsigned char>(name[end])) == 0);
}

}  // namespace

at::Device open_device(const ComputeConfig& compute) {
  kernels::use_fused(compute.kernels == Kernels::kFused);
  const kernels::Bf16Unit unit = bf16_unit(compute);
  if (!kernels::can_multiply_in_bf16(unit)) {
    throw ConfigError(cat("compute.dtype is bf16, but ", support::cpu_name(), " has no ", name_of(unit)), {},
                      "set compute.isa: avx2, which multiplies in fp32, or compute.dtype: fp32");
  }
  kernels::multiply_in_bf16(unit);
  if (compute.device != DeviceKind::kCuda) {
    set_deterministic(true);
    return at::kCPU;
  }
  const PeCudaTable& table = load_plugin();
  char problem[256] = {};
  const int devices = table.device_count(problem, sizeof problem);
  if (devices <= 0) {
    throw ConfigError(cat("a GPU was asked for, but none is available: ", problem[0] == 0 ? "no device" : problem), {},
                      kWayOut);
  }
  if (!at::globalContext().hasCUDA()) {
    throw ConfigError("a GPU was asked for, but LibTorch's CUDA backend did not come up", {}, kWayOut);
  }
  try {
    at::globalContext().lazyInitDevice(at::kCUDA);
  } catch (const c10::Error& error) {  // such as a driver that is older than LibTorch's CUDA
    const std::string text = error.what_without_backtrace();
    throw ConfigError(cat("a GPU was asked for, but CUDA does not come up: ", text.substr(0, text.find('\n'))), {},
                      kWayOut);
  }
  set_deterministic(compute.deterministic != Determinism::kOff);  // asks CUDA, which must be loaded by now.
  // Each rank of a machine has a separate GPU: the GPU with its number, or the only one that is visible.
  const support::Ranks& own = support::own_ranks();
  const int index = devices == 1 && own.count > 1 ? 0 : static_cast<int>(own.local);
  if (index >= devices) {
    throw ConfigError(
        cat("rank ", own.rank, " is number ", own.local + 1, " on this machine, which shows ", devices, " GPUs"), {},
        "start as many ranks on a machine as it has GPUs");
  }
  if (const int status = table.set_device(index); status != 0) {
    throw ConfigError(cat("GPU ", index, " cannot be used: ", kernels::cuda_words(status)), {}, kWayOut);
  }
  require_kernels_for(table, index);
  return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
}

std::string device_name(at::Device device) {
  const PeCudaTable* plugin = kernels::plugin();
  if (!device.is_cuda() || plugin == nullptr) return support::cpu_name();
  PeCudaDevice properties{};
  return plugin->device_properties(device.index(), &properties) == 0 ? properties.name : "CUDA device";
}

at::ScalarType compute_type(const ComputeConfig& compute) {
  // On a CPU products alone are in bf16, and round their inputs themselves.
  return compute.dtype == Precision::kBf16 && compute.device == DeviceKind::kCuda ? at::kBFloat16 : at::kFloat;
}

namespace {

/// A function of a library that the process holds; null where none has it.
template <typename Function>
Function* loaded_function(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

/// The number that a function of that name writes; null where there is no such function, or it fails.
Json version_by(const char* name) {
  const auto function = loaded_function<int(int*)>(name);
  int version = 0;
  return function != nullptr && function(&version) == 0 ? Json(version) : Json();
}

Json cublas_version() {
  const auto function = loaded_function<int(int, int*)>("cublasGetProperty");
  if (function == nullptr) return nullptr;
  Json parts = Json::array();
  for (const int property : {0, 1, 2}) {  // major, minor and patch level
    int value = 0;
    if (function(property, &value) != 0) return nullptr;
    parts.push_back(value);
  }
  return parts;
}

/// Versions of libraries that sum on a GPU. LD_LIBRARY_PATH may bring others than LibTorch's wheels.
Json cuda_versions(at::Device device, bool several_ranks) {
  Json json = {{"cublas", cublas_version()}};
  if (const auto cublaslt = loaded_function<std::size_t()>("cublasLtGetVersion")) json["cublaslt"] = cublaslt();
  if (several_ranks) {
    json["nccl"] = version_by("ncclGetVersion");
    if (const Json settings = nccl_settings(); !settings.empty()) json["nccl_settings"] = settings;
  }
  PeCudaDevice properties{};
  const PeCudaTable* plugin = kernels::plugin();
  if (plugin == nullptr || plugin->device_properties(device.index(), &properties) != 0) return json;
  if (runs_from_ptx(properties.major, properties.minor)) json["driver"] = version_by("cudaDriverGetVersion");
  return json;
}

}  // namespace

bool runs_from_ptx(int major, int minor) {
  return major != 8 && !(major == 9 && minor == 0);  // lib/cuda/meson.build: sm_80, which all of 8.x runs, and sm_90a
}

Json fingerprint(const ComputeConfig& compute, at::Device device) {
  static const std::string build = support::elf_build_id(support::own_executable());
  Json json = {{"build", build},
               {"torch", TORCH_VERSION},
               {"device", device_name(device)},
               {"dtype", compute.dtype == Precision::kBf16 ? "bf16" : "fp32"},
               {"isa", at::get_cpu_capability()},
               {"mkl", at::get_mkl_version()},
               {"onednn", at::get_mkldnn_version()},
               {"libc", gnu_get_libc_version()},  // its exp and log are of our kernels, too
               {"threads", compute.threads.value_or(1)}};
  if (compute.kernels == Kernels::kPlain) json["kernels"] = "plain";
  if (compute.deterministic == Determinism::kOff) json["deterministic"] = false;
  if (!device.is_cuda() && compute.dtype == Precision::kBf16) json["products"] = name_of(bf16_unit(compute));
  if (!device.is_cuda()) return json;
  const auto& cuda = at::detail::getCUDAHooks();
  json["cuda"] = cuda.versionCUDART();
  json["cudnn"] = cuda.versionRuntimeCuDNN();
  json["plugin"] = support::elf_build_id(support::find_plugin("cuda", "pe-cuda"));
  json.update(cuda_versions(device, compute.ranks.value_or(1) > 1));
  return json;
}

std::string device_summary(const ComputeConfig& compute, at::Device device) {
  const char* dtype = compute.dtype == Precision::kBf16 ? "bf16" : "fp32";
  if (device.is_cuda()) {
    return cat(device_name(device), ", ", dtype,
               compute.deterministic == Determinism::kOff ? ", not deterministic" : "");
  }
  const std::int64_t threads = compute.threads.value_or(1);
  return cat(device_name(device), ", ", threads, threads == 1 ? " thread, " : " threads, ", at::get_cpu_capability(),
             ", ", dtype,
             compute.dtype == Precision::kBf16 ? cat(" (", name_of(bf16_unit(compute)), ")") : std::string());
}

double memory_in_use(at::Device device) {
  if (device.is_cuda()) {
    const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.has_index() ? device.index() : 0);
    return static_cast<double>(stats.allocated_bytes[0].peak);
  }
  std::ifstream file("/proc/self/statm");
  double whole = 0, resident = 0;
  file >> whole >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

std::optional<double> peak_flops(at::Device device, const std::string& name) {
  if (!device.is_cuda()) return std::nullopt;
  // Dense bf16, as the vendor's data sheets state it.
  const std::pair<const char*, double> known[] = {{"H200 NVL", 835e12},  {"H100 NVL", 835e12}, {"H200", 989e12},
                                                  {"H100 PCIe", 756e12}, {"H100", 989e12},     {"A100", 312e12},
                                                  {"L40S", 362e12},      {"L4", 121e12}};
  for (const auto& [word, peak] : known) {
    if (has_word(name, word)) return peak;
  }
  return std::nullopt;
}

}  // namespace pe::model
