/// @file
/// Tokenizers as llama.cpp has them: values `tokenizer.ggml.…` of a GGUF file.
#pragma once

#include <cstdint>
#include <string>

#include "artifact/tokenizer_record.h"
#include "interop/gguf.h"

namespace pe::interop {

/// @param rows  of the embedding; rows without a piece become unused tokens
/// @throws ConfigError with the reason where llama.cpp would give other ids. Sentencepiece models that are no BPE,
/// normalise text or lack bytes are refused, and so are the symbols of a task.
GgufValues gguf_tokenizer(const artifact::TokenizerRecord& record, std::int64_t rows, const std::string& where);

}  // namespace pe::interop
