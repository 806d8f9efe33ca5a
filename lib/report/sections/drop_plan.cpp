// When to drop an encoding: the cost of each drop at the end of the training, against its control and against an
// undisturbed training. Then how fast it recovers, and which drop with the fewest tokens left is as good.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "report/results/drops.h"
#include "report/results/training_curves.h"
#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

/// The accepted cost of a drop: 2 % of perplexity.
const double kAccepted = std::log(1.02);
/// Groups of steps, each twice as long as the one before, that recovery is fitted on.
constexpr std::size_t kLeastGroups = 3;
/// A fit says nothing about more tokens than this many times the trained ones.
constexpr double kFarthest = 10;

double last_validated(const Curve& curve) { return curve.validation.empty() ? NAN : curve.validation.back().loss; }
double final_tokens(const Curve& curve) { return curve.validation.empty() ? NAN : curve.validation.back().tokens; }

struct Drop {
  double fork = 0, end = 0;                      ///< tokens
  bool other_text = false;                       ///< the training without any branch was validated on other text
  std::vector<double> dropped, kept;             ///< final validation losses by seed, of seeds that have both
  std::vector<double> dropped_too, undisturbed;  ///< the same with the training without any branch
  std::vector<std::vector<CurvePoint>> gaps;     ///< of training losses, by seed
  std::vector<const Curve*> sources;             ///< trainings that any of this is from; first one that drops
};

/// Tokens after the drop at which the gap to the control is down to kAccepted, by a power law through the mean gaps of
/// groups of steps. NaN where these are too few, not above zero, or do not fall.
double tokens_to_recover(const Drop& drop) {
  std::map<double, std::pair<double, double>> at;  // tokens after the drop → sum of gaps, seeds
  for (const auto& gap : drop.gaps) {
    for (const CurvePoint& point : gap) {
      if (!(point.tokens > drop.fork)) continue;  // at the fork and before it there is no recovery
      auto& [sum, seeds] = at[point.tokens - drop.fork];
      sum += point.loss;
      ++seeds;
    }
  }
  if (at.empty()) return NAN;
  struct Group {
    double tokens = 0, gap = 0, count = 0;
  };
  std::vector<Group> groups;
  double border = 2 * at.begin()->first;
  for (const auto& [tokens, mean] : at) {
    if (groups.empty() || tokens > border) {
      if (!groups.empty()) border *= 2;
      while (tokens > border) border *= 2;
      groups.push_back({});
    }
    Group& group = groups.back();
    group.tokens += std::log(tokens);
    group.gap += mean.first / mean.second;
    ++group.count;
  }
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const Group& group : groups) {
    if (!(group.gap > 0)) continue;
    const double log_tokens = group.tokens / group.count, log_gap = std::log(group.gap / group.count);
    ++n;
    x += log_tokens;
    y += log_gap;
    xx += log_tokens * log_tokens;
    xy += log_tokens * log_gap;
  }
  if (n < static_cast<double>(kLeastGroups)) return NAN;
  const double slope = (n * xy - x * y) / (n * xx - x * x), level = (y - slope * x) / n;
  if (!(slope < 0)) return NAN;
  return std::exp((std::log(kAccepted) - level) / slope);
}

Cell cost_cell(const statistics::SeedPairs& pairs, const char* missing) {
  if (pairs.seeds == 0) return Cell::missing("–", missing);
  Cell cell = Cell::of_number(pairs.delta);
  if (std::isfinite(pairs.interval.low)) cell.interval = pairs.interval;
  return cell;
}

std::string percent(double share) { return format_number(share, NumberStyle::kPercent); }

/// Tokens at the fork of a branch, from its logged steps; NaN if none was logged. A branch off an extended model counts
/// its tokens from an earlier start than its steps, so the tokens of a step come from two of them.
double fork_of(const Curve& curve) {
  for (const bool two_points : {true, false}) {
    for (const auto* points : {&curve.validation, &curve.train}) {
      if (points->empty() || (two_points && points->back().step <= points->front().step)) continue;
      const CurvePoint &first = points->front(), &last = points->back();
      const double per_step =
          two_points ? (last.tokens - first.tokens) / (last.step - first.step) : last.tokens / last.step;
      return std::round(last.tokens - (last.step - curve.first_step) * per_step);
    }
  }
  return NAN;
}

