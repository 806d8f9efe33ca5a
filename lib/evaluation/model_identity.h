/// @file
/// Whose rows a table holds: the identity in front of each row, and the facts beside the tables.
#pragma once

#include <string>

#include "artifact/checkpoint.h"
#include "artifact/workspace.h"
#include "model/checkpoint_io.h"
#include "schema/row.h"

namespace pe::evaluation {

struct ModelIdentity {
  std::string digest;  ///< content digest of the checkpoint
  schema::Identity identity;
  Json facts;  ///< run_id, model_digest, encoding, pe, train_length, step, tokens_seen; weights where these are not the
               ///< last ones
};

/// Other weights of a checkpoint are another run: "<12 digits>-best".
ModelIdentity identify(const artifact::CheckpointReader& checkpoint, const artifact::Input& input,
                       model::WeightsOf weights = model::WeightsOf::kModel);

}  // namespace pe::evaluation
