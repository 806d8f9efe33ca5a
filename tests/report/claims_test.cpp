// Claims files, and verdicts on tables whose numbers are known.
#include "report/claims/claims.h"

#include "report/claims/claim_items.h"

#include <boost/test/unit_test.hpp>

#include <cmath>

#include "report/page/report.h"
#include "report/section_results.h"
#include "support/error.h"
#include "support/files.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

using namespace pe;
using namespace pe::report;

namespace {

/// Trials of 0 and 1 at two lengths, and a summary, as evaluation writes them.
class Gathered {
 public:
  void add(const std::string& encoding, const std::string& seed, const std::vector<double>& short_items,
           const std::vector<double>& long_items, std::map<std::string, std::string> labels = {}) {
    using enum artifact::ColumnType;
    artifact::Table trials("algo_trial", {{"length", kInteger, ""},
                                          {"trial", kInteger, ""},
                                          {"em", kReal, ""},
                                          {"weight", kReal, ""},
                                          {"loss", kReal, "nats"}});
    artifact::Table summary("algo_summary", {{"length", kInteger, ""}, {"em", kReal, ""}, {"status", kText, ""}});
    for (const auto& [length, items] : {std::pair(20, &short_items), std::pair(40, &long_items)}) {
      double sum = 0;
      for (std::size_t i = 0; i < items->size(); ++i) {
        trials.add_row({length, static_cast<std::int64_t>(i), (*items)[i], 2.0, (*items)[i]});
        sum += (*items)[i];
      }
      const bool there = !items->empty();
      summary.add_row({length, there ? artifact::Cell(sum / static_cast<double>(items->size())) : artifact::Cell(),
                       there ? "ok" : "na_positions"});
    }
    Run run;
    run.encoding = encoding;
    run.seed = seed;
    run.labels = std::move(labels);
    results.runs.push_back(run);
    results.encodings.push_back(encoding);
    results.tables["algo_trial"].push_back({results.runs.size() - 1, "test", std::move(trials)});
    results.tables["algo_summary"].push_back({results.runs.size() - 1, "test", std::move(summary)});
  }

  ClaimResult judge(const std::string& body) {
    const test::TempFolder folder;
    support::write_file_atomically(folder / "claims.yml",
                                   "claims:\n  C1:\n    says: a thing\n    table: algo_trial\n    measure: em\n" + body,
                                   false);
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

void says(const std::string& text, const std::string& part) {
  BOOST_TEST(text.find(part) != std::string::npos, "'" << part << "' is not in:\n" << text);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(claims)

BOOST_AUTO_TEST_CASE(verdicts_follow_the_rule) {
  const statistics::Interval above{0.1, 0.3}, across{-0.1, 0.5}, below{-0.3, -0.1}, wide{-0.4, 0.1}, none{NAN, NAN},
      zero{0, 0};
  const auto is = [](Verdict expected, const ComparisonEvidence& evidence) { return verdict_of(evidence) == expected; };
  BOOST_TEST(is(Verdict::kReproduced, {.interval = above, .refuting = above}));
  BOOST_TEST(is(Verdict::kInconclusive, {.interval = across, .refuting = across}));
  BOOST_TEST(is(Verdict::kRefuted, {.interval = below, .refuting = below}));
  BOOST_TEST(is(Verdict::kInconclusive, {.interval = below, .refuting = wide}));  // one of many comparisons
  BOOST_TEST(is(Verdict::kInconclusive, {.interval = none, .refuting = none}));
  BOOST_TEST(is(Verdict::kInconclusive, {.interval = above, .refuting = above, .in_band = false}));
  // One or two seeds settle nothing, in either direction.
  BOOST_TEST(is(Verdict::kInconclusive, {.interval = above, .refuting = above, .enough_seeds = false}));
  BOOST_TEST(is(Verdict::kInconclusive, {.interval = below, .refuting = below, .enough_seeds = false}));
  // "above" means above; a number to reach is reached when it is met.
  BOOST_TEST(is(Verdict::kRefuted, {.interval = zero, .refuting = zero}));
  BOOST_TEST(is(Verdict::kReproduced, {.interval = zero, .refuting = zero, .inclusive = true}));
  BOOST_TEST(verdict_name(Verdict::kInconclusive) == std::string("inconclusive"));
}

BOOST_AUTO_TEST_CASE(one_seed_is_inconclusive_whatever_its_items_show) {
  Gathered gathered;
  gathered.add("none", "1", kAll, some(40));
  gathered.add("rope", "1", kAll, some(5));
  const ClaimResult result = gathered.judge("    tests:\n      - {where: {length: 40}, of: none, above: rope}\n");
  BOOST_TEST((result.verdict == Verdict::kInconclusive));
  says(result.reason, "one seed: three are needed");
  BOOST_TEST(result.seeds == 1U);
  const TestResult& test = result.tests.at(0);
  BOOST_TEST(std::abs(test.effect - 0.7) < 1e-12);
  BOOST_TEST(test.items == 50U);
  BOOST_TEST(test.seeds == 1U);
  BOOST_TEST(test.interval.low > 0.5);
  BOOST_TEST(test.interval.high < 0.9);
  BOOST_TEST(test.observed == "none 0.8; rope 0.1");
  BOOST_TEST(test.test->text() == "em of none above rope where length 40");
}

BOOST_AUTO_TEST_CASE(a_difference_within_the_noise_is_inconclusive_in_both_directions) {
  Gathered gathered;
  const int none[] = {25, 27, 24}, rope[] = {24, 25, 25};
  for (int seed = 0; seed < 3; ++seed) {
    gathered.add("none", std::to_string(seed), kAll, some(none[seed]));
    gathered.add("rope", std::to_string(seed), kAll, some(rope[seed]));
  }
  const std::string tests = "    tests:\n      - {where: {length: 40}, of: ";
  const ClaimResult open = gathered.judge(tests + "none, above: rope}\n");
  BOOST_TEST((open.verdict == Verdict::kInconclusive));
  says(open.reason, "3 seeds can show a difference of ");
  BOOST_TEST(open.tests.at(0).detectable > 0);
  BOOST_TEST((gathered.judge(tests + "rope, above: none}\n").verdict == Verdict::kInconclusive));
  BOOST_TEST((gathered.judge(tests + "none, above: rope, margin: 0.5}\n").verdict == Verdict::kRefuted));
}

BOOST_AUTO_TEST_CASE(effect_and_interval_belong_to_one_comparison) {
  Gathered gathered;
  const int none[] = {40, 42, 44}, t5[] = {30, 20, 34}, rope[] = {5, 6, 7};
  for (int seed = 0; seed < 3; ++seed) {
    gathered.add("none", std::to_string(seed), kAll, some(none[seed]));
    gathered.add("t5", std::to_string(seed), kAll, some(t5[seed]));
    gathered.add("rope", std::to_string(seed), kAll, some(rope[seed]));
  }
  const std::string tests = "    tests:\n      - {where: {length: 40}, of: ";
  const TestResult both = gathered.judge(tests + "[none, t5], above: rope}\n").tests.at(0);
  const TestResult alone = gathered.judge(tests + "t5, above: rope}\n").tests.at(0);
  BOOST_TEST(both.shown == "t5 above rope");
  BOOST_TEST(both.effect == alone.effect);
  BOOST_TEST(both.interval.low == alone.interval.low);
  BOOST_TEST(both.interval.high == alone.interval.high);
  BOOST_TEST(both.comparisons == 2U);
}

BOOST_AUTO_TEST_CASE(near_is_two_one_sided_tests) {
  Gathered gathered;
  const int none[] = {24, 25, 26};
  for (int seed = 0; seed < 3; ++seed) gathered.add("none", std::to_string(seed), kAll, some(none[seed]));
  const auto judged = [&](const std::string& rest) {
    return gathered.judge("    tests:\n      - {measure: loss, where: {length: 40}, of: none, near: " + rest + "}\n")
        .tests.at(0);
  };
  const TestResult wide = judged("0.5, within: 0.4");
  BOOST_TEST((wide.verdict == Verdict::kReproduced));
  BOOST_TEST(wide.level == 0.9);
  BOOST_TEST((judged("0.5, within: 0.01").verdict == Verdict::kInconclusive));
  BOOST_TEST((judged("0.9, within: 0.01").verdict == Verdict::kRefuted));
  // The interval of level 90 % is shorter than the interval of an inequality at 95 %.
  const TestResult at_least =
      gathered.judge("    tests:\n      - {measure: loss, where: {length: 40}, of: none, at_least: 0.1}\n").tests.at(0);
  BOOST_TEST(wide.interval.high - wide.interval.low < at_least.interval.high - at_least.interval.low);
}

BOOST_AUTO_TEST_CASE(two_arms_at_a_bound_are_not_testable) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3"}) {
    gathered.add("none", seed, kAll, kAll);
    gathered.add("rope", seed, kAll, kAll);
    gathered.add("t5", seed, kAll, some(10));
  }
  const std::string tests = "    tests:\n      - {where: {length: 40}, of: none, above: ";
  const ClaimResult result = gathered.judge(tests + "rope}\n");
  BOOST_TEST((result.verdict == Verdict::kNotTestable));
  says(result.reason, "none and rope are both at a bound");
  const ClaimResult other = gathered.judge(tests + "[rope, t5]}\n");
  BOOST_TEST((other.verdict == Verdict::kReproduced));
  says(other.reason, "1 of 2 comparisons could not be tested");
}

BOOST_AUTO_TEST_CASE(a_failed_control_excludes_the_comparisons_of_its_arm) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3"}) {
    gathered.add("none", seed, kAll, some(45));
    gathered.add("t5", seed, some(5), some(4));  // it has not learned
    gathered.add("rope", seed, kAll, some(5));
  }
  const auto judged = [&](const std::string& learned, const std::string& compared) {
    return gathered.judge("    control:\n      - {where: {length: 20}, of: " + learned +
                          ", at_least: 0.9}\n    tests:\n      - {where: {length: 40}, of: " + compared +
                          ", above: rope}\n");
  };
  const ClaimResult whole = judged("[none, t5, rope]", "[none, t5]");
  BOOST_TEST((whole.verdict == Verdict::kReproduced));
  says(whole.reason, "1 of 2 comparisons could not be tested");
  const ClaimResult nothing = judged("[none, t5, rope]", "t5");
  BOOST_TEST((nothing.verdict == Verdict::kNotTestable));
  says(nothing.reason, "the control failed: em of none, t5, rope at least 0.9");
  // A control of an arm that the claim does not compare concerns all of it.
  BOOST_TEST((judged("t5", "none").verdict == Verdict::kNotTestable));
  // Also where an arm that it compares has failed with it.
  Gathered both;
  for (const char* seed : {"1", "2", "3"}) {
    both.add("none", seed, kAll, some(45));
    both.add("alibi", seed, some(4), some(40));
    both.add("t5", seed, some(5), some(4));
    both.add("rope", seed, kAll, some(5));
  }
  const ClaimResult more = both.judge(
      "    control:\n      - {where: {length: 20}, of: [alibi, t5], at_least: 0.9}\n    tests:\n      - {where: "
      "{length: 40}, of: [none, alibi], above: rope}\n");
  BOOST_TEST((more.verdict == Verdict::kNotTestable));
}

