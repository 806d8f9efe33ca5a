/// @file
/// Where documents begin in windows of packed text, for block-diagonal masks.
#pragma once

#include <cstdint>
#include <span>

#include "data/token_shards/token_dataset.h"

namespace pe::training {

/// For tokens first, first + 1, … of a split's stream: how many tokens after `first` the document of each begins, 0
/// where it begins before. ForwardOptions call it `doc_start`. A document's BOS is its first token.
void document_starts(const data::TokenDataset& dataset, data::Split split, std::uint64_t first,
                     std::span<std::int64_t> out);

}  // namespace pe::training
