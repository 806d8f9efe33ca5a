#include "report/results/power.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "report/results/arms.h"
#include "report/results/comparison.h"
#include "report/results/rows.h"
#include "schema/language_modelling.h"
#include "schema/structured_rows.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

using Compared = std::function<std::optional<statistics::TwoLevel>(const Arm&, const Arm&)>;

/// The arm that others of a variant are compared with: the baseline, or the first one where it was not measured.
const Arm* base_of(const Results& results, const std::string& variant, const Compared& compared) {
  const Arm* first = nullptr;
  for (const Arm& arm : results.arms) {
    if (arm.variant != variant || (first && arm.encoding != results.baseline)) continue;
    const auto own = compared(arm, arm);
    if (!own || !std::isfinite(own->estimate)) continue;
    if (arm.encoding == results.baseline) return &arm;
    first = &arm;
  }
  return first;
}

std::string in_variant(const Results& results, const std::string& measure, const std::string& variant) {
  return has_variants(results) && !variant.empty() ? cat(measure, ", ", variant) : measure;
}

/// Results of an arm in each seed, by item.
using Answers = std::map<std::string, std::map<std::string, double>>;

/// The mean difference of two arms over the seeds and items that both have.
std::optional<statistics::TwoLevel> difference_of(const Answers& a, const Answers& b) {
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
  return statistics::two_level(differences);
}

/// Medians over differences; nothing where none could be taken or nothing varied.
std::optional<ObservedNoise> noise_over(const std::vector<std::optional<statistics::TwoLevel>>& differences,
                                        ObservedNoise observed) {
  std::vector<double> of_seeds, of_items;
  // One arm with a seed or two says nothing about the noise of the others.
  const bool known = std::any_of(differences.begin(), differences.end(),
                                 [](const auto& difference) { return difference && difference->knows_seeds(); });
  for (const std::optional<statistics::TwoLevel>& difference : differences) {
    if (!difference || !std::isfinite(difference->estimate)) continue;
    if (known && !difference->knows_seeds()) continue;
    observed.seeds = of_items.empty() ? difference->seeds : std::min(observed.seeds, difference->seeds);
    observed.items = of_items.empty() ? difference->items : std::min(observed.items, difference->items);
    if (difference->knows_seeds())
      of_seeds.push_back(std::sqrt(difference->seed_variance * static_cast<double>(difference->seeds)));
    of_items.push_back(std::isfinite(difference->item_variance)
                           ? std::sqrt(difference->item_variance * static_cast<double>(difference->items))
                           : 0);
  }
  if (of_items.empty()) return std::nullopt;
  observed.noise = {observed.seeds >= statistics::kSeedsForNoise ? statistics::median_of(of_seeds) : NAN,
                    statistics::median_of(of_items)};
  if (observed.noise.seed == 0 && observed.noise.item == 0) return std::nullopt;
  return observed;
}

using Noises = std::vector<ObservedNoise>;

void add_noise(Noises& all, ObservedNoise observed,
               const std::vector<std::optional<statistics::TwoLevel>>& differences) {
  if (auto noise = noise_over(differences, std::move(observed))) all.push_back(*std::move(noise));
}

/// Losses of documents: seed → document → nats and tokens.
using DocumentSums = std::map<std::string, std::map<std::int64_t, std::pair<double, double>>>;

/// The difference of two losses per token, over the seeds and documents that both have.
std::optional<statistics::TwoLevel> difference_of_losses(const DocumentSums& a, const DocumentSums& b) {
  std::set<std::int64_t> common;
  std::vector<std::string> seeds;
  for (const auto& [seed, documents] : a) {
    const auto other = b.find(seed);
    if (other == b.end()) continue;
    std::set<std::int64_t> both;
    for (const auto& [id, sums] : documents) {
      if (other->second.count(id) != 0 && (seeds.empty() || common.count(id) != 0)) both.insert(id);
    }
    common = std::move(both);
    seeds.push_back(seed);
  }
  if (common.empty()) return std::nullopt;
  std::vector<statistics::SeedItems> of_a, of_b;
  for (const std::string& seed : seeds) {
    for (const auto& [from, to] : {std::pair(&a, &of_a), std::pair(&b, &of_b)}) {
      statistics::SeedItems& items = to->emplace_back();
      for (const std::int64_t id : common) {
        items.y.push_back(from->at(seed).at(id).first);
        items.x.push_back(from->at(seed).at(id).second);
      }
    }
  }
  return statistics::two_level_difference(of_a, of_b);
}

