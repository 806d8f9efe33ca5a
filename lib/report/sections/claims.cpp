// Claims and their verdicts: one line for each claim, and one for each of its tests.
#include "report/claims/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/results/comparison.h"
#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;
using Words = std::vector<std::string>;

Cell number_or(double value, const std::string& reason) {
  return Cell::of_known(value, reason.empty() ? "there is nothing to test" : reason);
}

/// Most claims state no number; a note for each would bury the table.
Cell stated(const std::optional<double>& value) { return Cell::of_text(value ? support::shortest(*value) : ""); }

/// "+0.0060 [−1.2400, 1.2500]"; empty without an effect.
std::string effect_text(const TestResult& test) {
  if (!std::isfinite(test.effect)) return "";
  std::string text = format_number(test.effect, NumberStyle::kSignedNats);
  if (std::isfinite(test.interval.low)) {
    text += cat(" [", format_number(test.interval.low, NumberStyle::kSignedNats), ", ",
                format_number(test.interval.high, NumberStyle::kSignedNats), "]");
  }
  return text;
}

/// The test that decides the claim, if it has an effect.
const TestResult* deciding_test(const ClaimResult& result) {
  if (!result.deciding || !std::isfinite(result.tests[*result.deciding].effect)) return nullptr;
  return &result.tests[*result.deciding];
}

std::string verdict_text(const TestResult& result, bool is_control) {
  if (is_control && result.verdict != Verdict::kNotTestable) return result.failed_arms.empty() ? "passed" : "failed";
  return verdict_name(result.verdict);
}

std::string band_text(const std::optional<statistics::Interval>& band) {
  return band ? cat(support::shortest(band->low), " to ", support::shortest(band->high)) : "";
}

/// Why no smallest difference is shown.
std::string why_no_detectable(const TestResult& result) {
  if (std::isinf(result.detectable)) return "no difference of scores";
  if (!std::isfinite(result.effect)) return "there is nothing to test";
  if (!result.test->noise) return "the number has no noise";
  if (result.seeds < statistics::kSeedsForNoise) return "the noise of training takes three seeds to know";
  return "intervals of shares and of medians have no such number";
}

Row test_row(const std::string& id, const TestResult& result, bool is_control) {
  const std::string& reason = result.reason;
  return {.cells = {Cell::of_text(id), Cell::of_text(result.configs),
                    Cell::of_text(cat(is_control ? "control: " : "", result.test->text())),
                    Cell::of_text(result.observed), stated(result.test->published),
                    Cell::of_text(band_text(result.test->band)), Cell::of_text(result.shown),
                    number_or(result.effect, reason), number_or(result.interval.low, reason),
                    number_or(result.interval.high, reason), Cell::of_number(result.level),
                    number_or(result.detectable, why_no_detectable(result)),
                    Cell::of_number(static_cast<double>(result.seeds)), Cell::of_text(verdict_text(result, is_control)),
                    Cell::of_text(reason)}};
}

/// The first looks spend far less than a thousandth of a per cent.
Cell of_percent(double share) { return Cell::of_text(fmt::format("{:.2g}", 100 * share)); }

/// Every look of a study that adds seeds: the error spent so far, and the level of the test.
Table looks_table(const SequentialConfig& config, const SequentialState& present) {
  Table table{.id = "looks", .title = "Looks"};
  table.columns = {{.id = "look", .header = "Look", .style = NumberStyle::kCount},
                   {.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount},
                   {.id = "spent", .header = "Spent, %", .text = true},
                   {.id = "error", .header = "Error of intervals, %", .text = true},
                   {.id = "verdict", .header = "Verdict", .text = true}};
  const statistics::Looks looks = config.looks();
  const std::vector<double> levels = looks.levels(looks.most, present.sides * config.alpha);
  for (std::size_t seeds = looks.from; seeds <= looks.most; ++seeds) {
    table.rows.push_back({.cells = {Cell::of_number(static_cast<double>(looks.count(seeds))),
                                    Cell::of_number(static_cast<double>(seeds)),
                                    of_percent(looks.spent(seeds, present.sides * config.alpha) / present.sides),
                                    of_percent(levels[seeds - looks.from]),
                                    Cell::of_text(seeds == present.seeds ? verdict_name(present.verdict) : "")}});
  }
  table.caption =
      cat("Seeds are added one at a time until claim ", config.claim,
          " is decided. Spent: the probability, up to this "
          "look, of a difference where there is none (Lan and DeMets, O'Brien and Fleming's type), at most ",
          support::shortest(config.alpha), ". Only this claim is corrected for repeated looks.");
  return table;
}

std::string look_text(const SequentialState& look) {
  return cat("claim ", look.claim, ": look ", look.look, " of ", look.looks, ", ", seeds_in_words(look.seeds),
             " of at most ", look.most, "; spent ", fmt::format("{:.2g}", look.spent), " of ",
             support::shortest(look.alpha), ", so intervals may be wrong in ", fmt::format("{:.2g}", 100 * look.level),
             " % of studies");
}

