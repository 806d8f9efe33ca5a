#include "evaluation/model_identity.h"

#include "artifact/artifact_check.h"
#include "encodings/registry.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::evaluation {

ModelIdentity identify(const artifact::CheckpointReader& checkpoint, const artifact::Input& input,
                       model::WeightsOf weights, const Json& laid_over) {
  const artifact::CheckpointMeta& meta = checkpoint.meta();
  const model::StoredWeights stored = model::find_weights(checkpoint, weights);
  const bool others = weights != model::WeightsOf::kModel;
  ModelIdentity identity;
  identity.digest = input.digest.empty() ? artifact::artifact_content_digest(input.path) : input.digest;
  const Json& used = laid_over.is_null() ? meta.encoding : laid_over;
  const std::string encoding = encodings::encoding_name(used);
  std::string run_id = identity.digest.substr(0, 12) + (others ? support::cat("-", model::weights_name(weights)) : "");
  if (!laid_over.is_null()) {
    run_id += support::cat("-", encoding, "-", support::canonical_hash("pe/laid-over/1", laid_over).substr(0, 4));
  }
  identity.identity = {run_id, encoding, static_cast<std::int64_t>(model::seed_of(checkpoint)), stored.step};
  identity.facts = {{"run_id", run_id},
                    {"model_digest", identity.digest},
                    {"encoding", used},
                    {"pe", encoding},
                    {"train_length", model::config_of(checkpoint).length},
                    {"step", stored.step},
                    {"tokens_seen", stored.tokens}};
  if (!laid_over.is_null()) identity.facts["trained_encoding"] = meta.encoding;
  if (others) identity.facts["weights"] = model::weights_name(weights);
  return identity;
}

}  // namespace pe::evaluation
