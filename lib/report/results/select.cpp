// A sweep over learning rates is one model that was tuned, and no three: the rate is chosen on validation data, which
// no figure of the report is about.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/results/results.h"
#include "support/error.h"
#include "support/missing.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

using support::kMissing;

std::set<std::string> axes_of(const Labels& labels) {
  std::set<std::string> axes;
  for (const auto& [axis, label] : labels) axes.insert(axis);
  return axes;
}

/// Axes that all runs and curves with this axis have besides it, and that say what was trained.
std::set<std::string> shared_axes(const Results& results, const std::string& axis) {
  std::set<std::string> shared;
  bool first = true;
  const auto meet = [&](const Labels& labels) {
    if (labels.count(axis) == 0) return;
    const auto own = axes_of(labels);
    if (first) shared = own;
    std::erase_if(shared, [&](const std::string& other) { return own.count(other) == 0; });
    first = false;
  };
  for (const Run& run : results.runs) meet(run.labels);
  for (const Curve& curve : results.curves) meet(curve.run.labels);
  for (const char* no_model : {"stage", "from", "seed", "encoding", "pe"}) shared.erase(no_model);
  shared.erase(axis);
  return shared;
}

std::string key_of(const Run& run, const std::set<std::string>& shared) {
  std::vector<std::string> parts;
  for (const std::string& axis : shared) parts.push_back(cat(axis, "=", run.labels.at(axis)));
  return support::join(parts, ",");
}

double final_loss(const Curve& curve) {
  if (curve.diverged || curve.validation.empty()) return kMissing;
  return curve.validation.back().loss;
}

/// The last training of each seed (a decay ends later than its trunk).
using Trainings = std::map<std::string, std::map<std::string, const Curve*>>;  // value → seed

void choose(Selection& selection, const Trainings& trainings) {
  std::size_t most = 0;
  for (const auto& [label, seeds] : trainings) most = std::max(most, seeds.size());
  for (const auto& [label, seeds] : trainings) {
    Selection::Candidate candidate{label, {}, 0};
    for (const auto& [seed, curve] : seeds) candidate.losses.push_back(final_loss(*curve));
    const bool whole = seeds.size() == most;
    candidate.mean = whole ? statistics::summarise_seeds(candidate.losses).mean : kMissing;
    selection.candidates.push_back(std::move(candidate));
  }
  std::stable_sort(selection.candidates.begin(), selection.candidates.end(), [](const auto& a, const auto& b) {
    const auto x = support::parse_real(a.label), y = support::parse_real(b.label);
    return x && (!y || *x < *y);  // words after numbers, in their order
  });
  const Selection::Candidate* best = nullptr;
  for (const auto& candidate : selection.candidates) {
    if (std::isfinite(candidate.mean) && (!best || candidate.mean < best->mean)) best = &candidate;
  }
  if (!best) return;
  selection.chosen = best->label;
  // Values that are no numbers have no order.
  const bool ordered = std::all_of(selection.candidates.begin(), selection.candidates.end(),
                                   [](const auto& one) { return support::parse_real(one.label).has_value(); });
  selection.at_edge = ordered && (best == &selection.candidates.front() || best == &selection.candidates.back());
}

/// Removes everything that belongs to runs that were not chosen.
void remove_unselected(Results& results) {
  const auto out = [&](const auto& item) { return !results.runs[item.run].selected; };
  std::erase_if(results.lm, out);
  std::erase_if(results.trials, out);
  std::erase_if(results.retrieval, out);
  std::erase_if(results.tasks, out);
  for (auto table = results.tables.begin(); table != results.tables.end();) {
    std::erase_if(table->second, out);
    table = table->second.empty() ? results.tables.erase(table) : std::next(table);
  }
}

bool is_among(const std::vector<std::string>& seeds, const std::string& seed) {
  return std::find(seeds.begin(), seeds.end(), seed) != seeds.end();
}

/// The trainings of the seeds that choose; all of them where no seeds are named.
Trainings choosing(const Trainings& trainings, const std::vector<std::string>& seeds, const std::string& encoding) {
  if (seeds.empty()) return trainings;
  Trainings chosen;
  for (const auto& [label, by_seed] : trainings) {
    for (const auto& [seed, curve] : by_seed) {
      if (is_among(seeds, seed)) chosen[label][seed] = curve;
    }
  }
  if (chosen.empty()) {
    throw support::ConfigError(cat("'select_seeds' names ", support::join(seeds, ", "), ", and ", encoding,
                                   " has no training with such a seed"),
                               {}, "train each value of 'select' with these seeds");
  }
  return chosen;
}

