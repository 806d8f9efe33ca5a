// Claims and what became of them: one line for each claim, and one for each of its tests.
#include "report/claims/claims.h"

#include <algorithm>
#include <cmath>

#include "report/results/comparison.h"
#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

Cell number_or(double value, const std::string& reason) {
  return std::isfinite(value) ? Cell::of_number(value) : Cell::missing("–", reason.empty() ? "there is nothing to test" : reason);
}

Cell stated(const std::optional<double>& value) { return value ? Cell::of_number(*value) : Cell::missing("–", "the claim states no number"); }

std::string band_text(const std::optional<statistics::Interval>& band) {
  return band ? cat(support::shortest(band->low), " to ", support::shortest(band->high)) : "";
}

Row test_row(const std::string& id, const TestResult& result, bool is_control) {
  const std::string& reason = result.reason;
  return {.cells = {Cell::of_text(id), Cell::of_text(result.configs), Cell::of_text(cat(is_control ? "control: " : "", result.test->text())), Cell::of_text(result.observed),
                    stated(result.test->published), Cell::of_text(band_text(result.test->band)),
                    number_or(result.effect, reason), number_or(result.interval.low, reason), number_or(result.interval.high, reason),
                    Cell::of_number(static_cast<double>(result.seeds)), Cell::of_text(verdict_name(result.verdict)), Cell::of_text(reason)}};
}

/// One claim with its effect, or how many got which verdict.
std::string line_of(const std::vector<ClaimResult>& judged) {
  if (judged.size() == 1) {
    const ClaimResult& result = judged.front();
    std::string line = cat("claim ", result.claim->id, ": ", verdict_name(result.verdict));
    for (const TestResult& test : result.tests) {
      if (test.verdict != result.verdict || !std::isfinite(test.effect)) continue;
      line += cat(", effect ", format_number(test.effect, NumberStyle::kSignedNats));
      if (std::isfinite(test.interval.low))
        line += cat(" (", format_number(test.interval.low, NumberStyle::kSignedNats), " to ",
                    format_number(test.interval.high, NumberStyle::kSignedNats), ")");
      line += cat(", ", seeds_in_words(test.seeds));
      break;
    }
    return line;
  }
  std::vector<std::string> counts;
  for (const Verdict verdict :
       {Verdict::kReproduced, Verdict::kPartly, Verdict::kNotReproduced, Verdict::kNotTestable}) {
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
  section.lines.push_back(line_of(judged));

  Table board{.id = "verdicts", .title = "Claims and verdicts"};
  board.columns = {{.id = "claim_id", .header = "Claim", .text = true},      {.id = "says", .header = "What it says", .text = true},
                   {.id = "source", .header = "Source", .text = true},    {.id = "published", .header = "Published", .text = true},
                   {.id = "verdict", .header = "Verdict", .text = true},  {.id = "reason", .header = "Why", .text = true},
                   {.id = "hash", .header = "Hash", .text = true}};
  Table tests{.id = "claims", .title = "What was tested"};
  tests.columns = {{.id = "claim_id", .header = "Claim", .text = true},
                   {.id = "config_hash", .header = "Configs", .text = true},
                   {.id = "expected", .header = "Expected", .text = true},
                   {.id = "observed", .header = "Observed", .text = true},
                   {.id = "published", .header = "Published", .style = NumberStyle::kNats},
                   {.id = "band", .header = "Band", .text = true},
                   {.id = "effect", .header = "Effect", .style = NumberStyle::kSignedNats, .direction = Direction::kHigherIsBetter},
                   {.id = "ci_lo", .header = "95 % low", .style = NumberStyle::kSignedNats},
                   {.id = "ci_hi", .header = "95 % high", .style = NumberStyle::kSignedNats},
                   {.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount},
                   {.id = "verdict", .header = "Verdict", .text = true},
                   {.id = "reason", .header = "Why", .text = true}};
  for (const ClaimResult& result : judged) {
    const ClaimSpec& claim = *result.claim;
    board.rows.push_back({.cells = {Cell::of_text(claim.id), Cell::of_text(claim.says), Cell::of_text(claim.source), Cell::of_text(claim.published),
                                    Cell::of_text(verdict_name(result.verdict)), Cell::of_text(result.reason), Cell::of_text(claim.hash)}});
    const std::size_t before = tests.rows.size();
    for (const TestResult& test : result.control) tests.rows.push_back(test_row(claim.id, test, true));
    for (const TestResult& test : result.tests) tests.rows.push_back(test_row(claim.id, test, false));
    if (before > 0) tests.rows[before].rule_above = true;
    section.findings.push_back(cat(claim.id, ", ", verdict_name(result.verdict), result.seeds > 0 ? cat(" (", seeds_in_words(result.seeds), ")") : "",
                                   ": ", claim.says, result.reason.empty() ? "" : cat(" (", result.reason, ")")));
  }
  board.caption = "Reproduced: three seeds or more, every test holds in each, its interval excludes zero and a stated band is met; partly: it holds in "
                  "the mean. Not testable: the control failed, or something was not measured. Hash: of the claim as it was written.";
  tests.caption = cat("Effect: by how much the least favourable arm passes, in the measure's own unit; above zero is as claimed. Interval: 95 %, over seeds "
                      "and items from three seeds on, else over items; configs: a hash of those of the runs compared. ", training_sentence(results));
  section.tables = {std::move(board), std::move(tests)};
  return section;
}

}  // namespace pe::report
