/// @file
/// Tokens for which a long context matters to a reference model (Fang et al. 2024, arXiv:2410.23771): it predicts them
/// well from all the text before, and badly from the last part of it alone.
#pragma once

#include <cstdint>
#include <vector>

#include "evaluation/scorer.h"

namespace pe::evaluation {

struct KeyRule {
  double gain = 2;  ///< nats that the full context has to save
  double most = 2;  ///< nats that the token may cost with it
};

struct KeyToken {
  std::int64_t place = 0;  ///< in the ids
  double full = 0;         ///< nats from all the text before
  double less = 0;         ///< nats from the short context
};

/// Tokens of a short context: a quarter of the reference's training length, at least 1.
std::int64_t short_context(const Capabilities& reference);

/// The key tokens of a text, ascending, among those from `short_context` on. Short contexts begin every sixteenth of
/// the training length and score as many tokens, so one holds a quarter to five sixteenths of it.
std::vector<KeyToken> key_tokens(Scorer& reference, const std::vector<std::int32_t>& ids, const KeyRule& rule,
                                 std::int64_t draws);

}  // namespace pe::evaluation
