// How rankings depend on protocol and seed: statistics worked out by hand, and simulated studies with known truth.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "report/section_results.h"
#include "schema/probes.h"
#include "statistics/rankings.h"

using namespace pe;
using namespace pe::report;
using namespace pe::statistics;
using namespace pe::report::sample;

namespace {

/// Six encodings, each 0.1 nats above the one before; in the opposite order under `turned`.
Results ranked(const std::vector<std::string>& protocols, const std::string& turned, double seed_sd,
               std::vector<std::string> seeds = {"1", "2", "3"}) {
  Results results = perplexities({.encodings = {"a", "b", "c", "d", "e", "f"},
                                  .seeds = std::move(seeds),
                                  .protocols = protocols,
                                  .lengths = {128, 512},
                                  .seed_sd = seed_sd});
  results.rankings = true;
  for (LmCell& cell : results.lm) {
    const double place = results.runs[cell.run].encoding[0] - 'a';
    const double shift = 0.1 * (cell.protocol == turned && cell.length == 512 ? -place : place);
    cell.nll += shift;
    for (schema::DocumentScore& score : cell.scores) score.nll += shift * static_cast<double>(score.tokens);
  }
  return results;
}

double number_in(const Table& table, std::size_t row, const std::string& column) {
  return *cell_of(table, row, column).number;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rankings)

BOOST_AUTO_TEST_CASE(taus_are_those_worked_out_by_hand) {
  BOOST_TEST(kendall_tau({1, 2, 3, 4}, {10, 20, 30, 40}) == 1);
  BOOST_TEST(kendall_tau({1, 2, 3, 4}, {4, 3, 2, 1}) == -1);
  BOOST_TEST(std::abs(kendall_tau({1, 2, 3, 4}, {1, 2, 4, 3}) - 4.0 / 6) < 1e-12);       // one of six pairs
  BOOST_TEST(std::abs(kendall_tau({1, 2, 3}, {1, 1, 2}) - 2 / std::sqrt(6.0)) < 1e-12);  // a tie
  BOOST_TEST(std::isnan(kendall_tau({1, 1, 1}, {1, 2, 3})));
  BOOST_TEST(std::isnan(kendall_tau({1}, {1})));
  BOOST_TEST(reversed_share({1, 2, 3, 4}, {1, 2, 4, 3}) == 1.0 / 6);
  BOOST_TEST(std::abs(reversed_share({1, 2, 3}, {1, 1, 2}) - 0.5 / 3) < 1e-12);
}

BOOST_AUTO_TEST_CASE(parts_of_noise_are_those_that_were_put_in) {
  double seed = 0, item = 0, rest = 0;
  constexpr int kStudies = 200;
  for (std::uint64_t study = 0; study < kStudies; ++study) {
    std::vector<std::vector<double>> values;
    for (std::uint64_t s = 0; s < 8; ++s) {
      const double own = noise({31, study, s}, 0.3);
      values.emplace_back();
      for (std::uint64_t d = 0; d < 30; ++d)
        values.back().push_back(2 + own + noise({32, study, d}, 0.5) + noise({33, study, s, d}, 0.2));
    }
    const NoiseParts parts = noise_parts(values);
    seed += parts.seed * parts.seed / kStudies;
    item += parts.item * parts.item / kStudies;
    rest += parts.rest * parts.rest / kStudies;
  }
  BOOST_TEST(std::abs(std::sqrt(seed) - 0.3) < 0.02);
  BOOST_TEST(std::abs(std::sqrt(item) - 0.5) < 0.02);
  BOOST_TEST(std::abs(std::sqrt(rest) - 0.2) < 0.005);
  BOOST_TEST(std::isnan(noise_parts({{1, 2}}).seed));
}

BOOST_AUTO_TEST_CASE(wrong_orders_are_counted_against_the_means) {
  const WrongOrder none = wrong_order({1, 2, 3}, {11, 12, 13});
  BOOST_TEST(none.same_seed == 0);
  BOOST_TEST(none.any_seeds == 0);
  // Means 2 and 3. By seed: 1 < 4, 2 < 5, 3 > 0. Of nine pairs of seeds three are wrong: 0 is below 1, 2 and 3.
  const WrongOrder some = wrong_order({1, 2, 3}, {4, 5, 0});
  BOOST_TEST(std::abs(some.same_seed - 1.0 / 3) < 1e-12);
  BOOST_TEST(std::abs(some.any_seeds - 3.0 / 9) < 1e-12);
  BOOST_TEST(std::abs(detectable_by_one_seed(0.03, 0.4, 100) - 2.801585 * 0.05) < 1e-6);
}

BOOST_AUTO_TEST_CASE(a_protocol_that_reverses_the_ranking_is_found_and_one_that_does_not_is_not) {
  const Section section = section_of("protocol_ranking", ranked({"blocks", "sliding", "anchored"}, "blocks", 0.001));
  const Table& table = table_of(section, "rank_agreement");
  BOOST_TEST_REQUIRE(table.rows.size() == 6u);  // three pairs of protocols at two lengths
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const bool turned = number_in(table, row, "length") == 512 && cell_of(table, row, "protocol").text == "blocks";
    BOOST_TEST(number_in(table, row, "tau") == (turned ? -1 : 1));
    BOOST_TEST(number_in(table, row, "tau_means") == (turned ? -1 : 1));
    BOOST_TEST(number_in(table, row, "tau_seeds") == 1);
    BOOST_TEST(number_in(table, row, "reversed") == (turned ? 1 : 0));
    BOOST_TEST(number_in(table, row, "significant") == (turned ? 15 : 0));
    BOOST_TEST(number_in(table, row, "pairs") == 15);
  }
  BOOST_TEST_REQUIRE(section.findings.size() == 1u);
  BOOST_TEST(section.findings[0].find("under anchored and blocks") != std::string::npos, section.findings[0]);
  BOOST_TEST(section.findings[0].find("15 of them significantly under both") != std::string::npos, section.findings[0]);
  // Texts have rankings of their own: one protocol turns the second text's, and the two are never joined.
  Results texts = ranked({"blocks", "anchored"}, "", 0.001);
  Results turned = ranked({"blocks", "anchored"}, "blocks", 0.001);
  texts.variants = {"novels", "web"};
  for (Arm& arm : texts.arms) arm.variant = "novels";
  for (Arm arm : turned.arms) {
    arm.variant = "web";
    for (std::size_t& run : arm.runs) run += texts.runs.size();
    texts.arms.push_back(std::move(arm));
  }
  for (LmCell cell : turned.lm) {
    cell.run += texts.runs.size();
    texts.lm.push_back(std::move(cell));
  }
  texts.runs.insert(texts.runs.end(), turned.runs.begin(), turned.runs.end());
  const Section by_text = section_of("protocol_ranking", texts);
  const Table& of_texts = table_of(by_text, "rank_agreement");
  BOOST_TEST_REQUIRE(of_texts.rows.size() == 4u);  // two lengths of two texts
  for (std::size_t row = 0; row < 4; ++row) {
    const bool web = cell_of(of_texts, row, "variant").text == "web";
    BOOST_TEST(number_in(of_texts, row, "pairs") == 15);
    BOOST_TEST(number_in(of_texts, row, "tau") == (web && number_in(of_texts, row, "length") == 512 ? -1 : 1));
  }
  BOOST_TEST(by_text.figures.at(0).panels.size() == 2u);
  BOOST_TEST(by_text.findings.size() == 2u);
  // Where the spread over seeds exceeds the differences of arms, two seeds of one protocol disagree as well, and
  // nothing is significant.
  const Section noisy = section_of("protocol_ranking", ranked({"blocks", "sliding"}, "blocks", 2));
  const Table& rough = table_of(noisy, "rank_agreement");
  BOOST_TEST(number_in(rough, 1, "tau_seeds") < 0.7);
  BOOST_TEST(number_in(rough, 1, "significant") == 0);
}