BOOST_AUTO_TEST_CASE(a_control_of_an_arm_without_a_number_has_not_failed) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3"}) {
    gathered.add("none", seed, kAll, some(45));
    gathered.add("rope", seed, some(5), some(5));  // it has not learned
  }
  gathered.results.missing = {"scores encoding=t5,seed=1: the training failed"};
  const auto control = [&](const std::string& arms) {
    const ClaimResult result = gathered.judge("    control:\n      - {where: {length: 20}, of: " + arms +
                                              ", at_least: 0.9}\n    tests:\n      - {where: {length: 40}, of: none, "
                                              "above: rope}\n");
    gathered.results.claims = gathered.claims;
    const Section section = sample::section_of("claims", gathered.results);
    return std::pair(sample::cell_of(sample::table_of(section, "claims"), 0, "verdict").text, result.reason);
  };
  BOOST_TEST(control("none").first == "passed");
  BOOST_TEST(control("[none, rope]").first == "failed");
  BOOST_TEST(control("[none, rope, t5]").first == "failed");
  const auto [verdict, reason] = control("[none, t5]");
  BOOST_TEST(verdict == "not testable");
  says(reason, "the control could not be tested: em of none, t5 at least 0.9");
  says(reason, "t5 is missing: the training failed");
}

BOOST_AUTO_TEST_CASE(more_seeds_make_reproduced_more_likely) {
  // One seed in five disagrees, and the mean is clear: a rule "in every seed" would never find it.
  Gathered gathered;
  for (int seed = 0; seed < 15; ++seed) {
    gathered.add("none", std::to_string(seed), kAll, some(seed % 5 == 0 ? 9 : 30 + seed % 3));
    gathered.add("rope", std::to_string(seed), kAll, some(10));
  }
  BOOST_TEST((gathered.judge("    tests:\n      - {where: {length: 40}, of: none, above: rope}\n").verdict ==
              Verdict::kReproduced));
}

BOOST_AUTO_TEST_CASE(the_least_favourable_arm_and_the_worst_test_decide) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3", "4", "5"}) {
    gathered.add("none", seed, kAll, some(45));
    gathered.add("t5", seed, kAll, some(10));
    gathered.add("rope", seed, kAll, some(40));
  }
  const ClaimResult result = gathered.judge(
      "    tests:\n      - {where: {length: 20}, of: [none, t5], at_least: 0.9}\n      - {where: {length: 40}, of: "
      "[none, t5], above: rope}\n");
  BOOST_TEST((result.tests.at(0).verdict == Verdict::kReproduced));
  BOOST_TEST(std::abs(result.tests.at(1).effect + 0.6) < 1e-12);
  BOOST_TEST((result.verdict == Verdict::kRefuted));
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
  // Of seeds alone: sd 0.04, t(0.975, 2) = 4.302653. The 50 items add their own noise.
  BOOST_TEST(test.interval.low < 0.64 - 4.302653 * 0.04 / std::sqrt(3.0));
  BOOST_TEST(test.interval.low > 0.3);
  BOOST_TEST(result.seeds == 3U);
  BOOST_TEST((test.verdict == Verdict::kReproduced));
  // One seed against the claim widens the interval beyond zero.
  gathered.add("none", "3", kAll, some(5));
  gathered.add("rope", "3", kAll, some(10));
  BOOST_TEST((gathered.judge("    tests:\n      - {where: {length: 40}, of: none, above: rope}\n").verdict ==
              Verdict::kInconclusive));
}

