/// @file
/// The search for LongRoPE's or LongRoPE2's divisors on a trained model, as in `encodings/extension/longrope_search.h`,
/// with perplexity on long texts as the score.
///
///     const auto found = search_factors(model, texts, {.factor = 8});
///     const Json encoding = found.encoding;     // {"kind": "longrope", "factor": 8, "long_factors": […], …}
#pragma once

#include "encodings/extension/longrope_search.h"
#include "model/language_model.h"

namespace pe::model {

/// Texts that are disjoint from the texts of later tests.
struct SearchTexts {
  at::Tensor ids;  ///< [N, T + 1] int64, T the length to reach.
  /// [N, T] bool: predictions that count. For LongRoPE2 the answers of needles; undefined: all.
  at::Tensor counted;
};

enum class FactorMethod { kLongRope, kLongRope2 };

struct FactorSearchConfig {
  FactorMethod method = FactorMethod::kLongRope;
  double factor = 1;  ///< length to reach divided by the training length
  encodings::FactorSearchOptions options;
};

struct FoundFactors {
  encodings::FactorSearchResult search;  ///< scores are perplexities
  Json encoding;                         ///< the model's encoding, extended, for a config
};

/// The model's encoding must be a rotary one without an extension; it is restored afterwards.
/// @throws ConfigError where it is not, or where texts do not fit.
FoundFactors search_factors(const LanguageModel& model, const SearchTexts& texts, const FactorSearchConfig& config,
                            const encodings::FactorProgress& progress = {});

}  // namespace pe::model