/// Throws if all trainings have seeds that choose. The others may be without the axis: trained at the chosen value.
void need_compared(const Results& results, const std::vector<std::string>& seeds) {
  if (seeds.empty()) return;
  for (const Curve& curve : results.curves) {
    if (!is_among(seeds, curve.run.seed)) return;
  }
  throw support::ConfigError(
      cat("'select_seeds' names ", support::join(seeds, ", "), ", and no training has another seed to compare"), {},
      "train with further seeds, which are compared");
}

bool select_one(const std::string& axis, const std::vector<std::string>& seeds, Results& results) {
  std::set<std::string> values;
  for (const Curve& curve : results.curves) {
    if (const auto label = curve.run.labels.find(axis); label != curve.run.labels.end()) values.insert(label->second);
  }
  if (values.size() < 2) return false;
  need_compared(results, seeds);
  const std::set<std::string> shared = shared_axes(results, axis);
  std::map<std::pair<std::string, std::string>, Trainings> groups;  // encoding, other labels
  for (const Curve& curve : results.curves) {
    const auto label = curve.run.labels.find(axis);
    if (label == curve.run.labels.end()) continue;
    const Curve*& last = groups[{curve.run.encoding, key_of(curve.run, shared)}][label->second][curve.run.seed];
    const auto end_of = [](const Curve& of) { return of.train.empty() ? of.first_step : of.train.back().step; };
    if (!last || end_of(curve) > end_of(*last)) last = &curve;
  }
  // Models without any log have nothing to choose by either.
  std::map<std::pair<std::string, std::string>, Trainings> unlogged;
  for (const Run& run : results.runs) {
    const auto label = run.labels.find(axis);
    if (label != run.labels.end()) unlogged[{run.encoding, key_of(run, shared)}].try_emplace(label->second);
  }
  std::map<std::pair<std::string, std::string>, std::string> chosen;  // empty: none, and none of the values is compared
  std::vector<Selection> selections;
  for (const auto& [key, trainings] : groups) {
    Selection selection{.axis = axis, .encoding = key.first, .of = key.second, .own_seeds = !seeds.empty()};
    choose(selection, choosing(trainings, seeds, key.first));
    const auto scored = unlogged.find(key);
    const bool several = trainings.size() > 1 || (scored != unlogged.end() && scored->second.size() > 1);
    if (scored != unlogged.end()) unlogged.erase(scored);
    if (selection.chosen.empty() && !several) continue;
    chosen[key] = selection.chosen;
    selections.push_back(std::move(selection));
  }
  for (const auto& [key, trainings] : unlogged) {
    if (trainings.size() < 2) continue;
    Selection selection{.axis = axis, .encoding = key.first, .of = key.second, .own_seeds = !seeds.empty()};
    choose(selection, trainings);
    chosen[key] = selection.chosen;
    selections.push_back(std::move(selection));
  }
  // Nothing to choose by at all: the values stay separate models.
  if (std::all_of(chosen.begin(), chosen.end(), [](const auto& one) { return one.second.empty(); })) return false;
  const auto is_chosen = [&](const Run& run) {
    const auto label = run.labels.find(axis);
    if (label == run.labels.end()) return true;
    if (is_among(seeds, run.seed)) return false;  // it chose
    const auto found = chosen.find({run.encoding, key_of(run, shared)});
    return found == chosen.end() || found->second == label->second;
  };
  for (Run& run : results.runs) run.selected = run.selected && is_chosen(run);
  std::vector<Curve> kept;
  for (Curve& curve : results.curves)
    (is_chosen(curve.run) ? kept : results.unselected_curves).push_back(std::move(curve));
  results.curves = std::move(kept);
  results.selections.insert(results.selections.end(), selections.begin(), selections.end());
  return true;
}

}  // namespace

std::vector<std::string> select_values(const std::vector<std::string>& axes, Results& results,
                                       const std::vector<std::string>& seeds) {
  std::vector<std::string> chosen;
  for (const std::string& axis : axes) {
    if (select_one(axis, seeds, results)) chosen.push_back(axis);
  }
  if (!chosen.empty()) remove_unselected(results);
  return chosen;
}

}  // namespace pe::report
