/// @file
/// Numbers that are read off the tokens themselves, for encodings that count units other than tokens: places in a
/// number, in a sentence, in a column of digits. An encoding states its kind of numbers as JSON
/// (encodings/attention/token_reader.h):
///
///     {"reads": "digits"}    1 channel: 0 off digits, else the place in its run of digits, from 1
///     {"reads": "segments", "separators": [".", …]}
///                            2 channels: place in the segment and number of the segment, from 0;
///                            a segment ends with a token whose text ends with a separator
///     {"reads": "coupled"}   1 channel: ids of position coupling for a start of 1;
///                            0: BOS, EOS and tokens of no example
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "artifact/token_shards.h"
#include "support/json.h"

namespace pe::data {

/// From the ids of a document, or of its beginning, to the numbers of each token, its channels side by side.
using TokenNumbers = std::function<std::vector<std::int64_t>(std::span<const std::int64_t> ids)>;

/// @param where names the data in messages. @throws ConfigError where these tokens have no such numbers.
TokenNumbers token_numbers(const Json& wish, const artifact::TokenizerRecord& tokenizer, const std::string& where);

}  // namespace pe::data
