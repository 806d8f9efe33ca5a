// The section on structured rows: numbers beside floors and published ones, and verdicts that follow from them.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "report/report.h"
#include "report/section.h"
#include "support/text.h"

using namespace pe;
using namespace pe::report;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Results of pe-dummy as a report reads them, one run a cell.
struct Sample {
  Results results;

  Sample() {
    results.baseline = "rope";
    results.title = "rows";
  }

  void add(const std::string& mode, const std::string& network, const std::string& encoding, std::int64_t depth, int seed, double all,
           double middle, double determined) {
    results.runs.push_back({.encoding = encoding, .seed = std::to_string(seed), .facts = {{"config_hash", "c0ffee"}}});
    if (std::find(results.encodings.begin(), results.encodings.end(), encoding) == results.encodings.end()) results.encodings.push_back(encoding);
    for (const std::int64_t epochs : {1, 16}) {
      const double early = epochs == 1 ? 0.5 : 0;
      results.dummy.push_back({.run = results.runs.size() - 1, .mode = mode, .network = network, .depth = depth, .epochs = epochs,
                               .seed = std::to_string(seed), .headline = (mode == "seed" ? all : determined) + early, .all = all + early,
                               .determined = determined + early, .accuracy = 0.9,
                               .positions = {4.3, 0.1, 0.1, 0.1, middle, 0.1, 0.1, 0.1}, .wrap = mode == "seed" ? 0.01 : kNaN});
    }
  }

  Section section() const {
    for (Section& section : make_sections(results)) {
      if (section.id == "dummy") return std::move(section);
    }
    BOOST_FAIL("the report has no such section");
    return {};
  }
};

const Table& table_of(const Section& section, const std::string& id) {
  for (const Table& table : section.tables) {
    if (table.id == id) return table;
  }
  BOOST_FAIL("no table " + id);
  return section.tables.front();
}

/// Verdicts by quantity.
std::map<std::string, std::string> verdicts(const Section& section) {
  std::map<std::string, std::string> found;
  for (const Row& row : table_of(section, "dummy_claims").rows) found[row.cells[1].text] = row.cells.back().text;
  return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dummy_section)

