// What a study can show, asked of a report: the report's own numbers, other counts, and simulated studies of the size that is said.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "cli/color.h"
#include "commands/power_text.h"
#include "report/comparison.h"
#include "report/section_results.h"
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
  BOOST_TEST(more[0]["detectable"].get<double>() < own[0]["detectable"].get<double>() / 2);
  const auto needed = more[0]["seeds_needed"].get<std::size_t>();
  BOOST_TEST(power_of_report(report, {.seeds = needed, .items = 1000})[0]["detectable"].get<double>() <= 0.05);
  BOOST_TEST(power_of_report(report, {.seeds = needed - 1, .items = 1000})[0]["detectable"].get<double>() > 0.05);
  BOOST_TEST(power_of_report(report, {.difference = 1e-6})[0]["seeds_needed"].is_null());
  const std::string text = power_text(more, {.seeds = 10, .items = 1000, .difference = 0.05});
  BOOST_TEST(text.find("% of perplexity") != std::string::npos, text);
  BOOST_TEST(text.find("seeds for 0.05") != std::string::npos, text);
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
  const Json pilot = report_of(report::sample::perplexities(
      {.encodings = encodings, .seeds = pilot_seeds, .lengths = {128}, .documents = 30, .seed_sd = seed_sd, .rest_sd = rest_sd}));
  for (const std::size_t seeds : {3u, 5u, 10u}) {
    const double least = power_of_report(pilot, {.seeds = seeds})[0]["detectable"];
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

BOOST_AUTO_TEST_SUITE_END()
