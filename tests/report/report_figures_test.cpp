// Figures that sections draw: of trainings, positions, extension, depth and epochs, cost; many encodings; captions.
#include <boost/test/unit_test.hpp>
#include <regex>

#include "report/figures/compact_svg.h"
#include "report/figures/gnuplot.h"
#include "report/page/report.h"
#include "report/results/training_curves.h"
#include "report/section_results.h"
#include "schema/algorithmic.h"
#include "schema/language_modelling.h"
#include "schema/models.h"
#include "support/files.h"
#include "support/process.h"
#include "support/temp_folder.h"

using namespace pe;
using namespace pe::report;
using namespace pe::report::sample;
namespace tt = boost::test_tools;

namespace {

constexpr auto kReal = artifact::ColumnType::kReal;
constexpr auto kInteger = artifact::ColumnType::kInteger;
constexpr auto kText = artifact::ColumnType::kText;

Figure figure_of(const Section& section, const std::string& id) {
  for (const Figure& figure : section.figures) {
    if (figure.id == id) return figure;
  }
  BOOST_FAIL("no figure " << id);
  return section.figures.front();
}

Series series_of(const Panel& panel, const std::string& name, Series::Role role) {
  for (const Series& series : panel.series) {
    if (series.name == name && series.role == role) return series;
  }
  BOOST_FAIL("no series " << name);
  return panel.series.front();
}

Curve training(const std::string& encoding, const std::string& seed, double above, double parameters = 1000,
               const std::string& variant = "") {
  Curve curve;
  curve.run.encoding = encoding;
  curve.run.seed = seed;
  curve.run.variant = variant;
  curve.run.train_length = 128;
  curve.run.facts = {{"parameters", parameters}, {"length", 128}};
  curve.config = {{"model", {{"width", 8}, {"layers", 2}, {"heads", 2}, {"tied", true}}},
                  {"train", {{"peak_lr", 0.003}, {"schedule", "wsd"}, {"batch", 4}}}};
  curve.peak_rate = 0.002999999932944775;  // 0.003 in 32 bits
  for (int step = 1; step <= 100; ++step)
    curve.train.push_back({static_cast<double>(step), 512.0 * step, 3 + 5.0 / step + above});
  for (const int step : {60, 80, 100})
    curve.validation.push_back({static_cast<double>(step), 512.0 * step, 3.1 + above, 1.1});
  return curve;
}

Results trainings() {
  Results results;
  results.baseline = "rope";
  results.train_length = 128;
  results.encodings = {"rope", "alibi"};
  results.variants = {""};
  for (const char* seed : {"1", "2", "3"}) {
    results.curves.push_back(training("rope", seed, 0));
    results.curves.push_back(training("alibi", seed, 0.1 + 0.01 * (seed[0] - '2')));
  }
  return results;
}

std::size_t sentences(std::string caption) {
  caption = std::regex_replace(caption, std::regex("et al\\. "), "et al ");
  std::size_t count = caption.empty() ? 0 : 1;
  const std::regex next("[.!?] (?=[A-Z×±(])");
  count += static_cast<std::size_t>(
      std::distance(std::sregex_iterator(caption.begin(), caption.end(), next), std::sregex_iterator()));
  return count;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(report_figures)

BOOST_AUTO_TEST_CASE(a_compact_picture_keeps_what_is_seen) {
  const std::string svg =
      "<svg>\n<defs>\n\t<circle id='a' r='1'/>\n\t<path id='b' d='M0,0'/>\n\t<use xlink:href='#b' id='c' "
      "fill='red'/>\n</defs>\n"
      "<g fill=\"none\">\n\t<g >\n</g>\n</g>\n\t<g ><title>rope</title>\n<path d='M1,2 L3,4\n\t\tL5,6  '/></g>\n"
      "<use xlink:href='#a'/><text>two  words </text>\n</svg>\n";
  BOOST_TEST(compact_svg(svg) ==
             "<svg><defs><circle id='a' r='1'/></defs>\n<g><title>rope</title><path d='M1,2 L3,4 L5,6 '/></g>"
             "<use xlink:href='#a'/><text>two  words </text></svg>\n");
}

BOOST_AUTO_TEST_CASE(the_training_gap_is_paired_by_step_and_seed) {
  const Results results = trainings();
  const Figure& figure = figure_of(section_of("training_gap", results), "training_gap");
  BOOST_REQUIRE(figure.panels.size() == 1u);
  const Series& gap = series_of(figure.panels[0], "alibi", Series::Role::kLine);
  BOOST_TEST(gap.points.back().y == 0.1, tt::tolerance(1e-9));  // the shape of the loss cancels
  BOOST_TEST(gap.points.front().y == 0.1, tt::tolerance(1e-9));
  BOOST_TEST(gap.points.back().n == 3.0);
  BOOST_TEST(gap.points.back().low == 0.1 - 4.302652729911275 * 0.01 / std::sqrt(3.0),
             tt::tolerance(1e-6));  // t of 2 degrees of freedom
  for (const Series& series : figure.panels[0].series) BOOST_TEST(series.name != "rope");
  // A seed that the baseline lacks is paired with nothing.
  Results other = trainings();
  std::erase_if(other.curves, [](const Curve& curve) { return curve.run.encoding == "rope" && curve.run.seed != "1"; });
  BOOST_TEST(
      series_of(figure_of(section_of("training_gap", other), "training_gap").panels[0], "alibi", Series::Role::kLine)
          .points.back()
          .n == 1.0);
  std::erase_if(other.curves, [](const Curve& curve) { return curve.run.encoding == "rope"; });
  BOOST_TEST(section_of("training_gap", other).figures.empty());
}

BOOST_AUTO_TEST_CASE(curves_have_steps_and_flops_as_units_and_hours_where_steps_were_timed) {
  Results results = trainings();
  const Section loss = section_of("loss", results);
  BOOST_REQUIRE(loss.figures[0].x_units.size() == 2u);
  BOOST_TEST(loss.figures[0].x_units[0].id == "steps");
  const Series& line = series_of(loss.figures[0].panels[0], "rope", Series::Role::kLine);
  BOOST_TEST(line.units.at("steps") == 1.0 / 512, tt::tolerance(1e-12));
  BOOST_TEST(line.units.at("flops") == 6.0 * 1000 + 12.0 * 2 * 2 * 4 * 128, tt::tolerance(1e-12));
  const std::string csv = figure_csv(loss.figures[0]);
  BOOST_TEST(csv.find("panel,series,seed,role,x,y,low,high,n,value,x_steps,x_flops\r\n") == 0u, csv.substr(0, 200));
  BOOST_TEST(figure_json(loss.figures[0])["units"][1]["title"] == "Training FLOPs, estimated");
  results.runs = {{.encoding = "rope", .seed = "1"}, {.encoding = "alibi", .seed = "1"}};
  for (std::size_t run = 0; run < 2; ++run) {
    add<schema::Cost>(results, run,
                      {{"a CPU", "fp32", "best", 2, 128, "training_step", 5, 36.0, 35.0, 37.0, 1000, "ok"}});
  }
  // Other devices and routes are no part of a mean.
  add<schema::Cost>(results, 0,
                    {{"a GPU", "bf16", "best", 2, 128, "training_step", 5, 1.0, 1.0, 1.0, 1000, "ok"},
                     {"a CPU", "fp32", "unfused", 2, 128, "training_step", 5, 99.0, 99.0, 99.0, 1000, "ok"}});
  const Section timed = section_of("loss", results);
  BOOST_REQUIRE(timed.figures[0].x_units.size() == 3u);
  BOOST_TEST(timed.figures[0].x_units[2].axis.title == "Hours of training steps on a CPU, fp32, batch 2");
  BOOST_TEST(series_of(timed.figures[0].panels[0], "rope", Series::Role::kLine).units.at("hours") == 36.0 / 3.6e6 / 256,
             tt::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(curves_are_drawn_against_steps_where_the_config_says_so_and_all_trainings_agree) {
  Results results = trainings();
  const Figure tokens = section_of("loss", results).figures[0];
  results.x_unit = "steps";
  const Figure steps = section_of("loss", results).figures[0];
  BOOST_TEST(steps.id == "loss_steps");
  BOOST_TEST(steps.title == "Loss against training steps");
  BOOST_TEST(steps.x.title == "Steps");
  BOOST_TEST(steps.x.high == tokens.x.high / 512, tt::tolerance(1e-12));
  BOOST_TEST(steps.panels[1].x_low.value() == tokens.panels[1].x_low.value() / 512, tt::tolerance(1e-12));
  BOOST_REQUIRE(steps.x_units.size() == 2u);
  BOOST_TEST(steps.x_units[0].id == "tokens");
  BOOST_TEST(steps.x_units[0].axis.title == "Tokens seen");
  const Series &in_tokens = series_of(tokens.panels[0], "rope", Series::Role::kLine),
               &in_steps = series_of(steps.panels[0], "rope", Series::Role::kLine);
  for (std::size_t i = 0; i < in_steps.points.size(); ++i) {
    BOOST_TEST(in_steps.points[i].x == in_tokens.points[i].x / 512, tt::tolerance(1e-12));
    BOOST_TEST(in_steps.points[i].y == in_tokens.points[i].y);
  }
  BOOST_TEST(in_steps.units.at("tokens") == 512, tt::tolerance(1e-12));
  BOOST_TEST(in_steps.units.at("flops") == in_tokens.units.at("flops") * 512, tt::tolerance(1e-12));
  // A token is another share of a step in each of two batches, and no step was timed.
  for (Curve& curve : results.curves) {
    if (curve.run.encoding != "alibi") continue;
    for (auto* points : {&curve.train, &curve.validation}) {
      for (CurvePoint& point : *points) point.step *= 2;
    }
  }
  BOOST_TEST(section_of("loss", results).figures[0].id == "loss_tokens");
  results.x_unit = "hours";
  BOOST_TEST(section_of("loss", results).figures[0].x.title == "Tokens seen");
}

BOOST_AUTO_TEST_CASE(loss_is_drawn_against_parameters_and_compute_where_these_differ) {
  Results results = trainings();
  BOOST_TEST(section_of("scaling", results).figures.empty());
  for (Curve& curve : results.curves) curve.run.variant = "small";
  for (const char* seed : {"1", "2", "3"}) {
    results.curves.push_back(training("rope", seed, -0.5, 4000, "large"));
    results.curves.push_back(training("alibi", seed, -0.3, 4000, "large"));
  }
  const Section section = section_of("scaling", results);
  BOOST_REQUIRE(section.figures.size() == 2u);
  const Series& line = series_of(figure_of(section, "loss_parameters").panels[0], "rope", Series::Role::kMain);
  BOOST_REQUIRE(line.points.size() == 2u);
  BOOST_TEST(line.points[0].x == 1000.0);
  BOOST_TEST(line.points[1].x == 4000.0);
  BOOST_TEST(line.points[1].y == 2.6, tt::tolerance(1e-9));
  BOOST_TEST(series_of(figure_of(section, "loss_flops").panels[0], "alibi", Series::Role::kPoints).points.size() == 6u);

  // The seeds that did not diverge are no mean of their model.
  results.curves.back().diverged = true;  // alibi, large
  const Figure rest = section_of("scaling", results).figures.at(0);
  BOOST_TEST(series_of(rest.panels[0], "alibi", Series::Role::kPoints).points.size() == 3u);
  BOOST_TEST(rest.caption.find("without models of which a seed diverged") != std::string::npos, rest.caption);
}

BOOST_AUTO_TEST_CASE(losses_on_different_data_share_no_axis) {
  Results results;
  results.encodings = {"rope"};
  double above = 0;
  for (const char* data : {"[\"aaaaaaaaaaaa\"]", "[\"bbbbbbbbbbbb\"]"}) {
    for (const char* size : {"small", "large"}) {
      results.curves.push_back(
          training("rope", "1", above += 0.1, *size == 's' ? 1000 : 4000, support::cat(data, size)));
      results.curves.back().data = data;
    }
  }
  const Figure both = figure_of(section_of("scaling", results), "loss_parameters");
  BOOST_REQUIRE(both.panels.size() == 2u);
  BOOST_TEST(both.panels[0].title == "data aaaaaaaaaaaa");
  BOOST_TEST(series_of(both.panels[1], "rope", Series::Role::kMain).points.size() == 2u);
  BOOST_TEST(both.caption.find("a panel for each training data") != std::string::npos, both.caption);
  // One size on each data: nothing to compare.
  results.curves = {results.curves[0], results.curves[3]};
  BOOST_TEST(section_of("scaling", results).figures.empty());
}

BOOST_AUTO_TEST_CASE(the_cheapest_drop_is_the_latest_that_is_shown_to_be_as_good) {
  // A drop costs a · t^-1/2 nats after t tokens, compared with its control; the trunk ends 0.05 nats below the
  // controls.
  constexpr double kStep = 512, kEnd = 1000;
  const auto make = [&](bool three_seeds) {
    Results results;
    results.baseline = "rope";
    results.encodings = {"rope"};
    for (const int seed : three_seeds ? std::vector<int>{1, 2, 3} : std::vector<int>{1, 2}) {
      const double own = 0.001 * (seed - 2);
      Curve trunk;
      trunk.run = {.encoding = "rope", .variant = "trained", .seed = std::to_string(seed)};
      for (int step = 10; step <= 1000; step += 10)
        trunk.train.push_back({static_cast<double>(step), step * kStep, 3, 1});
      trunk.validation = {{kEnd, kEnd * kStep, 2.95, 1}};
      results.curves.push_back(trunk);
      // The earliest drop has recovered, the second nearly, the last has not.
      for (const auto& [fork, final_gap] :
           std::vector<std::pair<int, double>>{{500, 0.005}, {750, 0.012}, {950, 0.06}}) {
        for (const bool drops : {true, false}) {
          Curve branch;
          branch.run = {.encoding = "rope",
                        .variant = support::cat(drops ? "drop" : "nodrop", fork),
                        .seed = std::to_string(seed)};
          branch.first_step = fork;
          branch.config = {{"drop", {{"arm", drops ? "drop" : "nodrop"}}}};
          for (int step = fork + 5; step <= 1000; step += 5) {
            const double gap = drops ? 20 / std::sqrt((step - fork) * kStep) : 0;
            branch.train.push_back({static_cast<double>(step), step * kStep, 3 + std::sin(step) + gap, 1});
          }
          branch.validation = {{kEnd, kEnd * kStep, 3 + (drops ? final_gap + own : 0), 1}};
          results.curves.push_back(branch);
        }
      }
    }
    return results;
  };
  const Section section = section_of("drop_plan", make(true));
  const Table& table = table_of(section, "drop_plan");
  BOOST_REQUIRE(table.rows.size() == 3u);
  const double half = 4.302652729911275 * 0.001 / std::sqrt(3.0);
  for (std::size_t row = 0; row < 3; ++row) {
    const double cost = std::vector<double>{0.005, 0.012, 0.06}[row];
    BOOST_TEST(*cell_of(table, row, "share").number == (std::vector<double>{0.5, 0.75, 0.95}[row]),
               tt::tolerance(1e-12));
    BOOST_TEST(*cell_of(table, row, "control").number == cost, tt::tolerance(1e-9));
    BOOST_TEST(cell_of(table, row, "control").interval->high == cost + half, tt::tolerance(1e-6));
    BOOST_TEST(*cell_of(table, row, "undisturbed").number == cost + 0.05, tt::tolerance(1e-9));
    BOOST_TEST(cell_of(table, row, "cheapest").text == (row == 1 ? "yes" : ""));
    // Of each seed: the trunk, the drop and its control, in the order of `make`.
    BOOST_TEST(table.rows[row].variant == (std::vector<std::string>{"drop500", "drop750", "drop950"}[row]));
    std::vector<std::size_t> behind;
    for (const std::size_t seed : {0u, 7u, 14u})
      behind.insert(behind.end(), {seed, seed + 1 + 2 * row, seed + 2 + 2 * row});
    BOOST_TEST(table.rows[row].trainings == behind, tt::per_element());
  }
  BOOST_TEST(*cell_of(table, 0, "left").number == 500 * kStep);
  // 20 / √t is 0.0198 after 1.02M tokens, which is too far to be distinguished from 25,600.
  const double law = std::pow(20 / std::log(1.02), 2);
  for (const std::size_t row : {0u, 1u}) BOOST_TEST(*cell_of(table, row, "recovery").number == law, tt::tolerance(0.1));
  BOOST_TEST(cell_of(table, 2, "recovery").text == "far");
  BOOST_REQUIRE(section.findings.size() == 1u);
  BOOST_TEST(section.findings[0].find(
                 "The latest drop of rope that is shown to cost less than 2 % of perplexity is at 75.0") == 0u,
             section.findings[0]);

  BOOST_TEST(section.findings[0].find(", at a level that 3 drops share.") != std::string::npos, section.findings[0]);
  // Three drops are tested: an interval of 95 % alone would call the second one cheap.
  Results close = make(true);
  for (Curve& curve : close.curves) {
    if (curve.run.variant == "drop750") curve.validation.back().loss += 0.005;
  }
  const Section shared = section_of("drop_plan", close);
  BOOST_TEST(cell_of(table_of(shared, "drop_plan"), 1, "control").interval->high < std::log(1.02));
  BOOST_TEST(cell_of(table_of(shared, "drop_plan"), 0, "cheapest").text == "yes");
  // A step that was logged at the fork has no tokens behind it.
  Results at_fork = make(true);
  for (Curve& curve : at_fork.curves) {
    if (curve.first_step > 0)
      curve.train.insert(curve.train.begin(), {curve.first_step, curve.first_step * kStep, 3, 1});
  }
  BOOST_TEST(*cell_of(table_of(section_of("drop_plan", at_fork), "drop_plan"), 0, "recovery").number == law,
             tt::tolerance(0.1));

  // Two seeds show nothing.
  const Section few = section_of("drop_plan", make(false));
  BOOST_TEST(!cell_of(table_of(few, "drop_plan"), 0, "control").interval);
  BOOST_TEST(few.findings.at(0) == "No drop of rope is shown to cost less than 2 % of perplexity.");
  // Without controls a drop can only be compared with the undisturbed training.
  Results alone = make(true);
  std::erase_if(alone.curves, [](const Curve& curve) { return curve.run.variant.rfind("nodrop", 0) == 0; });
  const Section without = section_of("drop_plan", alone);
  BOOST_TEST(cell_of(table_of(without, "drop_plan"), 0, "control").text == "–");
  BOOST_TEST(*cell_of(table_of(without, "drop_plan"), 0, "undisturbed").number == 0.055, tt::tolerance(1e-9));
  BOOST_TEST(section_of("drop_plan", trainings()).empty());
  // Losses on more or fewer windows are of other text.
  Results windows = make(true);
  for (Curve& curve : windows.curves) {
    if (curve.run.variant == "trained")
      curve.config["train"]["validate_windows"] = 128;
    else
      curve.config["drop"]["validate_windows"] = 64;
  }
  const Section other_text = section_of("drop_plan", windows);
  BOOST_TEST(cell_of(table_of(other_text, "drop_plan"), 0, "undisturbed").text == "–");
  BOOST_TEST(cell_of(table_of(other_text, "drop_plan"), 0, "undisturbed").reason.find("windows") != std::string::npos);
  BOOST_TEST(*cell_of(table_of(other_text, "drop_plan"), 0, "control").number == 0.005, tt::tolerance(1e-9));
  // Another axis of drops and controls makes other rows, and no seeds.
  Results rates = make(true);
  for (std::size_t i = 0, count = rates.curves.size(); i < count; ++i) {
    if (rates.curves[i].first_step == 0) continue;
    const bool drops = rates.curves[i].config["drop"]["arm"] == "drop";
    rates.curves[i].run.labels = {{"arm", drops ? "drop" : "nodrop"}, {"rate", "low"}};
    Curve high = rates.curves[i];
    high.run.variant += " high";
    high.run.labels["rate"] = "high";
    for (CurvePoint& point : high.train) point.loss += 0.002;
    high.validation.back().loss += drops ? 0.1 : 0;
    rates.curves.push_back(std::move(high));
  }
  const Section by_rate = section_of("drop_plan", rates);
  const Table& of_rates = table_of(by_rate, "drop_plan");
  BOOST_TEST_REQUIRE(of_rates.rows.size() == 6u);
  for (std::size_t row = 0; row < 6; ++row) {
    const bool high = cell_of(of_rates, row, "setting_rate").text == "high";
    BOOST_TEST(*cell_of(of_rates, row, "seeds").number == 3);
    BOOST_TEST(*cell_of(of_rates, row, "control").number ==
                   (std::vector<double>{0.005, 0.012, 0.06})[row / 2] + (high ? 0.1 : 0),
               tt::tolerance(1e-9));
    BOOST_TEST(cell_of(of_rates, row, "cheapest").text == (row == 3 ? "yes" : ""));
  }
  // Tokens of a branch off an extended model begin earlier than its steps.
  Results extended = make(true);
  for (Curve& curve : extended.curves) {
    if (curve.first_step == 0) continue;
    for (auto* points : {&curve.train, &curve.validation}) {
      for (CurvePoint& point : *points) point.tokens += 5e6;
    }
    curve.validation.insert(curve.validation.begin(), curve.validation.front());
    curve.validation.front().step = curve.train.front().step;
    curve.validation.front().tokens = curve.train.front().tokens;
  }
  BOOST_TEST(*cell_of(table_of(section_of("drop_plan", extended), "drop_plan"), 0, "left").number == 500 * kStep);

  // Drops off one snapshot that end at different steps have a row each; of two that are as good the shorter is
  // cheapest.
  Results two_ends = make(true);
  for (std::size_t i = 0, count = two_ends.curves.size(); i < count; ++i) {
    Curve shorter = two_ends.curves[i];
    if (shorter.first_step != 750) continue;
    shorter.run.variant += " short";
    for (CurvePoint& point : shorter.train) point.loss += 0.001;  // its learning rate falls earlier
    shorter.validation.back().step = 800;
    shorter.validation.back().tokens = 800 * kStep;
    two_ends.curves.push_back(shorter);
  }
  const Section ends = section_of("drop_plan", two_ends);
  const Table& by_end = table_of(ends, "drop_plan");
  BOOST_TEST_REQUIRE(by_end.rows.size() == 4u);
  for (std::size_t row = 0; row < 4; ++row) {
    BOOST_TEST(*cell_of(by_end, row, "seeds").number == 3);
    BOOST_TEST(*cell_of(by_end, row, "left").number == (std::vector<double>{500, 50, 250, 50})[row] * kStep);
    BOOST_TEST(cell_of(by_end, row, "cheapest").text == (row == 1 ? "yes" : ""));
  }
}

// As drops of a trunk with 128 windows that were validated on 64: their loss was lower by 0.1 nats for that reason.
BOOST_AUTO_TEST_CASE(validations_on_other_text_are_no_curve_and_have_their_number_of_windows) {
  Results results = trainings();
  results.encodings = {"rope"};
  results.curves = {training("rope", "1", 0), training("rope", "1", 0, 1000, "drop")};
  results.variants = {"", "drop"};
  Curve& branch = results.curves[1];
  branch.first_step = 60;
  branch.config = {{"drop", {{"validate_windows", 128}}}};
  results.curves[0].config["train"]["validate_windows"] = 128;
  const auto of_validation = [&] {
    const Figure figure = section_of("loss", results).figures.at(0);
    BOOST_REQUIRE(figure.panels.size() == 2u);
    return std::pair{figure.panels[1].series.size(), figure.caption};
  };
  const auto has_column = [&] {
    const Table table = section_of("loss", results).tables.at(0);
    return std::any_of(table.columns.begin(), table.columns.end(), [](const Column& c) { return c.id == "windows"; });
  };
  BOOST_TEST(of_validation().first == 2u);
  BOOST_TEST(!has_column());
  branch.config["drop"]["validate_windows"] = 64;
  BOOST_TEST(of_validation().first == 1u);
  BOOST_TEST(of_validation().second.find("other text than the first 128 windows") != std::string::npos);
  BOOST_TEST(has_column());
  BOOST_TEST(to_csv(section_of("loss", results).tables.at(0)).find(",64,") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(branches_say_what_sharing_a_trunk_saved) {
  Results results;
  results.baseline = "rope";
  results.encodings = {"rope"};
  results.variants = {"decay", "drop"};
  Curve trunk = training("rope", "1", 0);
  trunk.run.variant = "trunk";
  results.curves.push_back(trunk);
  for (const auto& [variant, fork] : {std::pair<std::string, int>{"decay", 80}, {"drop", 60}}) {
    Curve branch = training("rope", "1", 0, 1000, variant);
    branch.first_step = fork;
    branch.train.erase(branch.train.begin(), branch.train.begin() + fork);
    results.curves.push_back(branch);
  }
  const Figure& figure = figure_of(section_of("branches", results), "branches");
  BOOST_REQUIRE(figure.panels.size() == 1u);
  BOOST_REQUIRE(figure.panels[0].series.size() == 3u);
  BOOST_TEST(figure.panels[0].series[1].points[0].x == 60 * 512.0);  // the first to fork
  BOOST_TEST(figure.panels[0].series[1].name == "drop, +20.5k");
  // 100 + 20 + 40 steps were trained; alone it would have been 100 + 100.
  BOOST_TEST(
      figure.caption.find("2 trained results for the price of 1.60: 81.9k tokens were trained instead of 102k") == 0u,
      figure.caption);
  // The common part of all branches is no part of their names, which would be cut off.
  results.curves[1].run.variant = "scaffold, nodrop, d50";
  results.curves[2].run.variant = "scaffold, drop, d50";
  const Figure named = figure_of(section_of("branches", results), "branches");
  BOOST_TEST(named.panels[0].series[1].name == "drop, +20.5k");
  BOOST_TEST(named.panels[0].series[2].name == "nodrop, +10.2k");
  results.curves.resize(1);
  BOOST_TEST(section_of("branches", results).figures.empty());
}

BOOST_AUTO_TEST_CASE(a_short_training_with_another_budget_is_no_snapshot_of_the_long_one) {
  std::vector<Curve> curves(2);
  for (std::size_t i = 0; i < 2; ++i) {
    curves[i].run = {.labels = {{"snapshot", std::to_string(i)}}, .encoding = "rope", .seed = "1"};
    for (int step = 1; step <= (i == 0 ? 10 : 20); ++step) curves[i].train.push_back({1.0 * step, 10.0 * step, 3, 1});
  }
  BOOST_TEST(distinct(curves).size() == 1u);
  curves[0].run.labels["budget"] = "10";
  curves[1].run.labels["budget"] = "20";
  BOOST_TEST(distinct(curves).size() == 2u);
}

BOOST_AUTO_TEST_CASE(an_interval_that_an_axis_cuts_has_an_arrow_head) {
  Figure figure{.id = "f", .title = "", .kind = Figure::Kind::kForest};
  Panel panel{.x_low = -1.0, .x_high = 1.05};
  panel.series.push_back({.name = "rope"});
  panel.series[0].points = {{.x = 0, .y = 0, .low = -0.5, .high = 0.5}};
  figure.panels = {panel};
  figure.y_names = {"rope"};
  const auto arrows = [](const std::string& script) {
    std::size_t count = 0;
    for (std::size_t at = script.find("set arrow"); at != std::string::npos; at = script.find("set arrow", at + 1))
      ++count;
    return count;
  };
  BOOST_TEST(!cuts_intervals(figure));
  const std::size_t before = arrows(gnuplot_script(figure, svg_canvas(figure)));
  figure.panels[0].series[0].points[0].low = -3;
  BOOST_TEST(cuts_intervals(figure));
  BOOST_TEST(arrows(gnuplot_script(figure, svg_canvas(figure))) == before + 2);
}

BOOST_AUTO_TEST_CASE(words_in_place_of_a_value_are_at_the_end_where_it_lies) {
  Figure figure{.id = "f", .title = "", .kind = Figure::Kind::kForest};
  Panel panel{.x_low = -1.0, .x_high = 1.0};
  panel.series.push_back({.name = "rope"});
  panel.series[0].points = {{.x = 0, .y = 0, .low = -0.5, .high = 0.5}};
  panel.flags = {{5, 1, "far above", ""}, {-5, 2, "far below", ""}, {0, 3, "missing", ""}};
  figure.panels = {panel};
  figure.y_names = {"rope", "alibi", "t5", "none"};
  const std::string script = gnuplot_script(figure, svg_canvas(figure));
  const auto side = [&](const std::string& text) {
    const std::string line = script.substr(script.find("set label '" + text));
    return line.substr(0, line.find('\n')).find(" right front") != std::string::npos ? "right" : "left";
  };
  BOOST_TEST(side("far above") == "right");
  BOOST_TEST(side("far below") == "left");
  BOOST_TEST(side("missing") == "left");
}

BOOST_AUTO_TEST_CASE(loss_by_position_has_the_interval_of_its_seeds) {
  Results results = perplexities({});
  for (std::size_t run = 0; run < results.runs.size(); ++run) {
    const double own = results.runs[run].seed[0] - '2';
    std::vector<std::vector<artifact::Cell>> rows;
    for (const std::int64_t low : {1, 2, 4, 8, 16, 32, 64, 128})
      rows.push_back({"test", "log", low, 2 * low, 40, 5.0 / static_cast<double>(low) + 0.01 * own, 0.02});
    rows.push_back({"test", "linear", 0, 4, 40, 99.0, 0.02});
    add<schema::LmPosition>(results, run, rows);
  }
  const Figure& figure = figure_of(section_of("position_curve", results), "loss_position");
  const Series& line = series_of(figure.panels[0], "alibi", Series::Role::kLine);
  BOOST_REQUIRE(line.points.size() == 8u);
  BOOST_TEST(line.points[7].x == std::sqrt(128.0 * 255), tt::tolerance(1e-9));
  BOOST_TEST(line.points[7].y == 5.0 / 128, tt::tolerance(1e-9));
  BOOST_TEST(line.points[0].high - line.points[0].y == 4.302652729911275 * 0.01 / std::sqrt(3.0), tt::tolerance(1e-6));
  BOOST_TEST(figure.panels[0].rules[0].at == 128.0);
  BOOST_TEST(figure.caption.find("models with one seed") == std::string::npos, figure.caption);
  // A model with one seed has a band of documents, and the caption says so.
  results.arms[1].runs.resize(1);
  const Figure mixed = figure_of(section_of("position_curve", results), "loss_position");
  BOOST_TEST(mixed.caption.find("of models with one seed, 95 % over documents.") != std::string::npos, mixed.caption);
}

BOOST_AUTO_TEST_CASE(rules_against_lengths_are_a_map_beside_the_loss_at_the_training_length) {
  Results results = perplexities({.encodings = {"rope"}});
  for (std::size_t run = 0; run < results.runs.size(); ++run) {
    add<schema::Extension>(results, run, {"variant", "L", "nll_mean", "status"},
                           {{"plain", 128, 3.0, "ok"},
                            {"plain", 512, 5.0, "ok"},
                            {"yarn", 128, 3.1, "ok"},
                            {"yarn", 512, 3.5, "ok"},
                            {"base_4", 512, artifact::Cell(), "overflow"}});
  }
  const Section section = section_of("extension_map", results);
  const Figure& map = figure_of(section, "extension_map");
  BOOST_REQUIRE(map.y_names.size() == 3u);
  BOOST_TEST(map.y_names.back() == "plain");  // on top
  const auto value = [&](int column, int row) {
    for (const HeatCell& cell : map.panels[0].cells) {
      if (cell.column == column && cell.row == row) return cell;
    }
    return HeatCell{};
  };
  BOOST_TEST(value(1, 2).value == 2.0, tt::tolerance(1e-12));
  BOOST_TEST(value(1, 1).value == 0.5, tt::tolerance(1e-12));
  BOOST_TEST(std::isnan(value(1, 0).value));
  BOOST_TEST(*cell_of(table_of(section, "extension"), 1, "ppl_512").number == std::exp(3.5), tt::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(overhead_is_relative_to_no_encoding_and_sorted) {
  Results results = perplexities({.encodings = {"rope", "fire"}, .seeds = {"1"}});
  for (std::size_t run = 0; run < 2; ++run) {
    const double slow = run == 0 ? 1.05 : 1.5;
    std::vector<std::vector<artifact::Cell>> rows;
    for (const auto& [component, ms, bytes] : {std::tuple<const char*, double, int>{"forward", 10 * slow, 300},
                                               {"forward_none", 10.0, 200},
                                               {"training_step", 30 * slow, 0},
                                               {"training_step_none", 30.0, 0}}) {
      rows.push_back({"a CPU", "fp32", "best", 1, 128, component, 5, ms, 0.9 * ms, 1.1 * ms, bytes, "ok"});
    }
    add<schema::Cost>(results, run, rows);
  }
  const Figure& bars = figure_of(section_of("overhead", results), "overhead");
  BOOST_REQUIRE(bars.panels.size() == 3u);
  BOOST_TEST(bars.y_names == (std::vector<std::string>{"fire", "rope"}), tt::per_element());  // the cheapest on top
  BOOST_TEST(bars.panels[0].series[1].points[0].x == 0.05, tt::tolerance(1e-9));
  BOOST_TEST(bars.panels[1].title == "training step, time");
  BOOST_TEST(bars.panels[2].series[0].points[0].x == 0.5, tt::tolerance(1e-9));
  BOOST_TEST(*cell_of(table_of(section_of("cost", results), "cost_best"), 1, "step_overhead_128").number == 0.5,
             tt::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(many_encodings_are_small_multiples_and_the_rest_is_grey) {
  const std::vector<std::string> names{"rope", "a", "b", "c", "d", "e", "f", "g", "h", "i"};
  Results results = perplexities({.encodings = names, .seeds = {"1", "2", "3"}, .better = 0.5});
  const auto sections = make_sections(results);
  const auto section =
      std::find_if(sections.begin(), sections.end(), [](const Section& s) { return s.id == "perplexity"; });
  const Figure& all = figure_of(*section, "perplexity_length");
  const auto coloured = names_of(all);
  BOOST_REQUIRE(coloured.size() == kNamesInColour);
  BOOST_TEST((std::find(coloured.begin(), coloured.end(), "rope") != coloured.end()));  // the baseline
  BOOST_TEST((std::find(coloured.begin(), coloured.end(), "i") != coloured.end()));     // the best
  const auto grey = [](const Panel& panel) {
    return std::count_if(panel.series.begin(), panel.series.end(),
                         [](const Series& s) { return s.role == Series::Role::kContext; });
  };
  BOOST_TEST(grey(all.panels[0]) == 2);
  BOOST_TEST(all.caption.find("grey: 2 others") != std::string::npos, all.caption);
  const Figure& each = figure_of(*section, "perplexity_length_each");
  BOOST_REQUIRE(each.panels.size() == 10u);
  BOOST_TEST(each.panels[3].title == "c");
  BOOST_TEST(grey(each.panels[3]) == 9);
  results.highlight = {"a", "b"};
  const auto chosen = make_sections(results);
  const auto again = std::find_if(chosen.begin(), chosen.end(), [](const Section& s) { return s.id == "perplexity"; });
  BOOST_TEST(names_of(again->figures[0]).size() == 2u);
  // The grey ones have their names, too.
  for (const Series& series : again->figures[0].panels[0].series) {
    if (series.role == Series::Role::kContext) BOOST_TEST(series.labelled, series.name);
  }
  BOOST_TEST(gnuplot_script(again->figures[0], svg_canvas(again->figures[0])).find("set label 'c'") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_panel_of_few_keeps_its_colours_and_one_of_none_is_left_out) {
  const std::vector<std::string> names{"rope", "a", "b", "c", "d", "e", "f", "g", "h", "i"};
  Results results = perplexities({.encodings = names, .seeds = {"1", "2", "3"}, .better = 0.5});
  // Two of them were tuned, too, and measured by one protocol alone.
  results.variants.push_back("tuned");
  const std::size_t count = results.arms.size();
  const std::string protocol = results.lm.front().protocol;
  for (std::size_t arm = 0; arm < count; ++arm) {
    if (results.arms[arm].encoding != "a" && results.arms[arm].encoding != "i") continue;
    Arm tuned{.encoding = results.arms[arm].encoding, .variant = "tuned", .runs = {}};
    for (const std::size_t run : results.arms[arm].runs) {
      Run copy = results.runs[run];
      copy.variant = "tuned";
      tuned.runs.push_back(results.runs.size());
      const std::size_t cells = results.lm.size();
      for (std::size_t i = 0; i < cells; ++i) {
        if (results.lm[i].run != run || results.lm[i].protocol != protocol) continue;
        LmCell cell = results.lm[i];
        cell.run = results.runs.size();
        results.lm.push_back(std::move(cell));
      }
      results.runs.push_back(std::move(copy));
    }
    results.arms.push_back(std::move(tuned));
  }
  const auto sections = make_sections(results);
  const auto section =
      std::find_if(sections.begin(), sections.end(), [](const Section& s) { return s.id == "perplexity"; });
  const Figure& figure = figure_of(*section, "perplexity_length");
  std::size_t tuned = 0;
  for (const Panel& panel : figure.panels) {
    BOOST_TEST(!panel.series.empty(), panel.title);
    if (panel.title.find("tuned") == std::string::npos) continue;
    ++tuned;
    BOOST_TEST(names_of(panel) == (std::vector<std::string>{"a", "i"}), tt::per_element());
  }
  BOOST_TEST(tuned == 1u);
  BOOST_TEST(names_of(figure.panels[0]).size() == kNamesInColour);
  BOOST_TEST(figure.caption.find("grey: 2 others") != std::string::npos, figure.caption);
}

BOOST_AUTO_TEST_CASE(tasks_shade_the_trained_lengths_and_mark_seeds) {
  Results results = perplexities({.encodings = {"rope"}});
  results.lm.clear();
  for (std::size_t run = 0; run < results.runs.size(); ++run) {
    for (const std::int64_t length : {10, 20, 40})
      results.tasks.push_back({.run = run,
                               .task = "copy_repeat",
                               .length = length,
                               .n = 100,
                               .exact = length > 20 ? 0.0 : 1.0,
                               .token_accuracy = 0.9,
                               .chance = 0.04});
    add<schema::AlgoLength>(results, run, {"task", "measure", "value"}, {{"copy_repeat", "train_longest", 20.0}});
  }
  const Figure& figure = figure_of(section_of("tasks", results), "copy_repeat_length");
  BOOST_REQUIRE(figure.panels[0].shades.size() == 1u);
  BOOST_TEST(figure.panels[0].shades[0].low == 10.0);
  BOOST_TEST(figure.panels[0].shades[0].high == 20.0);
  BOOST_TEST(series_of(figure.panels[0], "rope", Series::Role::kPoints).points.size() == 3u);
  BOOST_TEST(gnuplot_script(figure, svg_canvas(figure)).find("behind fc rgb '#f0f0f0'") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_setup_states_rates_as_they_were_set_and_the_data) {
  Results results = trainings();
  results.curves[0].data = R"(["0123456789abcdef"])";
  const Section section = section_of("setup", results);
  BOOST_TEST(cell_of(section.tables[0], 0, "peak_lr").text == "0.003");
  BOOST_TEST(cell_of(section.tables[0], 0, "data").text == "0123456789ab");
  for (Curve& curve : results.curves) curve.config = {};
  BOOST_TEST(cell_of(section_of("setup", results).tables[0], 0, "peak_lr").text == "0.003");  // logged, rounded
}

BOOST_AUTO_TEST_CASE(the_setup_of_a_branch_is_that_of_the_training_that_it_continues) {
  test::TempFolder folder;
  const Results results = read_results(
      {},
      write_inputs(
          folder.path(),
          {.encodings = {"none", "rope"}, .stages = {"decay", "drop"}, .seeds = {1}, .documents = 8, .configs = true}));
  Results bare = results;  // logs of branches hold their own settings, and no more
  for (Curve& curve : bare.curves) {
    if (curve.run.labels.at("stage") == "trunk") continue;
    curve.config = {{curve.run.labels.at("stage"), {{"horizon_tokens", 600000}}}};
  }
  const auto shown = [](const Results& of) {
    std::vector<std::string> rows;
    const Table table = section_of("setup", of).tables.at(0);
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      std::string text;
      for (const char* column : {"width", "layers", "heads", "batch", "vocabulary"}) {
        const Cell& cell = cell_of(table, row, column);
        text += (cell.number ? support::shortest(*cell.number) : cell.text) + " ";
      }
      rows.push_back(text);
    }
    return rows;
  };
  inherit_settings(bare.curves);
  BOOST_TEST(shown(bare) == shown(results), boost::test_tools::per_element());
  BOOST_TEST(shown(bare).size() == 5u);
  BOOST_TEST(shown(bare).back() == "64 3 4 16 512 ");
  const Curve& branch = bare.curves.back();
  BOOST_TEST(branch.run.labels.at("stage") == "drop");
  BOOST_TEST(flops_per_token(branch) == flops_per_token(results.curves.back()));
  // Two parents that differ say nothing, and the tokens of a step still give the batch.
  Results unclear = bare;
  Curve other;
  for (Curve& curve : unclear.curves) {
    curve.inherited = Json::object();
    if (curve.run.encoding == "rope" && curve.config.contains("model")) other = curve;
  }
  other.config["model"]["width"] = 128;
  unclear.curves.push_back(other);
  inherit_settings(unclear.curves);
  const std::vector<std::string> rows = shown(unclear);
  BOOST_TEST(std::count(rows.begin(), rows.end(), "– – – 16 – ") == 2);
}

BOOST_AUTO_TEST_CASE(tables_of_perplexity_state_the_mean_context) {
  Results results = perplexities({.protocols = {"prefix", "sliding"}});
  for (LmCell& cell : results.lm)
    cell.context =
        cell.protocol == "sliding" ? 0.75 * static_cast<double>(cell.length) : 0.5 * static_cast<double>(cell.length);
  const Section section = section_of("perplexity", results);
  const Table& table = section.tables[0];
  const auto column = std::find_if(table.columns.begin(), table.columns.end(),
                                   [](const Column& c) { return c.id == "ppl_sliding_512"; });
  BOOST_TEST(column->note == "384");
  BOOST_TEST(to_html(table).find("<small>[384]</small>") != std::string::npos);
  BOOST_TEST(to_markdown(table).find("512 (4×) ↓ \\[384\\]") != std::string::npos);
  BOOST_TEST(to_latex(table).find("[384]") != std::string::npos);
  BOOST_TEST(table.caption.find("number of tokens before a scored one") != std::string::npos, table.caption);
}

BOOST_AUTO_TEST_CASE(an_ideal_reader_has_the_text_and_the_context_of_the_models) {
  Results results = sample::perplexities({.better = 0.01});  // 128 and 512 tokens of three bytes
  for (Run& run : results.runs) run.labels = {{"text", "a"}};
  for (LmCell& cell : results.lm) cell.context = static_cast<double>(cell.length) / 2;
  const auto add_text = [&](const char* text, double scale) {
    for (const auto& [tokens, nats] :
         std::vector<std::pair<double, double>>{{64, 1.0}, {128, 0.95}, {256, 0.9}, {512, 0.8}})
      results.ideal.push_back({{{"text", text}, {"stage", "ideal"}}, 3 * 512, 3 * tokens, scale * nats});
  };
  add_text("a", 1);
  add_text("b", 10);
  const Section section = section_of("context_used", results);
  BOOST_TEST(*cell_of(table_of(section, "context_used"), 0, "ideal").number == (1.0 - 0.9) * 3, tt::tolerance(1e-9));
  // Without the contexts of the models, the lengths stand for them.
  for (LmCell& cell : results.lm) cell.context = NAN;
  BOOST_TEST(
      *cell_of(table_of(section_of("context_used", results), "context_used"), 0, "ideal").number == (0.95 - 0.8) * 3,
      tt::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_gain_off_the_axis_is_written_as_in_the_table) {
  Results results = sample::perplexities({.better = 0.01});
  for (LmCell& cell : results.lm) {
    if (cell.length != 512) continue;
    for (schema::DocumentScore& score : cell.scores) score.nll += 0.5 * static_cast<double>(score.tokens);
  }
  for (const auto& [tokens, nats] : std::vector<std::pair<double, double>>{{64, 1.0}, {128, 0.95}, {512, 0.9}})
    results.ideal.push_back({{}, 3 * 512, 3 * tokens, nats});
  const Section section = section_of("context_used", results);
  const Table& table = table_of(section, "context_used");
  const std::string gain = format_cell(cell_of(table, 0, "gain"), {.id = "", .style = NumberStyle::kSignedNats});
  const Panel panel = figure_of(section, "context_used").panels.at(0);
  BOOST_REQUIRE(panel.flags.size() == 2u);
  BOOST_TEST(panel.flags[0].text == support::cat("off the axis: ", gain, " nats"));
  BOOST_TEST(panel.flags[0].text.find("off the axis: −0.5") == 0u, panel.flags[0].text);
  BOOST_TEST(panel.flags[0].x < 0);
}

BOOST_AUTO_TEST_CASE(captions_have_at_most_three_sentences) {
  test::TempFolder folder;
  const Results results = read_results({}, write_inputs(folder.path(), {.encodings = {"none", "rope", "sinusoidal"},
                                                                        .stages = {"decay", "drop", "nodrop"},
                                                                        .seeds = {1, 2, 3},
                                                                        .documents = 8,
                                                                        .configs = true}));
  for (const Section& section : make_sections(results)) {
    for (const Figure& figure : section.figures)
      BOOST_TEST(sentences(figure.caption) <= 3u, figure.id << ": " << figure.caption);
    for (const Table& table : section.tables)
      BOOST_TEST(sentences(table.caption) <= 3u, table.id << ": " << table.caption);
  }
}

BOOST_AUTO_TEST_SUITE_END()
