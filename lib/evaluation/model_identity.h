/// @file
/// Model to which the rows of a table belong: the identity in front of each row, and the facts stored with the tables.
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
               ///< last ones, trained_encoding where another one is laid over them
};

/// Other weights of a checkpoint are another run: "<12 digits>-best". So is another encoding over them, `laid_over`
/// unless null:
/// "<12 digits>-yarn-3f2a", with digits of a digest of its options.
ModelIdentity identify(const artifact::CheckpointReader& checkpoint, const artifact::Input& input,
                       model::WeightsOf weights = model::WeightsOf::kModel, const Json& laid_over = nullptr);

}  // namespace pe::evaluation