/// Labels of axes that say whether a branch drops: each of their values is of drops alone, or of controls alone.
std::set<std::string> axes_of_arms(const std::vector<const Curve*>& curves) {
  std::map<std::string, std::map<std::string, std::set<std::string>>> arms;  // axis → label → arms
  for (const Curve* curve : curves) {
    if (drop_arm(*curve).empty()) continue;
    for (const auto& [axis, label] : curve->run.labels) arms[axis][label].insert(drop_arm(*curve));
  }
  std::set<std::string> axes;
  for (const auto& [axis, labels] : arms) {
    std::set<std::string> all;
    for (const auto& [label, own] : labels) all.insert(own.begin(), own.end());
    if (all.size() > 1 &&
        std::all_of(labels.begin(), labels.end(), [](const auto& one) { return one.second.size() == 1; }))
      axes.insert(axis);
  }
  return axes;
}

/// The labels that tell one drop from another, such as a size or a rate: not the seed, the maker or the arm.
Labels setting_of(const Run& run, const std::set<std::string>& arm_axes) {
  Labels labels = without_makers(run.labels);
  for (const char* other : {"encoding", "pe", "seed"}) labels.erase(other);
  for (const std::string& axis : arm_axes) labels.erase(axis);
  return labels;
}

/// By encoding, tokens at the fork, tokens at the end, and setting.
using Drops = std::map<std::tuple<std::string, double, double, Labels>, Drop>;

Drops drops_of(const std::vector<const Curve*>& curves) {
  Drops drops;
  const std::set<std::string> arm_axes = axes_of_arms(curves);
  for (const Curve* curve : curves) {
    if (drop_arm(*curve) != "drop" || curve->validation.empty() || curve->diverged) continue;
    const CurvePoint& last = curve->validation.back();
    const double fork = fork_of(*curve);
    const Labels setting = setting_of(curve->run, arm_axes);
    Drop& drop = drops[{curve->run.encoding, fork, last.tokens, setting}];
    drop.fork = fork;
    drop.end = last.tokens;
    drop.sources.push_back(curve);
    for (const Curve* other : curves) {
      if (drop_arm(*other) != "nodrop" || !same_fork(*curve, *other) || final_tokens(*other) != last.tokens) continue;
      if (!same_validation(*curve, *other) || !labels_agree(setting, setting_of(other->run, arm_axes))) continue;
      drop.dropped.push_back(last.loss);
      drop.kept.push_back(last_validated(*other));
      drop.gaps.push_back(paired_gap(*curve, *other));
      drop.sources.push_back(other);
    }
    const Curve* trunk = trunk_of(curves, *curve);
    if (trunk != nullptr && final_tokens(*trunk) == last.tokens) {
      drop.other_text = drop.other_text || !same_validation(*curve, *trunk);
      if (drop.other_text) continue;
      drop.dropped_too.push_back(last.loss);
      drop.undisturbed.push_back(last_validated(*trunk));
      drop.sources.push_back(trunk);
    }
  }
  return drops;
}

const std::string& encoding_of(const Drops::value_type& drop) { return std::get<0>(drop.first); }

/// Encodings, forks and settings of which a drop diverged. A drop is not cheap if only some seeds survive it.
using Forks = std::set<std::tuple<std::string, double, Labels>>;

Forks diverged_forks(const std::vector<const Curve*>& curves) {
  Forks found;
  const std::set<std::string> arm_axes = axes_of_arms(curves);
  for (const Curve* curve : curves) {
    const double fork = fork_of(*curve);
    if (drop_arm(*curve) == "drop" && curve->diverged && std::isfinite(fork))
      found.emplace(curve->run.encoding, fork, setting_of(curve->run, arm_axes));
  }
  return found;
}

