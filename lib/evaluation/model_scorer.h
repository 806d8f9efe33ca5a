/// @file
/// A language model as a scorer.
#pragma once

#include <memory>

#include "evaluation/scorer.h"
#include "model/language_model.h"

namespace pe::evaluation {

/// Copies share the model's weights. @param batch_tokens tokens of a forward pass, at least one sequence.
std::unique_ptr<Scorer> make_model_scorer(model::LanguageModel model, std::int64_t batch_tokens);

/// Capabilities from the facts of the model's encoding.
Capabilities capabilities_of(const model::LanguageModel& model);

}  // namespace pe::evaluation
