/// @file
/// Batches of windows as a model takes them, read while the step before is computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <future>

#include "data/token_shards/sample_order.h"
#include "data/token_shards/token_dataset.h"
#include "training/train_config.h"

namespace pe::training {

struct Batch {
  at::Tensor ids;        ///< [B, T]
  at::Tensor targets;    ///< [B·T]
  at::Tensor doc_start;  ///< [B, T], unless documents are joined
  std::int64_t bytes = 0;
};

/// Windows as inputs and targets. Reading is const and safe in several threads.
class BatchReader {
 public:
  using WindowOf = std::function<std::uint64_t(std::int64_t row)>;

  BatchReader(const data::TokenDataset& dataset, artifact::Split split, std::int64_t length, at::Device device,
              Documents documents);

  /// A batch on the device. `bytes` of the text only where asked for.
  Batch read(std::int64_t count, const WindowOf& window_of, bool count_bytes) const;
  /// The same on the host, and its way to the device, for which the host does not wait.
  Batch read_on_host(std::int64_t count, const WindowOf& window_of, bool count_bytes) const;
  Batch sent(Batch batch) const;

  /// Targets that count in `count` windows: all of them, except for data with labels.
  std::int64_t targets(std::int64_t count, const WindowOf& window_of) const;

 private:
  const data::TokenDataset& dataset_;
  artifact::Split split_;
  std::int64_t length_;
  at::Device device_;
  Documents documents_;
};

/// A stretch of the samples of a training, which are numbered through all its steps.
struct Samples {
  std::int64_t first = 0, count = 0;
  bool count_bytes = false;
  bool operator==(const Samples&) const = default;
};

/// The samples of a step that a rank works on, in a training whose steps have `batch` samples each.
/// @param ranks divides `batch`
Samples find_share(std::int64_t step, std::int64_t batch, std::int64_t rank, std::int64_t ranks);

/// Samples in a training's order. A thread reads announced samples in the background.
class SampleReader {
 public:
  /// @param windows that `reader` has; see data::SampleOrder.
  SampleReader(const BatchReader& reader, std::uint64_t seed, std::uint64_t windows)
      : reader_(reader), order_(seed, windows) {}
  ~SampleReader();

  Batch read(const Samples& samples) const { return reader_.sent(read_on_host(samples)); }
  /// The same as `read`. Uses the batch that `announce` began to read, if it is of these samples.
  Batch take(const Samples& samples);
  /// Begins to read `samples`, which `take` should ask for next. If it asks for others, only time is lost.
  void announce(const Samples& samples);
  std::int64_t targets(std::int64_t first, std::int64_t count) const;
  const data::SampleOrder& order() const { return order_; }

 private:
  Batch read_on_host(const Samples& samples) const;

  BatchReader reader_;
  data::SampleOrder order_;
  Samples announced_;
  std::future<Batch> ahead_;
};

}  // namespace pe::training