/// One claim with its effect, or how many got which verdict.
std::string line_of(const std::vector<ClaimResult>& judged) {
  if (judged.size() == 1) {
    const ClaimResult& result = judged.front();
    std::string line = cat("claim ", result.claim->id, ": ", verdict_name(result.verdict));
    if (const TestResult* test = deciding_test(result))
      line += cat(", effect ", effect_text(*test), ", ", seeds_in_words(test->seeds));
    return line;
  }
  std::vector<std::string> counts;
  for (const Verdict verdict :
       {Verdict::kReproduced, Verdict::kRefuted, Verdict::kInconclusive, Verdict::kNotTestable}) {
    const auto count = std::count_if(judged.begin(), judged.end(),
                                     [&](const ClaimResult& result) { return result.verdict == verdict; });
    if (count > 0) counts.push_back(cat(count, " ", verdict_name(verdict)));
  }
  return cat(judged.size(), " claims: ", support::join(counts, ", "));
}

}  // namespace

Section claims_section(const Results& results, Palette&) {
  Section section{.id = "claims", .title = "Claims"};
  if (results.claims.empty()) return section;
  const std::vector<ClaimResult> judged = judge(results.claims, results);
  const std::optional<SequentialState> look = sequential_state(results, judged);
  section.lines.push_back(line_of(judged));
  if (look) section.findings.push_back(look_text(*look));

  Table board{.id = "verdicts", .title = "Claims and verdicts"};
  board.columns = {
      {.id = "claim_id", .header = "Claim", .text = true},  {.id = "says", .header = "Statement", .text = true},
      {.id = "source", .header = "Source", .text = true},   {.id = "published", .header = "Published", .text = true},
      {.id = "verdict", .header = "Verdict", .text = true}, {.id = "effect", .header = "Effect", .text = true},
      {.id = "reason", .header = "Why", .text = true},      {.id = "hash", .header = "Hash", .text = true}};
  Table tests{.id = "claims", .title = "Tests of claims"};
  tests.columns = {
      {.id = "claim_id", .header = "Claim", .text = true},
      {.id = "config_hash", .header = "Configs", .text = true},
      {.id = "expected", .header = "Expected", .text = true},
      {.id = "observed", .header = "Observed", .text = true},
      {.id = "published", .header = "Published", .text = true},
      {.id = "band", .header = "Band", .text = true},
      {.id = "comparison", .header = "Comparison", .text = true},
      {.id = "effect", .header = "Effect", .style = NumberStyle::kSignedNats, .direction = Direction::kHigherIsBetter},
      {.id = "ci_lo", .header = "Interval low", .style = NumberStyle::kSignedNats},
      {.id = "ci_hi", .header = "Interval high", .style = NumberStyle::kSignedNats},
      {.id = "level", .header = "Level, %", .style = NumberStyle::kPercent},
      {.id = "detectable", .header = "Detectable", .style = NumberStyle::kNats},
      {.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount},
      {.id = "verdict", .header = "Verdict", .text = true},
      {.id = "reason", .header = "Why", .text = true}};
  for (const ClaimResult& result : judged) {
    const ClaimSpec& claim = *result.claim;
    const TestResult* deciding = deciding_test(result);
    const std::string effect = deciding ? effect_text(*deciding) : "";
    board.rows.push_back({.cells = {Cell::of_text(claim.id), Cell::of_text(claim.says), Cell::of_text(claim.source),
                                    Cell::of_text(claim.published), Cell::of_text(verdict_name(result.verdict)),
                                    Cell::of_text(effect), Cell::of_text(result.reason), Cell::of_text(claim.hash)}});
    const std::size_t before = tests.rows.size();
    for (const TestResult& test : result.control) tests.rows.push_back(test_row(claim.id, test, true));
    for (const TestResult& test : result.tests) tests.rows.push_back(test_row(claim.id, test, false));
    if (before > 0) tests.rows[before].rule_above = true;
    Words notes;
    if (!effect.empty()) notes.push_back(cat("effect ", effect, ", ", seeds_in_words(deciding->seeds)));
    if (!result.reason.empty()) notes.push_back(result.reason);
    section.findings.push_back(cat(claim.says, ": ", verdict_name(result.verdict), " (", claim.id,
                                   notes.empty() ? "" : "; ", support::join(notes, "; "), ")"));
  }
  board.caption =
      "Reproduced: in every comparison the interval excludes the opposite of the claim. Refuted: in one comparison the "
      "interval excludes the "
      "claim. Inconclusive: neither. Not testable: a control failed, both arms are at a bound, or something was not "
      "measured. Three seeds or "
      "more are needed. Effect: of the deciding comparison, above zero as claimed. Hash: of the claim as written.";
  tests.caption =
      cat("A test has one comparison for each arm, and all must hold. Effect and interval belong to the comparison "
          "that is named, the least "
          "favourable one, in the unit of the measure; above zero is as claimed. Intervals cover seeds and items from "
          "three seeds on, else items; "
          "their level is 90 % for `near`, which is two one-sided tests at 5 %, and for scores against a number. "
          "Effect and interval of such "
          "scores describe the median over seeds, and five seeds are needed. Refuted needs an interval of level 95 "
          "%, shared among the "
          "comparisons of a claim. Detectable: the smallest effect that these seeds find with power 80 %. ",
          training_sentence(results));
  section.tables = {std::move(board), std::move(tests)};
  if (look) section.tables.push_back(looks_table(results.sequential, *look));
  return section;
}

}  // namespace pe::report
