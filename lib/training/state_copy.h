/// @file
/// The state that a run resumes from, and a copy of it on the host, for a thread that writes it during training.
#pragma once

#include <future>
#include <vector>

#include "training/optimizer.h"

namespace pe::training {

/// The weights, then the state of the optimizer.
std::vector<StatePart> state_of(const model::LanguageModel& model, const Optimizer& optimizer);

/// Buffers on the host with the layout of `state`, filled with zeros.
std::vector<StatePart> host_zeros_like(const std::vector<StatePart>& state);

class StateCopy {
 public:
  ~StateCopy();

  /// Memory for a copy is made by a thread. Fresh memory has to be found page by page, which takes longer than copying
  /// into it.
  void prepare(const std::vector<StatePart>& state);

  /// Copies the state before it returns. The next copy overwrites the result.
  const std::vector<StatePart>& take(const std::vector<StatePart>& state);

 private:
  std::vector<StatePart> copy_;
  std::future<void> allocating_;
};

}  // namespace pe::training
