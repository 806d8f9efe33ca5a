/// @file
/// Mistakes in a pipeline: each once, and not more than a user reads.
#pragma once

#include <string>
#include <unordered_set>

#include "support/error.h"

namespace pe::pipeline {

class Mistakes {
 public:
  static constexpr std::size_t kMost = 100;

  /// Takes the mistakes of one place; `local` is empty afterwards.
  void report(support::Diagnostics& local);
  void report(std::string message, support::Place place, std::string hint = {});
  bool enough() const { return told_.size() >= kMost; }
  /// @throws ConfigError with all of them.
  void throw_if_any() { diagnostics_.throw_if_any(); }

 private:
  support::Diagnostics diagnostics_;
  std::unordered_set<std::string> told_;
};

}  // namespace pe::pipeline