BOOST_AUTO_TEST_CASE(causes_of_a_length_add_up_and_what_was_not_measured_is_missing) {
  Results results = ranked({"blocks", "sliding"}, "", 0.001);
  for (std::size_t run = 0; run < results.runs.size(); ++run) {
    if (results.runs[run].encoding == "f") continue;
    add<schema::ProbePositionLoss>(results, run, {"context", "last", "nll_mean", "status"},
                                   {{128, 128, 3.0, "ok"}, {128, 512, 3.5, "ok"}, {512, 512, 3.4, "ok"}});
  }
  const Section section = section_of("positions", results);
  const Table& table = table_of(section, "length_causes");
  BOOST_TEST_REQUIRE(table.rows.size() == 6u);  // the last has its window start alone
  const Figure& bars = section.figures.at(0);
  BOOST_TEST(bars.id == "length_causes");
  BOOST_TEST_REQUIRE(bars.panels.size() == 3u);
  BOOST_TEST(bars.panels[0].series.size() == 5u);
  BOOST_TEST(std::abs(bars.panels[0].series[0].points[0].x - 0.5) < 1e-12);  // of all seeds
  BOOST_TEST(std::abs(number_in(table, 0, "position_512") - 0.5) < 1e-12);
  BOOST_TEST(std::abs(number_in(table, 0, "context_512") + 0.1) < 1e-12);
  BOOST_TEST(std::abs(number_in(table, 0, "start_512")) < 0.01);
  BOOST_TEST(!cell_of(table, 5, "position_512").number.has_value());
}

