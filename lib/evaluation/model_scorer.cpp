#include "evaluation/model_scorer.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cassert>

#include "encodings/attention/positional_encoding.h"

namespace pe::evaluation {

namespace {

/// Positions whose logits exist at a time: T x V never does.
constexpr std::int64_t kLogitRows = 1024;

/// For a model that sees all tokens of a sequence. A label of the last token is in no input.
void require_unseen_targets(const Sequence& sequence) {
  const auto next = sequence.ids.begin() + 1;
  if (!sequence.labels.empty() &&
      (sequence.labels.back() >= 0 || !std::equal(next, sequence.ids.end(), sequence.labels.begin(),
                                                  [](auto id, auto label) { return label < 0 || id == label; })))
    return;
  throw support::ConfigError(
      "this model sees the tokens that it is to predict (model.mask: bidirectional): it gives no likelihoods", {},
      "train it on a task of pe-generate whose answers are not in its input, such as {kind: bucket_sort, mode: "
      "parallel}");
}

class ModelScorer final : public Scorer {
 public:
  ModelScorer(model::LanguageModel model, std::int64_t batch_tokens)
      : model_(std::move(model)), capabilities_(capabilities_of(model_)), batch_tokens_(batch_tokens) {}

  const Capabilities& capabilities() const override { return capabilities_; }
  std::int64_t batch_tokens() const override { return batch_tokens_; }

  std::vector<Score> score(const std::vector<const Sequence*>& batch, std::int64_t draw,
                           std::int64_t first_sample) override {
    const c10::InferenceMode inference;
    if (batch.empty()) return {};
    const auto rows = static_cast<std::int64_t>(batch.size());
    const auto length = static_cast<std::int64_t>(batch[0]->ids.size());
    at::Tensor ids = at::empty({rows, length}, at::kLong);
    std::vector<std::int64_t> where, targets;  // rows of the hidden states, and the tokens after them
    std::vector<std::size_t> counts;           // of targets up to and with each sequence
    auto* id = ids.data_ptr<std::int64_t>();
    for (std::int64_t row = 0; row < rows; ++row) {
      const Sequence& sequence = *batch[static_cast<std::size_t>(row)];
      assert(static_cast<std::int64_t>(sequence.ids.size()) == length);
      assert(sequence.first >= 1 && sequence.first <= sequence.last && sequence.last <= length);
      id = std::copy(sequence.ids.begin(), sequence.ids.end(), id);
      if (model_.config().mask != model::Mask::kCausal) require_unseen_targets(sequence);
      for (const auto& [at, target] : targets_of(sequence)) {
        where.push_back(row * length + at);
        targets.push_back(target);
      }
      counts.push_back(targets.size());
    }
    const at::Device device = model_.device();
    model::ForwardOptions options;
    options.step = draw;
    options.first_sample = first_sample;
    const at::Tensor hidden = model_.forward(ids.to(device), options);
    const at::Tensor flat = hidden.reshape({rows * length, hidden.size(-1)});

    std::vector<std::int64_t> confined;  // ids that some sequence's guesses are confined to; the same for all that ask
    for (const Sequence* sequence : batch) {
      if (!sequence->among.empty()) confined.assign(sequence->among.begin(), sequence->among.end());
    }
    TargetScores of;
    of.nll.resize(targets.size());
    of.correct.resize(targets.size());
    of.among.resize(confined.empty() ? 0 : targets.size());
    of.among_share.resize(of.among.size());
    const bool guesses = std::any_of(batch.begin(), batch.end(), [](const Sequence* one) { return one->guesses; });
    const auto count = static_cast<std::int64_t>(targets.size());
    for (std::int64_t begin = 0; begin < count; begin += kLogitRows) {
      const std::int64_t n = std::min(kLogitRows, count - begin);
      const at::Tensor chosen = flat.index_select(0, from_vector(where, begin, n).to(device));
      score_targets(chosen, from_vector(targets, begin, n).to(device), confined, guesses, begin, of);
    }
    return split_scores(batch, counts, of);
  }

 private:
  /// Of each target of a batch; `among` and `among_share` only where guesses are confined.
  struct TargetScores {
    std::vector<float> nll, among_share;
    std::vector<std::uint8_t> correct, among;
  };

