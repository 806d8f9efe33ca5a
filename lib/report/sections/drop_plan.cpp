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

double final_loss(const Curve& curve) { return curve.validation.empty() ? NAN : curve.validation.back().loss; }
double final_tokens(const Curve& curve) { return curve.validation.empty() ? NAN : curve.validation.back().tokens; }

struct Drop {
  double fork = 0, end = 0;                      ///< tokens
  std::vector<double> dropped, kept;             ///< final validation losses by seed, of seeds that have both
  std::vector<double> dropped_too, undisturbed;  ///< the same with the training without any branch
  std::vector<std::vector<CurvePoint>> gaps;     ///< of training losses, by seed
};

/// Tokens after the drop at which the gap to the control is down to kAccepted, by a power law through the mean gaps of
/// groups of steps. NaN where these are too few, not above zero, or do not fall.
double tokens_to_recover(const Drop& drop) {
  std::map<double, std::pair<double, double>> at;  // tokens after the drop → sum of gaps, seeds
  for (const auto& gap : drop.gaps) {
    for (const CurvePoint& point : gap) {
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

/// Tokens at the fork of a branch, from any logged step; NaN if none was logged.
double fork_of(const Curve& curve) {
  for (const auto* points : {&curve.validation, &curve.train}) {
    if (!points->empty()) return curve.first_step * points->back().tokens / points->back().step;
  }
  return NAN;
}

/// By encoding, tokens at the fork and tokens at the end.
using Drops = std::map<std::tuple<std::string, double, double>, Drop>;

Drops drops_of(const std::vector<const Curve*>& curves) {
  Drops drops;
  for (const Curve* curve : curves) {
    if (drop_arm(*curve) != "drop" || curve->validation.empty() || curve->diverged) continue;
    const CurvePoint& last = curve->validation.back();
    const double fork = fork_of(*curve);
    Drop& drop = drops[{curve->run.encoding, fork, last.tokens}];
    drop.fork = fork;
    drop.end = last.tokens;
    for (const Curve* other : curves) {
      if (drop_arm(*other) != "nodrop" || !same_fork(*curve, *other) || final_tokens(*other) != last.tokens) continue;
      drop.dropped.push_back(last.loss);
      drop.kept.push_back(final_loss(*other));
      drop.gaps.push_back(paired_gap(*curve, *other));
    }
    const Curve* trunk = trunk_of(curves, *curve);
    if (trunk != nullptr && final_tokens(*trunk) == last.tokens) {
      drop.dropped_too.push_back(last.loss);
      drop.undisturbed.push_back(final_loss(*trunk));
    }
  }
  return drops;
}

const std::string& encoding_of(const Drops::value_type& drop) { return std::get<0>(drop.first); }

/// Encodings and forks of which a drop diverged. A drop is not cheap if only some seeds survive it.
std::set<std::pair<std::string, double>> diverged_forks(const std::vector<const Curve*>& curves) {
  std::set<std::pair<std::string, double>> found;
  for (const Curve* curve : curves) {
    const double fork = fork_of(*curve);
    if (drop_arm(*curve) == "drop" && curve->diverged && std::isfinite(fork))
      found.emplace(curve->run.encoding, std::round(fork));
  }
  return found;
}

/// By encoding the last drop that is shown to cost less than is accepted, of those the one that ends first; null where
/// none is.
std::map<std::string, const Drop*> cheapest_of(const Drops& drops,
                                               const std::set<std::pair<std::string, double>>& diverged) {
  std::map<std::string, const Drop*> cheapest;
  for (const auto& one : drops) {  // forks ascend, and with one fork the ends
    const Drop& drop = one.second;
    const Drop*& best = cheapest[encoding_of(one)];
    if (diverged.count({encoding_of(one), std::round(drop.fork)}) > 0) continue;
    const statistics::SeedPairs pairs = statistics::paired_seeds(drop.dropped, drop.kept);
    const bool later = best == nullptr || drop.fork > best->fork;
    if (later && std::isfinite(pairs.interval.high) && pairs.interval.high <= kAccepted) best = &drop;
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

Table drop_table(const Drops& drops, const std::map<std::string, const Drop*>& cheapest) {
  Table table{.id = "drop_plan", .title = "When to drop the encoding"};
  table.columns = {{.id = "encoding", .header = "Encoding", .text = true},
                   {.id = "share", .header = "Dropped at", .style = NumberStyle::kPercent},
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
  std::string last_encoding;
  for (const auto& one : drops) {
    const std::string& encoding = encoding_of(one);
    const Drop& drop = one.second;
    const statistics::SeedPairs control = statistics::paired_seeds(drop.dropped, drop.kept),
                                undisturbed = statistics::paired_seeds(drop.dropped_too, drop.undisturbed);
    Row row{.rule_above = !last_encoding.empty() && last_encoding != encoding};
    row.cells = {Cell::of_text(encoding),
                 Cell::of_number(drop.fork / drop.end),
                 Cell::of_number(drop.end - drop.fork),
                 Cell::of_number(static_cast<double>(control.seeds)),
                 cost_cell(control, "no control (drop.arm: nodrop) with that fork and seed"),
                 cost_cell(undisturbed, "the training without a branch was not gathered to its end"),
                 recovery_cell(drop),
                 Cell::of_text(cheapest.at(encoding) == &drop ? "yes" : "")};
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
          " nats). Cheapest: the latest drop whose interval against the control stays below that.");
  return table;
}

}  // namespace

Section drop_plan_section(const Results& results, Palette&) {
  Section section{.id = "loss", .title = "Training"};
  const Drops drops = drops_of(distinct(results.curves));
  if (drops.empty()) return section;
  const std::map<std::string, const Drop*> cheapest = cheapest_of(drops, diverged_forks(distinct(results.curves)));
  section.tables.push_back(drop_table(drops, cheapest));
  for (const auto& [encoding, drop] : cheapest) {
    if (drop == nullptr) {
      section.findings.push_back(cat("No drop of ", encoding, " is shown to cost less than 2 % of perplexity."));
      continue;
    }
    const statistics::SeedPairs pairs = statistics::paired_seeds(drop->dropped, drop->kept);
    section.findings.push_back(
        cat("The latest drop of ", encoding, " that is shown to cost less than 2 % of perplexity is at ",
            percent(drop->fork / drop->end), " of the training: ", format_number(pairs.delta, NumberStyle::kSignedNats),
            " nats against its control [", format_number(pairs.interval.low, NumberStyle::kSignedNats), ", ",
            format_number(pairs.interval.high, NumberStyle::kSignedNats), "]."));
  }
  return section;
}

}  // namespace pe::report
