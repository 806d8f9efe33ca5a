#include "evaluation/scorer.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "support/progress.h"

namespace pe::evaluation {

std::vector<std::pair<std::int64_t, std::int32_t>> targets_of(const Sequence& sequence) {
  std::vector<std::pair<std::int64_t, std::int32_t>> targets;
  if (sequence.labels.empty()) {
    for (std::int64_t at = sequence.first; at < sequence.last; ++at) {
      targets.emplace_back(at - 1, sequence.ids[static_cast<std::size_t>(at)]);
    }
    return targets;
  }
  for (std::size_t at = 0; at < sequence.labels.size(); ++at) {
    if (sequence.labels[at] >= 0) targets.emplace_back(static_cast<std::int64_t>(at), sequence.labels[at]);
  }
  return targets;
}

namespace {

/// Which targets do not count in `exact`; empty: all do.
std::vector<std::uint8_t> passed_over(const Sequence& sequence) {
  std::vector<std::uint8_t> passed;
  if (sequence.unjudged.empty()) return passed;
  for (std::size_t at = 0; at < sequence.labels.size(); ++at) {
    if (sequence.labels[at] >= 0) passed.push_back(sequence.unjudged[at]);
  }
  return passed;
}

}  // namespace

std::vector<MeanScore> score_all(Scorer& scorer, const std::vector<Sequence>& sequences, std::int64_t draws,
                                 std::int64_t first_sample, const ScoringWatch& watch) {
  if (!scorer.capabilities().stochastic) draws = 1;
  assert(draws >= 1);
  std::vector<std::size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sequences[a].ids.size() < sequences[b].ids.size(); });

  double tokens = 0, scored = 0;
  for (const Sequence& sequence : sequences) tokens += static_cast<double>(sequence.ids.size());
  std::vector<MeanScore> results(sequences.size());
  std::vector<const Sequence*> batch;
  std::size_t group = 0;  // where the present length begins in `order`
  for (std::size_t begin = 0; begin < order.size();) {
    // One item of the journal can take minutes, and a preempted job has seconds.
    if (support::stop_requested()) throw support::StopRequest(/*resumable=*/true);
    const std::size_t length = sequences[order[begin]].ids.size();
    if (sequences[order[group]].ids.size() != length) group = begin;
    const std::size_t most =
        std::max<std::size_t>(1, static_cast<std::size_t>(scorer.batch_tokens()) / std::max<std::size_t>(1, length));
    std::size_t end = begin;
    batch.clear();
    while (end < order.size() && end - begin < most && sequences[order[end]].ids.size() == length) {
      batch.push_back(&sequences[order[end++]]);
    }
    for (std::int64_t draw = 0; draw < draws; ++draw) {
      const std::vector<Score> scores =
          scorer.score(batch, draw, first_sample + static_cast<std::int64_t>(begin - group));
      assert(scores.size() == batch.size());
      for (std::size_t i = 0; i < scores.size(); ++i) {
        MeanScore& into = results[order[begin + i]];
        into.nll.resize(scores[i].nll.size());
        into.correct.resize(scores[i].correct.size());
        for (std::size_t j = 0; j < into.nll.size(); ++j) into.nll[j] += scores[i].nll[j];
        into.among.resize(scores[i].among.size());
        for (std::size_t j = 0; j < into.among.size(); ++j) into.among[j] += scores[i].among[j];
        into.among_share.resize(scores[i].among_share.size());
        for (std::size_t j = 0; j < into.among_share.size(); ++j) into.among_share[j] += scores[i].among_share[j];
        bool exact = batch[i]->guesses;
        const std::vector<std::uint8_t> passed = passed_over(*batch[i]);
        for (std::size_t j = 0; j < into.correct.size(); ++j) {
          into.correct[j] += scores[i].correct[j];
          exact = exact && (scores[i].correct[j] != 0 || (!passed.empty() && passed[j] != 0));
        }
        into.exact += exact ? 1 : 0;
      }
    }
    scored += static_cast<double>((end - begin) * length);
    begin = end;
    if (watch) watch(scored / tokens);
  }
  if (draws > 1) {
    const double share = 1.0 / static_cast<double>(draws);
    for (MeanScore& result : results) {
      for (double& value : result.nll) value *= share;
      for (double& value : result.correct) value *= share;
      for (double& value : result.among) value *= share;
      for (double& value : result.among_share) value *= share;
      result.exact *= share;
    }
  }
  return results;
}

}  // namespace pe::evaluation
