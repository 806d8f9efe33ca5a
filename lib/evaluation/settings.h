/// @file
/// Common settings of all tasks of an evaluation: lengths, documents, draws.
#pragma once

#include <cstdint>
#include <vector>

#include "artifact/split.h"
#include "evaluation/windows.h"
#include "support/config.h"

namespace pe::evaluation {

/// The documents that are read: the config key `split`.
void split_field(support::FieldVisitor& v, artifact::Split& split, const char* help);

/// Rule for lengths beyond an encoding's positions.
enum class Beyond {
  kReportNa,     ///< the cell is n/a
  kClamp,        ///< the last position is used again
  kUntrained,    ///< the table is enlarged with freshly initialised rows
  kInterpolate,  ///< the table is stretched
};

const char* beyond_name(Beyond beyond);

struct Settings {
  std::vector<double> lengths = {1, 2, 4, 8};  ///< multiples of the training length
  std::vector<std::int64_t> context;           ///< absolute lengths; take the place of `lengths` where given
  artifact::Split split = artifact::Split::kTest;
  std::int64_t documents = 200;
  std::int64_t min_documents = 30;
  std::int64_t document_tokens = 0;  ///< 0: the longest context, or twice of it
  BosPolicy bos = BosPolicy::kDocStart;
  Beyond beyond = Beyond::kReportNa;
  std::int64_t draws = 5;  ///< of a stochastic encoding
  std::int64_t batch_tokens = 8192;

  void describe(support::FieldVisitor& v);

  /// Contexts for a model trained at `train_length`: rounded, at least 2, ascending, each once.
  std::vector<std::int64_t> contexts(std::int64_t train_length) const;
};

}  // namespace pe::evaluation
