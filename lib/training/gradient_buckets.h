/// @file
/// The gradients of all ranks, added up during the backward pass. A bucket is a range of a flat gradient buffer that
/// holds some layers' matrices. The first is small (1 MB), so that exchanges begin early, the others have 25 MB (Li et
/// al. 2020, arXiv:2006.15704). Layers are complete from the last to the first, the same order on every rank.
/// Embeddings, norms, head and encoding follow after the whole pass.
#pragma once

#include <cstdint>
#include <vector>

#include "model/language_model.h"
#include "training/communicator.h"

namespace pe::training {

class GradientBuckets {
 public:
  struct Bucket {
    std::size_t group = 0;
    std::int64_t begin = 0, end = 0;  ///< in model.groups()[group]
    std::int64_t after_layer = -1;    ///< complete when the backward pass has left this layer; -1: at its end
  };
  static constexpr std::int64_t kFirstBytes = 1 << 20, kBytes = 25 << 20;

  GradientBuckets(model::LanguageModel model, Communicator& communicator, std::int64_t first_bytes = kFirstBytes,
                  std::int64_t bytes = kBytes);

  /// Before the last backward pass of a step.
  void begin() { next_ = 0; }
  /// The backward pass has left this layer; see model::ForwardOptions::left_layer.
  void left_layer(std::int64_t layer);
  /// After it: begins the remaining sums and waits for all. The buffers then hold the sums.
  void finish();

  /// In the order in which they are exchanged; together every gradient once.
  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  void start_until(std::int64_t layer);

  model::LanguageModel model_;
  Communicator& communicator_;
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0;
};

/// A number of all parameters' bits, the same for the same bits.
double parameter_hash(const model::LanguageModel& model);

}  // namespace pe::training
