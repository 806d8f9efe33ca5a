#include "evaluation/language_modelling/length_numbers.h"

#include <algorithm>
#include <cmath>

#include "support/hash.h"
#include "support/missing.h"
#include "support/random.h"

namespace pe::evaluation {

namespace {

using support::kMissing;
constexpr double kBlowup = 0.1;  // nats

/// Adds to counts[i] how often resample `b` drew document i. Resamples depend on the number of documents and `b` alone,
/// so every model that is asked about as many documents draws the same ones, and differences between models are paired.
void add_resample(std::uint64_t b, std::vector<std::uint16_t>& counts) {
  static const std::uint64_t purpose = support::fnv1a64("bootstrap");
  support::Xoshiro random(support::make_key({20260101, purpose, counts.size(), b}));
  for (std::size_t draw = 0; draw < counts.size(); ++draw) ++counts[random.below(counts.size())];
}

std::size_t place(const std::vector<std::int64_t>& lengths, std::int64_t length) {
  return static_cast<std::size_t>(std::find(lengths.begin(), lengths.end(), length) - lengths.begin());
}

/// Mean loss of the bins within [from, to); NaN when two bins of it or more are missing.
double mean_between(const std::vector<std::int64_t>& begins, const std::vector<double>& losses, std::int64_t from,
                    std::int64_t to, std::int64_t width) {
  double sum = 0;
  std::int64_t bins = 0;
  for (std::size_t at = 0; at < begins.size(); ++at) {
    if (begins[at] < from || begins[at] + width > to) continue;
    sum += losses[at];
    ++bins;
  }
  return bins > 0 && bins * width > to - from - 2 * width ? sum / static_cast<double>(bins) : kMissing;
}

/// Linear between order statistics.
double percentile(const std::vector<double>& sorted, double share) {
  const double rank = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = rank - static_cast<double>(below);
  if (part == 0 || sorted[below] == sorted[above]) return sorted[below];
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

}  // namespace

std::vector<double> mean_losses(const LengthCurve& curve, const std::uint16_t* counts) {
  std::vector<double> means;
  for (std::size_t at = 0; at < curve.lengths.size(); ++at) {
    double nll = 0, tokens = 0;
    for (std::size_t d = 0; d < curve.nll[at].size(); ++d) {
      const double times = counts == nullptr ? 1 : counts[d];
      if (times == 0) continue;  // 0 · ∞ is no number
      nll += times * curve.nll[at][d];
      tokens += times * curve.tokens[at][d];
    }
    means.push_back(tokens > 0 ? nll / tokens : kMissing);
  }
  return means;
}

double usable_context(const std::vector<std::int64_t>& lengths, const std::vector<double>& losses,
                      std::int64_t train_length, double tolerance) {
  const std::size_t base = place(lengths, train_length);
  if (base == lengths.size() || !std::isfinite(losses[base])) return kMissing;
  double usable = kMissing;
  for (std::size_t at = base; at < lengths.size(); ++at) {
    if (!(std::exp(losses[at] - losses[base]) <= 1 + tolerance)) break;
    usable = static_cast<double>(lengths[at]);
  }
  return usable;
}

double effective_context(const std::vector<std::int64_t>& lengths, const std::vector<double>& losses, double margin) {
  double best = std::numeric_limits<double>::infinity();
  for (const double loss : losses) {
    if (loss < best) best = loss;
  }
  for (std::size_t at = 0; at < lengths.size(); ++at) {
    if (losses[at] <= best + margin) return static_cast<double>(lengths[at]);
  }
  return kMissing;
}

double degradation(const std::vector<std::int64_t>& lengths, const std::vector<double>& losses,
                   std::int64_t train_length) {
  const std::size_t base = place(lengths, train_length);
  if (base + 1 >= lengths.size()) return kMissing;
  double sum = 0;
  for (std::size_t at = base + 1; at < lengths.size(); ++at) {
    sum += std::isnan(losses[at]) ? kMissing : std::max(0.0, losses[at] - losses[base]);
  }
  return sum / static_cast<double>(lengths.size() - base - 1);
}

double perplexity_ratio(const std::vector<std::int64_t>& lengths, const std::vector<double>& losses,
                        std::int64_t train_length, std::size_t at) {
  const std::size_t base = place(lengths, train_length);
  return base == lengths.size() ? kMissing : std::exp(losses[at] - losses[base]);
}

std::vector<WithInterval> with_intervals(const LengthCurve& curve, const std::vector<LengthNumber>& numbers,
                                         int resamples) {
  std::vector<WithInterval> results(numbers.size());
  const std::vector<double> whole = mean_losses(curve);
  for (std::size_t i = 0; i < numbers.size(); ++i) results[i].value = numbers[i](curve.lengths, whole);
  const std::size_t documents = curve.nll.empty() ? 0 : curve.nll[0].size();
  if (documents < 2) return results;
  std::vector<std::vector<double>> drawn(numbers.size());
  std::vector<std::uint16_t> counts(documents);
  for (int b = 0; b < resamples; ++b) {
    std::fill(counts.begin(), counts.end(), std::uint16_t{0});
    add_resample(static_cast<std::uint64_t>(b), counts);
    const std::vector<double> means = mean_losses(curve, counts.data());
    for (std::size_t i = 0; i < numbers.size(); ++i) drawn[i].push_back(numbers[i](curve.lengths, means));
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (std::any_of(drawn[i].begin(), drawn[i].end(), [](double value) { return std::isnan(value); })) continue;
    std::sort(drawn[i].begin(), drawn[i].end());
    results[i].low = percentile(drawn[i], 0.025);
    results[i].high = percentile(drawn[i], 0.975);
  }
  return results;
}

std::int64_t blowup_bin(std::int64_t train_length) { return std::max<std::int64_t>(1, train_length / 4); }

double blowup_position(const std::vector<std::int64_t>& begins, const std::vector<double>& losses,
                       std::int64_t train_length) {
  const double reference = mean_between(begins, losses, train_length / 2, train_length, blowup_bin(train_length));
  if (std::isnan(reference) || begins.back() < train_length) return kMissing;
  double position = std::numeric_limits<double>::infinity();
  for (std::size_t at = begins.size(); at-- > 0 && begins[at] >= train_length;) {
    if (losses[at] <= reference + kBlowup) break;
    position = static_cast<double>(begins[at]);
  }
  return position;
}

double gain_at_four(const std::vector<std::int64_t>& begins, const std::vector<double>& losses,
                    std::int64_t train_length) {
  const std::int64_t width = blowup_bin(train_length);
  return mean_between(begins, losses, train_length / 2, train_length, width) -
         mean_between(begins, losses, 2 * train_length, 4 * train_length, width);
}

}  // namespace pe::evaluation
