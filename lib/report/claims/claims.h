/// @file
/// Claims of papers and hypotheses of a study, tested on gathered results (doc/claims.md). A claim is a list of
/// tests, each a comparison of arms or of an arm with a number; all of them must hold. The verdicts are in verdict.h: a
/// claim is reproduced when every comparison excludes the opposite, and refuted when one comparison excludes the claim.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "report/claims/verdict.h"
#include "statistics/estimates.h"
#include "support/error.h"
#include "support/json.h"

namespace pe::report {

struct Results;

/// Which rows of a table count: column → values that it may have, as text.
using RowFilter = std::map<std::string, std::vector<std::string>>;

/// One number per arm and seed: the mean of `measure` over the rows, or Σ measure / Σ per. The number of `minus`, where
/// given, is subtracted.
struct Quantity {
  std::string table, measure, per;
  RowFilter where;
  std::optional<RowFilter> minus;           ///< the same quantity elsewhere, subtracted
  bool absolute = false;                    ///< rows count by their absolute value
  std::map<std::string, std::string> runs;  ///< only runs with these labels
  std::string by, seed_by;  ///< columns that name arm and seed, for a table that holds many; empty: the run's own
};

struct ClaimTest {
  enum class Kind { kAbove, kAtLeast, kAtMost, kNear };
  Quantity quantity;
  Kind kind = Kind::kAbove;
  std::vector<std::string> of;      ///< arms that the test is about: each of them must pass
  std::vector<std::string> others;  ///< kAbove: arms below each of `of`
  double value = 0;                 ///< kAtLeast, kAtMost, kNear; kAbove: the margin
  double within = 0;                ///< kNear
  std::optional<double> published;  ///< the source's number for this test
  std::optional<statistics::Interval>
      band;           ///< "reproduced" needs our number in it: the value of each arm, or its difference from each other
  bool noise = true;  ///< false: the number has no sampling noise (a property of a network, a count)
  support::Place place;
  std::vector<std::string> arms() const;  ///< `of` and `others`
  /// "em of none, t5 above rope where length 30".
  std::string text() const;
};

struct ClaimSpec {
  std::string id, says, source, published;
  std::optional<Verdict> expected;  ///< the verdict that --check-claims expects; by default reproduced
  std::vector<ClaimTest> control;   ///< tests that must hold for the claim to be testable at all
  std::vector<ClaimTest> tests;
  std::string hash;  ///< of its text in canonical form, 12 hex digits
};

/// @throws ConfigError with every mistake: file, line, and the nearest word.
std::vector<ClaimSpec> read_claims(const std::filesystem::path& file);

/// Whether tables of an evaluation have every column that tests name, and whether the results that a pipeline will
/// gather have every arm and label. Arms and labels are not checked where labels have no encoding, nor in a run that
/// leaves out more than seeds.
/// @param labels, left_out  as in ReportConfig
/// @throws ConfigError with each name that nothing will have, its test's line, and the nearest name
void check_names(const std::vector<ClaimSpec>& claims, const std::vector<std::string>& labels,
                 const std::vector<std::string>& left_out);

struct TestResult {
  const ClaimTest* test = nullptr;
  Verdict verdict = Verdict::kNotTestable;  ///< of a control: refuted if the mean of an arm misses the condition
  std::string reason;    ///< why it cannot be tested, or why the interval is missing
  std::string observed;  ///< "none 0.97, t5 0.95; rope 0.02"
  std::string configs;   ///< hash of the configs of the measured runs, 12 hex digits
  std::string shown;     ///< the comparison that decides, whose effect and interval these are: "none above rope"
  double effect =
      std::numeric_limits<double>::quiet_NaN();  ///< mean over seeds, of scores the median; above zero: as claimed
  statistics::Interval interval{std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  double level = 0.95;  ///< of the interval: 0.9 for `near` and for scores, which are one-sided tests at 5 %
  double detectable =
      std::numeric_limits<double>::quiet_NaN();  ///< the smallest effect that these seeds find with power 80 %
  std::size_t seeds = 0, items = 0;
  bool is_score = false;  ///< a score against a number: effect and interval describe the median over seeds
  std::size_t comparisons = 0, untested = 0;  ///< all of the test, and the ones without a verdict
  std::vector<std::string> failed_arms;       ///< of a control: arms whose mean misses it, or is missing
  bool one_sided() const;                     ///< tests at 5 %, with an interval of level 90 %
  double margin() const;  ///< of the effect, in half widths of its interval: the least favourable test has the smallest
};

struct ClaimResult {
  const ClaimSpec* claim = nullptr;
  Verdict verdict = Verdict::kNotTestable;  ///< the worst of its tests that could be tested
  std::string reason;
  std::size_t seeds = 0;  ///< of the test with fewest
  std::vector<TestResult> control, tests;
  std::optional<std::size_t> deciding;  ///< of the tests with the claim's verdict the least favourable one
};

/// A study that adds seeds, at its present look.
struct SequentialState {
  std::string claim;
  Verdict verdict = Verdict::kNotTestable;
  std::size_t seeds = 0, most = 0;  ///< of the claim: now, and at the last look
  std::size_t look = 0, looks = 0;  ///< this one, from 1, and the last
  double alpha = 0;                 ///< error of all looks
  double sides = 1;                 ///< 2 for tests of one side, whose intervals have twice the level
  double spent = 0;                 ///< error of looks so far
  double level = 0;                 ///< of the two-sided test at this look
};
/// Nothing for a study with a fixed number of seeds.
std::optional<SequentialState> sequential_state(const Results& results, const std::vector<ClaimResult>& judged);
Json to_json(const SequentialState& look);

/// A result that an incomplete gather lacks, or a run leaves out (--axis), makes a test not testable, with the reason.
/// @throws ConfigError at the test's line for a table, column, label or arm that was neither gathered nor asked for,
/// naming the nearest.
std::vector<ClaimResult> judge(const std::vector<ClaimSpec>& claims, const Results& results);

}  // namespace pe::report