BOOST_AUTO_TEST_CASE(the_noise_of_seeds_is_found_and_says_how_often_one_training_is_wrong) {
  std::vector<std::string> seeds;
  for (int s = 1; s <= 16; ++s) seeds.push_back(std::to_string(s));
  const Section section = section_of("seed_noise", ranked({"anchored"}, "", 0.05, seeds));
  const Table& parts = table_of(section, "noise_parts");
  BOOST_TEST_REQUIRE(parts.rows.size() == 12u);
  for (std::size_t row = 0; row < parts.rows.size(); ++row) {
    const report::Cell& spread = cell_of(parts, row, "spread");
    BOOST_TEST_REQUIRE(spread.interval.has_value());
    BOOST_TEST((spread.interval->low < *spread.number && *spread.number < spread.interval->high));
    BOOST_TEST((number_in(parts, row, "seed") > 0.025 && number_in(parts, row, "seed") < 0.085),
               number_in(parts, row, "seed"));
    BOOST_TEST((number_in(parts, row, "document") > 0.3 && number_in(parts, row, "document") < 0.5));
  }
  const Table& needed = table_of(section, "seeds_needed");
  BOOST_TEST(number_in(needed, 0, "pairs") == 15);
  BOOST_TEST(number_in(needed, 0, "significant") > 10);
  BOOST_TEST(number_in(needed, 0, "detect_3") > number_in(needed, 0, "detect_5"));
  BOOST_TEST(number_in(needed, 0, "detect_5") > number_in(needed, 0, "detect_10"));
  // Neighbours are two standard deviations of a seed apart, so that single trainings swap some and not many.
  const double wrong = number_in(needed, 0, "wrong_any");
  BOOST_TEST((wrong > 0.005 && wrong < 0.2), wrong);
  // Models with other documents, or with fewer of them, are left out; those of another variant are no pair.
  Results fewer = ranked({"anchored"}, "", 0.05, seeds);
  for (LmCell& cell : fewer.lm) {
    if (cell.run == 0) cell.scores.pop_back();
  }
  const Section without = section_of("seed_noise", fewer);
  BOOST_TEST(table_of(without, "noise_parts").rows.size() == 10u);
  BOOST_TEST(number_in(table_of(without, "seeds_needed"), 0, "pairs") == 10);
  Results two_texts = ranked({"anchored"}, "", 0.05, seeds);
  two_texts.variants = {"", "other"};
  for (std::size_t arm = 0; arm < 3; ++arm) two_texts.arms[arm].variant = "other";
  BOOST_TEST(number_in(table_of(section_of("seed_noise", two_texts), "seeds_needed"), 0, "pairs") == 6);
  // Pairs are compared on the seeds that both have.
  Results one_less = ranked({"anchored"}, "", 0.05, seeds);
  one_less.arms[0].runs.erase(one_less.arms[0].runs.begin());
  BOOST_TEST(number_in(table_of(section_of("seed_noise", one_less), "seeds_needed"), 0, "pairs") == 15);
  // Three seeds are too few for a standard deviation.
  BOOST_TEST(section_of("seed_noise", ranked({"anchored"}, "", 0.05)).empty());
}

BOOST_AUTO_TEST_CASE(reports_that_do_not_ask_have_neither_section) {
  Results results = ranked({"blocks", "anchored"}, "blocks", 0.01, {"1", "2", "3", "4", "5"});
  results.rankings = false;
  BOOST_TEST(section_of("protocol_ranking", results).empty());
  BOOST_TEST(section_of("seed_noise", results).empty());
}

BOOST_AUTO_TEST_SUITE_END()