/// The cheapest drop of an encoding: one of several that were tested, so the level is shared among these (Bonferroni).
struct Cheapest {
  const Drop* drop = nullptr;  ///< null where none is shown to cost less than is accepted
  std::size_t tested = 0;
  statistics::SeedPairs cost() const { return cost_of(*drop); }
  statistics::SeedPairs cost_of(const Drop& one) const {
    return statistics::paired_seeds(one.dropped, one.kept,
                                    0.05 / static_cast<double>(std::max<std::size_t>(1, tested)));
  }
};

/// By encoding the last drop that is shown to cost less than is accepted, of those the one that ends first.
std::map<std::string, Cheapest> cheapest_of(const Drops& drops, const Forks& diverged) {
  std::map<std::string, Cheapest> cheapest;
  const auto is_tested = [&](const Drops::value_type& one) {
    const bool lost = diverged.count({encoding_of(one), one.second.fork, std::get<3>(one.first)}) > 0;
    return !lost && std::isfinite(cheapest[encoding_of(one)].cost_of(one.second).interval.high);
  };
  std::map<std::string, std::size_t> tested;
  for (const auto& one : drops) tested[encoding_of(one)] += is_tested(one) ? 1 : 0;
  for (const auto& [encoding, count] : tested) cheapest[encoding].tested = count;
  for (const auto& one : drops) {  // forks ascend, and with one fork the ends
    Cheapest& best = cheapest[encoding_of(one)];
    const bool later = best.drop == nullptr || one.second.fork > best.drop->fork;
    if (later && is_tested(one) && best.cost_of(one.second).interval.high <= kAccepted) best.drop = &one.second;
  }
  return cheapest;
}

Cell recovery_cell(const Drop& drop) {
  const double recovery = tokens_to_recover(drop);
  if (std::isfinite(recovery) && recovery > kFarthest * (drop.end - drop.fork))
    return Cell::missing("far", cat("beyond ", support::shortest(kFarthest), " times the tokens that were trained"));
  return Cell::of_known(recovery,
                        "the gap to the control does not fall as a power of the tokens, or is not above zero");
}

/// Axes by which drops of one encoding differ that have the same fork and end.
std::set<std::string> telling_settings(const Drops& drops) {
  std::set<std::string> axes;
  for (auto one = drops.begin(); one != drops.end(); ++one) {
    const auto next = std::next(one);
    if (next == drops.end() || encoding_of(*next) != encoding_of(*one) || next->second.fork != one->second.fork ||
        next->second.end != one->second.end)
      continue;
    const Labels &a = std::get<3>(one->first), &b = std::get<3>(next->first);
    for (const auto& [axis, label] : a) {
      if (b.count(axis) == 0 || b.at(axis) != label) axes.insert(axis);
    }
    for (const auto& [axis, label] : b) {
      if (a.count(axis) == 0) axes.insert(axis);
    }
  }
  return axes;
}

