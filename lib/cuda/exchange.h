/// @file
/// The part of the plug-in's table that exchanges tensors between ranks.
#pragma once

#include <algorithm>
#include <cstring>

#include "cuda/plugin.h"

namespace pe::cuda {

/// Enters the functions of exchange.cpp, which is built where nccl.h is found.
void fill_nccl(PeCudaTable& table);

/// Writes a text, cut to the size, into a buffer that may be null.
inline void say(const char* text, char* problem, std::size_t size) {
  if (problem == nullptr || size == 0) return;
  const std::size_t length = std::min(std::strlen(text), size - 1);
  std::memcpy(problem, text, length);
  problem[length] = 0;
}

}  // namespace pe::cuda
