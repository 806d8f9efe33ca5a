#pragma once

#include <cstdint>
#include <vector>

#include "data/token_shards/token_dataset.h"

namespace pe::test {

/// All tokens of a document, BOS included.
inline std::vector<std::int64_t> document_tokens(const data::TokenDataset& dataset, artifact::Split split,
                                                 std::uint64_t number) {
  const data::TokenDataset::Document of = dataset.document(split, number);
  std::vector<std::int64_t> tokens(of.tokens);
  dataset.read(split, of.first, tokens);
  return tokens;
}

}  // namespace pe::test