BOOST_AUTO_TEST_CASE(a_claim_whose_seeds_are_added_is_corrected_for_looks) {
  Gathered gathered;
  const auto add = [&](int seed, int right) {
    gathered.add("none", std::to_string(seed), kAll, some(right));
    gathered.add("rope", std::to_string(seed), kAll, some(10));
  };
  const std::string body = "    tests:\n      - {where: {length: 40}, of: none, above: rope}\n";
  for (const int seed : {0, 1, 2}) add(seed, 36 + 6 * seed);
  BOOST_TEST((gathered.judge(body).verdict == Verdict::kReproduced));
  BOOST_TEST(!sequential_state(gathered.results, judge(gathered.claims, gathered.results)).has_value());
  gathered.results.sequential = {.claim = "C1", .from = 3, .most = 8};
  ClaimResult result = gathered.judge(body);
  BOOST_TEST((result.verdict == Verdict::kInconclusive));  // three of eight seeds: a test at 0.05 %
  BOOST_TEST(std::abs(1 - result.tests.at(0).level - 5.0405e-4) < 1e-7);
  BOOST_TEST(result.tests.at(0).interval.low < 0);
  SequentialState look = *sequential_state(gathered.results, {result});
  BOOST_TEST(look.seeds == 3u);
  BOOST_TEST(look.look == 1u);
  BOOST_TEST(look.looks == 6u);
  BOOST_TEST(std::abs(look.spent - (1 - result.tests.at(0).level)) < 1e-12);  // of a first look
  add(3, 42);
  result = gathered.judge(body);
  BOOST_TEST((result.verdict == Verdict::kReproduced));
  look = *sequential_state(gathered.results, {result});
  BOOST_TEST(look.look == 2u);
  BOOST_TEST(look.spent > look.level);  // of both looks
  BOOST_TEST(to_json(look).at("verdict") == "reproduced");
  // Looks may begin later; other claims are not corrected.
  gathered.results.sequential = {.claim = "C1", .from = 5, .most = 8};
  says(gathered.judge(body).reason, "4 seeds: 5 are needed");
  gathered.results.sequential.claim = "C2";
  BOOST_TEST((gathered.judge(body).verdict == Verdict::kReproduced));
  // Two one-sided tests have intervals of twice the level, and each spends as much as one two-sided test.
  gathered.results.sequential = {.claim = "C1", .from = 3, .most = 8};
  result = gathered.judge("    tests:\n      - {where: {length: 40}, of: none, near: 0.8, within: 0.5}\n");
  look = *sequential_state(gathered.results, {result});
  BOOST_TEST(std::abs(1 - result.tests.at(0).level - look.level) < 1e-12);
  BOOST_TEST(look.spent <= look.alpha);
  gathered.results.sequential.most = 4;  // the last look
  result = gathered.judge("    tests:\n      - {where: {length: 40}, of: none, near: 0.8, within: 0.5}\n");
  BOOST_TEST(std::abs(sequential_state(gathered.results, {result})->spent - 0.05) < 1e-12);
}

