/// @file
/// The layers of a model. Which parts a layer has (norms, projections, feed-forward) and how they are wired is chosen
/// once, from the config, when the model is made; a pass asks no config.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "encodings/attention/positional_encoding.h"
#include "model/functions.h"
#include "model/hooks.h"
#include "model/model_config.h"

namespace pe::model {

/// Values of a forward pass that all layers read.
struct Pass {
  encodings::PositionalEncoding& encoding;
  encodings::State& state;
  std::function<Tensor(const Tensor&)> dropped;  ///< leaves a share out; empty: nothing is left out
  double* largest_logit = nullptr;  ///< not null: attention goes the reference route, and this becomes its maximum
  const Hooks* hooks = nullptr;     ///< may be null
};

class Block {
 public:
  virtual ~Block() = default;
  /// @param x [B, T, d_m]. @return the same shape.
  virtual Tensor forward(const Tensor& x, int layer, Pass& pass) const = 0;
};

/// A parameter by name, or several adjacent ones from the first of them on; undefined where the model has no such
/// parameter. The dtype is the compute dtype with `low_precision`, else the dtype of the master copy.
using WeightSource =
    std::function<Weight(const std::string& first, std::vector<std::int64_t> shape, bool low_precision)>;

/// One for each layer.
std::vector<std::unique_ptr<Block>> make_blocks(const ModelConfig& config, const WeightSource& weights);

/// Layers between the last block and the head.
std::function<Tensor(const Tensor&)> make_final_norm(const ModelConfig& config, const WeightSource& weights);

}  // namespace pe::model
