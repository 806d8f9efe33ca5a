#include "kernels/explain.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>
#include <string_view>

#include "kernels/cuda_error.h"
#include "support/escaped.h"
#include "support/text.h"

namespace pe::kernels {
namespace {

using support::cat;
using support::Diagnostic;
using support::Error;

constexpr int kCudaOutOfMemory = 2;  // cudaErrorMemoryAllocation

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

template <std::size_t count>
bool has_any(std::string_view text, const std::array<std::string_view, count>& parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return has(text, part); });
}

/// LibTorch's first line; how to debug its kernels, and where in its source it was, follow after it.
std::string first_line(std::string_view text) { return support::escaped(text.substr(0, text.find('\n')), 400); }

/// The value in use, as a config of a stage has it: resolved by a pipeline, else perhaps left open.
std::string micro_batch_hint(const Json& config) {
  const auto compute = config.is_object() ? config.find("compute") : config.end();
  if (!config.is_object() || compute == config.end() || !compute->is_object() || !compute->contains("micro_batch"))
    return "";
  const Json& found = compute->at("micro_batch");
  return found.is_number_integer()
             ? cat("lower compute.micro_batch, which is ", found.get<std::int64_t>(), " sequences")
             : "set compute.micro_batch, which is auto, to fewer sequences";
}

Error out_of_memory(const std::string& of, const Json& config) {
  return Error(support::kExitOutOfMemory, Diagnostic{cat("out of memory", of), {}, micro_batch_hint(config), {}});
}

/// "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."
std::string bytes_asked_for(std::string_view text) {
  constexpr std::string_view kBefore = "tried to allocate ";
  const std::size_t at = text.find(kBefore);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = text.substr(at + kBefore.size());
  const auto bytes = support::parse_integer(rest.substr(0, rest.find(' ')), support::Suffixes::kNone);
  return bytes ? cat(": ", support::short_bytes(static_cast<double>(*bytes)), " more could not be had") : "";
}

/// "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of …": the settings named after it do
/// not apply here.
std::string of_the_gpu(std::string_view text) {
  const std::string line = first_line(text.substr(0, text.find(" If reserved but")));
  constexpr std::string_view kBegin = "CUDA out of memory. ";
  return cat(" of the GPU: ", has(line, kBegin) ? line.substr(line.find(kBegin) + kBegin.size()) : line);
}

}  // namespace

std::optional<Error> explain(const std::exception& error, const Json& config) {
  if (dynamic_cast<const std::bad_alloc*>(&error)) return out_of_memory("", config);
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  if (torch == nullptr) return std::nullopt;
  const std::string text = torch->what_without_backtrace();
  if (dynamic_cast<const c10::OutOfMemoryError*>(torch)) return out_of_memory(of_the_gpu(text), config);
  const auto* device = dynamic_cast<const c10::AcceleratorError*>(torch);
  if ((device && device->get_error_code() == kCudaOutOfMemory) ||
      has_any<3>(text, {"CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"})) {
    return out_of_memory(of_the_gpu(text), config);
  }
  if (has(text, "DefaultCPUAllocator")) return out_of_memory(bytes_asked_for(text), config);
  if (device) {
    Error known = cuda_error(device->get_error_code(), "LibTorch");
    if (known.exit_code() == support::kExitDevice) return known;
    return std::nullopt;
  }
  if (has_any<6>(text, {"CUDA error:", "CUBLAS_STATUS_EXECUTION_FAILED", "CUBLAS_STATUS_INTERNAL_ERROR",
                        "CUBLAS_STATUS_NOT_INITIALIZED", "CUDNN_STATUS_EXECUTION_FAILED", "NCCL error"})) {
    return Error(support::kExitDevice, Diagnostic{cat("a GPU or its driver failed: ", first_line(text)), {}, {}, {}});
  }
  return std::nullopt;
}

}  // namespace pe::kernels
