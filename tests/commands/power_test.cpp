// Differences that a study can show, computed from a report: the report's own numbers, other counts, and simulated
// studies of the stated size.
#include <boost/test/unit_test.hpp>

#include "cli/color.h"
#include "commands/power_text.h"
#include "report/results/comparison.h"
#include "report/section_results.h"
#include "schema/structured_rows.h"
#include "support/error.h"

using namespace pe;
using namespace pe::commands;
namespace tt = boost::test_tools;

namespace {

/// report.json with the table of the section `power`.
Json report_of(const report::Results& results) {
  const report::Section section = report::sample::section_of("power", results);
  Json tables = Json::array();
  for (const report::Table& table : section.tables) tables.push_back(report::to_json(table));
  Json sections = Json::array();
  sections.push_back({{"id", "power"}, {"tables", tables}});
  return {{"schema", "pe-report/1"}, {"sections", sections}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(power)

BOOST_AUTO_TEST_CASE(a_report_answers_for_its_own_and_for_other_counts) {
  const report::Results results =
      report::sample::perplexities({.encodings = {"rope", "a", "b", "c"}, .seed_sd = 0.02, .rest_sd = 0.05});
  const Json report = report_of(results);
  const Json own = power_of_report(report, {});
  BOOST_TEST_REQUIRE(own.size() == 2u);  // two lengths
  BOOST_TEST(own[0]["measure"] == "NLL, prefix");
  BOOST_TEST(own[0]["unit"] == "nats");
  BOOST_TEST(own[0]["seeds"] == 3);
  BOOST_TEST(own[0]["items"] == 40);
  const report::Section section = report::sample::section_of("power", results);
  BOOST_TEST(own[0]["detectable"].get<double>() == *report::sample::cell_of(section.tables.at(0), 0, "shown").number,
             tt::tolerance(1e-12));
  const Json more = power_of_report(report, {.seeds = 10, .items = 1000, .difference = 0.05});
  // A study to come is planned with the upper limit of the pilot's standard deviation.
  BOOST_TEST(more[0]["detectable"].get<double>() < 0.7 * own[0]["detectable"].get<double>());
  const auto needed = more[0]["seeds_needed"].get<std::size_t>();
  BOOST_TEST(power_of_report(report, {.seeds = needed, .items = 1000})[0]["detectable"].get<double>() <= 0.05);
  BOOST_TEST(power_of_report(report, {.seeds = needed - 1, .items = 1000})[0]["detectable"].get<double>() > 0.05);
  BOOST_TEST(power_of_report(report, {.difference = 1e-6})[0]["seeds_needed"].is_null());
  const std::string text = power_text(more, {.seeds = 10, .items = 1000, .difference = 0.05});
  BOOST_TEST(text.find("% of perplexity") != std::string::npos, text);
  BOOST_TEST(text.find("seeds for 0.05") != std::string::npos, text);
  const std::string narrow = power_text(more, {.seeds = 10, .items = 1000, .difference = 0.05}, 60);
  for (const std::string& line : support::split(narrow, '\n')) BOOST_TEST(support::display_width(line) <= 60u, line);
  BOOST_TEST(narrow.find("smallest difference  seeds for 0.05") != std::string::npos, narrow);
  BOOST_TEST(power_text(more, {.seeds = 10, .items = 1000, .difference = 0.05}, 200).find("sd of an item") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(fewer_than_three_seeds_are_no_noise_of_training) {
  const Json report = report_of(report::sample::perplexities({.seeds = {"1", "2"}, .seed_sd = 0.02}));
  const Json own = power_of_report(report, {.seeds = 10, .difference = 0.01});
  BOOST_TEST_REQUIRE(!own.empty());
  BOOST_TEST(own[0]["detectable"].is_null());  // however many are asked for
  BOOST_TEST(!own[0].contains("seeds_needed"));
  BOOST_TEST(power_text(own, {}).find("takes three seeds to know") != std::string::npos);
  BOOST_TEST(power_of_report({{"schema", "pe-report/1"}}, {}).empty());
  Json old = report;
  old["sections"][0]["tables"][0]["columns"].erase(0);
  BOOST_CHECK_THROW(power_of_report(old, {}), support::ArtifactError);
}

BOOST_AUTO_TEST_CASE(studies_of_the_difference_that_is_said_find_it_as_often_as_said) {
  // A pilot of many seeds and encodings knows the noise; studies of other sizes are simulated as reports read them.
  std::vector<std::string> encodings{"rope"}, pilot_seeds;
  for (int e = 0; e < 20; ++e) encodings.push_back("e" + std::to_string(e));
  for (int s = 0; s < 20; ++s) pilot_seeds.push_back("pilot" + std::to_string(s));
  const double seed_sd = 0.02, rest_sd = 0.1;
  const Json pilot = report_of(report::sample::perplexities({.encodings = encodings,
                                                             .seeds = pilot_seeds,
                                                             .lengths = {128},
                                                             .documents = 30,
                                                             .seed_sd = seed_sd,
                                                             .rest_sd = rest_sd}));
  const Json pilot_noise = power_of_report(pilot, {})[0];
  BOOST_TEST(power_of_report(pilot, {.seeds = 5})[0]["detectable"].get<double>() >
             statistics::detectable_difference({pilot_noise["seed_sd"], pilot_noise["item_sd"]}, 5,
                                               30));  // a plan is on the safe side
  for (const std::size_t seeds : {3u, 5u, 10u}) {
    const double least = statistics::detectable_difference({pilot_noise["seed_sd"], pilot_noise["item_sd"]}, seeds, 30);
    int found = 0;
    for (int study = 0; study < 1000; ++study) {
      std::vector<std::string> names;
      for (std::size_t s = 0; s < seeds; ++s) names.push_back(std::to_string(1000 * study + static_cast<int>(s)));
      const report::Results results = report::sample::perplexities(
          {.seeds = names, .lengths = {128}, .documents = 30, .better = least, .seed_sd = seed_sd, .rest_sd = rest_sd});
      const report::Section section = report::sample::section_of("differences", results);
      found += *report::sample::cell_of(report::sample::table_of(section, "differences"), 0, "p").number < 0.05;
    }
    BOOST_TEST(found >= 740, seeds << " seeds: " << found << " of 1,000 at " << least << " nats");
    BOOST_TEST(found <= 860, seeds << " seeds: " << found << " of 1,000 at " << least << " nats");
  }
}

BOOST_AUTO_TEST_CASE(rules_of_extension_are_beside_the_model_that_they_extend) {
  using artifact::ColumnType;
  report::Results results = report::sample::perplexities({.encodings = {"rope"}});  // nothing but the baseline
  results.lm.clear();
  BOOST_TEST(report_of(results)["sections"][0]["tables"].empty());
  for (std::size_t run = 0; run < results.runs.size(); ++run) {
    std::vector<std::vector<artifact::Cell>> rows;
    for (int document = 0; document < 12; ++document) {
      const double base = 3 + 0.1 * document + 0.01 * static_cast<double>(run);
      const double better = 0.2 + 0.03 * (document % 3) + 0.02 * static_cast<double>(run);
      for (const int half : {0, 1}) {  // in two windows, of which one alone would give another result
        const double shift = half == 0 ? 1 : -1;
        rows.push_back({"test", "plain", 512, document, 10, 10 * (base + shift)});
        rows.push_back({"test", "yarn", 512, document, 10, 10 * (base - better + shift)});
        rows.push_back({"validation", "yarn", 512, document, 10, 900.0});
      }
    }
    report::sample::add(results, run, "lm_extension_doc",
                        {{"corpus", ColumnType::kText, ""},
                         {"variant", ColumnType::kText, ""},
                         {"L", ColumnType::kInteger, ""},
                         {"doc_id", ColumnType::kInteger, ""},
                         {"tokens_scored", ColumnType::kInteger, ""},
                         {"nll_sum", ColumnType::kReal, ""}},
                        rows);
  }
  const Json own = power_of_report(report_of(results), {});
  BOOST_TEST_REQUIRE(own.size() == 1u);
  BOOST_TEST(own[0]["measure"] == "NLL, extended against plain");
  BOOST_TEST(own[0]["length"] == 512);
  BOOST_TEST(own[0]["seeds"] == 3);
  BOOST_TEST(own[0]["items"] == 12);
  // Seeds are 0.02 nats apart, and nothing else is.
  BOOST_TEST(own[0]["seed_sd"].get<double>() == 0.02, tt::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(structured_rows_are_compared_within_a_network) {
  report::Results results;
  results.baseline = "rope";
  const std::vector<double> noise{-0.05, 0, 0.05};
  for (const char* encoding : {"rope", "learned"}) {
    for (int seed = 0; seed < 3; ++seed) {
      results.runs.push_back({.encoding = encoding, .seed = std::to_string(seed)});
      for (const std::int64_t depth : {1, 4}) {
        for (const std::int64_t epochs : {1, 16}) {
          const double off =
              std::string(encoding) == "rope" ? 0 : noise[static_cast<std::size_t>(seed)] * static_cast<double>(depth);
          schema::DummyGrid row{{"seed", "bare", encoding, depth, epochs, seed}};
          row.loss_headline = epochs == 1 ? 4.0 : 1.0 + off;
          report::sample::add_rows<schema::DummyGrid>(results, {row});
        }
      }
    }
  }
  const Json own = power_of_report(report_of(results), {.difference = 0.1});
  BOOST_TEST_REQUIRE(own.size() == 2u);
  BOOST_TEST(own[0]["measure"] == "loss, rows in mode seed, bare, 1 layer");
  BOOST_TEST(own[1]["measure"] == "loss, rows in mode seed, bare, 4 layers");
  BOOST_TEST(own[0]["length"].is_null());
  BOOST_TEST(own[0]["items"] == 1);
  BOOST_TEST(own[0]["seed_sd"].get<double>() == 0.05, tt::tolerance(1e-9));
  BOOST_TEST(own[1]["seed_sd"].get<double>() == 0.2, tt::tolerance(1e-9));
  BOOST_TEST(own[1]["seeds_needed"].get<std::size_t>() > own[0]["seeds_needed"].get<std::size_t>());
  const std::string text = power_text(own, {.difference = 0.1});
  BOOST_TEST(text.find("4 layers") != std::string::npos, text);
}

BOOST_AUTO_TEST_SUITE_END()
