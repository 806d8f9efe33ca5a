// Claims files, and verdicts on tables whose numbers are known.
#include "report/claims.h"

#include <boost/test/unit_test.hpp>

#include <cmath>

#include "report/report.h"
#include "support/error.h"
#include "support/files.h"
#include "support/temp_folder.h"

using namespace pe;
using namespace pe::report;

namespace {

/// Trials of 0 and 1 at two lengths, and a summary, as evaluation writes them.
class Gathered {
 public:
  void add(const std::string& encoding, const std::string& seed, const std::vector<double>& short_items, const std::vector<double>& long_items,
           std::map<std::string, std::string> labels = {}) {
    using enum artifact::ColumnType;
    artifact::Table trials("algo_trial", {{"length", kInteger, ""}, {"trial", kInteger, ""}, {"em", kReal, ""}, {"weight", kReal, ""}});
    artifact::Table summary("algo_summary", {{"length", kInteger, ""}, {"em", kReal, ""}, {"status", kText, ""}});
    for (const auto& [length, items] : {std::pair(20, &short_items), std::pair(40, &long_items)}) {
      double sum = 0;
      for (std::size_t i = 0; i < items->size(); ++i) {
        trials.add_row({length, static_cast<std::int64_t>(i), (*items)[i], 2.0});
        sum += (*items)[i];
      }
      const bool there = !items->empty();
      summary.add_row({length, there ? artifact::Cell(sum / static_cast<double>(items->size())) : artifact::Cell(), there ? "ok" : "na_positions"});
    }
    Run run;
    run.encoding = encoding;
    run.seed = seed;
    run.labels = std::move(labels);
    results.runs.push_back(run);
    results.encodings.push_back(encoding);
    results.tables.emplace_back(results.runs.size() - 1, std::move(trials));
    results.tables.emplace_back(results.runs.size() - 1, std::move(summary));
  }

  ClaimResult judge(const std::string& body) {
    const test::TempFolder folder;
    support::write_file_atomically(folder / "claims.yml", "claims:\n  C1:\n    says: a thing\n    table: algo_trial\n    measure: em\n" + body, false);
    claims = read_claims(folder / "claims.yml");
    return report::judge(claims, results).at(0);
  }

  Results results;
  std::vector<ClaimSpec> claims;
};

const std::vector<double> kAll(50, 1.0), kNone(50, 0.0);

std::vector<double> some(int right) {
  std::vector<double> items(50, 0.0);
  for (int i = 0; i < right; ++i) items[static_cast<std::size_t>(i * 50 / right)] = 1;
  return items;
}

std::string errors_of(const std::string& text) {
  const test::TempFolder folder;
  support::write_file_atomically(folder / "claims.yml", text, false);
  try {
    read_claims(folder / "claims.yml");
  } catch (const support::ConfigError& error) {
    return error.what();
  }
  return "no error";
}

void says(const std::string& text, const std::string& part) { BOOST_TEST(text.find(part) != std::string::npos, "'" << part << "' is not in:\n" << text); }

}  // namespace

BOOST_AUTO_TEST_SUITE(claims)

BOOST_AUTO_TEST_CASE(what_every_item_shows_is_reproduced_with_one_seed) {
  Gathered gathered;
  gathered.add("none", "1", kAll, some(40));
  gathered.add("rope", "1", kAll, some(5));
  const ClaimResult result = gathered.judge("    tests:\n      - {where: {length: 40}, of: none, above: rope}\n");
  BOOST_TEST((result.verdict == Verdict::kReproduced));
  const TestResult& test = result.tests.at(0);
  BOOST_TEST(std::abs(test.effect - 0.7) < 1e-12);
  BOOST_TEST(test.items == 50U);
  BOOST_TEST(test.seeds == 1U);
  BOOST_TEST(test.interval.low > 0.5);
  BOOST_TEST(test.interval.high < 0.9);
  BOOST_TEST(test.observed == "none 0.8; rope 0.1");
  BOOST_TEST(test.test->text() == "em of none above rope where length 40");
}

