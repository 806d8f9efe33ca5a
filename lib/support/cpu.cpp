#include "support/cpu.h"

#include <string_view>

#include "support/kernel_file.h"
#include "support/text.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pe::support {

const std::string& cpu_name() {
  static const std::string name = [] {
    for (const std::string& line : split(read_kernel_file("/proc/cpuinfo"), '\n')) {
      const std::size_t colon = line.find(':');
      if (line.starts_with("model name") && colon != std::string::npos)
        return std::string(trim(std::string_view(line).substr(colon + 1)));
    }
    return std::string("CPU");
  }();
  return name;
}

#if defined(__x86_64__)

namespace {

/// AMX for bf16, and a system that saves its registers. A process asks for them once more, which LibTorch does.
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kSavesByXsave = 1U << 27, kBf16 = 1U << 22, kTiles = 1U << 24, kTileState = 3U << 17;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSavesByXsave) == 0) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBf16) == 0 || (d & kTiles) == 0) return false;
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kTileState) == kTileState;
}

}  // namespace

const char* widest_instruction_set() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx512) return has_amx() ? "amx" : "avx512";
  return avx2 ? "avx2" : "portable";
}

const char* best_instruction_set(bool in_bf16) {
  const std::string_view widest = widest_instruction_set();
  if (widest == "amx") return in_bf16 ? "amx" : "avx512";
  if (widest == "avx512") return in_bf16 && !__builtin_cpu_supports("avx512bf16") ? "avx2" : "avx512";
  return widest.data();
}

#else

const char* widest_instruction_set() { return "portable"; }
const char* best_instruction_set(bool /*in_bf16*/) { return "portable"; }

#endif

}  // namespace pe::support