// Before anything is trained: a stage checks its config at the start of a run.
BOOST_AUTO_TEST_CASE(a_study_that_adds_seeds_needs_a_claim_that_exists) {
  const test::TempFolder folder;
  const std::string file = (folder / "claims.yml").string();
  support::write_file_atomically(
      file, "claims:\n  C1:\n    says: a\n    table: t\n    measure: m\n    tests:\n      - {of: a, at_least: 1}\n",
      false);
  const auto error_of = [](const Json& config) -> std::string {
    try {
      support::make_config<ReportConfig>(config);
    } catch (const support::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  const auto sequential = [](const char* claim) {
    return Json{{"claim", claim}, {"from", 3}, {"most", 8}, {"alpha", 0.05}};
  };
  BOOST_TEST(error_of({{"claims", file}, {"sequential", sequential("C1")}}) == "");
  BOOST_TEST(error_of({{"claims", (folder / "absent.yml").string()}}) == "");  // a missing input
  support::write_file_atomically(folder / "wrong.yml", "claim: {}\n", false);
  says(error_of({{"claims", (folder / "wrong.yml").string()}}), "wrong.yml:1:1");
  says(error_of({{"claims", file}, {"sequential", sequential("C2")}}), "sequential.claim: no claim 'C2' in " + file);
  says(error_of({{"claims", file}, {"sequential", sequential("C2")}}), "did you mean 'C1'?");
  says(error_of({{"sequential", sequential("C1")}}), "sequential.claim needs a file of claims: 'claims'");
}

BOOST_AUTO_TEST_CASE(a_number_to_reach_is_reached_when_it_is_met) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3", "4", "5"}) gathered.add("none", seed, kAll, kNone);
  const auto verdict = [&](const std::string& test) {
    return gathered.judge("    tests:\n      - {" + test + "}\n").verdict;
  };
  BOOST_TEST((verdict("where: {length: 20}, of: none, at_least: 1") == Verdict::kReproduced));
  BOOST_TEST((verdict("where: {length: 40}, of: none, at_most: 0") == Verdict::kReproduced));
  BOOST_TEST((verdict("where: {length: 20}, of: none, at_least: 0.9") == Verdict::kReproduced));
  // 50 right answers of 50 do not show 99 %.
  BOOST_TEST((verdict("where: {length: 20}, of: none, at_least: 0.99") == Verdict::kInconclusive));
}

BOOST_AUTO_TEST_CASE(a_score_is_judged_by_its_median_and_shows_each_seed) {
  Gathered gathered;
  const auto judged = [&](const std::string& test) {
    return gathered.judge("    tests:\n      - {where: {length: 40}, of: none, " + test + "}\n");
  };
  for (const char* seed : {"1", "2", "3", "4"}) gathered.add("none", seed, kAll, some(49));
  // Four seeds that agree are too few: half of all trainings may fail, and one study of sixteen shows this.
  const ClaimResult four = judged("at_least: 0.5");
  BOOST_TEST((four.verdict == Verdict::kInconclusive));
  BOOST_TEST(four.reason == "4 seeds: five are needed for a score, since seeds often learn a task or do not");
  BOOST_TEST(std::isnan(four.tests.at(0).interval.low));
  gathered.add("none", "5", kAll, some(48));
  const ClaimResult five = judged("at_least: 0.5");
  BOOST_TEST((five.verdict == Verdict::kReproduced), five.reason);
  BOOST_TEST(five.tests.at(0).level == 0.9);
  BOOST_TEST(five.tests.at(0).effect == 0.48, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(five.tests.at(0).observed == "none median 0.98 (0.98, 0.98, 0.98, 0.98, 0.96)");
  // Five seeds below a bound do not refute it, and the reason is no contradiction of the interval.
  const ClaimResult below = judged("at_most: 0.5");
  BOOST_TEST((below.verdict == Verdict::kInconclusive));
  BOOST_TEST(below.reason ==
             "the interval excludes the claim, but not at the level of \"refuted\", which needs 6 seeds for a score");
  // The items are few, too: 49 of 50 do not show 95 %.
  BOOST_TEST((judged("at_least: 0.95").verdict == Verdict::kInconclusive));
  // One seed that has not learned: a t interval would say 0.78 ± 0.6. The typical training is unchanged, and not shown
  // by five.
  gathered.add("none", "6", kAll, kNone);
  const TestResult six = judged("at_least: 0.5").tests.at(0);
  BOOST_TEST((six.verdict == Verdict::kInconclusive));
  BOOST_TEST(six.effect == 0.48, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(six.interval.low < -0.4);
  BOOST_TEST((judged("at_most: 0.5").verdict == Verdict::kInconclusive));
  // A control goes by the mean, which the seed that has not learned lowers.
  const ClaimResult gate = gathered.judge(
      "    control:\n      - {where: {length: 40}, of: none, at_least: 0.9}\n    tests:\n      - {where: {length: 20}, "
      "of: none, at_least: 0.5}\n");
  BOOST_TEST((gate.verdict == Verdict::kNotTestable));
}

BOOST_AUTO_TEST_CASE(a_score_less_that_elsewhere_is_a_score_and_nats_are_none) {
  Gathered gathered;
  for (int seed = 0; seed < 6; ++seed) gathered.add("none", std::to_string(seed), kAll, seed == 0 ? kAll : some(2));
  const auto judged = [&](const std::string& test) {
    return gathered.judge("    tests:\n      - {" + test + "}\n").tests.at(0);
  };
  const TestResult loss = judged("where: {length: 20}, minus: {length: 40}, of: none, at_least: 0.5");
  BOOST_TEST(loss.is_score);
  BOOST_TEST(loss.effect == 0.96 - 0.5, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(loss.interval.low < -0.5 + 1e-12);  // the seed that loses nothing
  BOOST_TEST(!judged("measure: loss, where: {length: 20}, of: none, at_least: 0.5").is_score);
  BOOST_TEST(!judged("measure: weight, where: {length: 20}, of: none, at_least: 0.5").is_score);     // 2
  BOOST_TEST((judged("where: {length: 20}, of: none, at_most: 0.5").verdict == Verdict::kRefuted));  // six seeds of six
}

BOOST_AUTO_TEST_CASE(a_band_and_the_published_number_are_numbers) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3", "4", "5"}) {
    gathered.add("none", seed, kAll, some(40));
    gathered.add("rope", seed, kAll, some(10));
  }
  const auto judged = [&](const std::string& rest) {
    return gathered.judge("    tests:\n      - {where: {length: 40}, of: none, " + rest + "}\n");
  };
  const ClaimResult inside = judged("at_least: 0.3, published: 0.97, band: [0.7, 0.9]");
  BOOST_TEST((inside.verdict == Verdict::kReproduced));
  BOOST_TEST(*inside.tests.at(0).test->published == 0.97);
  const ClaimResult outside = judged("at_least: 0.3, band: [0.9, 1]");
  BOOST_TEST((outside.verdict == Verdict::kInconclusive));
  says(outside.reason, "outside the band");
  BOOST_TEST((judged("above: rope, band: [0.5, 0.7]").verdict == Verdict::kReproduced));  // 0.8 − 0.2
  BOOST_TEST((judged("above: rope, band: [0.7, 0.9]").verdict == Verdict::kInconclusive));
}

BOOST_AUTO_TEST_CASE(arms_are_paired_by_item_and_not_by_row) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3"}) {
    gathered.add("none", seed, kAll, some(30));
    gathered.add("rope", seed, kAll, some(20));
  }
  const std::string test = "    tests:\n      - {where: {length: 40}, of: none, above: rope}\n";
  const ClaimResult before = gathered.judge(test);
  // The same rows in another order are the same items.
  for (GatheredTable& table : gathered.results.tables["algo_trial"]) {
    if (gathered.results.runs[table.run].encoding != "rope") continue;
    artifact::Table turned("algo_trial", table.table.columns());
    for (std::size_t row = table.table.rows(); row-- > 0;) {
      std::vector<artifact::Cell> cells;
      for (std::size_t c = 0; c < table.table.columns().size(); ++c) cells.push_back(table.table.cell(row, c));
      turned.add_row(cells);
    }
    table.table = std::move(turned);
  }
  const ClaimResult after = gathered.judge(test);
  BOOST_TEST(after.tests.at(0).interval.low == before.tests.at(0).interval.low, boost::test_tools::tolerance(1e-12));
  // As many items, but others.
  for (GatheredTable& table : gathered.results.tables["algo_trial"]) {
    if (gathered.results.runs[table.run].encoding != "rope") continue;
    artifact::Table others("algo_trial", table.table.columns());
    for (std::size_t row = 0; row < table.table.rows(); ++row) {
      others.add_row({table.table.cell(row, 0), static_cast<std::int64_t>(1000 + row), table.table.cell(row, 2),
                      table.table.cell(row, 3), table.table.cell(row, 4)});
    }
    table.table = std::move(others);
  }
  const ClaimResult apart = gathered.judge(test);
  BOOST_TEST((apart.verdict == Verdict::kNotTestable));
  says(apart.reason, "not tested on the same items");
  // One item that all have is no sample.
  for (GatheredTable& table : gathered.results.tables["algo_trial"]) {
    if (gathered.results.runs[table.run].encoding != "rope") continue;
    artifact::Table others("algo_trial", table.table.columns());
    for (std::size_t row = 0; row < table.table.rows(); ++row) {
      const auto trial = static_cast<std::int64_t>(row % 50 == 0 ? 0 : 1000 + row);
      others.add_row({table.table.cell(row, 0), trial, table.table.cell(row, 2), table.table.cell(row, 3),
                      table.table.cell(row, 4)});
    }
    table.table = std::move(others);
  }
  says(gathered.judge(test).reason, "not tested on the same items");
}

BOOST_AUTO_TEST_CASE(an_interval_of_a_difference_of_scores_stays_within_them) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3"}) {
    gathered.add("none", seed, kAll, some(seed[0] == '1' ? 50 : 3));
    gathered.add("rope", seed, kAll, some(seed[0] == '1' ? 1 : 20));
  }
  const auto interval = [&](const std::string& rest) {
    return gathered.judge("    tests:\n      - {where: {length: 40}, of: none, " + rest + "}\n").tests.at(0).interval;
  };
  BOOST_TEST(interval("above: rope").high == 1.0);
  BOOST_TEST(interval("above: rope").low == -1.0);
  // The loss of one arm, less the loss of another: each is from -1 to 1.
  const TestResult losses =
      gathered.judge("    tests:\n      - {where: {length: 20}, minus: {length: 40}, of: rope, above: none}\n")
          .tests.at(0);
  BOOST_TEST(losses.interval.high > 1.0);
  BOOST_TEST(losses.interval.high <= 2.0);
}