  /// Scores of the targets from `begin` on. @param chosen the hidden states before them, [n, width]
  void score_targets(const at::Tensor& chosen, const at::Tensor& wanted, const std::vector<std::int64_t>& confined,
                     bool guesses, std::int64_t begin, TargetScores& out) const {
    const std::int64_t n = wanted.numel();
    const at::Device device = model_.device();
    if (!guesses && confined.empty()) {
      const at::Tensor losses = model_.losses(chosen, wanted).to(at::kFloat).to(at::kCPU).contiguous();
      std::copy_n(losses.data_ptr<float>(), n, out.nll.begin() + begin);
      return;
    }
    const at::Tensor logits = model_.logits(chosen);
    const at::Tensor losses =
        (logits.logsumexp(-1) - logits.gather(-1, wanted.unsqueeze(-1)).squeeze(-1)).to(at::kCPU).contiguous();
    const at::Tensor right = logits.argmax(-1).eq(wanted).to(at::kCPU).contiguous();
    std::copy_n(losses.data_ptr<float>(), n, out.nll.begin() + begin);
    std::copy_n(right.data_ptr<bool>(), n, out.correct.begin() + begin);
    if (!confined.empty()) {
      const at::Tensor ids_among = from_vector(confined, 0, static_cast<std::int64_t>(confined.size())).to(device);
      const at::Tensor theirs = logits.index_select(-1, ids_among);
      const at::Tensor best = ids_among.index_select(0, theirs.argmax(-1));
      const at::Tensor share = (logits.gather(-1, wanted.unsqueeze(-1)).squeeze(-1) - theirs.logsumexp(-1))
                                   .exp()
                                   .to(at::kFloat)
                                   .to(at::kCPU)
                                   .contiguous();
      std::copy_n(share.data_ptr<float>(), n, out.among_share.begin() + begin);
      const at::Tensor chosen_right = best.eq(wanted).to(at::kCPU).contiguous();
      std::copy_n(chosen_right.data_ptr<bool>(), n, out.among.begin() + begin);
    }
  }

  static std::vector<Score> split_scores(const std::vector<const Sequence*>& batch,
                                         const std::vector<std::size_t>& counts, const TargetScores& of) {
    std::vector<Score> scores(batch.size());
    std::size_t at = 0;
    for (std::size_t row = 0; row < batch.size(); ++row) {
      const std::size_t n = counts[row] - at;
      scores[row].nll.assign(of.nll.begin() + static_cast<std::ptrdiff_t>(at),
                             of.nll.begin() + static_cast<std::ptrdiff_t>(at + n));
      if (batch[row]->guesses) {
        scores[row].correct.assign(of.correct.begin() + static_cast<std::ptrdiff_t>(at),
                                   of.correct.begin() + static_cast<std::ptrdiff_t>(at + n));
      }
      if (!batch[row]->among.empty()) {
        scores[row].among_share.assign(of.among_share.begin() + static_cast<std::ptrdiff_t>(at),
                                       of.among_share.begin() + static_cast<std::ptrdiff_t>(at + n));
        scores[row].among.assign(of.among.begin() + static_cast<std::ptrdiff_t>(at),
                                 of.among.begin() + static_cast<std::ptrdiff_t>(at + n));
      }
      at += n;
    }
    return scores;
  }

  static at::Tensor from_vector(const std::vector<std::int64_t>& values, std::int64_t begin, std::int64_t n) {
    at::Tensor tensor = at::empty({n}, at::kLong);
    std::copy_n(values.begin() + begin, n, tensor.data_ptr<std::int64_t>());
    return tensor;
  }

  model::LanguageModel model_;
  Capabilities capabilities_;
  std::int64_t batch_tokens_;
};

}  // namespace

Capabilities capabilities_of(const model::LanguageModel& model) {
  const encodings::Facts facts = model.encoding().facts();
  return {.vocabulary = model.config().vocabulary,
          .train_length = model.config().length,
          .max_positions = facts.max_positions,
          .length_dependent = facts.length_dependent,
          .content_dependent = facts.content_dependent,
          .stochastic = facts.stochastic};
}

std::unique_ptr<Scorer> make_model_scorer(model::LanguageModel model, std::int64_t batch_tokens) {
  const model::ModelConfig& config = model.config();
  if (config.attend_over_batch) {
    throw support::ConfigError(
        "this model attends over its batch (model.attend_over_batch), so its result for a text depends on the other "
        "texts of the batch",
        {}, "pe-dummy measures such models, on separate batches");
  }
  return std::make_unique<ModelScorer>(std::move(model), batch_tokens);
}

}  // namespace pe::evaluation
