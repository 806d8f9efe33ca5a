/// @file
/// The body of `pe-score`: attention with an encoding on tensors out of an HDF5 file, so that users can compare our
/// numbers with their own code. doc/format-scores.md describes both files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "encodings/attention/attend.h"
#include "support/json.h"

namespace pe::encoding_docs {

struct ScoreOrder {
  Json encoding;  ///< as a config holds it; see read_encoding
  std::filesystem::path in, out;
  at::ScalarType dtype = at::kDouble;                     ///< float64, float32 or bfloat16: of q, k, v and x
  encodings::Route route = encodings::Route::kReference;  ///< of the output; logits and weights are the definition's
  bool gradients = false;
  std::int64_t layer = 0, layers = 1;
  std::int64_t train_length = 0;  ///< 0: the length of q
  std::optional<std::int64_t> pe_length;
};

/// The canonical value of `--encoding` and its `--set`s. @param text a name, or YAML such as {stack: [rope, ssmax]}.
/// @param sets "factor=4". A list may be written without brackets: "long_factors=1,1.2,1.4".
/// @throws ConfigError that names the flag and the nearest word.
Json read_encoding(const std::string& text, const std::vector<std::string>& sets);

/// Reads `in`, writes `out` (under a temporary name first, then renamed).
/// @throws ArtifactError for a dataset that is missing or of another shape. ConfigError for an encoding that does not
/// fit, RangeError for positions that it does not have.
void score_file(const ScoreOrder& order);

}  // namespace pe::encoding_docs
