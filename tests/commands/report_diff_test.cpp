// Two reports compared: numbers in units of noise, words, settings, added and lost rows.
#include "commands/report_diff.h"
#include "commands/diff_text.h"

#include <boost/test/unit_test.hpp>

using namespace pe;
using namespace pe::commands;
namespace tt = boost::test_tools;

namespace {

Json number(double value, double half_width = 0) {
  Json cell{{"value", value}};
  if (half_width > 0) cell["half_width"] = half_width;
  return cell;
}
Json text(const std::string& words) { return {{"text", words}}; }

Json report(double rope, double alibi, double half_width, const std::string& verdict, double rate, bool third_seed) {
  // Json::array where there is one element: braces around one would be that element.
  const auto columns = [](std::initializer_list<const char*> ids) {
    Json list = Json::array();
    for (const char* id : ids) list.push_back({{"id", id}});
    return list;
  };
  const Json other{{"value", alibi}, {"interval", Json::array({alibi - 1, alibi + 1})}};
  const Json table{{"id", "perplexity_length"},
                   {"title", "Perplexity"},
                   {"columns", columns({"encoding", "seeds", "ppl_512"})},
                   {"rows", Json::array({Json::array({text("rope"), number(3), number(rope, half_width)}),
                                         Json::array({text("alibi"), number(3), other})})}};
  const Json claims{{"id", "verdicts"},
                    {"title", "Claims"},
                    {"columns", columns({"claim_id", "verdict", "hash"})},
                    {"rows", Json::array({Json::array({text("A1"), text(verdict), text("abc")})})}};
  const Json run{{"encoding", "rope"}, {"variant", ""}, {"seed", "1"}};
  const Json training{{"encoding", "rope"}, {"variant", ""}, {"config", 0}};
  const Json config{{"train.peak_lr", std::to_string(rate)}};
  Json study{{"runs", Json::array({run})}, {"trainings", Json::array({training})}, {"configs", Json::array({config})}};
  if (third_seed) study["runs"].push_back({{"encoding", "rope"}, {"variant", ""}, {"seed", "3"}});
  const Json perplexity{{"id", "perplexity"}, {"tables", Json::array({table})}};
  const Json tested{{"id", "claims"}, {"tables", Json::array({claims})}};
  return {{"schema", "pe-report/1"}, {"sections", Json::array({perplexity, tested})}, {"study", study}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(report_diff)

BOOST_AUTO_TEST_CASE(equal_reports_have_no_differences) {
  const Json one = report(20, 30, 0.5, "reproduced", 1, false);
  const Json none = report_differences(one, one);
  BOOST_TEST(none["compared"] == 4);
  for (const char* list : {"numbers", "texts", "settings"}) BOOST_TEST(none[list].empty(), list);
  for (const char* side : {"only_first", "only_second"}) {
    for (const char* what : {"runs", "tables", "rows"}) BOOST_TEST(none[side][what].empty());
  }
  BOOST_TEST(report_differences_text(none, {}).find("4 compared: none changed beyond noise, 0 within, 0 without") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(numbers_have_the_digits_that_matter_and_counts_are_no_findings) {
  Json before = report(20.123456789012345, 30, 0.001, "", 1, false),
       after = report(21.98765432109876, 30, 0.001, "", 1, false);
  after["sections"][0]["tables"][0]["rows"][0][1] = number(4);
  const std::string text = report_differences_text(report_differences(before, after), {});
  BOOST_TEST(text.find("ppl_512: 20.1235 -> 21.9877") != std::string::npos, text);
  BOOST_TEST(text.find("0 without a known noise, 1 p values and counts\n") != std::string::npos, text);
  BOOST_TEST(text.find("seeds: 3 -> 4") == std::string::npos, text);
  // So are the corrected p values of the table of differences.
  const auto of_p = [](double p) {
    Json of = report(20, 30, 0.001, "", 1, false);
    Json& table = of["sections"][0]["tables"][0];
    table["columns"][1]["id"] = "p_holm";
    table["rows"][0][1] = number(p);
    return of;
  };
  const std::string corrected = report_differences_text(report_differences(of_p(0.02), of_p(0.03)), {});
  BOOST_TEST(corrected.find("0 without a known noise, 1 p values and counts\n") != std::string::npos, corrected);
  // As many digits as tell them apart.
  after = report(20.123456789012400, 30, 0, "", 1, false);
  before = report(20.123456789012345, 30, 0, "", 1, false);
  BOOST_TEST(
      report_differences_text(report_differences(before, after), {}).find("20.1234567890123 -> 20.1234567890124") !=
      std::string::npos);
}

BOOST_AUTO_TEST_CASE(changes_are_told_in_units_of_the_noise_of_both) {
  Json before = report(20, 30, 0.3, "reproduced", 1, false), after = report(21, 30.5, 0.4, "not reproduced", 2, true);
  const Json changes = report_differences(before, after);
  BOOST_REQUIRE(changes["numbers"].size() == 2u);
  BOOST_TEST(changes["numbers"][0]["row"] == "rope");
  BOOST_TEST(changes["numbers"][0]["noises"].get<double>() == 2.0, tt::tolerance(1e-9));  // 1 over √(0.3² + 0.4²)
  BOOST_TEST(changes["numbers"][1]["noises"].get<double>() == 0.5 / std::sqrt(2.0), tt::tolerance(1e-9));
  BOOST_REQUIRE(changes["texts"].size() == 1u);
  BOOST_TEST(changes["texts"][0]["second"] == "not reproduced");
  BOOST_REQUIRE(changes["settings"].size() == 1u);
  BOOST_TEST(changes["settings"][0]["setting"] == "train.peak_lr");
  BOOST_TEST(changes["only_second"]["runs"] == Json::array({"rope, seed 3"}));
  const std::string text = report_differences_text(changes, {});
  for (const char* part :
       {"1 changed beyond noise, 1 within", "perplexity_length  rope  ppl_512: 20 -> 21  (2 times the noise of both)",
        "verdicts  A1  verdict: reproduced -> not reproduced", "rope  train.peak_lr: 1.000000 -> 2.000000",
        "runs only in the second\n  rope, seed 3"}) {
    BOOST_TEST(text.find(part) != std::string::npos, part << " is not in\n" << text);
  }
  BOOST_TEST(text.find("30.5") == std::string::npos, text);  // what lies within noise is counted
}

BOOST_AUTO_TEST_CASE(the_ends_of_an_interval_are_its_noise_and_no_numbers) {
  const auto of_claims = [](double effect, const char* id, const char* baseline) {
    Json one = report(20, 30, 0.3, "", 1, false);
    Json& table = one["sections"][0]["tables"][0];
    table["id"] = id;
    table["columns"] = Json::array({{{"id", "encoding"}}, {{"id", "effect"}}, {{"id", "ci_lo"}}, {{"id", "ci_hi"}}});
    table["rows"] =
        Json::array({Json::array({text("rope"), number(effect), number(effect - 0.1), number(effect + 0.1)})});
    one["study"]["baseline"] = baseline;
    return one;
  };
  const Json changes = report_differences(of_claims(1, "claims", "rope"), of_claims(2, "claims", "rope"));
  BOOST_TEST(changes["compared"] == 1);
  BOOST_TEST_REQUIRE(changes["numbers"].size() == 1u);
  BOOST_TEST(changes["numbers"][0]["column"] == "effect");
  BOOST_TEST(changes["numbers"][0]["noises"].get<double>() == 1 / (0.1 * std::sqrt(2.0)), tt::tolerance(1e-9));
  // Differences from other baselines are other quantities.
  const Json others = report_differences(of_claims(1, "differences", "rope"), of_claims(2, "differences", "none"));
  BOOST_TEST(others["compared"] == 0);
  BOOST_TEST_REQUIRE(others["settings"].size() == 1u);
  BOOST_TEST(others["settings"][0]["setting"] == "baseline");
  BOOST_TEST(others["settings"][0]["second"] == "none");
}

BOOST_AUTO_TEST_CASE(rows_tables_and_numbers_without_noise_are_named) {
  Json before = report(20, 30, 0, "reproduced", 1, false), after = report(21, 30, 0, "reproduced", 1, false);
  after["sections"][0]["tables"][0]["rows"].erase(1);
  after["sections"].erase(1);
  const Json changes = report_differences(before, after);
  BOOST_TEST(!changes["numbers"][0].contains("noises"));
  BOOST_TEST(changes["only_first"]["rows"] == Json::array({"perplexity_length: alibi"}));
  BOOST_TEST(changes["only_first"]["tables"] == Json::array({"verdicts"}));
  BOOST_TEST(
      report_differences_text(changes, {}).find("1 without a known noise; 1 row is in one of the reports only\n") !=
      std::string::npos);
}

BOOST_AUTO_TEST_CASE(lists_of_configs_are_compared_by_element_on_a_short_line) {
  const auto told = [](const Json& before, const Json& after) {
    return config_difference_text({"labels", before, after});
  };
  Json many = Json::array();
  for (int i = 0; i < 50; ++i) many.push_back("model[encoding=rope,seed=" + std::to_string(i) + "]");
  Json few = many;
  few.erase(few.begin(), few.begin() + 47);
  BOOST_TEST(told(many, few) == "labels: 47 fewer (first: model[encoding=rope,seed=0])");
  BOOST_TEST(told(few, many) == "labels: 47 more (first: model[encoding=rope,seed=0])");
  BOOST_TEST(told({1, 2, 2}, {1, 2, 3}) == "labels: 1 fewer (2), 1 more (3)");
  BOOST_TEST(told({1, 2, 3}, {3, 1, 2}) == "labels: another order");
  BOOST_TEST(told(nullptr, many) == "labels: (none) -> 50 elements (first: model[encoding=rope,seed=0])");
  BOOST_TEST(told(nullptr, Json::array()) == "labels: (none) -> []");
  BOOST_TEST(told(1, 0.5) == "labels: 1 -> 0.5");
  const std::string text = told(std::string(1000, 'x'), Json::array({std::string(1000, 'y'), Json{{"kind", "rope"}}}));
  BOOST_TEST(text.size() < 300u, text);
  BOOST_TEST(told(Json::array({std::string(1000, 'x')}), Json::array({std::string(1000, 'y')})).size() < 300u);
}

BOOST_AUTO_TEST_SUITE_END()