BOOST_AUTO_TEST_CASE(a_difference_within_the_noise_of_the_items_is_partly_and_the_other_way_round_refuted) {
  Gathered gathered;
  gathered.add("none", "1", kAll, some(25));
  gathered.add("rope", "1", kAll, some(24));
  const std::string tests = "    tests:\n      - {where: {length: 40}, of: ";
  BOOST_TEST((gathered.judge(tests + "none, above: rope}\n").verdict == Verdict::kPartly));
  BOOST_TEST((gathered.judge(tests + "rope, above: none}\n").verdict == Verdict::kNotReproduced));
  BOOST_TEST((gathered.judge(tests + "none, above: rope, margin: 0.5}\n").verdict == Verdict::kNotReproduced));
}

BOOST_AUTO_TEST_CASE(the_least_favourable_arm_and_the_worst_test_decide) {
  Gathered gathered;
  gathered.add("none", "1", kAll, some(45));
  gathered.add("t5", "1", kAll, some(20));
  gathered.add("rope", "1", kAll, some(30));
  const ClaimResult result = gathered.judge(
      "    tests:\n      - {where: {length: 20}, of: [none, t5], at_least: 0.9}\n      - {where: {length: 40}, of: [none, t5], above: rope}\n");
  BOOST_TEST((result.tests.at(0).verdict == Verdict::kReproduced));
  BOOST_TEST(std::abs(result.tests.at(1).effect + 0.2) < 1e-12);
  BOOST_TEST((result.verdict == Verdict::kNotReproduced));
}

BOOST_AUTO_TEST_CASE(three_seeds_give_an_interval_over_seeds) {
  Gathered gathered;
  const int right[] = {40, 42, 44};
  for (int seed = 0; seed < 3; ++seed) {
    gathered.add("none", std::to_string(seed), kAll, some(right[seed]));
    gathered.add("rope", std::to_string(seed), kAll, some(10));
  }
  const ClaimResult result = gathered.judge("    tests:\n      - {where: {length: 40}, of: none, above: rope}\n");
  const TestResult& test = result.tests.at(0);
  BOOST_TEST(test.seeds == 3U);
  BOOST_TEST(std::abs(test.effect - 0.64) < 1e-12);
  // sd 0.04, t(0.975, 2) = 4.302653
  BOOST_TEST(std::abs(test.interval.low - (0.64 - 4.302653 * 0.04 / std::sqrt(3.0))) < 1e-6);
  BOOST_TEST((test.verdict == Verdict::kReproduced));
  // One seed against the claim, and it holds in the mean only.
  gathered.add("none", "3", kAll, some(5));
  gathered.add("rope", "3", kAll, some(10));
  BOOST_TEST((gathered.judge("    tests:\n      - {where: {length: 40}, of: none, above: rope}\n").verdict == Verdict::kPartly));
}

BOOST_AUTO_TEST_CASE(without_its_control_a_claim_cannot_be_tested) {
  Gathered gathered;
  gathered.add("none", "1", some(10), some(10));
  gathered.add("rope", "1", kAll, kNone);
  const ClaimResult result = gathered.judge(
      "    control:\n      - {where: {length: 20}, of: [none, rope], at_least: 0.9}\n    tests:\n      - {where: {length: 40}, of: none, above: rope}\n");
  BOOST_TEST((result.verdict == Verdict::kNotTestable));
  says(result.reason, "the control failed: em of none, rope at least 0.9 where length 20 (none 0.2, rope 1)");
}

BOOST_AUTO_TEST_CASE(what_was_not_measured_is_no_zero) {
  Gathered gathered;
  gathered.add("none", "1", kAll, {});
  gathered.add("rope", "1", kAll, kNone);
  const std::string test = "{where: {length: 40}, of: rope, above: none}\n";
  BOOST_TEST((gathered.judge("    tests:\n      - " + test).verdict == Verdict::kNotTestable));
  ClaimResult result = gathered.judge("    tests:\n      - {table: algo_summary, where: {length: 40}, of: none, at_most: 0.5}\n");
  BOOST_TEST((result.verdict == Verdict::kNotTestable));
  says(result.reason, "none has no number: na_positions");
  // Other seeds are no pair.
  gathered.add("alibi", "2", kAll, kAll);
  result = gathered.judge("    tests:\n      - {where: {length: 40}, of: alibi, above: rope}\n");
  says(result.reason, "no seed that all of them have");
}

