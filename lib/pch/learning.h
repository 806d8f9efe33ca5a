// Precompiled for every source that uses LibTorch. No `#pragma once`: GCC would ignore it with a warning.
// GCC instantiates the requirements of these headers' inline functions again in every source. A header that few sources
// use (autograd's, 1.3 s) therefore costs more here than in those sources.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
