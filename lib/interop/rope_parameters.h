/// @file
/// Rotary frequencies as Hugging Face configs give them (`rope_parameters`, or `rope_scaling` and `rope_theta` before
/// version 5), and the same frequencies as one of our encodings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/json.h"

namespace pe::interop {

/// The angles by which a stock class rotates pairs.
struct RopeFrequencies {
  std::vector<double> theta;    ///< radians per token, one for each pair
  double attention_factor = 1;  ///< on cosines and sines
};

/// `rope_parameters` of a config.json in either spelling. The result always has rope_type and rope_theta.
/// @throws ArtifactError for parts that are no numbers, that contradict each other, or that another model would read
/// otherwise (`rope_interleaved`, `partial_rotary_factor`)
Json rope_parameters_of(const Json& config, const std::string& where);

/// By the formulas of the published code, for types default, linear, llama3, yarn and longrope (of equal lists).
/// @throws ArtifactError for other types and for a missing number
RopeFrequencies rope_frequencies(const Json& parameters, std::int64_t head_width, std::int64_t most_positions,
                                 const std::string& where);

/// The encoding of ours with those frequencies: rope, pi, llama3, yarn or longrope.
Json encoding_of_rope(const Json& parameters, std::int64_t most_positions, const std::string& where);

/// Are two sets of frequencies equal to the rounding of float32?
bool same_frequencies(const RopeFrequencies& a, const RopeFrequencies& b);

/// Parameters of a stock class that give the wanted frequencies, of the plainest type that can. `hint` may hold
/// parameters to try before longrope, or null.
Json rope_parameters_for(const RopeFrequencies& wanted, double base, std::int64_t positions, const Json& hint);

}  // namespace pe::interop