/// Rules of extension compared with the plain model, over its seeds: losses of documents of the test.
void add_extensions(const Results& results, Noises& all) {
  if (!has_table<schema::ExtensionDocument>(results)) return;
  std::vector<std::size_t> arm_of_run;
  for (std::size_t run = 0; run < results.runs.size(); ++run) arm_of_run.push_back(arm_of(results, run));
  const std::set<std::string> unjudged = unjudged_texts<schema::ExtensionDocument>(results);
  std::map<std::int64_t, std::map<std::string, std::map<std::size_t, DocumentSums>>> losses;  // length, rule and arm
  each_row<schema::ExtensionDocument>(results, [&](std::size_t run, const schema::ExtensionDocument& row) {
    if (arm_of_run[run] >= results.arms.size() || unjudged.count(row.corpus) != 0 || row.tokens_scored <= 0) return;
    auto& [nll, tokens] = losses[row.length][row.variant][arm_of_run[run]][results.runs[run].seed][row.doc_id];
    nll += row.nll_sum;
    tokens += static_cast<double>(row.tokens_scored);
  });
  for (const auto& [length, rules] : losses) {
    const auto plain = rules.find("plain");
    if (plain == rules.end()) continue;
    std::map<std::string, std::vector<std::optional<statistics::TwoLevel>>> differences;  // by variant
    for (const auto& [rule, arms] : rules) {
      if (rule == "plain") continue;
      for (const auto& [arm, sums] : arms) {
        if (const auto own = plain->second.find(arm); own != plain->second.end())
          differences[results.arms[arm].variant].push_back(difference_of_losses(sums, own->second));
      }
    }
    for (const auto& [variant, own] : differences)
      add_noise(all, {.measure = in_variant(results, "NLL, extended against plain", variant), .length = length}, own);
  }
}

/// Losses on structured rows after the last epoch; a training is one item.
void add_structured_rows(const Results& results, Noises& all) {
  using Network = std::tuple<std::string, std::string, std::int64_t>;  // mode, network, depth
  std::map<Network, std::int64_t> last;
  each_row<schema::DummyGrid>(results, [&](std::size_t, const schema::DummyGrid& row) {
    std::int64_t& epochs = last[{row.mode, row.network, row.depth}];
    epochs = std::max(epochs, row.epochs);
  });
  std::map<Network, std::map<std::string, Answers>> losses;  // by encoding
  each_row<schema::DummyGrid>(results, [&](std::size_t run, const schema::DummyGrid& row) {
    const Network network{row.mode, row.network, row.depth};
    if (row.epochs == last[network] && std::isfinite(row.loss_headline))
      losses[network][results.runs[run].encoding][row.seed ? cat(*row.seed) : ""][""] = row.loss_headline;
  });
  for (const auto& [network, encodings] : losses) {
    const auto base = encodings.count(results.baseline) != 0 ? encodings.find(results.baseline) : encodings.begin();
    std::vector<std::optional<statistics::TwoLevel>> differences;
    for (const auto& [encoding, answers] : encodings) {
      if (encoding != base->first) differences.push_back(difference_of(answers, base->second));
    }
    const auto& [mode, name, depth] = network;
    add_noise(all,
              {.measure = cat("loss, rows in mode ", mode, ", ", name, ", ", depth, depth == 1 ? " layer" : " layers")},
              differences);
  }
}

}  // namespace

std::vector<ObservedNoise> observed_noise(const Results& results) {
  Noises all;
  const auto add = [&](ObservedNoise observed, const Compared& compared) {
    const std::string measure = observed.measure;
    for (const std::string& variant : results.variants) {
      const Arm* base = base_of(results, variant, compared);
      if (!base) continue;
      std::vector<std::optional<statistics::TwoLevel>> differences;
      for (const Arm& arm : results.arms) {
        if (arm.variant == variant && &arm != base) differences.push_back(compared(arm, *base));
      }
      observed.measure = in_variant(results, measure, variant);
      add_noise(all, observed, differences);
    }
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
  add_extensions(results, all);
  add_structured_rows(results, all);
  // A measure of one variant in all lengths, then of the next.
  std::map<std::string, std::size_t> first;
  for (const ObservedNoise& one : all) first.try_emplace(one.measure, first.size());
  std::stable_sort(all.begin(), all.end(), [&](const ObservedNoise& a, const ObservedNoise& b) {
    return first.at(a.measure) < first.at(b.measure);
  });
  return all;
}

}  // namespace pe::report
