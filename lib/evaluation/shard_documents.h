/// @file
/// Documents and tokenizer of a token-shards artifact, as evaluations see them.
#pragma once

#include <memory>

#include "data/token_shards/token_dataset.h"
#include "data/tokenizers/tokenizer.h"
#include "evaluation/documents.h"
#include "evaluation/settings.h"
#include "evaluation/text_codec.h"

namespace pe::evaluation {

/// @param dataset outlives the result, as does `tokenizer`.
std::unique_ptr<DocumentSource> make_shard_documents(const data::TokenDataset& dataset,
                                                     const data::Tokenizer& tokenizer, data::Split split);

/// @param bos_before_documents whether the data puts the tokenizer's BOS before documents; only then is there a
/// separator.
std::unique_ptr<TextCodec> make_codec(const data::Tokenizer& tokenizer, bool bos_before_documents);

}  // namespace pe::evaluation
