/// @file
/// The forms of the CPU's kernels that this machine can run, by the names of kernels::table_for.
#pragma once

#include <string>
#include <vector>

#include "kernels/cpu.h"

namespace pe::test {

inline std::vector<std::string> instruction_sets() {
  std::vector<std::string> sets{"DEFAULT"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.emplace_back("AVX2");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) sets.emplace_back("AVX512");
  return sets;
}

}  // namespace pe::test
