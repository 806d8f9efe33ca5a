// The section on structured rows: numbers compared with floors and published ones.
#include <boost/test/unit_test.hpp>

#include "report/page/report.h"
#include "report/section_results.h"
#include "schema/structured_rows.h"
#include "support/text.h"

using namespace pe;
using namespace pe::report;
using namespace pe::report::sample;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Results of pe-dummy as a report reads them, one run a cell.
struct Sample {
  Results results;

  Sample() {
    results.baseline = "rope";
    results.title = "rows";
  }

  void add(const std::string& mode, const std::string& network, const std::string& encoding, std::int64_t depth,
           int seed, double all, double middle, double determined) {
    results.runs.push_back({.encoding = encoding, .seed = std::to_string(seed)});
    if (std::find(results.encodings.begin(), results.encodings.end(), encoding) == results.encodings.end())
      results.encodings.push_back(encoding);
    for (const std::int64_t epochs : {1, 16}) {
      const double early = epochs == 1 ? 0.5 : 0;
      schema::DummyGrid row{{mode, network, encoding, depth, epochs, seed}};
      row.loss_headline = (mode == "seed" ? all : determined) + early;
      row.loss_all = all + early;
      row.det_loss = determined + early;
      row.det_acc = 0.9;
      row.loss_pos = {4.3, 0.1, 0.1, 0.1, middle, 0.1, 0.1, 0.1};
      row.loss_pos63 = mode == "seed" ? 0.01 : kNaN;
      add_rows<schema::DummyGrid>(results, {row});
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

}  // namespace

BOOST_AUTO_TEST_SUITE(dummy_section)

BOOST_AUTO_TEST_CASE(published_losses_and_floors_stand_beside_ours) {
  Sample sample;
  sample.add("seed", "post_norm_over_batch", "sinusoidal", 4, 42, .14, 4.30, .7);
  sample.add("seed", "post_norm_over_batch", "none", 4, 42, .29, 4.30, .7);
  const Section section = sample.section();
  const Table& table = table_of(section, "dummy_seed");
  BOOST_TEST(to_csv(table).find("0.141") != std::string::npos, to_csv(table));  // published after 16 epochs
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
        schema::DummyTargets row{{"hard", "pre_norm_causal", encoding, 4, 16, seed}};
        row.variant = variant;
        row.target = target;
        row.loss = value;
        row.acc = .9;
        row.status = status;
        add_rows<schema::DummyTargets>(sample.results, {row});
      };
      add("plain", "det", loss + 0.01 * (seed - 43), "ok");
      if (encoding == std::string("rope"))
        add("shift_8", "det", loss, "ok");
      else
        add("shift_8", "all", kNaN, "na_positions");
    }
  }
  sample.add("hard", "pre_norm_causal", "rope", 1, 42, 1.0, 0, .5);
  for (Run& run : sample.results.runs) run.variant = "depth 4";
  sample.results.runs.back().variant = "depth 1";
  const Section section = sample.section();
  for (const char* id : {"dummy_hard", "dummy_targets_hard"}) {  // depth 1, then rope and learned at depth 4
    const Table& table = table_of(section, id);
    BOOST_TEST_REQUIRE(table.rows.size() == 3u);
    BOOST_TEST(table.rows[0].variant == "depth 1");
    BOOST_TEST(*table.rows[0].runs == std::vector<std::size_t>{6}, boost::test_tools::per_element());
    BOOST_TEST(table.rows[1].variant == "depth 4");
    BOOST_TEST(*table.rows[1].runs == (std::vector<std::size_t>{0, 2, 4}), boost::test_tools::per_element());
  }
  const std::string csv = to_csv(table_of(section, "dummy_targets_hard"));
  const std::string markdown = to_markdown(table_of(section, "dummy_targets_hard"));
  BOOST_TEST(markdown.find("−0.0200 \\[−0.0200, −0.0200\\]") != std::string::npos,
             markdown);  // learned − rope, in every seed
  BOOST_TEST(csv.find("n/a (the length is beyond the positions that the encoding has)") != std::string::npos, csv);
  BOOST_TEST(csv.find("it is the baseline") != std::string::npos, csv);
}

BOOST_AUTO_TEST_CASE(depth_and_epochs_are_a_map) {
  Results results;
  results.encodings = {"learned", "rope"};
  results.variants = {""};
  for (const std::string& encoding : results.encodings) {
    results.runs.push_back({.encoding = encoding, .seed = "1"});
    for (const std::int64_t depth : {1, 4, 16}) {
      for (const std::int64_t epochs : {1, 4, 16}) {
        schema::DummyGrid row{{"fixed", "bare", encoding, depth, epochs, 1}};
        row.loss_headline = 1.0 / static_cast<double>(depth * epochs);
        add_rows<schema::DummyGrid>(results, {row});
      }
    }
  }
  const Section section = section_of("dummy", results);
  const Figure& map = section.figures.back();
  BOOST_TEST(map.id == "dummy_fixed_map");
  BOOST_REQUIRE(map.panels.size() == 2u);
  BOOST_TEST(map.panels[1].encoding == "rope");
  BOOST_REQUIRE(map.panels[0].cells.size() == 9u);
  BOOST_TEST(map.panels[0].cells[5].value == 1.0 / 64);  // 4 layers, 16 epochs
  BOOST_TEST(map.x_names[map.panels[0].cells[5].column] == "16");
  BOOST_TEST(map.y_names[map.panels[0].cells[5].row] == "4");
}

BOOST_AUTO_TEST_SUITE_END()
