#include "training/stability.h"

#include <algorithm>
#include <cmath>

namespace pe::training {
namespace {

constexpr std::size_t kWindow = 128;  // steps before one that it is judged by
constexpr std::int64_t kMerge = 16;
constexpr std::size_t kSmooth = 32;
constexpr double kRise = 0.5;  // nats

/// The middle value, or the mean of the two; reorders.
double median(std::vector<double>& values) {
  const std::size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half), values.end());
  const double upper = values[half];
  if (values.size() % 2 == 1) return upper;
  return (upper + *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half))) / 2;
}

/// The smallest value that at least `share` of them do not exceed.
double quantile(std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace

std::vector<Spike> spikes(const std::vector<StepFact>& steps, std::int64_t first_step, std::int64_t warmup) {
  std::vector<Spike> result;
  const std::size_t begin = std::max(kWindow, static_cast<std::size_t>(std::max<std::int64_t>(warmup, 0)));
  std::vector<double> window(kWindow);
  for (std::size_t t = begin; t < steps.size(); ++t) {
    if (!std::isfinite(steps[t].loss)) continue;  // counted elsewhere
    for (std::size_t i = 0; i < kWindow; ++i) {
      const double loss = steps[t - kWindow + i].loss;
      window[i] = std::isfinite(loss) ? loss : 1e300;  // a skipped step counts as above the median, whatever it was
    }
    const double middle = median(window);
    // Most steps are nowhere near: the smallest threshold spares them the deviation.
    if (!(steps[t].loss > middle + 0.1)) continue;
    for (double& value : window) value = std::abs(value - middle);
    if (!(steps[t].loss > middle + std::max(6 * 1.4826 * median(window), 0.1))) continue;
    const std::int64_t step = first_step + static_cast<std::int64_t>(t) + 1;
    if (result.empty() || step - result.back().last > kMerge) result.push_back({step, step, 0});
    result.back().last = step;
    result.back().mass += steps[t].loss - middle;
  }
  return result;
}

Json stability_facts(const std::vector<StepFact>& steps, const std::vector<LogitSample>& logits,
                     std::int64_t first_step, std::int64_t warmup, double clip) {
  Json facts = {{"spikes", 0},
                {"spike_mass", 0.0},
                {"spike_steps", Json::array()},
                {"grad_norm", nullptr},
                {"noise_ratio", nullptr},
                {"clipped_share", nullptr},
                {"largest_logit", nullptr},
                {"loss_rise", nullptr}};
  const auto size = static_cast<std::int64_t>(steps.size());
  facts["steps_judged"] =
      std::max<std::int64_t>(0, size - std::max<std::int64_t>(static_cast<std::int64_t>(kWindow), warmup));
  for (const Spike& spike : spikes(steps, first_step, warmup)) {
    facts["spikes"] = facts["spikes"].get<int>() + 1;
    facts["spike_mass"] = facts["spike_mass"].get<double>() + spike.mass;
    facts["spike_steps"].push_back(spike.first);
  }
  std::vector<double> norms, losses;
  std::int64_t clipped = 0, broken = 0;
  for (const StepFact& step : steps) {
    if (!std::isfinite(step.loss) || !std::isfinite(step.grad_norm)) {
      ++broken;
      continue;
    }
    norms.push_back(step.grad_norm);
    losses.push_back(step.loss);
    clipped += clip > 0 && step.grad_norm > clip;
  }
  facts["nonfinite_steps"] = broken;
  if (!norms.empty()) {
    std::sort(norms.begin(), norms.end());
    const double half = quantile(norms, 0.5), high = quantile(norms, 0.99);
    facts["grad_norm"] = {{"median", half}, {"p99", high}, {"max", norms.back()}};
    if (half > 0) facts["noise_ratio"] = high / half;
    facts["clipped_share"] = static_cast<double>(clipped) / static_cast<double>(norms.size());
  }
  for (const LogitSample& sample : logits) {
    if (!std::isfinite(sample.largest)) continue;
    if (facts["largest_logit"].is_null() || sample.largest > facts["largest_logit"].get<double>()) {
      facts["largest_logit"] = sample.largest;
    }
  }
  bool diverged = !steps.empty() && !std::isfinite(steps.back().loss);
  if (losses.size() >= kSmooth) {
    double least = 0, last = 0;
    for (std::size_t t = kSmooth; t <= losses.size(); ++t) {
      double sum = 0;  // summed again each time, so that no error adds up
      for (std::size_t i = t - kSmooth; i < t; ++i) sum += losses[i];
      last = sum / static_cast<double>(kSmooth);
      if (t == kSmooth || last < least) least = last;
    }
    facts["loss_rise"] = last - least;
    diverged = diverged || last - least > kRise;
  }
  facts["diverged"] = diverged;
  return facts;
}

}  // namespace pe::training