BOOST_AUTO_TEST_CASE(a_summary_has_no_items_and_so_no_interval_unless_it_has_no_noise) {
  Gathered gathered;
  gathered.add("none", "1", kAll, some(40));
  const std::string test = "    tests:\n      - {table: algo_summary, where: {length: 40}, of: none, near: 0.8, within: 0.01";
  ClaimResult result = gathered.judge(test + "}\n");
  BOOST_TEST((result.verdict == Verdict::kPartly));
  says(result.tests.at(0).reason, "the table holds summaries");
  result = gathered.judge(test + ", noise: none}\n");
  BOOST_TEST((result.verdict == Verdict::kReproduced));
  BOOST_TEST(result.tests.at(0).interval.low == result.tests.at(0).effect);
}

BOOST_AUTO_TEST_CASE(a_number_may_be_per_another_and_less_the_same_elsewhere) {
  Gathered gathered;
  gathered.add("none", "1", kAll, some(10));
  const ClaimResult result = gathered.judge("    per: weight\n    tests:\n      - {where: {length: 20}, minus: {length: 40}, of: none, at_least: 0.3}\n");
  BOOST_TEST(std::abs(result.tests.at(0).effect - (0.5 - 0.1 - 0.3)) < 1e-12);
  says(result.tests.at(0).test->text(), "em per weight of none at least 0.3 where length 20, less where length 40");
}

BOOST_AUTO_TEST_CASE(runs_are_chosen_by_label_and_arms_by_a_column) {
  Gathered gathered;
  gathered.add("rope", "1", kAll, some(40), {{"from", "decay"}});
  gathered.add("rope", "1", kAll, some(10), {{"from", "drop"}});
  gathered.results.variants = {"decay", "drop"};
  gathered.results.runs[0].variant = "decay";
  gathered.results.runs[1].variant = "drop";
  BOOST_TEST(std::abs(gathered.judge("    tests:\n      - {runs: {from: drop}, where: {length: 40}, of: rope, at_least: 0}\n").tests.at(0).effect - 0.2) < 1e-12);
  const ClaimResult both = gathered.judge("    tests:\n      - {where: {length: 40}, of: 'rope, decay', above: 'rope, drop'}\n");
  BOOST_TEST(std::abs(both.tests.at(0).effect - 0.6) < 1e-12);
  const ClaimResult column = gathered.judge("    tests:\n      - {by: length, runs: {from: decay}, of: '20', above: '40'}\n");
  BOOST_TEST(std::abs(column.tests.at(0).effect - 0.2) < 1e-12);
}

BOOST_AUTO_TEST_CASE(mistakes_are_named_with_line_and_nearest_word) {
  const std::string head = "claims:\n  C1:\n    says: x\n    table: t\n    measure: m\n";
  std::string text = errors_of(head + "    test:\n      - {of: a, at_least: 1}\n");
  says(text, "claims.yml:6:5");
  says(text, "claim 'C1' has no key 'test'");
  says(text, "did you mean 'tests'?");
  says(errors_of(head + "    tests:\n      - {of: a, at_leest: 1}\n"), "did you mean 'at_least'?");
  says(errors_of(head + "    tests:\n      - {of: a}\n"), "found none");
  says(errors_of(head + "    tests:\n      - {of: a, above: b, at_most: 2}\n"), "found above and at_most");
  says(errors_of(head + "    tests:\n      - {of: a, near: 2}\n"), "'near' needs 'within'");
  says(errors_of(head + "    tests:\n      - {of: a, at_least: many}\n"), "'at_least' is a number, found 'many'");
  says(errors_of(head + "    tests: []\n"), "expected a list of tests");
  says(errors_of("claims:\n  C1: {says: x, tests: [{of: a, at_least: 1}]}\n"), "a test needs a table");
  says(errors_of("claims: []\n"), "expected a map of claims");
  says(errors_of("claim: {}\n"), "did you mean 'claims'?");

  Gathered gathered;
  gathered.add("none", "1", kAll, kAll);
  const auto error = [&](const std::string& test) {
    try {
      gathered.judge("    tests:\n      - " + test + "\n");
    } catch (const support::ConfigError& problem) {
      return std::string(problem.what());
    }
    return std::string("no error");
  };
  says(error("{where: {length: 40}, of: nome, at_least: 1}"), "did you mean 'none'?");
  says(error("{where: {lenght: 40}, of: none, at_least: 1}"), "did you mean 'length'?");
  says(error("{table: algo_trail, of: none, at_least: 1}"), "did you mean 'algo_trial'?");
  says(error("{table: algo_summary, of: none, at_least: 1}"), "name more columns under 'where'");
}

BOOST_AUTO_TEST_SUITE_END()