BOOST_AUTO_TEST_CASE(the_claim_holds_where_seeds_agree_within_the_band_and_not_elsewhere) {
  Sample sample;
  for (int seed = 42; seed < 45; ++seed) {
    const double noise = 0.001 * (seed - 43);
    sample.add("seed", "post_norm_over_batch", "sinusoidal", 1, seed, .146 + noise, 4.30 + noise, .7);    // at the floor
    sample.add("seed", "post_norm_over_batch", "learned", 1, seed, .147 + noise, 4.60 + noise, .7);       // outside the band
    sample.add("seed", "post_norm_over_batch", "sininit", 16, seed, .39 + noise, 4.30 + noise, .7);       // has not finished
    sample.add("seed", "bare_bidirectional", "rope", 16, seed, .8483 + noise, 4.3, .7);
    sample.add("fixed", "pre_norm_causal", "sinusoidal", 4, seed, .07, .08 + noise, .012);
    sample.add("fixed", "pre_norm_causal", "rope", 4, seed, .07, .3 + noise, .015 + noise);
  }
  const Section section = sample.section();
  const std::map<std::string, std::string> expected = {
      {"loss at MIDDLE: sinusoidal, post_norm_over_batch, depth 1", "reproduced"},
      {"loss at MIDDLE: learned, post_norm_over_batch, depth 1", "partly"},
      {"loss at MIDDLE: sininit, post_norm_over_batch, depth 16", "not testable"},
      {"loss at the marginal floor: rope, bare_bidirectional, depth 16", "reproduced"},
      {"loss at MIDDLE: sinusoidal, pre_norm_causal, depth 4", "reproduced"},
      {"loss at MIDDLE: rope, pre_norm_causal, depth 4", "not reproduced"},
      {"rope − sinusoidal, positions 1–6: pre_norm_causal, depth 4", "reproduced"}};
  for (const auto& [what, verdict] : verdicts(section)) {
    BOOST_TEST(expected.count(what), what);
    if (expected.count(what)) BOOST_TEST(expected.at(what) == verdict, what << ": " << verdict);
  }
  BOOST_TEST(verdicts(section).size() == expected.size());
  BOOST_REQUIRE(section.findings.size() == 1u);
  BOOST_TEST(section.findings[0].find("tested in 7 cells: 1 not reproduced, 1 not testable, 1 partly, 4 reproduced.") != std::string::npos,
             section.findings[0]);
  const std::string csv = to_csv(table_of(section, "dummy_claims"));
  BOOST_TEST(csv.find("claim_id,what,config_hash,expected,observed,") == 0u, csv);
  BOOST_TEST(csv.find("A15,") != std::string::npos);
  BOOST_TEST(csv.find("c0ffee") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(one_seed_settles_nothing) {
  Sample sample;
  sample.add("seed", "post_norm_over_batch", "sinusoidal", 1, 42, .146, 4.30, .7);
  BOOST_TEST(verdicts(sample.section()).begin()->second == "partly");
}

BOOST_AUTO_TEST_CASE(published_losses_and_floors_stand_beside_ours) {
  Sample sample;
  sample.add("seed", "post_norm_over_batch", "sinusoidal", 4, 42, .14, 4.30, .7);
  sample.add("seed", "post_norm_over_batch", "none", 4, 42, .29, 4.30, .7);
  const Section section = sample.section();
  const Table& table = table_of(section, "dummy_seed");
  BOOST_TEST(to_csv(table).find("0.141") != std::string::npos, to_csv(table));      // published after 16 epochs
  BOOST_TEST(to_csv(table).find("the source has no such cell") != std::string::npos);
  BOOST_TEST(table.caption.find("0.1332") != std::string::npos, table.caption);
  BOOST_TEST(table.caption.find("0.0666") != std::string::npos);
  BOOST_TEST(section.figures.front().panels.front().rules.size() == 2u);
  const std::string targets = to_csv(table_of(section, "dummy_targets_seed"));
  BOOST_TEST(targets.find("middle") != std::string::npos, targets);
  BOOST_TEST(targets.find("4.3") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(mode_hard_is_paired_with_the_baseline_and_says_what_is_missing) {
  Sample sample;
  for (int seed = 42; seed < 45; ++seed) {
    for (const auto& [encoding, loss] : {std::pair{"rope", .30}, {"learned", .28}}) {
      sample.add("hard", "pre_norm_causal", encoding, 4, seed, 1.0, 0, loss);
      const auto add = [&](const char* variant, const char* target, double value, const char* status) {
        sample.results.dummy_targets.push_back({.run = sample.results.runs.size() - 1, .mode = "hard", .network = "pre_norm_causal",
                                                .seed = std::to_string(seed), .depth = 4, .epochs = 16, .variant = variant,
                                                .target = target, .loss = value, .accuracy = .9, .status = status});
      };
      add("plain", "det", loss + 0.01 * (seed - 43), "ok");
      if (encoding == std::string("rope")) add("shift_8", "det", loss, "ok");
      else add("shift_8", "all", kNaN, "na_positions");
    }
  }
  const Section section = sample.section();
  const std::string csv = to_csv(table_of(section, "dummy_targets_hard"));
  const std::string markdown = to_markdown(table_of(section, "dummy_targets_hard"));
  BOOST_TEST(markdown.find("−0.0200 \\[−0.0200, −0.0200\\]") != std::string::npos, markdown);   // learned − rope, in every seed
  BOOST_TEST(csv.find("n/a (the length is beyond the positions that the encoding has)") != std::string::npos, csv);
  BOOST_TEST(csv.find("it is the baseline") != std::string::npos, csv);
  for (const Table& table : section.tables) BOOST_TEST(table.id != "dummy_claims");   // the claim is about other modes
}

BOOST_AUTO_TEST_SUITE_END()
