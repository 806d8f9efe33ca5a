/// @file
/// Texts that a language model writes: a view of its knowledge for people.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "artifact/workspace.h"
#include "evaluation/settings.h"
#include "model/checkpoint_io.h"
#include "model/compute.h"
#include "support/config.h"

namespace pe::evaluation {

struct SampleGroup {
  std::vector<std::string> prompts;
  std::int64_t documents = 4;       ///< held-out documents whose beginnings are prompts too
  std::int64_t prompt_tokens = 16;  ///< of each of these
  artifact::Split split = artifact::Split::kTest;
  std::int64_t texts = 1;    ///< for each prompt
  std::int64_t tokens = 64;  ///< at most, of each text
  double temperature = 0.8;  ///< 0: always the likeliest token
  std::int64_t top_k = 50;   ///< 0: all tokens
  std::int64_t context = 0;  ///< tokens that the model sees at most; 0: its training length
  std::int64_t seed = 42;
  model::WeightsOf weights = model::WeightsOf::kModel;
  void describe(support::FieldVisitor& v);
};

struct SampleConfig {
  SampleGroup sample;
  model::ComputeConfig compute;
  void describe(support::FieldVisitor& v);
};

/// One of the `top_k` largest logits (0: of all), drawn from their softmax at `temperature` by a number of [0, 1); at 0
/// the largest. Equal logits rank by their index. @throws ArtifactError when one is not finite.
std::int64_t choose_token(std::span<const float> logits, double temperature, std::int64_t top_k, double uniform);

/// Continuation of a prompt by a model.
struct GeneratedSample {
  std::vector<std::int32_t> ids;
  bool ended = false;  ///< with a separator, which is not among `ids`
  double nll = 0;      ///< sum over the drawn tokens, separator included, in nats, by the model at temperature 1
  std::int64_t drawn = 0;
};

/// `count` texts after `prompt`, by the settings of `group`. Token number t of text i is drawn with a number that
/// depends on `key`, i and t alone. `ends` are ids that end a text.
std::vector<GeneratedSample> write_texts(const model::LanguageModel& model, const std::vector<std::int32_t>& prompt,
                                         std::int64_t count, const SampleGroup& group,
                                         std::span<const std::int64_t> ends, std::uint64_t key);

/// Share of the four-token sequences of a text that occurred in it before; 0 of fewer than five tokens.
double repeated_share(std::span<const std::int32_t> ids);

/// The body of pe-sample: inputs `model` (checkpoint) and `data` (token-shards, for the tokenizer and the documents),
/// output `texts` (eval-table with a table `samples`).
void sample(const SampleConfig& config, artifact::Workspace& workspace);

/// The texts of the output, each with its prompt, for people.
std::string samples_text(const artifact::Workspace& workspace);

}  // namespace pe::evaluation