Table drop_table(const Results& results, const Drops& drops, const Forks& diverged,
                 const std::map<std::string, Cheapest>& cheapest) {
  const std::set<std::string> telling = telling_settings(drops);
  Table table{.id = "drop_plan", .title = "When to drop the encoding"};
  table.columns = {{.id = "encoding", .header = "Encoding", .text = true},
                   {.id = "share", .header = "Dropped at, %", .style = NumberStyle::kPercent},
                   {.id = "left", .header = "Tokens left", .style = NumberStyle::kTokens},
                   {.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount},
                   {.id = "control",
                    .header = "Against the control",
                    .style = NumberStyle::kSignedNats,
                    .direction = Direction::kLowerIsBetter},
                   {.id = "undisturbed",
                    .header = "Against no branch",
                    .style = NumberStyle::kSignedNats,
                    .direction = Direction::kLowerIsBetter},
                   {.id = "recovery", .header = "Tokens to recover", .style = NumberStyle::kTokens},
                   {.id = "cheapest", .header = "Cheapest", .text = true}};
  for (const std::string& axis : telling)
    table.columns.insert(table.columns.begin() + 1, {.id = cat("setting_", axis), .header = axis, .text = true});
  std::string last_encoding;
  for (const auto& one : drops) {
    const std::string& encoding = encoding_of(one);
    const Drop& drop = one.second;
    const statistics::SeedPairs control = statistics::paired_seeds(drop.dropped, drop.kept),
                                undisturbed = drop.other_text
                                                  ? statistics::paired_seeds({}, {})
                                                  : statistics::paired_seeds(drop.dropped_too, drop.undisturbed);
    Row row{.rule_above = !last_encoding.empty() && last_encoding != encoding,
            .variant = drop.sources.front()->run.variant,
            .trainings = places_of(results, drop.sources)};
    const bool lost = diverged.count({encoding, drop.fork, std::get<3>(one.first)}) > 0;
    const Cell no_cost = Cell::missing("diverged", "a drop of a seed diverged; the others alone are no cost");
    row.cells = {
        Cell::of_text(encoding),
        Cell::of_number(drop.fork / drop.end),
        Cell::of_number(drop.end - drop.fork),
        Cell::of_number(static_cast<double>(control.seeds)),
        lost ? no_cost : cost_cell(control, "no control (drop.arm: nodrop) with that fork and seed"),
        lost ? no_cost
             : cost_cell(undisturbed, drop.other_text
                                          ? "the training without a branch was validated on more or fewer windows"
                                          : "the training without a branch was not gathered to its end"),
        recovery_cell(drop),
        Cell::of_text(cheapest.at(encoding).drop == &drop ? "yes" : "")};
    const Labels& setting = std::get<3>(one.first);
    for (const std::string& axis : telling) {
      const auto own = setting.find(axis);
      row.cells.insert(row.cells.begin() + 1, Cell::of_text(own == setting.end() ? "–" : own->second));
    }
    table.rows.push_back(std::move(row));
    last_encoding = encoding;
  }
  table.caption =
      cat("Validation loss at the end, minus the loss of the control with the same new schedule that kept its "
          "encoding, and minus the loss of the training that "
          "continued undisturbed to the same step; paired by seed, 95 % t interval from three seeds on. Tokens to "
          "recover: where a power law, fitted to the gap "
          "of training losses behind the drop, reaches 2 % of perplexity (",
          format_number(kAccepted, NumberStyle::kNats),
          " nats). Cheapest: the latest drop whose interval against the control stays below that, at a level that all "
          "drops of the encoding share (Bonferroni).");
  return table;
}

}  // namespace

Section drop_plan_section(const Results& results, Palette&) {
  Section section{.id = "loss", .title = "Training"};
  const Drops drops = drops_of(distinct(results.curves));
  if (drops.empty()) return section;
  const Forks diverged = diverged_forks(distinct(results.curves));
  const std::map<std::string, Cheapest> cheapest = cheapest_of(drops, diverged);
  section.tables.push_back(drop_table(results, drops, diverged, cheapest));
  for (const auto& [encoding, best] : cheapest) {
    const Drop* drop = best.drop;
    if (drop == nullptr) {
      section.findings.push_back(cat("No drop of ", encoding, " is shown to cost less than 2 % of perplexity."));
      continue;
    }
    const statistics::SeedPairs pairs = best.cost();
    section.findings.push_back(cat(
        "The latest drop of ", encoding, " that is shown to cost less than 2 % of perplexity is at ",
        percent(drop->fork / drop->end), " % of the training: ", format_number(pairs.delta, NumberStyle::kSignedNats),
        " nats against its control [", format_number(pairs.interval.low, NumberStyle::kSignedNats), ", ",
        format_number(pairs.interval.high, NumberStyle::kSignedNats), "]",
        best.tested > 1 ? cat(", at a level that ", best.tested, " drops share") : "", "."));
  }
  return section;
}

}  // namespace pe::report
