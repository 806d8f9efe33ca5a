/// @file
/// Common code of probes: held-out texts of one length, passes over them in batches, and losses under the options of a
/// pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "evaluation/task.h"
#include "model/language_model.h"

namespace pe::evaluation {

using TokenIds = std::vector<std::int32_t>;

/// The model that is probed. @throws Error (bug) where the evaluation has no more than a scorer.
const model::LanguageModel& probed_model(const TaskContext& context);

/// Lengths that can be probed. `missing` gets the others: lengths of too few documents (skipped_docs), and lengths
/// without positions in the model (na_positions).
struct ProbeLengths {
  std::vector<std::int64_t> live;
  std::int64_t longest = 0;  ///< longest length of the documents: texts are chosen by it, the same for every model
};
ProbeLengths probe_lengths(TaskContext& context, const std::vector<std::int64_t>& lengths, std::int64_t sequences,
                           const std::function<void(std::int64_t length, const char* status)>& missing);

/// Beginnings of the first `count` documents (by hash) of at least `longest` tokens, `length` tokens each, of which a
/// separator, where one is given, is the first.
std::vector<TokenIds> probe_texts(const DocumentSource& source, std::int64_t longest, std::int64_t length,
                                  std::int64_t count, std::optional<std::int32_t> separator);

/// Calls `use` for batches of about `batch_tokens` tokens of sequences of one length; ids [B,T] on the model's device.
/// @throws Stopped when a stop was requested.
void in_batches(const model::LanguageModel& model, const std::vector<TokenIds>& sequences, std::int64_t batch_tokens,
                const std::function<void(std::int64_t first, const at::Tensor& ids)>& use);

/// Whether the encoding sets the positions itself, so that a pass with other positions changes nothing: it draws them,
/// or counts them in segments. @param training in training; else in an evaluation
bool sets_positions(const model::LanguageModel& model, bool training = false);

/// A forward pass without gradients that calls `hooks`.
void forward_with_hooks(const model::LanguageModel& model, const at::Tensor& ids, std::int64_t first,
                        const model::Hooks& hooks);

/// Σ nll of the targets ids[begin .. end) of each sequence, nats, each predicted from all ids before it; 1 <= begin.
std::vector<double> summed_losses(const model::LanguageModel& model, const std::vector<TokenIds>& sequences,
                                  std::int64_t begin, std::int64_t end, std::int64_t batch_tokens,
                                  const model::ForwardOptions& options = {});

}  // namespace pe::evaluation
