#include "report/power.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "report/comparison.h"
#include "report/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n == 0 ? NAN : n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// Every encoding beside the baseline of its variant.
std::vector<std::pair<const Arm*, const Arm*>> pairs_of(const Results& results) {
  std::vector<std::pair<const Arm*, const Arm*>> pairs;
  for (const Arm& arm : results.arms) {
    for (const Arm& base : results.arms) {
      if (base.encoding == results.baseline && base.variant == arm.variant && &base != &arm) pairs.emplace_back(&arm, &base);
    }
  }
  return pairs;
}

/// Results of an arm in each seed, by item.
using Answers = std::map<std::string, std::map<std::string, double>>;

/// The mean difference of two arms over the seeds and items that both have.
std::optional<TwoLevel> difference_of(const Answers& a, const Answers& b) {
  std::vector<std::vector<double>> differences;
  std::set<std::string> items;
  bool first = true;
  for (const auto& [seed, mine] : a) {
    const auto other = b.find(seed);
    if (other == b.end()) continue;
    std::set<std::string> both;
    for (const auto& [item, value] : mine) {
      if (other->second.count(item) != 0 && (first || items.count(item) != 0)) both.insert(item);
    }
    items = std::move(both);
    first = false;
  }
  if (items.empty()) return std::nullopt;
  for (const auto& [seed, mine] : a) {
    const auto other = b.find(seed);
    if (other == b.end()) continue;
    differences.emplace_back();
    for (const std::string& item : items) differences.back().push_back(mine.at(item) - other->second.at(item));
  }
  return two_level(differences);
}

/// Medians over the pairs; nothing where none can be compared or nothing varied.
std::optional<ObservedNoise> noise_over(const std::vector<std::pair<const Arm*, const Arm*>>& pairs, ObservedNoise observed,
                                        const std::function<std::optional<TwoLevel>(const Arm&, const Arm&)>& compared) {
  std::vector<double> of_seeds, of_items;
  for (const auto& [arm, base] : pairs) {
    const auto difference = compared(*arm, *base);
    if (!difference || !std::isfinite(difference->estimate)) continue;
    observed.seeds = of_items.empty() ? difference->seeds : std::min(observed.seeds, difference->seeds);
    observed.items = of_items.empty() ? difference->items : std::min(observed.items, difference->items);
    if (difference->knows_seeds())
      of_seeds.push_back(std::sqrt(difference->seed_variance * static_cast<double>(difference->seeds)));
    of_items.push_back(std::isfinite(difference->item_variance)
                           ? std::sqrt(difference->item_variance * static_cast<double>(difference->items))
                           : 0);
  }
  if (of_items.empty()) return std::nullopt;
  observed.noise = {observed.seeds >= kSeedsForNoise ? median(of_seeds) : NAN, median(of_items)};
  if (observed.noise.seed == 0 && observed.noise.item == 0) return std::nullopt;
  return observed;
}

}  // namespace

std::vector<ObservedNoise> observed_noise(const Results& results) {
  std::vector<ObservedNoise> all;
  const auto pairs = pairs_of(results);
  const auto add = [&](ObservedNoise observed, const std::function<std::optional<TwoLevel>(const Arm&, const Arm&)>& compared) {
    if (auto noise = noise_over(pairs, std::move(observed), compared)) all.push_back(*std::move(noise));
  };
  if (!results.lm.empty()) {
    const std::string protocol = headline_protocol(results);
    for (const std::int64_t length : lengths_of(results, protocol)) {
      add({.measure = cat("NLL, ", protocol), .length = length}, [&](const Arm& arm, const Arm& base) {
        return compare(arm_score(results, arm, protocol, length), arm_score(results, base, protocol, length));
      });
    }
  }
  std::set<std::pair<std::string, std::int64_t>> retrieval, tasks;
  for (const Trial& trial : results.trials) retrieval.emplace(trial.task, trial.length);
  for (const auto& [task, length] : retrieval) {
    const auto answers = [&, &task = task, &length = length](const Arm& arm) {
      Answers found;
      for (const std::size_t run : arm.runs) {
        for (const Trial* trial : results.find_trials(run, task, length)) {
          found[results.runs[run].seed][cat(trial->item, " ", trial->depth)] = trial->exact;
        }
      }
      return found;
    };
    add({.measure = cat("exact match, ", task), .nats = false, .length = length},
        [&](const Arm& arm, const Arm& base) { return difference_of(answers(arm), answers(base)); });
  }
  for (const TaskCell& cell : results.tasks) tasks.emplace(cell.task, cell.length);
  for (const auto& [task, length] : tasks) {
    const auto answers = [&, &task = task, &length = length](const Arm& arm) {
      Answers found;  // a summary is one item
      for (const std::size_t run : arm.runs) {
        const TaskCell* cell = results.find_task(run, task, length);
        if (cell && cell->status == "ok" && std::isfinite(cell->exact)) found[results.runs[run].seed][""] = cell->exact;
      }
      return found;
    };
    add({.measure = cat("exact match, ", task), .nats = false, .length = length},
        [&](const Arm& arm, const Arm& base) { return difference_of(answers(arm), answers(base)); });
  }
  return all;
}

}  // namespace pe::report
