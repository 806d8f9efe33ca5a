/// @file
/// `pe-export`: a checkpoint and a tokenizer become a folder that transformers loads (doc/interop.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "model/checkpoint_io.h"

namespace pe::interop {

struct ExportOrder {
  std::filesystem::path model;      ///< a checkpoint
  std::filesystem::path tokenizer;  ///< a tokenizer artifact, or token shards
  std::filesystem::path out;        ///< the folder, or the file of a GGUF; must not exist
  std::string dtype = "F32";        ///< of the weights: F32, BF16 or F16
  model::WeightsOf weights = model::WeightsOf::kModel;
  std::int64_t longest = 0;  ///< tokens that the config says the model is for; 0: its training length
};

/// Writes the whole folder or nothing. Returns the words for the user, line by line.
/// @throws ConfigError with the reason where transformers has nothing that computes the same. ArtifactError where the
/// tokenizer is not the model's. IoError.
std::string export_to_hf(const ExportOrder& order);

/// Checks the files of an exported folder against its manifest, and reads the model back and compares what it computes.
/// @throws ArtifactError that says what differs
std::string verify_export(const std::filesystem::path& folder);

}  // namespace pe::interop
