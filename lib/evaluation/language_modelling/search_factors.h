/// @file
/// The search for LongRoPE's and LongRoPE2's divisors as a stage: reads a trained rotary model and held-out texts,
/// writes the model with its encoding extended.
#pragma once

#include "artifact/workspace.h"
#include "evaluation/documents.h"
#include "evaluation/settings.h"
#include "evaluation/text_codec.h"
#include "model/compute.h"
#include "model/factor_search.h"
#include "support/config.h"

namespace pe::evaluation {

struct FactorSearchGroup {
  model::FactorSearchConfig config;
  artifact::Split split = artifact::Split::kValidation;
  std::int64_t documents = 3;
  double depth = 0.05;
  std::uint64_t seed = 0;
  void describe(support::FieldVisitor& v);
};

struct SearchFactorsConfig {
  FactorSearchGroup search;
  model::ComputeConfig compute;
  void describe(support::FieldVisitor& v);
};

/// Texts of `length` + 1 tokens: for LongRoPE the beginnings of documents, for LongRoPE2 such with a needle near the
/// start that is asked for at the end, whose answer alone counts. Where long documents are too few, shorter ones are
/// joined.
/// @throws ConfigError when the split has fewer tokens than that.
model::SearchTexts search_texts(const DocumentSource& documents, const TextCodec& text, std::int64_t length,
                                const FactorSearchGroup& group);

/// The body of pe-search-factors: inputs `model` (checkpoint) and `data` (token-shards), output `extended`
/// (checkpoint).
void search_factors(const SearchFactorsConfig& config, artifact::Workspace& workspace);

}  // namespace pe::evaluation
