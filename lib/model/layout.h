/// @file
/// The parameters that a config asks for: names, shapes and initial values. All code that counts, places or draws
/// weights reads this list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_config.h"

namespace pe::model {

struct PlannedParameter {
  enum class Start { kOnes, kZeros, kNormal, kUniform };

  std::string name;
  std::vector<std::int64_t> shape;
  bool decay = false;  ///< a matrix of the blocks or of an untied head
  Start start = Start::kOnes;
  double scale = 0;  ///< standard deviation of kNormal, bound of kUniform
  int fused = 0;     ///< parameters with the same number above 0 follow each other in memory

  std::int64_t count() const;
};

/// In the order of LanguageModel::parameters. `vocabulary` must be resolved.
///
///     embedding [V, d]
///     layers.N.attention.norm [d], .query [H·d_h, d], .key and .value [G·d_h, d], .query_norm, .key_norm, .output [d,
///     H·d_h] layers.N.feed_forward.norm [d], .gate and .up [d_ff, d], .down [d, d_ff] norm [d], head [V, d]
///
/// The name of a bias is the name of its term and ".bias". Where a config asks for them, after the term they act on or
/// read:
///
///     layers.N.attention.canon_a [d, K] (norm), .canon_b [(H + 2G)·d_h, K] (norms of queries and keys), .gate [H or
///     H·d_h, d] layers.N.feed_forward.canon_c [d, K] (norm), .canon_d [2·d_ff or d_ff, K] (up)
std::vector<PlannedParameter> plan_parameters(const ModelConfig& config);

}  // namespace pe::model
