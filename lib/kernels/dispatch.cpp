#include "kernels/dispatch.h"

#include <ATen/Version.h>

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

void* stream_of(const PeCudaTable* plugin, const at::Tensor& x) { return plugin->current_stream(x.is_cuda() ? x.get_device() : 0); }

void require_launched(int status, const char* kernel) {
  if (status != 0) throw cuda_error(status, kernel);
}

}  // namespace pe::kernels
