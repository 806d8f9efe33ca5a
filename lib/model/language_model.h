/// @file
/// The decoder, as a handle. Sources that train or evaluate see tensors and names, never modules.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/hooks.h"
#include "model/model_config.h"

namespace pe::encodings {
class PositionalEncoding;
struct Heads;
struct AttentionRows;
}  // namespace pe::encodings

namespace pe::model {

using at::Tensor;

/// A tensor of the model under its name: "embedding", "layers.3.attention.query", "layers.3.feed_forward.gate",
/// "norm", "head" (untied), "encoding.<name>" (of the encoding).
struct Parameter {
  std::string name;
  Tensor tensor;       ///< a leaf that requires gradients; fp32 (the master copy on CUDA)
  bool decay = false;  ///< weight decay applies: matrices, but not embeddings, tables and 1-D parameters
};

struct ForwardOptions {
  std::int64_t position = 0;  ///< position of the first token of every row
  std::int64_t pe_len = 0;    ///< length for a length-dependent encoding; 0: T
  bool training = false;
  std::int64_t step = 0;  ///< optimizer step, or the number of the draw in an evaluation, for encodings that draw
  std::int64_t first_sample = 0;      ///< Id of row 0, for draws per sample; row b is first_sample + b.
  std::vector<std::int64_t> samples;  ///< The ids where they are not consecutive; else empty.
  /// [T] or [B, T] int64: the column at which each token's document starts (packed documents); undefined: one document.
  /// No token sees another document.
  Tensor doc_start;
  bool restart_positions = false;  ///< Positions count from `position` in each document, else through the row.
  /// Called during the backward pass, from the last layer to the first, when the gradients of that layer's matrices are
  /// complete. Shared parameters (embeddings, encoding) are not included.
  std::function<void(std::int64_t layer)> left_layer;
  /// [T] int64: positions of the tokens in place of counted ones; `position` must be 0. Undefined: counted.
  Tensor positions;
  const Hooks* hooks = nullptr;     ///< may be null
  double* largest_logit = nullptr;  ///< not null: attention goes the reference route, and this becomes its maximum
};

/// Parameters of one kind, side by side in one buffer each, so that an optimizer and a norm are one call.
struct FlatGroup {
  Tensor values;     ///< 1-D; includes padding, which stays 0
  Tensor gradients;  ///< the same layout; undefined until gradients are first asked for
  Tensor shadow;     ///< low-precision copies that products read; undefined where they read the values
  bool decay = false;
};

/// Initial contents of weights: drawn values, or nothing yet, if the caller fills them.
enum class Weights { kDrawn, kLater };

/// Copies share weights. Evaluation calls it under c10::InferenceMode or NoGradGuard.
class LanguageModel {
 public:
  /// Weights from Philox keyed by (seed, tensor name): weights that two encodings share are bit-identical for a seed.
  /// @param config `vocabulary` 0 takes `vocabulary`; `length` must be set.
  /// @throws ConfigError when the shape does not hold together or the encoding refuses it.
  static LanguageModel make(const ModelConfig& config, std::int64_t vocabulary, std::uint64_t seed,
                            at::Device device = at::kCPU, at::ScalarType compute = at::kFloat,
                            Weights weights = Weights::kDrawn);
  /// Draws first values for a model that was made without, once; all other values are lost.
  void draw() const;

  /// @param ids [B, T] int64 on the model's device.
  /// @return hidden states after the last norm, [B, T, d_m], in the compute dtype.
  /// @throws RangeError of the encoding when positions exceed its table.
  Tensor forward(const Tensor& ids, const ForwardOptions& options = {}) const;

  /// Logits of a slice of positions. @param hidden [..., d_m] @return [..., V] fp32, which no narrower type has held.
  Tensor logits(const Tensor& hidden) const;

  /// Sum over all rows of the negative log likelihood, in nats, as a differentiable float64 scalar. Never holds more
  /// than a chunk of logits. @param hidden [N, d_m]; @param targets [N] int64 (negative: not counted).
  /// @param z_loss weight of (log Σ exp)² in the gradients; see LogitOptions.
  Tensor loss_sum(const Tensor& hidden, const Tensor& targets, double z_loss = 0) const;

  /// scale · `loss_sum`, for one call of backward() on the result itself; see functions.h.
  Tensor training_loss(const Tensor& hidden, const Tensor& targets, double scale, double z_loss = 0) const;

  /// Negative log likelihood of each row, fp32 [N], by the numbers of `logits`, without gradients, in chunks of rows.
  Tensor losses(const Tensor& hidden, const Tensor& targets) const;

  const ModelConfig& config() const;                 ///< with `vocabulary` resolved
  const std::vector<Parameter>& parameters() const;  ///< in a fixed order: embedding, layers, norm, head, encoding
  std::int64_t parameter_count() const;              ///< includes the encoding
  std::int64_t encoding_parameter_count() const;
  std::uint64_t seed() const;
  at::Device device() const;
  at::ScalarType compute_dtype() const;
  encodings::PositionalEncoding& encoding() const;

  /// Values and gradients of everything, in at most two groups. Backward passes add to the gradients, which every
  /// parameter sees as its `grad()`.
  const std::vector<FlatGroup>& groups() const;
  void zero_gradients() const;  ///< makes the buffers when there are none
  /// "layers.0.attention.query" lives at groups()[group].values[offset …]; in the order of `parameters()`.
  struct Location {
    std::size_t group = 0;
    std::int64_t offset = 0;
  };
  const std::vector<Location>& locations() const;

  /// After weights were written: refreshes their low-precision copies and lets the encoding clamp.
  /// @param shadows_written true if the low-precision copies are already written
  void after_step(bool shadows_written = false) const;

 private:
  struct State;
  explicit LanguageModel(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace pe::model
