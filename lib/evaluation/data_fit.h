/// @file
/// May this model be measured on this data? Both must have one tokenizer, and the model must not be trained on the
/// documents.
#pragma once

#include <filesystem>

#include "artifact/checkpoint.h"
#include "data/token_shards/token_dataset.h"
#include "model/language_model.h"
#include "support/progress.h"

namespace pe::evaluation {

/// @throws ArtifactError with both tokenizers, or with both splits when more than one in a hundred of the sampled
/// documents of `split` were trained on. Fewer are common duplicates of other text: a warning. The training split is
/// never rejected.
void require_fit(const artifact::CheckpointReader& model, const data::TokenDataset& dataset,
                 const std::filesystem::path& data, data::Split split, support::Progress& progress);

/// Gives the numbers of the data's tokens to an encoding that reads them (ReadsTokens).
void tell_tokens(const model::LanguageModel& model, const data::TokenDataset& dataset,
                 const std::filesystem::path& data);

}  // namespace pe::evaluation