BOOST_AUTO_TEST_CASE(a_score_is_known_by_its_column_and_not_by_its_values) {
  Quantity quantity{.table = "t", .measure = "em"};
  BOOST_TEST(names_score(quantity));
  quantity.measure = "token_correct";
  BOOST_TEST(!names_score(quantity));  // a count
  quantity.per = "token_total";
  BOOST_TEST(names_score(quantity));
  quantity = {.table = "dummy_grid", .measure = "det_acc"};
  BOOST_TEST(names_score(quantity));
  quantity = {.table = "lm_length", .measure = "value"};
  for (const auto& [measure, is_score] : {std::pair("ratio", false),
                                          {"degradation_auc", false},
                                          {"ood_mean_em", true},
                                          {"ordinal_3_40", true},
                                          {"elements_from_16_80", true},
                                          {"gain_4x", false},
                                          {"3_40", false}}) {
    quantity.where["measure"] = {measure};
    BOOST_TEST(names_score(quantity) == is_score, measure);
  }
  // A loss that happens to be below one nat is judged by its mean.
  Gathered gathered;
  for (const char* seed : {"1", "2", "3"}) gathered.add("none", seed, kAll, some(20));
  gathered.results.tables["algo_trial"].clear();
  for (std::size_t run = 0; run < 3; ++run) {
    artifact::Table table("algo_trial",
                          {{"trial", artifact::ColumnType::kInteger, ""}, {"ratio", artifact::ColumnType::kReal, ""}});
    for (int i = 0; i < 20; ++i) table.add_row({i, 0.5 + 0.01 * (i % 3)});
    gathered.results.tables["algo_trial"].push_back({run, "test", std::move(table)});
  }
  const TestResult mean = gathered.judge("    tests:\n      - {measure: ratio, of: none, at_most: 0.9}\n").tests.at(0);
  BOOST_TEST(!mean.is_score);
  BOOST_TEST((mean.verdict == Verdict::kReproduced), mean.reason);
}

BOOST_AUTO_TEST_CASE(a_control_on_other_items_is_not_testable_and_has_not_failed) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3"}) {
    gathered.add("none", seed, kAll, some(45));
    gathered.add("rope", seed, kAll, some(5));
  }
  // Seed 3 of `none` was asked other trials.
  artifact::Table other("algo_trial", {{"length", artifact::ColumnType::kInteger, ""},
                                       {"trial", artifact::ColumnType::kInteger, ""},
                                       {"em", artifact::ColumnType::kReal, ""}});
  for (int i = 100; i < 150; ++i) {
    other.add_row({20, i, 1.0});
    other.add_row({40, i, 1.0});
  }
  gathered.results.tables["algo_trial"].at(4).table = std::move(other);
  const ClaimResult result = gathered.judge(
      "    control:\n      - {where: {length: 20}, of: none, at_least: 0.9}\n    tests:\n      - {where: {length: 40}, "
      "of: none, above: rope}\n");
  says(result.control.at(0).reason, "the arms were not tested on the same items");
  BOOST_TEST((result.control.at(0).verdict == Verdict::kNotTestable));
}

BOOST_AUTO_TEST_CASE(what_a_partial_grid_lacks_is_not_testable_and_misspellings_stay_errors) {
  Gathered gathered;
  gathered.add("none", "1", kAll, some(40));
  gathered.results.missing = {"scores encoding=rope,seed=1: the training failed"};
  const ClaimResult result = gathered.judge("    tests:\n      - {where: {length: 40}, of: none, above: rope}\n");
  BOOST_TEST((result.verdict == Verdict::kNotTestable));
  says(result.reason, "rope is missing: the training failed");
  BOOST_CHECK_THROW(gathered.judge("    tests:\n      - {where: {length: 40}, of: none, above: rpoe}\n"),
                    support::ConfigError);
  const ClaimResult table = gathered.judge("    tests:\n      - {table: retrieval_trial, of: none, at_least: 1}\n");
  BOOST_TEST((table.verdict == Verdict::kNotTestable));
  says(table.reason, "no table 'retrieval_trial' was gathered");
}

BOOST_AUTO_TEST_CASE(what_a_run_leaves_out_is_not_testable_and_other_claims_are_judged) {
  Gathered gathered;
  gathered.add("none", "1", kAll, some(40));
  gathered.add("rope", "1", kAll, some(10));
  const std::string alibi = "    tests:\n      - {where: {length: 40}, of: none, above: alibi}\n";
  BOOST_CHECK_THROW(gathered.judge(alibi), support::ConfigError);
  gathered.results.left_out = {"encoding=alibi", "size=small"};
  const ClaimResult result = gathered.judge(alibi);
  BOOST_TEST((result.verdict == Verdict::kNotTestable));
  says(result.reason, "alibi was left out of this run (axis encoding)");
  BOOST_TEST((gathered.judge("    tests:\n      - {where: {length: 40}, of: none, above: rope}\n").verdict !=
              Verdict::kNotTestable));
  // A variant's name has changed with the axis; a table may have been the other label's.
  says(gathered.judge("    tests:\n      - {where: {length: 40}, of: none, above: \"rope, small\"}\n").reason,
       "rope, small was left out of this run (axis size)");
  says(gathered.judge("    tests:\n      - {table: retrieval_trial, of: none, at_least: 1}\n").reason,
       "encoding=alibi, size=small were left out");
  BOOST_TEST(
      (gathered.judge("    tests:\n      - {where: {length: 40}, of: none, at_least: 0.1}\n    runs: {size: small}\n")
           .verdict == Verdict::kNotTestable));
  // A misspelling stays an error.
  BOOST_CHECK_THROW(gathered.judge("    tests:\n      - {where: {length: 40}, of: none, above: rpoe}\n"),
                    support::ConfigError);
}

