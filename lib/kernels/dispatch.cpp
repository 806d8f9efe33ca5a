#include "kernels/dispatch.h"

#include <ATen/Version.h>

#include <map>
#include <mutex>

#include "cuda/plugin.h"
#include "kernels/cuda_error.h"
#include "support/text.h"

namespace pe::kernels {
namespace {

bool fused = true;
const PeCudaTable* loaded = nullptr;
const PeCudaTable* stand_in = nullptr;

}  // namespace

void use_fused(bool wanted) { fused = wanted; }
bool uses_fused() { return fused; }
void set_plugin(const PeCudaTable* table) { loaded = table; }
const PeCudaTable* plugin() { return loaded; }
void stand_in_for_plugin(const PeCudaTable* table) { stand_in = table; }

const Table& cpu_table() {
  static const Table& table = table_for(at::get_cpu_capability());
  return table;
}

const Table* cpu_for(at::Device device, at::ScalarType type) {
  if (!device.is_cpu() || type != at::kFloat || stand_in != nullptr || !fused) return nullptr;
  return &cpu_table();
}

const PeCudaTable* plugin_for(at::Device device, at::ScalarType type) {
  if ((type != at::kFloat && type != at::kBFloat16) || !fused) return nullptr;
  return device.is_cuda() ? loaded : stand_in;
}

bool waits_for_reads(at::Device device) { return device.is_cuda() || stand_in != nullptr; }

std::int64_t device_memory(at::Device device) {
  static std::mutex mutex;
  static std::map<std::pair<const PeCudaTable*, int>, std::int64_t> known;  // CUDA takes long to tell
  if (loaded == nullptr) return 0;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace({loaded, device.index()}, 0);
  PeCudaDevice properties;
  if (is_new && loaded->device_properties(device.index(), &properties) == 0) {
    found->second = static_cast<std::int64_t>(properties.memory_bytes);
  }
  return found->second;
}

void* stream_of(const PeCudaTable* plugin, const at::Tensor& x) {
  return plugin->current_stream(x.is_cuda() ? x.get_device() : 0);
}

void require_launched(int status, const char* kernel) {
  if (status != 0) throw cuda_error(status, kernel);
}

}  // namespace pe::kernels
