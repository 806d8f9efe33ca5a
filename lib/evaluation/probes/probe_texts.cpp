#include "evaluation/probes/probe_texts.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <stdexcept>

#include "evaluation/skipped_contexts.h"

namespace pe::evaluation {

const model::LanguageModel& probed_model(const TaskContext& context) {
  if (context.model == nullptr) throw std::logic_error("a probe needs the model itself, and there is only a scorer");
  return *context.model;
}

ProbeLengths probe_lengths(TaskContext& context, const std::vector<std::int64_t>& lengths, std::int64_t sequences,
                           const std::function<void(std::int64_t length, const char* status)>& missing) {
  const std::int64_t least = std::min(context.settings.min_documents, sequences);
  const auto& limit = context.scorer.capabilities().max_positions;
  ProbeLengths found;
  SkippedContexts skipped;
  for (const std::int64_t length : lengths) {
    const std::int64_t there = count_documents(context.documents, length);
    if (there < least) {
      skipped.held[length] = there;
      missing(length, status::kSkipped);
      continue;
    }
    found.longest = std::max(found.longest, length);
    if (limit && length > *limit)
      missing(length, status::kPositions);
    else
      found.live.push_back(length);
  }
  warn_of_skipped(context, "probes", {skipped}, least);
  return found;
}

std::vector<TokenIds> probe_texts(const DocumentSource& source, std::int64_t longest, std::int64_t length,
                                  std::int64_t count, std::optional<std::int32_t> separator) {
  std::vector<TokenIds> texts;
  for (const std::int64_t id : select_documents(source, longest, count)) {
    TokenIds ids;
    if (separator) ids.push_back(*separator);
    const std::int64_t own = length - static_cast<std::int64_t>(ids.size());
    const Document document = source.read(id, own);
    ids.insert(ids.end(), document.ids.begin(), document.ids.begin() + own);
    texts.push_back(std::move(ids));
  }
  return texts;
}

void in_batches(const model::LanguageModel& model, const std::vector<TokenIds>& sequences, std::int64_t batch_tokens,
                const std::function<void(std::int64_t first, const at::Tensor& ids)>& use) {
  if (sequences.empty()) return;
  const auto length = static_cast<std::int64_t>(sequences.front().size());
  const std::int64_t rows = std::max<std::int64_t>(1, batch_tokens / std::max<std::int64_t>(1, length));
  const auto count = static_cast<std::int64_t>(sequences.size());
  for (std::int64_t first = 0; first < count; first += rows) {
    if (support::stop_requested()) throw support::StopRequest(/*resumable=*/true);
    const std::int64_t batch = std::min(rows, count - first);
    at::Tensor ids = at::empty({batch, length}, at::kLong);
    auto* to = ids.data_ptr<std::int64_t>();
    for (std::int64_t row = first; row < first + batch; ++row) {
      const TokenIds& sequence = sequences[static_cast<std::size_t>(row)];
      if (static_cast<std::int64_t>(sequence.size()) != length)
        throw std::logic_error("a batch holds sequences of one length");
      to = std::copy(sequence.begin(), sequence.end(), to);
    }
    use(first, ids.to(model.device()));
  }
}

bool sets_positions(const model::LanguageModel& model, bool training) {
  encodings::Span span = encodings::Span::whole(1, 2);
  span.training = training;
  return model.encoding().traits(span).maps_positions;
}

void forward_with_hooks(const model::LanguageModel& model, const at::Tensor& ids, std::int64_t first,
                        const model::Hooks& hooks) {
  const c10::InferenceMode inference;
  model::ForwardOptions options;
  options.first_sample = first;
  options.hooks = &hooks;
  model.forward(ids, options);
}

std::vector<double> summed_losses(const model::LanguageModel& model, const std::vector<TokenIds>& sequences,
                                  std::int64_t begin, std::int64_t end, std::int64_t batch_tokens,
                                  const model::ForwardOptions& options) {
  std::vector<double> sums;
  in_batches(model, sequences, batch_tokens, [&](std::int64_t first, const at::Tensor& ids) {
    const c10::InferenceMode inference;
    model::ForwardOptions own = options;
    own.first_sample = first;
    const at::Tensor hidden = model.forward(ids, own).narrow(1, begin - 1, end - begin);
    const at::Tensor targets = ids.narrow(1, begin, end - begin);
    const at::Tensor losses = model.losses(hidden.reshape({-1, hidden.size(-1)}), targets.reshape({-1}))
                                  .view({ids.size(0), end - begin})
                                  .to(at::kDouble)
                                  .sum(1)
                                  .to(at::kCPU)
                                  .contiguous();
    sums.insert(sums.end(), losses.const_data_ptr<double>(), losses.const_data_ptr<double>() + losses.numel());
  });
  return sums;
}

}  // namespace pe::evaluation
