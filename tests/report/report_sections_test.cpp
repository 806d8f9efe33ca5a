// Sections on probes, cost, stability, context extension and checks, from tables made here.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "report/figures/gnuplot.h"
#include "report/results/rows.h"
#include "report/section_results.h"
#include "report/sections/section.h"
#include "schema/language_modelling.h"
#include "schema/models.h"
#include "schema/probes.h"
#include "support/error.h"
#include "support/process.h"

using namespace pe;
using namespace pe::report;
using artifact::ColumnType;
using namespace pe::report::sample;

namespace {

constexpr ColumnType kText = ColumnType::kText;
constexpr ColumnType kInteger = ColumnType::kInteger;
constexpr ColumnType kReal = ColumnType::kReal;

/// Two encodings with a seed each, trained at 128 tokens.
Results two_models() {
  Results results;
  results.train_length = 128;
  results.baseline = "rope";
  results.variants = {""};
  for (const char* name : {"rope", "alibi"}) {
    results.runs.push_back(
        {.encoding = name, .seed = "42", .facts = {{"encoding", {{"kind", name}}}, {"data_digest", "d"}}});
    results.encodings.emplace_back(name);
    results.arms.push_back({name, "", {results.runs.size() - 1}});
  }
  return results;
}

void every_row_is_whole(const Section& section) {
  for (const Table& table : section.tables) {
    BOOST_TEST(!table.rows.empty(), table.id);
    for (const Row& row : table.rows) BOOST_TEST(row.cells.size() == table.columns.size(), table.id);
  }
  for (const Figure& figure : section.figures) {
    BOOST_TEST(!figure.panels.empty(), figure.id);
    BOOST_TEST(!figure.caption.empty(), figure.id);
  }
}

Curve training(const char* encoding, double spikes, bool diverged = false, double rate = 3e-3) {
  Curve curve;
  curve.run = {.encoding = encoding, .seed = "42"};
  curve.run.facts = {{"parameters", 1000},
                     {"encoding_parameters", 0},
                     {"length", 128},
                     {"step", 300},
                     {"stability",
                      {{"spikes", spikes},
                       {"spike_mass", 0.5 * spikes},
                       {"steps_judged", 172},
                       {"nonfinite_steps", 0},
                       {"grad_norm", {{"median", 1.0}, {"p99", 2.0}, {"max", 3.0}}},
                       {"clipped_share", 0.1},
                       {"largest_logit", 9.0},
                       {"diverged", diverged}}}};
  curve.train = {{1, 2048, 6, 2}, {300, 614400, 3, 1}};
  curve.validation = {{300, 614400, 3.1, 1}};
  curve.peak_rate = rate;
  return curve;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(report_sections)

BOOST_AUTO_TEST_CASE(results_without_probes_have_no_such_sections) {
  for (const char* name : {"attention", "positions", "frequencies", "cost", "stability", "context_extension"}) {
    BOOST_TEST(section_of(name, two_models()).empty(), name);
  }
}

BOOST_AUTO_TEST_CASE(kinds_of_models_without_perplexity_have_no_panels) {
  Results results = two_models();
  results.variants = {"evaluate", "rows"};
  results.arms[0].variant = "evaluate";
  results.arms[1].variant = "rows";  // scores, but of another sort
  results.lm.push_back({.run = 0, .protocol = "prefix", .length = 128, .nll = 2});
  const Section section = section_of("perplexity", results);
  BOOST_REQUIRE_EQUAL(section.figures.size(), 1u);
  BOOST_REQUIRE_EQUAL(section.figures[0].panels.size(), 1u);
  BOOST_TEST(section.figures[0].panels[0].title == "evaluate · prefix");
  results.lm[0].status = "na_positions";
  BOOST_TEST(section_of("perplexity", results).figures.empty());
}

BOOST_AUTO_TEST_CASE(pictures_of_very_many_panels_are_no_larger_than_programs_read,
                     *boost::unit_test::precondition([](boost::unit_test::test_unit_id) {
                       boost::test_tools::assertion_result there(support::find_program("rsvg-convert").has_value());
                       there.message() << "rsvg-convert is not installed";
                       return there;
                     })) {
  const auto height_of = [](const std::string& png) {  // big-endian, behind the width
    std::uint32_t height = 0;
    for (std::size_t i = 20; i < 24; ++i) height = height << 8 | static_cast<unsigned char>(png.at(i));
    return height;
  };
  const auto tall = [](int height) {
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"10\" height=\"" + std::to_string(height) +
           "\"><rect width=\"5\" height=\"5\"/></svg>";
  };
  BOOST_TEST(height_of(render_png(tall(300))) == 600u);
  BOOST_TEST(height_of(render_png(tall(17400))) == 16000u);
}

BOOST_AUTO_TEST_CASE(attention_is_averaged_over_heads_and_says_what_is_missing) {
  Results results = two_models();
  for (std::size_t run : {0u, 1u}) {
    std::vector<std::vector<artifact::Cell>> rows, peaks, sinks;
    for (int head = 0; head < 2; ++head) {
      rows.push_back({"test", 128, 0, head, 8, 10.0, 0.2 + 0.2 * head, 2.0, 0.5, 1.0, "ok"});
      for (int bin = 0; bin < 20; ++bin) peaks.push_back({"test", 128, 0, head, bin / 20.0, (bin + 1) / 20.0, 0.05});
      sinks.push_back({"test", 64, "first", 0, head, 8, 0.4, 0.5, 0.75});
    }
    add<schema::ProbeSinkSummary>(results, run, {{"test", 32, "first", 8, 0.4, 0.5, 0.75, "ok"}});
    if (run == 1)
      rows.push_back({"test", 256, artifact::Cell(), artifact::Cell(), 0, artifact::Cell(), artifact::Cell(),
                      artifact::Cell(), artifact::Cell(), artifact::Cell(), "na_positions"});
    add<schema::ProbeAttention>(results, run, rows);
    add<schema::ProbeArgmax>(results, run, peaks);
    add<schema::ProbeSink>(results, run, sinks);
  }
  const Section section = section_of("attention", results);
  every_row_is_whole(section);
  BOOST_TEST(section.figures.size() == 4u);  // peaks, entropy, distance, sinks
  const Table& table = table_of(section, "attention");
  BOOST_TEST(table.caption.find("threshold of the probe, at 32 tokens;") != std::string::npos, table.caption);
  BOOST_TEST(std::abs(*cell_of(table, 0, "distance_128").number - 0.3) < 1e-12);
  BOOST_TEST(cell_of(table, 0, "distance_256").text == "–");
  BOOST_TEST(cell_of(table, 1, "distance_256").text == "n/a");
  BOOST_TEST(!cell_of(table, 1, "distance_256").number.has_value());
}

BOOST_AUTO_TEST_CASE(attention_is_drawn_as_maps_and_distances_by_head) {
  Results results = two_models();
  BOOST_TEST(section_of("attention_maps", results).empty());
  std::vector<std::vector<artifact::Cell>> cells, heads;
  for (int head = 0; head < 2; ++head) {
    for (int row = 0; row < 128; ++row) {  // each query looks at itself, and head 1 at the first key too
      const double itself = head == 0 || row == 0 ? 1.0 : 0.5;
      for (int column = 0; column <= row; ++column) {
        const double share = column == row ? itself : column == 0 ? 1 - itself : 0;
        cells.push_back({"test", 256, 3, head, 2 * row, 2 * row + 2, 2 * column, 2 * column + 2, 4, share, "ok"});
      }
    }
    for (const int length : {128, 256}) {
      heads.push_back({"test", length, 0, head, 8, 10.0, 0.2 + 0.2 * head, 2.0, 0.5, 1.0, "ok"});
    }
  }
  add<schema::ProbeMap>(results, 0, cells);
  add<schema::ProbeAttention>(results, 0, heads);
  const Section section = section_of("attention_maps", results);
  every_row_is_whole(section);
  BOOST_REQUIRE(section.figures.size() == 1u);
  const Section by_head = section_of("attention", results);
  const auto distance = std::find_if(by_head.figures.begin(), by_head.figures.end(),
                                     [](const Figure& figure) { return figure.id == "attention_distance"; });
  BOOST_REQUIRE((distance != by_head.figures.end()));
  BOOST_REQUIRE(distance->panels.size() == 2u);  // at the training length and at the longest
  BOOST_TEST(distance->panels[0].title == "rope, 128 tokens");
  BOOST_TEST(distance->panels[1].title == "rope, 256 tokens");
  BOOST_TEST(distance->panels[0].cells.at(1).text == "40");
  const Figure& maps = section.figures[0];
  BOOST_REQUIRE(maps.panels.size() == 1u);
  BOOST_TEST(maps.panels[0].title == "rope, layer 3");
  BOOST_TEST(maps.panels[0].cells.size() == 32u * 33u / 2u);
  const auto share = [&](int key, int query) {  // mean over both heads; the first query is on top
    for (const HeatCell& cell : maps.panels[0].cells) {
      if (cell.column == key && cell.row == 31 - query) return std::pow(10, cell.value);
    }
    return -1.0;
  };
  BOOST_TEST(std::abs(share(12, 12) - 0.75) < 1e-9);
  BOOST_TEST(std::abs(share(0, 12) - 0.25) < 1e-9);
  BOOST_TEST(std::abs(share(5, 12) - 1e-3) < 1e-9);  // nothing: the faintest colour
  BOOST_TEST(maps.caption.find("256 tokens") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(cost_gives_both_overheads_and_never_a_zero_for_what_has_no_positions) {
  Results results = two_models();
  std::vector<std::vector<artifact::Cell>> rows;
  const auto row = [&](const char* component, double ms) {
    rows.push_back({"a CPU", "fp32", "best", 1, 4096, component, 20, ms, ms - 1, ms + 1, 1000, "ok"});
  };
  row("encode", 0.3);
  row("attention", 12.3);
  row("forward", 110);
  row("forward_none", 100);
  add<schema::Cost>(results, 0, rows);
  add<schema::Cost>(results, 1,
                    {{"a CPU", "fp32", "best", 1, 4096, "forward", 0, artifact::Cell(), artifact::Cell(),
                      artifact::Cell(), artifact::Cell(), "na_positions"}});
  const Section section = section_of("cost", results);
  every_row_is_whole(section);
  const Table& table = table_of(section, "cost_best");
  BOOST_TEST(std::abs(*cell_of(table, 0, "overhead_4096").number - 0.3 / 12.3) < 1e-12);  // 2.4 %
  BOOST_TEST(std::abs(*cell_of(table, 0, "total_4096").number - 0.1) < 1e-12);
  for (const char* column : {"encode_4096", "overhead_4096", "forward_4096", "total_4096"}) {
    BOOST_TEST(!cell_of(table, 1, column).number.has_value());
    BOOST_TEST(cell_of(table, 1, column).text == "n/a");
  }
  BOOST_TEST(table.caption.find("a CPU, fp32, batch 1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(times_of_two_devices_are_two_tables_and_no_mean) {
  Results results = two_models();
  const auto row = [](const char* device, const char* dtype, double ms) -> std::vector<artifact::Cell> {
    return {device, dtype, "best", 1, 512, "forward", 20, ms, ms - 1, ms + 1, 1000, "ok"};
  };
  add<schema::Cost>(results, 0, {row("a CPU", "fp32", 100), row("a GPU", "bf16", 2)});
  add<schema::Cost>(results, 1, {row("a GPU", "bf16", 4)});
  const Section section = section_of("cost", results);
  every_row_is_whole(section);
  BOOST_TEST_REQUIRE(section.tables.size() == 2u);  // most models first
  BOOST_TEST(section.tables[0].title == "Time by the cheapest exact route: a GPU, bf16, batch 1");
  BOOST_TEST(*cell_of(table_of(section, "cost_best"), 0, "forward_512").number == 2);
  BOOST_TEST(*cell_of(table_of(section, "cost_best"), 1, "forward_512").number == 4);
  BOOST_TEST(table_of(section, "cost_best_2").rows.size() == 1u);
  BOOST_TEST(*cell_of(table_of(section, "cost_best_2"), 0, "forward_512").number == 100);
}

BOOST_AUTO_TEST_CASE(stability_is_labelled_by_what_was_recorded) {
  Results results = two_models();
  results.curves = {training("rope", 0), training("alibi", 2)};
  const Section calm = section_of("stability", results);
  every_row_is_whole(calm);
  const Table& table = table_of(calm, "stability");
  BOOST_TEST(cell_of(table, 0, "label").text == "no spikes");  // nobody tried other learning rates
  BOOST_TEST(cell_of(table, 1, "label").text == "needs care");
  BOOST_TEST(!cell_of(table, 0, "sensitivity").number.has_value());
  BOOST_TEST(table.rows[1].trainings == std::vector<std::size_t>{1}, boost::test_tools::per_element());
  results.curves = {training("rope", 0, true)};
  BOOST_TEST(cell_of(table_of(section_of("stability", results), "stability"), 0, "label").text == "unstable");
  results.curves.clear();
  for (const char* rate : {"1", "2", "4"}) {
    results.curves.push_back(training("rope", 0));
    results.curves.back().run.labels["lr"] = rate;
  }
  const Table swept = table_of(section_of("stability", results), "stability");
  BOOST_TEST(cell_of(swept, 0, "label").text == "stable");
  BOOST_TEST(*cell_of(swept, 0, "sensitivity").number == 0);
}

BOOST_AUTO_TEST_CASE(a_model_that_fails_at_its_training_length_has_no_usable_context) {
  Results results = two_models();
  for (std::size_t run = 0; run < 2; ++run) {
    add<schema::LmLength>(
        results, run, {"protocol", "measure", "L", "value", "status"},
        {{"anchored", "usable_context", artifact::Cell(), 512.0, "ok"}, {"anchored", "ratio", 512, 1.0, "ok"}});
  }
  results.lm.push_back({.run = 0, .protocol = "anchored", .length = 128, .status = "overflow"});
  const Section section = section_of("context_extension", results);
  const Table& table = table_of(section, "context_extension");
  BOOST_TEST(!cell_of(table, 0, "usable").number.has_value());
  BOOST_TEST(cell_of(table, 0, "usable").text == "overflow");
  BOOST_TEST(*cell_of(table, 1, "usable").number == 512);
  BOOST_TEST(table.caption.find("Of the worst seed: usable") == 0u, table.caption);
}

BOOST_AUTO_TEST_CASE(context_classes_are_measured_multiples) {
  Results results = two_models();
  const Names numbers = {"protocol", "measure", "L", "value", "status"};
  add<schema::LmLength>(
      results, 0, numbers,
      {{"anchored", "usable_context", artifact::Cell(), 128.0, "ok"}, {"anchored", "ratio", 512, 3.0, "ok"}});
  add<schema::LmLength>(
      results, 1, numbers,
      {{"anchored", "usable_context", artifact::Cell(), 512.0, "ok"}, {"anchored", "ratio", 512, 1.0, "ok"}});
  const Names extension = {"variant", "L", "nll_mean", "status"};
  std::vector<std::vector<artifact::Cell>> means, items;
  const auto rule = [&](const char* name, std::vector<double> losses) {
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const std::int64_t length = 128 << i;
      means.push_back({name, length, losses[i], "ok"});
      for (int d = 0; d < 4; ++d) items.push_back({"test", name, length, d, 10, 10 * losses[i]});
    }
  };
  rule("plain", {3.0, 4.0, 5.0});
  rule("yarn", {3.0, 3.02, 3.3});
  rule("pi", {3.0, 3.5, 4.0});
  // Better on the documents that choose than on the documents of its reported reach.
  rule("ntk", {3.0, 3.03, 3.03});
  for (auto& item : items) {
    const bool reported = item[3].value() == artifact::Cell(1).value() || item[3].value() == artifact::Cell(3).value();
    if (item[1].value() == artifact::Cell("ntk").value() && item[2].value() == artifact::Cell(512).value() && reported)
      item[5] = artifact::Cell(34.0);
  }
  add<schema::Extension>(results, 0, extension, means);
  add<schema::ExtensionDocument>(results, 0, items);
  add<schema::Extension>(results, 1, extension,
                         {{"plain", 128, 3.0, "ok"}, {"yarn", 256, artifact::Cell(), "na_encoding"}});
  const Section section = section_of("context_extension", results);
  every_row_is_whole(section);
  const Table& table = table_of(section, "context_extension");
  BOOST_TEST(cell_of(table, 0, "class").text == "none beyond training");
  BOOST_TEST(cell_of(table, 1, "class").text == "moderate (as far as was tested)");
  BOOST_TEST(cell_of(table, 0, "rule").text == "ntk");  // reaches 512 where it was chosen, and 256 elsewhere
  BOOST_TEST(*cell_of(table, 0, "rescaled").number == 256);
  BOOST_TEST(cell_of(table, 0, "rescaled_class").text == "limited");
  BOOST_TEST(!cell_of(table, 1, "rescaled").number.has_value());
  BOOST_TEST(!cell_of(table, 0, "passkey").number.has_value());
  // Where documents of validation were scored, these choose, and all of the test is reported.
  items.clear();
  const auto validated = [&](const char* name, std::vector<double> losses) {
    for (std::size_t i = 0; i < losses.size(); ++i) {
      for (int d = 0; d < 4; ++d)
        items.push_back({"validation", name, static_cast<std::int64_t>(128 << i), d, 10, 10 * losses[i]});
    }
  };
  validated("plain", {3.0, 4.0, 5.0});
  validated("yarn", {3.0, 3.02, 3.02});
  validated("ntk", {3.0, 4.0, 4.0});
  add<schema::ExtensionDocument>(results, 0, items);
  const Section held_out = section_of("context_extension", results);
  const Table& chosen = table_of(held_out, "context_extension");
  BOOST_TEST(cell_of(chosen, 0, "rule").text == "yarn");      // ntk reaches farther in the test
  BOOST_TEST(*cell_of(chosen, 0, "rescaled").number == 256);  // where yarn's 3.3 at 512 is in the test
}

BOOST_AUTO_TEST_CASE(models_that_were_never_moved_have_no_row_and_a_moved_text_is_no_shuffled_prefix) {
  Results results = two_models();
  const Names reliance = {"test", "amount", "delta", "se", "status"};
  const auto control = [&] {
    const Section checks = section_of("checks", results);
    return cell_of(table_of(checks, "checks"), 11, "reason").text;
  };
  add<schema::ProbeReliance>(results, 0, reliance, {{"translation", 64, 1e-5, 1e-6, "ok"}});
  BOOST_TEST(table_of(section_of("positions", results), "reliance").rows.size() == 1u);
  BOOST_TEST(control().find("shuffled prefixes") == std::string::npos, control());
  add<schema::ProbeReliance>(results, 1, reliance, {{"shuffled_prefix", 4, 0.1, 0.01, "ok"}});
  BOOST_TEST(table_of(section_of("positions", results), "reliance").rows.size() == 2u);
  BOOST_TEST(control().find("shuffled prefixes") != std::string::npos, control());
}

BOOST_AUTO_TEST_CASE(test_text_counts_else_validation_text_else_training_text) {
  using Texts = std::set<std::string>;
  BOOST_TEST((unjudged_of({"train", "validation", "test"}) == Texts{"train", "validation"}));
  BOOST_TEST((unjudged_of({"train", "test"}) == Texts{"train"}));
  BOOST_TEST((unjudged_of({"train", "validation"}) == Texts{"train"}));
  BOOST_TEST(unjudged_of({"train"}).empty());
  BOOST_TEST(unjudged_of({"validation"}).empty());
  const auto shown = [](const std::vector<std::string>& texts) {
    Results results = two_models();
    std::vector<std::vector<artifact::Cell>> rows;
    for (const std::string& text : texts)
      rows.push_back({text, "translation", 64, text == "train" ? 0.5 : 0.1, 0.01, "ok"});
    add<schema::ProbeReliance>(results, 0, {"corpus", "test", "amount", "delta", "se", "status"}, rows);
    const Table table = table_of(section_of("positions", results), "reliance");
    return *table.rows.at(0).cells.back().number;
  };
  BOOST_TEST(shown({"train", "test"}) == 0.1);
  BOOST_TEST(shown({"train"}) == 0.5);
}

BOOST_AUTO_TEST_CASE(probes_of_training_text_are_no_further_seeds) {
  Results results = two_models();
  for (const char* text : {"train", "test"}) {
    const double share = text == std::string("test") ? 0.2 : 0.8;
    add<schema::ProbeAttention>(results, 0, {{text, 128, 0, 0, 8, 10.0, share, 2.0, share, 1.0, "ok"}});
    add<schema::ProbeFrequency>(results, 0, {"corpus", "L", "layer", "head", "pair", "logit_share", "status"},
                                {{text, 128, 0, 0, 0, share, "ok"}});
    add<schema::ProbePosition>(
        results, 0, {{text, 128, 0, "trained", "ridge", "all", 100, 50, 1.0, share, 30.0, 100 * share, "ok"}});
    add<schema::ProbeMap>(results, 0, {{text, 128, 0, 0, 0, 128, 0, 128, 4, share, "ok"}});
  }
  BOOST_TEST(*cell_of(table_of(section_of("attention", results), "attention"), 0, "distance_128").number == 0.2);
  BOOST_TEST(section_of("frequencies", results).figures.at(0).panels.at(0).cells.at(0).value == 0.2);
  const Section positions = section_of("positions", results);
  BOOST_TEST(*cell_of(table_of(positions, "position_reading"), 0, "r2").number == 0.2);
  BOOST_TEST(positions.figures.at(0).panels.at(0).rules.at(0).at == 20.0);
  BOOST_TEST(section_of("attention_maps", results).figures.at(0).panels.at(0).cells.at(0).value == std::log10(0.2),
             boost::test_tools::tolerance(1e-12));
  // A table from elsewhere may name a layer that no model has.
  add<schema::ProbeAttention>(results, 1, {{"test", 128, 1000000000, 0, 8, 10.0, 0.5, 2.0, 0.5, 1.0, "ok"}});
  BOOST_CHECK_EXCEPTION(section_of("attention", results), support::ArtifactError, [](const auto& error) {
    return std::string(error.what()).find("'probe_attention': column 'layer' holds 1000000000") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(positions_and_frequencies_are_drawn_for_each_model) {
  Results results = two_models();
  std::vector<std::vector<artifact::Cell>> readings;
  for (const char* network : {"trained", "random"}) {
    for (int place = 0; place < 3; ++place) {
      readings.push_back(
          {"test", 128, place, network, "ridge", "all", 100, 50, 1.0, 0.3 * place, 30.0 - 10 * place, 32.0, "ok"});
    }
  }
  add<schema::ProbePosition>(results, 0, readings);
  const Names reliance = {"test", "amount", "delta", "se", "status"};
  add<schema::ProbeReliance>(results, 0, reliance,
                             {{"without_encoding", 0, 2.5, 0.1, "ok"}, {"translation", 64, 1e-5, 1e-6, "ok"}});
  add<schema::ProbeReliance>(results, 1, reliance,
                             {{"translation", 64, artifact::Cell(), artifact::Cell(), "na_positions"}});
  std::vector<std::vector<artifact::Cell>> pairs, angles;
  for (int pair = 0; pair < 4; ++pair) {
    pairs.push_back({"test", 128, 0, 0, pair, 0.25, "ok"});
    pairs.push_back({"test", 256, 0, 0, pair, 0.25, "ok"});
    angles.push_back({128, 0, 0, pair, 1.0, pair < 2 ? 20.0 : 0.5, 0.0});
    angles.push_back({256, 0, 0, pair, 1.0, pair < 2 ? 20.0 : 0.5, pair < 2 ? 0.0 : 0.5});
  }
  add<schema::ProbeFrequency>(results, 0, {"corpus", "L", "layer", "head", "pair", "logit_share", "status"}, pairs);
  add<schema::ProbeAngle>(results, 0, {"L", "layer", "group", "pair", "theta_trained", "turns_trained", "unseen"},
                          angles);
  const std::vector<artifact::ColumnSpec> logits = {{"network", kText, ""}, {"layer", kInteger, ""},
                                                    {"head", kInteger, ""}, {"distance", kInteger, ""},
                                                    {"mean", kReal, ""},    {"status", kText, ""}};
  add(results, 0, "probe_logit", logits,
      {{"trained", 0, 0, 1, 2.0, "ok"},
       {"trained", 0, 0, 64, 0.5, "ok"},
       {"initial", 0, 0, 1, 0.1, "ok"},
       {"initial", 0, 0, 64, 0.1, "ok"}});
  const Section positions = section_of("positions", results);
  every_row_is_whole(positions);
  BOOST_TEST(positions.figures.at(0).panels.size() == 2u);  // trained and random networks
  BOOST_TEST(*cell_of(table_of(positions, "position_reading"), 1, "place").number == 2);
  const Table& relies = table_of(positions, "reliance");
  BOOST_TEST(*cell_of(relies, 0, "without_encoding_0").number == 2.5);
  BOOST_TEST(cell_of(relies, 1, "translation_64").text == "n/a");
  BOOST_TEST(cell_of(relies, 1, "without_encoding_0").text == "–");
  const Section frequencies = section_of("frequencies", results);
  every_row_is_whole(frequencies);
  const Table& unseen = table_of(frequencies, "unseen_angles");
  BOOST_TEST(unseen.rows.size() == 1u);
  BOOST_TEST(*cell_of(unseen, 0, "partial").number == 2);
  BOOST_TEST(*cell_of(unseen, 0, "fresh_128").number == 0);
  BOOST_TEST(*cell_of(unseen, 0, "fresh_256").number == 2);
  BOOST_TEST(*cell_of(unseen, 0, "worst_256").number == 0.5);
  BOOST_TEST(*cell_of(unseen, 0, "carried_256").number == 0.5);
  // Logits against distance: before training compared with after it.
  const Figure& drift = frequencies.figures.at(1);
  BOOST_TEST_REQUIRE(drift.panels.size() == 2u);
  BOOST_TEST(drift.panels[0].title == "before training");
  BOOST_TEST(drift.panels[0].series.at(0).points.at(1).y == 0.0);
  BOOST_TEST(drift.panels[1].title == "after training");
  BOOST_TEST(drift.panels[1].series.at(0).points.at(1).y == -1.5);
}

BOOST_AUTO_TEST_CASE(checks_say_pass_fail_or_unknown_with_a_reason) {
  const auto verdicts = [](const Results& results) {
    const Table table = table_of(section_of("checks", results), "checks");
    BOOST_TEST(table.rows.size() == 12u);
    std::vector<std::string> words;
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      words.push_back(cell_of(table, i, "verdict").text);
      BOOST_TEST(!cell_of(table, i, "reason").text.empty());
    }
    return words;
  };
  Results results = two_models();
  results.curves = {training("rope", 0), training("alibi", 0)};
  auto words = verdicts(results);
  BOOST_TEST(words[0] == "unknown");  // tokens agree, but nothing hashes the batches
  BOOST_TEST(words[1] == "pass");
  BOOST_TEST(words[2] == "unknown");  // nothing says how they were trained
  BOOST_TEST(words[3] == "FAIL");     // one learning rate
  BOOST_TEST(words[4] == "FAIL");     // one seed
  BOOST_TEST(words[5] == "unknown");
  BOOST_TEST(words[8] == "FAIL");   // nothing was declared
  BOOST_TEST(words[11] == "FAIL");  // no control
  // Logs with their training settings decide which settings were the same, and name the others.
  for (Curve& curve : results.curves) {
    curve.data = "[\"abc\"]";
    curve.config = {{"model", {{"encoding", curve.run.encoding}, {"width", 64}}},
                    {"train", {{"batch", 16}, {"seed", 42}, {"beta2", 0.98}}}};
  }
  words = verdicts(results);
  BOOST_TEST(words[0] == "pass");
  BOOST_TEST(words[2] == "pass");
  const auto reason = [&](std::size_t check) {
    return cell_of(table_of(section_of("checks", results), "checks"), check, "reason").text;
  };
  // A continuation of a trunk keeps its rate: no second value was tried.
  BOOST_TEST(reason(3).find("2 of 2 encodings have one or two learning rates here, such as 'alibi' (") == 0u,
             reason(3));
  BOOST_TEST(reason(4).find("2 of 2 models have one or two seeds, such as 'rope' with one: ") == 0u, reason(4));
  results.curves.push_back(results.curves[1]);
  results.curves.back().first_step = 100;
  results.curves.back().peak_rate /= 2;
  const std::string one_rate = reason(3);
  results.curves.back().first_step = 0;
  BOOST_TEST(reason(3).size() > one_rate.size(), reason(3));  // the second rate in brackets
  BOOST_TEST(reason(3).find(", ") != std::string::npos, reason(3));
  // Rates of three sizes are no choice.
  Results rates = results;
  for (const Curve& curve : {results.curves[0], results.curves[1], results.curves[0], results.curves[0]}) {
    rates.curves.push_back(curve);
    rates.curves.back().peak_rate *= static_cast<double>(rates.curves.size());
  }
  const Table tuned = table_of(section_of("checks", rates), "checks");
  BOOST_TEST(cell_of(tuned, 3, "verdict").text == "FAIL");
  BOOST_TEST(cell_of(tuned, 3, "reason").text.find("none was chosen on validation data") != std::string::npos,
             cell_of(tuned, 3, "reason").text);
  results.curves.pop_back();
  results.curves[1].config["train"]["beta2"] = 0.95;
  BOOST_TEST(verdicts(results)[0] == "pass");
  BOOST_TEST(verdicts(results)[2] == "FAIL");
  BOOST_TEST(reason(2) == "train.beta2: 0.98 (rope), 0.95 (alibi)");
  results.curves[1].config["train"]["batch"] = 32;
  BOOST_TEST(verdicts(results)[0] == "FAIL");
  results.curves[1].config["train"]["batch"] = 16;
  results.curves[1].data = "[\"def\"]";
  BOOST_TEST(verdicts(results)[0] == "FAIL");
  BOOST_TEST(reason(0) == "'alibi' and 'rope' were trained on different data");
  // Sizes of a grid are variants, and no mistake.
  Results sizes = results;
  sizes.curves[1].run.variant = "large";
  sizes.curves[1].run.facts["parameters"] = 5000;
  BOOST_TEST(verdicts(sizes)[1] == "pass");
  // Each can change.
  results.primary = "anchored ratio at 512 tokens";
  results.curves[1].train[1].tokens = 1;
  results.curves[1].run.facts["parameters"] = 1001;
  results.encodings.emplace_back("none");
  for (std::size_t run : {0u, 1u}) {
    results.lm.push_back({.run = run,
                          .protocol = "prefix",
                          .length = 128,
                          .nll = 3.0 + 0.1 * static_cast<double>(run),
                          .scores = {{1, 10, 30, 30}, {2, 10, 30, 31}}});
  }
  words = verdicts(results);
  BOOST_TEST(words[0] == "FAIL");
  BOOST_TEST(words[1] == "FAIL");
  BOOST_TEST(words[5] == "FAIL");  // 10 % worse where it was trained
  BOOST_TEST(words[7] == "pass");
  BOOST_TEST(words[8] == "pass");
  BOOST_TEST(words[11] == "pass");
  results.primary = "anchored NLL at 512 tokens, against alibi";
  BOOST_TEST(verdicts(results)[8] == "FAIL");  // differences are from rope
  results.primary = "anchored NLL at 512 tokens, against rope";
  BOOST_TEST(verdicts(results)[8] == "pass");
  results.lm[1].scores.pop_back();
  BOOST_TEST(verdicts(results)[7] == "FAIL");
  // Models of other data are no peers. Where they were trained on the same data it is a mistake, in variants too.
  results.runs[1].facts["data_digest"] = "e";
  results.curves[1] = results.curves[0];
  results.curves[1].run.encoding = "alibi";
  BOOST_TEST(reason(0) == "models of the same training data were evaluated on 2 different token shards");
  BOOST_TEST(verdicts(results)[5] == "unknown");
  BOOST_TEST(verdicts(results)[7] == "pass");
  for (Run* run : {&results.runs[1], &results.curves[1].run}) run->variant = run->labels["drop"] = "late";
  BOOST_TEST(verdicts(results)[0] == "FAIL");
  results.curves[1].data = "[\"lists\"]";
  BOOST_TEST(verdicts(results)[0] == "pass", reason(0));
  results.runs[1].labels["drop"] = "early";  // no log of its training was gathered
  BOOST_TEST(reason(0) == "models were evaluated on 2 different token shards");
  Results alone = two_models();
  alone.encodings.pop_back();
  BOOST_TEST(section_of("checks", alone).empty());
}

BOOST_AUTO_TEST_CASE(texts_of_the_models_stand_one_below_the_other_for_each_prompt) {
  Results results = two_models();
  BOOST_TEST(section_of("samples", results).empty());
  results.runs.push_back({.encoding = "rope", .seed = "43"});
  results.arms[0].runs.push_back(2);
  for (std::size_t run = 0; run < 3; ++run) {
    std::vector<std::vector<artifact::Cell>> rows;
    for (const char* prompt : {"one", "two", "three", "four", "five"}) {
      for (const int text : {0, 1}) {
        rows.push_back({support::cat("given ", prompt), text, 0.8, 50, prompt,
                        support::cat(results.runs[run].encoding, " wrote ", text, " <b>", std::string(120, 'w')), 30,
                        run == 1 ? 1 : 0, 1.25, 0.5});
      }
    }
    add<schema::Sample>(results, run, rows);
  }
  const Section section = section_of("samples", results);
  every_row_is_whole(section);
  const Table& table = table_of(section, "samples");
  BOOST_REQUIRE(table.rows.size() == 8U);  // two models, four of five prompts, the first text of the first seed
  BOOST_TEST(cell_of(table, 0, "encoding").text == "rope");
  BOOST_TEST(cell_of(table, 1, "encoding").text == "alibi");
  BOOST_TEST(cell_of(table, 1, "prompt").text == "one");
  BOOST_TEST(cell_of(table, 2, "prompt").text == "two");
  BOOST_TEST(cell_of(table, 0, "text").text.rfind("rope wrote 0 <b>", 0) == 0U);
  BOOST_TEST(cell_of(table, 0, "text").text.find(" …") != std::string::npos);
  BOOST_TEST(cell_of(table, 1, "text").text.find(" ∎") != std::string::npos);
  BOOST_TEST(*cell_of(table, 0, "repeated").number == 0.5);
  BOOST_TEST(table.caption.find(
                 "4 of 5 prompts; all 30 are in data/samples.csv. Temperature 0.8, of the 50 likeliest tokens") !=
                 std::string::npos,
             table.caption);
  const std::string html = to_html(table);
  BOOST_TEST(html.find("<td class=\"wide\">rope wrote 0 &lt;b&gt;") != std::string::npos);  // long cells wrap
  BOOST_TEST(html.find("<td>one</td>") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
