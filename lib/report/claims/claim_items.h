/// @file
/// The numbers that claims measure: one per arm and seed, with its items where a table has items. Arms are then paired
/// on the same documents or trials, and not on rows that happen to be in the same order.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "artifact/table.h"
#include "report/claims/claims.h"
#include "statistics/two_level.h"

namespace pe::report {

/// Numerator and denominator of every row, by the name of its item: "doc_id 7, L 512".
using ItemSums = std::map<std::string, std::pair<double, double>>;

struct Measurement {
  ItemSums main, minus;
  bool has_minus = false, has_items = false;
  bool of_answers = false;  ///< the measure counts right answers (`names_score`)
  std::string status;     ///< of rows that hold no number
  double value() const;
};

/// Whether a quantity is a share of right answers, by the name of its column: em, accuracy, token_correct per
/// token_total; or by the measure that its rows are of, such as ood_mean_em.
bool names_score(const Quantity& quantity);
/// A score of answers, from 0 to 1 and not in percent. Seeds often have all of it or nothing.
bool is_score(const Measurement& measured);

/// Arm → seed.
using ArmSeeds = std::map<std::string, std::map<std::string, Measurement>>;

/// "512" and "5.12e2" are one value.
bool same_value(const std::string& a, const std::string& b);

/// The columns of a table that name its items: the number of the document or trial, and its test, such as task and
/// length. Columns that `minus` changes are left out, so that an item has the same name in both. Empty for summaries.
std::vector<std::string> item_columns(const artifact::Table& table, const Quantity& quantity);

/// How the items of several arms agree.
struct CommonItems {
  bool paired = false;                   ///< there are items, and at least two are everywhere
  std::size_t most = 0;                  ///< items of the arm that has most
  std::size_t shared = 0;                ///< items that all arms have, whether they have them of `minus` or not
  std::vector<std::string> main, minus;  ///< names; `minus` is `main` where both name the same
};
/// The common items of these arms in these seeds.
CommonItems common_items(const ArmSeeds& arms, const std::vector<std::string>& names,
                         const std::vector<std::string>& seeds);

/// sign · (θ(arm) − θ(other)) + offset: one inequality of a test, above zero as claimed.
struct Component {
  std::string arm, other;  ///< `other` empty: the arm alone
  double sign = 1, offset = 0;
};
struct ComponentResult {
  statistics::TwoLevel difference;
  bool at_bound = false;  ///< both arms answered everything right, or nothing: they cannot be distinguished
  /// Mean over seeds; of scores the median.
  double effect() const;
  /// The interval at level 1 − `alpha`. NaN where there are too few seeds for a median.
  statistics::Interval interval(double alpha) const;

  /// Answers of an arm that are all alike do not vary: the interval is then computed from their share.
  struct Share {
    double own = 0, trials = 0, sign = 1, offset = 0;  ///< no trials: the share has no noise of items
    std::optional<double> other;
    double value() const { return sign * (own - other.value_or(0)) + offset; }
    statistics::Interval interval(double alpha) const;
  };
  std::optional<Share> share;
  std::optional<statistics::Interval> bounds;  ///< of a difference of scores
  std::vector<Share> scores;  ///< of each seed, for a score that is compared with a number; else empty
};
/// @param as_score the arm's number is a score (`is_score`), and the inequality one about its median over seeds
ComponentResult evaluate(const Component& component, const ArmSeeds& arms, const std::vector<std::string>& seeds,
                         const CommonItems& items, bool as_score);

}  // namespace pe::report
