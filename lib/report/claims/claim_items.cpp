#include "report/claims/claim_items.h"

#include <algorithm>
#include <cmath>

#include "support/missing.h"
#include "support/text.h"

namespace pe::report {
namespace {

using Words = std::vector<std::string>;

using support::kMissing;

/// Columns that number the items behind a mean. A table without one holds summaries: a row is a whole result.
const Words kNumbers = {"doc_id", "trial", "index", "item"};
/// Columns that describe the test of an item.
const Words kAsked = {"corpus", "protocol", "task", "variant", "split", "L", "length", "depth", "test", "amount"};

/// Columns of shares of right answers, of counts of right answers, and measures of the column `value` that are shares.
const Words kScores = {"em",        "exact",     "exact_match", "accuracy",   "acc",    "correct",
                       "token_acc", "digit_acc", "rank_acc",    "rank_score", "det_acc"};
const Words kCounts = {"token_correct", "digit_correct", "correct"};
const Words kMeasures = {"S0", "parts", "S1", "S1_digits", "S3", "S3_mrr", "ood_mean_em", "ood_mean_token_acc"};

/// "ordinal_3_40": a part of a task, its number and a length.
bool names_part(const std::string& measure) {
  const auto words = support::split(measure, '_');
  const auto is_number = [](const auto& word) {
    return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  return words.size() > 2 && is_number(words[words.size() - 1]) && is_number(words[words.size() - 2]);
}

double ratio(const ItemSums& sums) {
  double top = 0, bottom = 0;
  for (const auto& [name, item] : sums) {
    top += item.first;
    bottom += item.second;
  }
  return sums.empty() ? kMissing : top / bottom;
}

void keep_common(Words& common, const ItemSums& sums, bool first) {
  Words kept;
  if (first) {
    for (const auto& [name, item] : sums) kept.push_back(name);
  } else {
    std::copy_if(common.begin(), common.end(), std::back_inserter(kept),
                 [&](const std::string& name) { return sums.count(name) != 0; });
  }
  common = std::move(kept);
}

statistics::SeedItems pick(const ItemSums& sums, const Words& names) {
  statistics::SeedItems items;
  for (const std::string& name : names) {
    const auto& [y, x] = sums.at(name);
    items.y.push_back(y);
    items.x.push_back(x);
  }
  return items;
}

/// Values of one seed's items (or the one value of a summary) whose mean is the arm's number.
std::vector<double> values_of(const Measurement& measured, const CommonItems& items) {
  if (!items.paired) return {measured.value()};
  std::vector<double> values = statistics::linearised(pick(measured.main, items.main));
  if (!measured.has_minus) return values;
  const std::vector<double> less = statistics::linearised(pick(measured.minus, items.minus));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= less[i];
  return values;
}

/// Of one seed, on the items that all have.
double score_of(const ItemSums& sums, const CommonItems& items, const Words& names) {
  if (!items.paired) return ratio(sums);
  const statistics::SeedItems picked = pick(sums, names);
  return statistics::ratio_of_sums(picked.y, picked.x).value;
}

bool is_answer(double value) { return value == 0 || value == 1; }

/// Whether the arm's items are answers, right or wrong, that are all alike: no scatter to estimate noise from.
bool all_alike(const std::vector<std::vector<double>>& seeds) {
  const double first = seeds[0][0];
  return std::all_of(seeds.begin(), seeds.end(), [&](const auto& items) {
    return std::all_of(items.begin(), items.end(), [&](double value) { return value == first && is_answer(value); });
  });
}

/// Newcombe's interval of a difference of shares, from Wilson's of each; of one share where there is no other.
statistics::Interval share_interval(double share, const std::optional<double>& other, double trials, double alpha) {
  const statistics::Interval own = statistics::wilson(share * trials, trials, alpha);
  if (!other) return own;
  const statistics::Interval theirs = statistics::wilson(*other * trials, trials, alpha);
  const double d = share - *other;
  return {d - std::hypot(share - own.low, theirs.high - *other), d + std::hypot(own.high - share, *other - theirs.low)};
}

}  // namespace

bool names_score(const Quantity& quantity) {
  if (quantity.absolute) return false;
  const auto is_in = [&](const Words& names) {
    return std::find(names.begin(), names.end(), quantity.measure) != names.end();
  };
  if (quantity.per.empty() ? is_in(kScores) : is_in(kCounts)) return true;
  // A table of several measures: each of the rows must be of a score.
  const auto all_scores = [](const RowFilter& rows) {
    const auto measures = rows.find("measure");
    return measures != rows.end() &&
           std::all_of(measures->second.begin(), measures->second.end(), [](const std::string& measure) {
             return measure.starts_with("confident_") || names_part(measure) ||
                    std::find(kMeasures.begin(), kMeasures.end(), measure) != kMeasures.end();
           });
  };
  return quantity.measure == "value" && quantity.per.empty() && all_scores(quantity.where) &&
         (!quantity.minus || all_scores(*quantity.minus));
}

bool is_score(const Measurement& measured) {
  const auto shares = [](const ItemSums& sums) {
    return std::all_of(sums.begin(), sums.end(), [](const auto& item) {
      const double share = item.second.first / item.second.second;
      return share >= 0 && share <= 1;
    });
  };
  return measured.of_answers && shares(measured.main) && shares(measured.minus);
}

double Measurement::value() const { return has_minus ? ratio(main) - ratio(minus) : ratio(main); }

bool same_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto x = support::parse_real(a), y = support::parse_real(b);
  return x && y && *x == *y;
}

std::vector<std::string> item_columns(const artifact::Table& table, const Quantity& quantity) {
  Words columns;
  for (const std::string& name : kNumbers) {
    if (table.find_column(name)) columns.push_back(name);
  }
  if (columns.empty()) return columns;
  const auto elsewhere = [&](const std::string& name) {
    if (name == quantity.by || name == quantity.seed_by) return true;
    if (!quantity.minus || quantity.minus->count(name) == 0) return false;
    const auto where = quantity.where.find(name);
    return where == quantity.where.end() || where->second != quantity.minus->at(name);
  };
  for (const std::string& name : kAsked) {
    if (table.find_column(name) && !elsewhere(name)) columns.push_back(name);
  }
  return columns;
}

CommonItems common_items(const ArmSeeds& arms, const std::vector<std::string>& names,
                         const std::vector<std::string>& seeds) {
  CommonItems items;
  bool first = true, all = true, has_minus = false;
  for (const std::string& name : names) {
    for (const std::string& seed : seeds) {
      const Measurement& measured = arms.at(name).at(seed);
      all = all && measured.has_items;
      has_minus = measured.has_minus;
      items.most = std::max(items.most, measured.main.size());
      keep_common(items.main, measured.main, first);
      if (has_minus) keep_common(items.minus, measured.minus, first);
      first = false;
    }
  }
  items.shared = items.main.size();
  if (has_minus) {
    Words both;
    std::set_intersection(items.main.begin(), items.main.end(), items.minus.begin(), items.minus.end(),
                          std::back_inserter(both));
    items.main = items.minus = std::move(both);
  }
  items.paired = all && items.main.size() >= 2;
  return items;
}

ComponentResult evaluate(const Component& component, const ArmSeeds& arms, const std::vector<std::string>& seeds,
                         const CommonItems& items, bool as_score) {
  std::vector<std::vector<double>> own, others, differences;
  for (const std::string& seed : seeds) {
    own.push_back(values_of(arms.at(component.arm).at(seed), items));
    differences.push_back(own.back());
    if (!component.other.empty()) {
      others.push_back(values_of(arms.at(component.other).at(seed), items));
      for (std::size_t i = 0; i < others.back().size(); ++i) differences.back()[i] -= others.back()[i];
    }
    for (double& value : differences.back()) value = component.sign * value + component.offset;
  }
  ComponentResult result{.difference = statistics::two_level(differences)};
  const bool alike = all_alike(own) && (others.empty() || all_alike(others));
  result.at_bound = alike && !others.empty() && own[0][0] == others[0][0];
  // A bound that is met exactly, such as every answer right where all were asked for, cannot be met any better.
  if (alike && items.paired && result.difference.estimate != 0) {
    result.share = {.own = own[0][0],
                    .trials = static_cast<double>(items.main.size()),
                    .sign = component.sign,
                    .offset = component.offset};
    if (!others.empty()) result.share->other = others[0][0];
  }
  const auto scores_of = [&](const std::string& arm) {
    return arm.empty() || std::all_of(seeds.begin(), seeds.end(),
                                      [&](const std::string& seed) { return is_score(arms.at(arm).at(seed)); });
  };
  if (scores_of(component.arm) && scores_of(component.other)) {
    const bool has_minus = arms.at(component.arm).at(seeds.front()).has_minus;
    const double lowest = (component.other.empty() ? 0 : -1) - (has_minus ? 1 : 0),
                 highest = !component.other.empty() && has_minus ? 2 : 1;
    const double a = component.sign * lowest + component.offset, b = component.sign * highest + component.offset;
    result.bounds = statistics::Interval{std::min(a, b), std::max(a, b)};
  }
  if (!as_score) return result;
  const bool has_noise = items.paired && !(alike && result.difference.estimate == 0);
  for (const std::string& seed : seeds) {
    const Measurement& measured = arms.at(component.arm).at(seed);
    result.scores.push_back({.own = score_of(measured.main, items, items.main),
                             .trials = has_noise ? static_cast<double>(items.main.size()) : 0,
                             .sign = component.sign,
                             .offset = component.offset});
    if (measured.has_minus) result.scores.back().other = score_of(measured.minus, items, items.minus);
  }
  return result;
}

statistics::Interval ComponentResult::Share::interval(double alpha) const {
  if (trials == 0) return {value(), value()};
  const statistics::Interval shares = share_interval(own, other, trials, alpha);
  const double a = sign * shares.low + offset, b = sign * shares.high + offset;
  return {std::min(a, b), std::max(a, b)};
}

double ComponentResult::effect() const {
  if (scores.empty()) return difference.estimate;
  std::vector<double> values;
  for (const Share& score : scores) values.push_back(score.value());
  return statistics::median_of(values);
}

statistics::Interval ComponentResult::interval(double alpha) const {
  if (scores.empty()) {
    if (share) return share->interval(alpha);
    const statistics::Interval found = difference.interval_at(alpha);
    if (!bounds || !std::isfinite(found.low)) return found;
    return {std::clamp(found.low, bounds->low, bounds->high), std::clamp(found.high, bounds->low, bounds->high)};
  }
  std::vector<double> values;
  for (const Share& score : scores) values.push_back(score.value());
  return statistics::median_interval(values, alpha,
                                     [&](std::size_t seed, double level) { return scores[seed].interval(level); });
}

}  // namespace pe::report
