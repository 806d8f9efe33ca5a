/// @file
/// The JSON files and the tokenizer of a Hugging Face folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "artifact/tokenizer_record.h"
#include "support/json.h"

namespace pe::interop {

/// A JSON file of such a folder. @throws ArtifactError when it is missing, too large or no JSON
Json read_hf_json(const std::filesystem::path& path);

/// The tokenizer of a folder. Its file is tokenizer.model, else tokenizer.json, else vocab.json with merges.txt.
/// vocab.json does not say how text is cut into words. The class in tokenizer_config.json does, or else the model does.
///
/// @param architecture  of the model, such as "qwen2"
/// @param rows          of the embedding, which must be as many as there are pieces
/// @param note          gets what a user should know
/// @throws ArtifactError where the rule for words is unknown
artifact::TokenizerRecord read_hf_tokenizer(const std::filesystem::path& folder, const std::string& architecture,
                                            std::int64_t rows, bool unused_rows, std::string& note);

}  // namespace pe::interop
