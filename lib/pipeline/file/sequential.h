/// @file
/// `sequential` of a pipeline file: seeds are added one at a time until a claim is decided (statistics/sequential.h).
#pragma once

#include <cstdint>
#include <string>

#include "support/error.h"

namespace pe::pipeline {

struct Sequential {
  std::string axis;       ///< whose labels are added, in their order
  std::string claim;      ///< id in the file of claims
  std::int64_t from = 3;  ///< labels of the first look
  std::int64_t most = 3;  ///< labels of the last look
  double alpha = 0.05;    ///< error of all looks together
  support::Place place;   ///< in the file
};

}  // namespace pe::pipeline