BOOST_AUTO_TEST_CASE(names_that_no_result_will_have_are_found_before_a_training) {
  const test::TempFolder folder;
  const std::vector<std::string> labels = {"scores stage=evaluate,encoding=rope,depth=4,arm=drop,seed=1",
                                           "scores stage=evaluate,encoding=none,depth=4,arm=nodrop,seed=1",
                                           "curves stage=trunk,seed=1"};
  std::vector<std::string> left_out = {"seed=2"};
  const auto errors = [&](const std::string& tests, const std::vector<std::string>& of) -> std::string {
    support::write_file_atomically(
        folder / "claims.yml",
        "claims:\n  C1:\n    says: a thing\n    table: algo_trial\n    measure: em\n    tests:\n" + tests, false);
    try {
      check_names(read_claims(folder / "claims.yml"), of, left_out);
    } catch (const support::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  BOOST_TEST(errors("      - {of: \"rope, drop\", above: [none]}\n", labels) == "");
  BOOST_TEST(errors("      - {of: \"rope, drop, depth 4\", above: \"none, depth 4\"}\n", labels) == "");
  BOOST_TEST(errors("      - {of: rope, above: none, runs: {stage: evaluate, depth: 4.0}}\n", labels) == "");
  BOOST_TEST(errors("      - {of: first, above: second, by: half, table: own}\n", labels) == "");
  for (const char* slip : {"measure: emm", "where: {lenght: 40}", "minus: {tsak: copy}", "by: half", "per: itme"}) {
    const std::string error = errors(support::cat("      - {of: \"rope, drop\", above: [none], ", slip, "}\n"), labels);
    BOOST_TEST(error.find("table 'algo_trial' has no column '") != std::string::npos, slip << ": " << error);
  }
  BOOST_TEST(errors("      - {of: rope, at_least: 1, measure: emm}\n", {}).find("no column 'emm'") !=
             std::string::npos);
  const std::string both =
      errors("      - {of: rope, above: rpoe}\n      - {of: \"rope, nodorp\", above: none}\n", labels);
  says(both, "claims.yml:7");
  says(both, "no result has the encoding 'rpoe'");
  says(both, "did you mean 'rope'?");
  says(both, "claims.yml:8");
  says(both, "no result has the label 'nodorp'");
  says(both, "did you mean 'nodrop'?");
  says(errors("      - {of: rope, above: none, runs: {stgae: evaluate}}\n", labels), "did you mean 'stage'?");
  says(errors("      - {of: rope, above: none, runs: {stage: evalaute}}\n", labels), "did you mean 'evaluate'?");
  // A narrowed run may lack whole stages.
  left_out = {"encoding=alibi"};
  BOOST_TEST(errors("      - {of: rope, above: rpoe}\n", labels) == "");
  left_out.clear();
  // Encodings of results without such a label are in their tables.
  BOOST_TEST(errors("      - {of: rope, above: rpoe}\n", {"scores stage=evaluate,seed=1"}) == "");
  BOOST_TEST(errors("      - {of: rope, above: rpoe}\n", {}) == "");
}

BOOST_AUTO_TEST_CASE(an_arm_is_found_by_all_of_its_labels_where_an_axis_was_narrowed) {
  // Of the axes `after`, `arm` and `depth` only `arm` tells these runs apart, so names have its label alone.
  Gathered gathered;
  for (const char* seed : {"1", "2", "3"}) {
    for (const bool drops : {true, false}) {
      const std::string arm = drops ? "drop" : "nodrop";
      gathered.add("rope", seed, kAll, some(drops ? 10 : 40),
                   {{"encoding", "rope"}, {"after", "p50"}, {"arm", arm}, {"depth", "4"}, {"seed", seed}});
      gathered.results.runs.back().variant = arm;
    }
  }
  gathered.results.variants = {"drop", "nodrop"};
  gathered.results.left_out = {"after=p90", "depth=16"};
  const auto verdict = [&](const std::string& above, const std::string& below) {
    return gathered
        .judge("    tests:\n      - {where: {length: 40}, of: \"" + above + "\", above: \"" + below + "\"}\n")
        .verdict;
  };
  BOOST_TEST((verdict("rope, p50, nodrop, depth 4", "rope, p50, drop, depth 4") == Verdict::kReproduced));
  BOOST_TEST((verdict("rope, nodrop", "rope, drop, p50") == Verdict::kReproduced));
  BOOST_TEST((verdict("rope, p90, nodrop, depth 4", "rope, p90, drop, depth 4") == Verdict::kNotTestable));
  BOOST_TEST((verdict("rope, p50, nodrop, 4", "rope, drop") == Verdict::kNotTestable));
}

BOOST_AUTO_TEST_CASE(without_its_control_a_claim_cannot_be_tested) {
  Gathered gathered;
  gathered.add("none", "1", some(10), some(10));
  gathered.add("rope", "1", kAll, kNone);
  const ClaimResult result = gathered.judge(
      "    control:\n      - {where: {length: 20}, of: [none, rope], at_least: 0.9}\n    tests:\n      - {where: "
      "{length: 40}, of: none, above: rope}\n");
  BOOST_TEST((result.verdict == Verdict::kNotTestable));
  says(result.reason, "the control failed: em of none, rope at least 0.9 where length 20 (none 0.2, rope 1)");
}

BOOST_AUTO_TEST_CASE(what_was_not_measured_is_no_zero) {
  Gathered gathered;
  gathered.add("none", "1", kAll, {});
  gathered.add("rope", "1", kAll, kNone);
  const std::string test = "{where: {length: 40}, of: rope, above: none}\n";
  BOOST_TEST((gathered.judge("    tests:\n      - " + test).verdict == Verdict::kNotTestable));
  ClaimResult result =
      gathered.judge("    tests:\n      - {table: algo_summary, where: {length: 40}, of: none, at_most: 0.5}\n");
  BOOST_TEST((result.verdict == Verdict::kNotTestable));
  says(result.reason, "none has no number: na_positions");
  // Other seeds are no pair.
  gathered.add("alibi", "2", kAll, kAll);
  result = gathered.judge("    tests:\n      - {where: {length: 40}, of: alibi, above: rope}\n");
  says(result.reason, "no seed that all of them have");
}

BOOST_AUTO_TEST_CASE(the_least_favourable_test_is_shown) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3", "4", "5"}) {
    gathered.add("none", seed, kAll, some(40 + seed[0] % 3));
    gathered.add("rope", seed, kAll, some(10));
    gathered.add("alibi", seed, kAll, some(30));
  }
  const ClaimResult result = gathered.judge(
      "    tests:\n      - {where: {length: 40}, of: none, above: rope}\n"
      "      - {where: {length: 40}, of: none, above: alibi}\n");
  BOOST_TEST((result.verdict == Verdict::kReproduced));
  BOOST_TEST_REQUIRE(result.deciding.has_value());
  BOOST_TEST(*result.deciding == 1u);
  // A number without noise is no less favourable than one with noise, however small it is.
  const ClaimResult exact = gathered.judge(
      "    tests:\n      - {where: {length: 20}, of: none, at_least: 0.9, noise: none}\n"
      "      - {where: {length: 40}, of: none, above: alibi}\n");
  BOOST_TEST((exact.verdict == Verdict::kReproduced));
  BOOST_TEST(exact.deciding.value() == 1u);
}

BOOST_AUTO_TEST_CASE(what_was_not_measured_is_named_with_its_labels) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3"})
    gathered.add("rope", seed, kAll, some(10), {{"encoding", "rope"}, {"seed", seed}, {"size", "small"}});
  const ClaimResult result =
      gathered.judge("    tests:\n      - {where: {length: 40}, of: rope, at_least: 0.5, runs: {size: large}}\n");
  BOOST_TEST((result.verdict == Verdict::kNotTestable));
  says(result.reason, "rope was not measured where length 40, size large");
  BOOST_TEST(result.tests.at(0).level == 0.95);  // nothing says that it is about scores
}

BOOST_AUTO_TEST_CASE(a_seed_without_a_number_is_not_left_out) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3", "4", "5"}) gathered.add("rope", seed, kAll, some(10));
  const std::string at_most = "    tests:\n      - {where: {length: 40}, of: rope, at_most: 0.5}\n";
  BOOST_TEST((gathered.judge(at_most).verdict == Verdict::kReproduced));
  gathered.add("rope", "6", kAll, {NAN});
  gathered.add("rope", "7", kAll, {INFINITY});
  const ClaimResult result = gathered.judge(at_most);
  BOOST_TEST((result.verdict == Verdict::kNotTestable));
  says(result.reason, "rope has no number for 2 of 7 seeds: ");
  // A control of it has not failed either.
  const ClaimResult controlled =
      gathered.judge("    control:\n      - {where: {length: 40}, of: rope, at_most: 0.5}\n" + at_most);
  BOOST_TEST((controlled.verdict == Verdict::kNotTestable));
}

