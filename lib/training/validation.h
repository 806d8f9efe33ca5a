/// @file
/// The loss of the validation split.
#pragma once

#include <cstdint>
#include <optional>

#include "data/token_shards/token_dataset.h"
#include "model/language_model.h"
#include "training/communicator.h"
#include "training/curves.h"
#include "training/train_config.h"

namespace pe::training {

/// Loss of the first windows of `length` tokens (0: the model's) of the validation split. Ranks share
/// the micro-batches, and all get the loss of all windows. Nothing where there is no window.
std::optional<ValidationRow> validate(const model::LanguageModel& model, const data::TokenDataset& dataset,
                                      std::int64_t windows, std::int64_t micro_batch,
                                      Documents documents = Documents::kJoined, Communicator* communicator = nullptr,
                                      std::int64_t length = 0);

/// NaN for no bytes.
double bits_per_byte(double nats, std::int64_t bytes);

}  // namespace pe::training
