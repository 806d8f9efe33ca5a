/// @file
/// `pe-import`: a Hugging Face folder becomes a checkpoint and a tokenizer (doc/interop.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "artifact/workspace.h"
#include "encodings/rotary/rotary.h"
#include "support/config.h"

namespace pe::interop {

/// Group `import`.
struct ImportSettings {
  std::vector<std::string> model;  ///< one folder
  encodings::PairLayout layout = encodings::PairLayout::kHalf;
  std::int64_t length = 0;  ///< training context; 0: what config.json says
  bool unused_rows = false;
  std::int64_t batch = 128;  ///< sequences of a step, for stages that continue from it
  double peak_lr = 3e-4;     ///< of the training before, to which others are relative
  double weight_decay = 0.1;
  std::int64_t seed = 42;  ///< of the data order
  void describe(support::FieldVisitor& v);
};

struct ImportConfig {
  ImportSettings import;
  void describe(support::FieldVisitor& v);
};

/// Writes "model" and "tokenizer". Says which tensors were read and the loss on a fixed text.
void import_from_hf(const ImportConfig& config, artifact::Workspace& workspace);

}  // namespace pe::interop