// The pipeline does not evaluate a training that diverged, so such a seed has no rows at all.
BOOST_AUTO_TEST_CASE(a_seed_that_diverged_is_not_left_out) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3", "4"})
    gathered.add("rope", seed, kAll, some(10), {{"encoding", "rope"}, {"seed", seed}, {"size", "small"}});
  const std::string test = "    tests:\n      - {where: {length: 40}, of: rope, at_most: 0.5";
  const auto verdict_with = [&](const std::string& missing, const std::string& runs = "") {
    gathered.results.missing = {missing};
    return gathered.judge(test + runs + "}\n");
  };
  const ClaimResult result = verdict_with("scores encoding=rope,seed=5,size=small: diverged");
  BOOST_TEST((result.verdict == Verdict::kNotTestable));
  says(result.reason, "rope has no number for seed 5: diverged");
  // The stage is no label of a model that two stages evaluate.
  BOOST_TEST((verdict_with("scores encoding=rope,seed=5,size=small,stage=evaluate: diverged").verdict ==
              Verdict::kNotTestable));
  // Other reasons, other models, and models that the claim leaves out say nothing about its seeds.
  const std::string chosen = ", runs: {size: small}";
  for (const char* other :
       {"scores encoding=rope,seed=5,size=small: it was not made", "scores encoding=alibi,seed=5,size=small: diverged",
        "scores encoding=rope,seed=5,size=large: diverged", "scores encoding=rope,seed=4,size=small: diverged",
        "free text that ends with diverged"}) {
    BOOST_TEST((verdict_with(other).verdict != Verdict::kNotTestable), other);
    BOOST_TEST((verdict_with(other, chosen).verdict != Verdict::kNotTestable), other);
  }
}

BOOST_AUTO_TEST_CASE(observed_numbers_are_those_of_the_common_seeds) {
  Gathered gathered;
  for (const char* seed : {"1", "2", "3"}) {
    gathered.add("none", seed, kAll, some(25));
    gathered.add("rope", seed, kAll, some(10));
  }
  gathered.add("rope", "4", kAll, kAll);
  const ClaimResult result = gathered.judge("    tests:\n      - {where: {length: 40}, of: none, above: rope}\n");
  says(result.tests.at(0).observed, "none 0.5; rope 0.2");
}

BOOST_AUTO_TEST_CASE(items_of_two_models_are_not_summed) {
  Gathered gathered;
  gathered.add("rope", "1", kAll, some(40), {{"stage", "droppe"}, {"arm", "drop"}});
  gathered.add("rope", "1", kAll, some(10), {{"stage", "droppe"}, {"arm", "nodrop"}});
  const std::string front = "    tests:\n      - {where: {length: 40}, of: rope, at_least: 0, runs: {stage: droppe";
  try {
    gathered.judge(front + "}}\n");
    BOOST_ERROR("two models were summed");
  } catch (const support::ConfigError& error) {
    says(error.what(), "several models fit for rope, seed 1: arm is 'drop' or 'nodrop'");
    says(error.what(), "choose one with 'runs: {arm: drop}'");
  }
  BOOST_TEST(std::abs(gathered.judge(front + ", arm: nodrop}}\n").tests.at(0).effect - 0.2) < 1e-12);

  // A model that lacks the label is another one, too, whatever was gathered first.
  for (const bool trained_first : {true, false}) {
    Gathered three;
    if (trained_first) three.add("rope", "1", kAll, kAll, {{"stage", "trained"}});
    three.add("rope", "1", kAll, some(40), {{"stage", "droppe"}, {"arm", "drop"}});
    if (!trained_first) three.add("rope", "1", kAll, kAll, {{"stage", "trained"}});
    try {
      three.judge("    tests:\n      - {where: {length: 40}, of: rope, at_least: 0, runs: {}}\n");
      BOOST_ERROR("two models were summed");
    } catch (const support::ConfigError& error) {
      says(error.what(), trained_first ? "arm is missing or 'drop'" : "arm is 'drop' or missing");
      says(error.what(), trained_first ? "choose one with 'runs: {stage: trained}'" : "runs: {stage: droppe}");
    }
  }

  // Models that only their stages tell apart.
  Gathered stages;
  stages.add("rope", "1", kAll, some(40), {{"stage", "evaluate"}});
  stages.add("rope", "1", kAll, some(10), {{"stage", "evaluate_long"}});
  const std::string any = "    tests:\n      - {where: {length: 40}, of: rope, at_least: 0, runs: {}}\n";
  BOOST_CHECK_NO_THROW(stages.judge(any));  // perhaps one model, since nothing names it
  stages.results.runs[0].run_id = "a";
  stages.results.runs[1].run_id = "b";
  try {
    stages.judge(any);
    BOOST_ERROR("two models were summed");
  } catch (const support::ConfigError& error) {
    says(error.what(), "several models fit for rope, seed 1: stage is 'evaluate' or 'evaluate_long'");
    says(error.what(), "choose one with 'runs: {stage: evaluate}'");
  }
}

BOOST_AUTO_TEST_CASE(a_summary_has_no_items_and_so_no_interval_unless_it_has_no_noise) {
  Gathered gathered;
  gathered.add("none", "1", kAll, some(40));
  const std::string test =
      "    tests:\n      - {table: algo_summary, where: {length: 40}, of: none, near: 0.8, within: 0.01";
  ClaimResult result = gathered.judge(test + "}\n");
  BOOST_TEST((result.verdict == Verdict::kInconclusive));
  says(result.tests.at(0).reason, "the table holds summaries");
  result = gathered.judge(test + ", noise: none}\n");
  BOOST_TEST((result.verdict == Verdict::kReproduced));
  BOOST_TEST(result.tests.at(0).interval.low == result.tests.at(0).effect);
}

BOOST_AUTO_TEST_CASE(a_number_may_be_per_another_and_less_the_same_elsewhere) {
  Gathered gathered;
  gathered.add("none", "1", kAll, some(10));
  const ClaimResult result = gathered.judge(
      "    per: weight\n    tests:\n      - {where: {length: 20}, minus: {length: 40}, of: none, at_least: 0.3}\n");
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
  BOOST_TEST(
      std::abs(gathered.judge("    tests:\n      - {runs: {from: drop}, where: {length: 40}, of: rope, at_least: 0}\n")
                   .tests.at(0)
                   .effect -
               0.2) < 1e-12);
  const ClaimResult both =
      gathered.judge("    tests:\n      - {where: {length: 40}, of: 'rope, decay', above: 'rope, drop'}\n");
  BOOST_TEST(std::abs(both.tests.at(0).effect - 0.6) < 1e-12);
  const ClaimResult column =
      gathered.judge("    tests:\n      - {by: length, runs: {from: decay}, of: '20', above: '40'}\n");
  BOOST_TEST(std::abs(column.tests.at(0).effect - 0.2) < 1e-12);
  // Two trainings of rope, and no word about which.
  const ClaimResult either = gathered.judge("    tests:\n      - {where: {length: 40}, of: rope, at_least: 0}\n");
  BOOST_TEST((either.verdict == Verdict::kNotTestable));
  says(
      either.reason,
      "rope was measured in 2 variants ('rope, decay', 'rope, drop'): name one, or choose with 'runs: {label: value}'");
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
  says(errors_of(head + "    tests:\n      - {of: a, above: [b, a]}\n"), "'of' and 'above' both name 'a'");
  says(errors_of(head + "    tests:\n      - {of: a, at_least: many}\n"), "'at_least' is a number, found 'many'");
  says(errors_of(head + "    tests: []\n"), "expected a list of tests");
  says(errors_of(head + "    tests:\n      - {of: a, at_least: 1, runs: {stage: [x, y]}}\n"),
       "'runs' takes one value of 'stage', found 2");
  says(errors_of(head + "    tests:\n      - {of: a, at_least: 1, band: [2, 1]}\n"),
       "'band' is two numbers, the lower first");
  says(errors_of(head + "    expected: reproducd\n    tests:\n      - {of: a, at_least: 1}\n"),
       "did you mean 'reproduced'?");
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
  gathered.results.runs[0].labels["from"] = "decay";
  says(error("{runs: {form: decay}, of: none, at_least: 1}"), "no run has a label 'form'");
  says(error("{runs: {form: decay}, of: none, at_least: 1}"), "did you mean 'from'?");
}

BOOST_AUTO_TEST_CASE(a_test_tells_which_configs_it_is_about) {
  Gathered gathered;
  gathered.add("none", "1", kAll, kAll);
  gathered.add("rope", "1", kAll, kNone);
  gathered.add("rope", "2", kAll, kNone);
  gathered.results.runs[0].facts["config_hash"] = "aaaaaaaaaaaa";
  gathered.results.runs[1].facts["config_hash"] = "bbbbbbbbbbbb";
  gathered.results.runs[2].facts["config_hash"] = "cccccccccccc";
  const auto configs = [&](const std::string& test) {
    return gathered.judge("    tests:\n      - " + test + "\n").tests.at(0).configs;
  };
  const std::string one = configs("{where: {length: 40}, of: none, at_least: 1}");
  BOOST_TEST(one == "aaaaaaaaaaaa");
  const std::string both = configs("{where: {length: 40}, of: none, above: rope}");
  BOOST_TEST(both.size() == 12u);
  BOOST_TEST(both != configs("{where: {length: 40}, of: rope, at_most: 1}"));
}

BOOST_AUTO_TEST_CASE(all_shipped_files_are_read) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_root() / "configs/claims")) {
    BOOST_TEST(!read_claims(entry.path()).empty(), entry.path());
    ++files;
  }
  BOOST_TEST(files >= 3u);
}

// ---- The published grid of structured rows

struct Rows {
  Gathered gathered;

  void add(const std::string& from, const std::string& mode, const std::string& network, const std::string& encoding,
           int depth, int seed, double all, double middle, double determined) {
    using enum artifact::ColumnType;
    artifact::Table grid("dummy_grid", {{"mode", kText, ""},
                                        {"network", kText, ""},
                                        {"pe", kText, ""},
                                        {"depth", kInteger, ""},
                                        {"epochs", kInteger, ""},
                                        {"loss_all", kReal, "nats"},
                                        {"det_loss", kReal, "nats"},
                                        {"loss_pos4", kReal, "nats"}});
    for (const std::int64_t epochs : {1, 16}) {
      const double early = epochs == 1 ? 0.5 : 0;
      grid.add_row({mode, network, encoding, depth, epochs, all + early, determined + early, middle + early});
    }
    Results& results = gathered.results;
    results.runs.push_back({.labels = {{"stage", from}, {"depth", std::to_string(depth)}},
                            .encoding = encoding,
                            .seed = std::to_string(seed)});
    if (std::find(results.encodings.begin(), results.encodings.end(), encoding) == results.encodings.end())
      results.encodings.push_back(encoding);
    results.tables["dummy_grid"].push_back({results.runs.size() - 1, "test", std::move(grid)});
  }
  /// Everything as published and as expected, three seeds; `middle` of the learned encoding at depth 1 as given.
  void as_claimed(double middle = 4.30, double sixteen = .8483, int seeds = 3) {
    for (int seed = 0; seed < seeds; ++seed) {
      const double noise = 0.001 * (seed - 1);
      for (const char* name : {"sinusoidal", "sininit", "learned"}) {
        const bool odd = name == std::string("learned");
        add("over_batch", "seed", "post_norm_over_batch", name, 1, seed, .147 + noise, (odd ? middle : 4.30) + noise,
            .7);
        add("over_batch", "seed", "post_norm_over_batch", name, 4, seed, .141 + noise, 4.31 + noise, .7);
      }
      for (const char* name : {"rope", "lrope"})
        add("bare", "seed", "bare_bidirectional", name, 16, seed, sixteen + noise, 4.3, .7);
      for (const char* name : {"sinusoidal", "sininit", "learned", "rope", "lrope"}) {
        add("fixed", "fixed", "pre_norm_causal", name, 4, seed, .07, .08 + noise, .012);
        add("fixed", "fixed", "post_norm_causal", name, 4, seed, .07, (name == std::string("lrope") ? .3 : .09) + noise,
            .015 + noise);
      }
    }
  }
  std::vector<ClaimResult> judged() {
    gathered.claims = read_claims(test::source_root() / "configs/claims/dummy.yml");
    return report::judge(gathered.claims, gathered.results);
  }
};

BOOST_AUTO_TEST_CASE(the_published_grid_is_judged_by_network_mode_and_depth) {
  Rows rows;
  rows.as_claimed();
  std::vector<ClaimResult> judged = rows.judged();
  BOOST_TEST_REQUIRE(judged.size() == 7u);
  BOOST_TEST((judged[0].verdict == Verdict::kReproduced), judged[0].reason);
  BOOST_TEST((judged[1].verdict == Verdict::kReproduced), judged[1].reason);
  BOOST_TEST((judged[2].verdict == Verdict::kRefuted));  // lrope with post_norm reads too little
  const std::vector<TestResult>& fixed = judged[2].tests;
  BOOST_TEST_REQUIRE(fixed.size() == 6u);
  BOOST_TEST((fixed[0].verdict == Verdict::kReproduced));
  BOOST_TEST((fixed[1].verdict == Verdict::kRefuted));
  for (std::size_t i = 2; i < 6; ++i) BOOST_TEST((fixed[i].verdict == Verdict::kReproduced), i);
  // Equal losses refute that learned positions are best, although other depths are missing. Hard rows are missing, too.
  BOOST_TEST((judged[3].verdict == Verdict::kRefuted), judged[3].claim->id);
  BOOST_TEST((judged[4].verdict == Verdict::kRefuted), judged[4].claim->id);
  for (const std::size_t hard : {5u, 6u}) BOOST_TEST((judged[hard].verdict == Verdict::kNotTestable), hard);

  Rows outside;
  outside.as_claimed(4.60);
  BOOST_TEST((outside.judged()[0].verdict == Verdict::kRefuted));
  Rows above;
  above.as_claimed(4.30, .9);
  BOOST_TEST((above.judged()[1].verdict == Verdict::kRefuted));
}

BOOST_AUTO_TEST_CASE(networks_that_have_not_finished_and_single_seeds_settle_nothing) {
  Rows unfinished;
  unfinished.as_claimed();
  for (GatheredTable& gathered : unfinished.gathered.results.tables["dummy_grid"]) {
    const Run& run = unfinished.gathered.results.runs[gathered.run];
    if (run.encoding != "sininit" || run.labels.at("stage") != "over_batch" || run.labels.at("depth") != "4") continue;
    gathered.table = artifact::Table("dummy_grid", gathered.table.columns());
    gathered.table.add_row({"seed", "post_norm_over_batch", "sininit", 4, 16, .39, .7, 4.30});
  }
  const ClaimResult result = unfinished.judged()[0];
  BOOST_TEST((result.verdict == Verdict::kReproduced));  // for the two that have learned
  says(result.reason,
       "1 of 3 comparisons could not be tested: the control failed: loss_all of sinusoidal, sininit, learned at most "
       "0.2");
  Rows single;
  single.as_claimed(4.30, .8483, 1);
  BOOST_TEST((single.judged()[1].verdict == Verdict::kInconclusive));
  says(single.judged()[1].tests.at(0).reason, "one seed: three are needed");
}

BOOST_AUTO_TEST_SUITE_END()
