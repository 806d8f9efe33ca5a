// Whole reports, from artifacts to files.
#include "report/page/report.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "artifact/collection.h"
#include "artifact/metrics.h"
#include "report/page/html.h"
#include "report/sample_results.h"
#include "report/section_results.h"
#include "schema/tables.h"
#include "support/error.h"
#include "support/files.h"
#include "support/parse_json.h"
#include "support/process.h"
#include "support/recording_progress.h"
#include "support/temp_folder.h"

using namespace pe;
using namespace pe::report;

namespace {

struct HasPlotPrograms {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(support::find_program("gnuplot") &&
                                               support::find_program("rsvg-convert"));
    if (!result) result.message() << "gnuplot or rsvg-convert is not on the PATH";
    return result;
  }
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

const Table& perplexity_in(const std::vector<Section>& sections) {
  const auto found =
      std::find_if(sections.begin(), sections.end(), [](const Section& section) { return section.id == "perplexity"; });
  BOOST_TEST_REQUIRE((found != sections.end()));
  return found->tables.front();
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const support::Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(report, *boost::unit_test::precondition(HasPlotPrograms{}))

BOOST_AUTO_TEST_CASE(captions_name_outlines_where_many_bands_are_drawn) {
  const auto caption = [](std::vector<std::string> encodings) {
    for (const Section& section :
         make_sections(sample::perplexities({.encodings = std::move(encodings), .seed_sd = 0.02}))) {
      for (const Figure& figure : section.figures) {
        if (figure.id == "perplexity_length") return figure.caption;
      }
    }
    return std::string();
  };
  BOOST_TEST(caption({"none", "rope", "alibi"}).find("outlines") == std::string::npos);
  BOOST_TEST(caption({"none", "rope", "alibi", "t5"}).find("Bands are outlines, since there are 4") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(failed_checks_and_missing_results_are_never_folded) {
  Section claims{.id = "claims", .title = "Claims"}, checks{.id = "checks", .title = "Checks"},
      inventory{.id = "inventory", .title = "Provenance"};
  for (int i = 1; i <= 9; ++i) claims.findings.push_back(support::cat("Claim ", i, "."));
  checks.findings = {"One check fails."};
  inventory.findings = {"Incomplete: 2 are missing."};
  const Page page{.title = "", .lead = "", .study = {}, .sections = {{&claims, {}}, {&checks, {}}, {&inventory, {}}}};
  const std::string html = render_page(page);
  const auto fold = html.find("<summary>3 more</summary>");
  BOOST_TEST_REQUIRE(fold != std::string::npos);
  for (const char* shown : {"Claim 6.", "One check fails.", "Incomplete: 2"})
    BOOST_TEST(html.find(shown) < fold, shown);
  BOOST_TEST(html.find("Claim 7.") > fold);
}

BOOST_AUTO_TEST_CASE(rows_name_the_runs_behind_their_numbers) {
  const Results results = sample::perplexities({});
  const Section runs = sample::section_of("inventory", results);
  for (std::size_t row = 0; row < results.runs.size(); ++row)
    BOOST_TEST(*runs.tables.at(0).rows.at(row).runs == std::vector<std::size_t>{row}, boost::test_tools::per_element());
  const Section section = sample::section_of("differences", results);
  const Table& table = sample::table_of(section, "differences");
  BOOST_TEST(table.rows.at(0).cells[0].text == "alibi");
  BOOST_TEST(*table.rows[0].runs == (std::vector<std::size_t>{3, 4, 5, 0, 1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_run_has_the_training_of_its_labels_and_none_where_that_was_not_gathered) {
  test::TempFolder folder;
  artifact::Workspace workspace = sample::write_inputs(folder.path(), {.encodings = {"rope"},
                                                                       .stages = {"decay", "drop", "nodrop"},
                                                                       .lengths = {128},
                                                                       .documents = 3,
                                                                       .retrieval = false,
                                                                       .copy = false,
                                                                       .configs = true});
  std::erase_if(workspace.inputs["curves"],
                [](const artifact::Input& input) { return input.labels.at("stage") == "nodrop"; });
  int number = 10;
  for (artifact::Input& input : workspace.inputs["curves"])
    input.digest = std::string(62, 'c') + std::to_string(number++);
  write_report({}, workspace);
  const Json study = support::parse_json(support::read_file(folder / "report" / "report.json"))["study"];
  std::map<std::size_t, Json> trainings;
  for (const Json& training : study["trainings"]) trainings[training["log"].get<std::size_t>()] = training;
  BOOST_TEST(study["runs"].size() == 6u);
  for (const Json& run : study["runs"]) {
    if (run["variant"] == "nodrop") {
      BOOST_TEST(!run.contains("training"));
      continue;
    }
    BOOST_TEST_REQUIRE(run.contains("training"), run);
    const Json& training = trainings.at(run["training"].get<std::size_t>());
    BOOST_TEST(training["labels"]["stage"] == run["variant"]);
    BOOST_TEST(training["seed"] == run["seed"]);
    BOOST_TEST(training["results"].at(0).get<std::string>().starts_with("ccc"));
  }
  BOOST_TEST(study["variants"]["drop"]["from"] == "drop");
}

BOOST_AUTO_TEST_CASE(a_baseline_that_no_model_has_is_named_with_the_one_that_replaces_it) {
  test::TempFolder folder;
  artifact::Workspace workspace =
      sample::write_inputs(folder.path(), {.encodings = {"none", "alibi"}, .retrieval = false, .copy = false});
  ReportConfig config;
  config.baseline = "alibbi";
  config.highlight = {"nonne"};
  test::RecordingProgress progress;
  workspace.progress = &progress;
  write_report(config, workspace);
  const std::string page = support::read_file(folder / "report" / "report.html");
  BOOST_TEST(page.find("Differences are from none, since no model here is called alibbi.") != std::string::npos);
  const auto warned = [&](const std::string& line) { BOOST_TEST(progress.has("warning: " + line), progress.lines); };
  warned("no model here is called 'alibbi' (baseline): differences are from 'none'; did you mean 'alibi'?");
  warned("no model here is called 'nonne' (highlight): nothing is highlighted for it; did you mean 'none'?");
}

BOOST_AUTO_TEST_CASE(a_report_holds_page_figures_tables_and_data_and_is_the_same_again) {
  test::TempFolder folder;
  artifact::Workspace workspace =
      sample::write_inputs(folder.path(), {.encodings = {"none", "rope", "alibi"}, .retrieval = false, .copy = false});
  ReportConfig config;
  config.title = "Four encodings";
  config.missing = {"scores from=decay,encoding=rope,seed=44: the training failed"};
  write_report(config, workspace);
  const artifact::Collection first(folder / "report", artifact::Kind::kReport);
  first.verify();
  for (const char* name :
       {"report.html", "report.json", "result.txt", "figures/perplexity_length.svg", "figures/perplexity_length.pdf",
        "figures/perplexity_length.png", "figures/loss_tokens.svg", "tables/perplexity_length.csv",
        "tables/perplexity_length.md", "tables/perplexity_length.tex", "tables/differences.csv", "tables/inventory.csv",
        "data/lm_doc.csv", "data/figure_perplexity_length.csv", "data/curve_train.csv"}) {
    BOOST_TEST((first.manifest().find(name) != nullptr), name);
  }
  BOOST_TEST(support::read_file(folder / "report" / "result.txt") ==
             result_text(make_sections(read_results(config, workspace))));
  const std::string page = support::read_file(folder / "report" / "report.html");
  BOOST_TEST(page.size() < 2u << 20);
  BOOST_TEST(count(page, "http://") == count(page, "http://www.w3.org"));  // namespaces only: nothing is fetched
  BOOST_TEST(count(page, "src=\"") == count(page, "src=\"data:"));
  BOOST_TEST(page.find("missing: the training failed") != std::string::npos);
  BOOST_TEST(page.find("Training length: 128 tokens.") != std::string::npos);
  BOOST_TEST(page.find("n = 32 documents") != std::string::npos);
  BOOST_TEST(count(page, "<svg") == count(page, "</svg>"));
  BOOST_TEST(count(page, "<title>$d") == 0u);  // a tooltip on every line

  workspace.outputs["report"] = folder / "again";
  write_report(config, workspace);
  BOOST_TEST(artifact::Manifest::read(folder / "again").content_digest() == first.manifest().content_digest());
}

BOOST_AUTO_TEST_CASE(labels_of_any_kind_stay_text) {
  test::TempFolder folder;
  const std::vector<std::string> names{"a_b & <script>x</script>", "$x^2$ 'q' \"d\" 100%", "位置編碼 `date` $(rm -rf)",
                                       "caf\xC3\xA9"};
  artifact::Workspace workspace = sample::write_inputs(folder.path(), {.encodings = names,
                                                                       .seeds = {1},
                                                                       .lengths = {128, 256},
                                                                       .documents = 3,
                                                                       .retrieval = false,
                                                                       .copy = false,
                                                                       .curves = false});
  ReportConfig config;
  config.title = "<b>Title</b> \\ 'x'";
  write_report(config, workspace);
  const std::string page = support::read_file(folder / "report" / "report.html");
  BOOST_TEST(page.find("<script>x") == std::string::npos);
  BOOST_TEST(page.find("<b>Title") == std::string::npos);
  BOOST_TEST(page.find("a_b &amp; &lt;script&gt;x&lt;/script&gt;") != std::string::npos);
  BOOST_TEST(page.find("位置編碼 `date` $(rm -rf)") != std::string::npos);
  const std::string latex = support::read_file(folder / "report" / "tables" / "perplexity_length.tex");
  BOOST_TEST(latex.find("\\$x\\textasciicircum{}2\\$") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(one_model_at_one_length_is_a_report_too) {
  test::TempFolder folder;
  artifact::Workspace workspace =
      sample::write_inputs(folder.path(), {.encodings = {"rope"}, .seeds = {1}, .lengths = {128}, .documents = 1});
  write_report({}, workspace);
  BOOST_TEST(std::filesystem::exists(folder / "report" / "report.html"));
}

BOOST_AUTO_TEST_CASE(what_is_beyond_a_models_positions_is_na_with_a_reason_and_never_zero) {
  test::TempFolder folder;
  const artifact::Workspace workspace = sample::write_inputs(
      folder.path(),
      {.encodings = {"learned", "rope"}, .lengths = {128, 256}, .retrieval = false, .copy = false, .curves = false});
  const Results results = read_results({}, workspace);
  Palette palette;
  const std::vector<Section> sections = make_sections(results);
  const Table& table = perplexity_in(sections);
  BOOST_TEST(to_csv(table).find("ppl_prefix_256: n/a (the length is beyond the positions that the encoding has)") !=
                 std::string::npos,
             to_csv(table));
  BOOST_TEST(to_markdown(table).find("| learned | 2 |") != std::string::npos, to_markdown(table));
}

BOOST_AUTO_TEST_CASE(bold_says_that_a_difference_is_beyond_the_noise) {
  test::TempFolder folder;
  const artifact::Workspace workspace = sample::write_inputs(folder.path(), {.encodings = {"none", "rope"},
                                                                             .seeds = {1, 2, 3},
                                                                             .lengths = {128, 512},
                                                                             .retrieval = false,
                                                                             .copy = false,
                                                                             .curves = false});
  const std::vector<Section> sections = make_sections(read_results({}, workspace));
  const Table& table = perplexity_in(sections);
  const std::size_t last = table.columns.size() - 1;  // sliding, 512: none is far below rope
  BOOST_TEST(table.rows[0].cells[last].best);
  BOOST_TEST(!table.rows[1].cells[last].best);
}

BOOST_AUTO_TEST_CASE(labels_in_the_config_name_the_artifacts_in_order) {
  test::TempFolder folder;
  artifact::Workspace workspace =
      sample::write_inputs(folder.path(), {.encodings = {"rope"}, .seeds = {1, 2}, .lengths = {128}, .curves = false});
  ReportConfig config;
  config.labels = {"scores from=decay,encoding=one,seed=7", "scores from=decay,encoding=two,seed=7"};
  const Results results = read_results(config, workspace);
  BOOST_TEST(results.runs[0].encoding == "one");
  BOOST_TEST(results.runs[1].encoding == "two");
  BOOST_TEST(results.runs[1].seed == "7");
  config.labels.pop_back();
  BOOST_TEST(error_of([&] {
               read_results(config, workspace);
             }).find("'labels' names 1 artifacts of the role 'scores', but 2 were given") != std::string::npos);
  config.labels = {"scores encoding", "scores encoding=two"};  // no label
  BOOST_TEST(error_of([&] { read_results(config, workspace); }).find("expected 'axis=label'") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_a_partial_gather_lacks_is_listed_with_its_reason) {
  test::TempFolder folder;
  artifact::Workspace workspace =
      sample::write_inputs(folder.path(), {.encodings = {"rope"}, .seeds = {1}, .lengths = {128}, .curves = false});
  workspace.work = folder.path();
  ReportConfig config;
  config.labels = {"scores stage=evaluate,encoding=rope,from=decay,seed=1",
                   "scores stage=evaluate,encoding=rope,from=decay,seed=2"};
  support::write_file_atomically(
      folder / "task.json",
      Json{{"missing",
            {{"scores",
              {{{"labels", {{"stage", "evaluate"}, {"encoding", "rope"}, {"from", "decay"}, {"seed", "2"}}},
                {"reason", "it failed: exit code 70"}}}}}}}
          .dump(),
      false);
  const Results results = read_results(config, workspace);
  BOOST_REQUIRE(results.missing.size() == 1u);
  BOOST_TEST(results.missing[0] == "scores encoding=rope,from=decay,seed=2,stage=evaluate: it failed: exit code 70");
  const std::vector<Section> sections = make_sections(results);
  BOOST_TEST(to_csv(sections.back().tables.front()).find("missing: it failed: exit code 70") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(missing_results_of_the_same_reason_share_a_row) {
  Results results;
  for (const char* seed : {"1", "2"}) {
    for (const char* encoding : {"rope", "pope", "none"}) {
      if (encoding != std::string("none") || seed == std::string("2"))
        results.missing.push_back(
            support::cat("scores encoding=", encoding, ",from=a,seed=", seed, ": not in the store"));
    }
  }
  results.missing.push_back("scores encoding=rope,from=b,seed=1: failed");
  results.missing.push_back("curves of a run: failed");
  const std::string rows = to_csv(make_sections(results).back().tables.front());
  for (const char* row : {"\"rope, pope\",\"1, 2\",from=a,missing,,,4 missing: not in the store",
                          "none,2,from=a,missing,,,missing: not in the store",
                          "rope,1,from=b,missing,,,missing: failed", ",,curves of a run,missing,,,missing: failed"})
    BOOST_TEST(rows.find(row) != std::string::npos, row << " is not in\n" << rows);
}

BOOST_AUTO_TEST_CASE(tables_without_rows_are_an_error_that_names_the_file) {
  test::TempFolder folder;
  artifact::Tables tables;
  tables.tables.push_back(artifact::Table("lm_doc", {{"L", artifact::ColumnType::kInteger, ""}}));
  artifact::write_eval_tables(folder / "empty.h5", {}, tables);
  artifact::Workspace workspace;
  workspace.progress = &support::silent_progress();
  workspace.outputs["report"] = folder / "report";
  workspace.inputs["scores"] = {{folder / "empty.h5", artifact::Kind::kEvalTable, "", {{"encoding", "rope"}}}};
  const std::string message = error_of([&] { write_report({}, workspace); });
  BOOST_TEST(message.find("empty.h5") != std::string::npos, message);
  BOOST_TEST(message.find("found no rows that a report can show") != std::string::npos, message);
  BOOST_TEST(!std::filesystem::exists(folder / "report" / "manifest.json"));
}

BOOST_AUTO_TEST_CASE(a_damaged_file_of_scores_is_an_error_wherever_the_damage_is) {
  test::TempFolder folder;
  const artifact::Input input = sample::write_scores(folder / "scores.h5", {.documents = 2}, "rope", "decay", 1);
  const std::string whole = support::read_file(input.path);
  artifact::Workspace workspace;
  workspace.progress = &support::silent_progress();
  workspace.inputs["scores"] = {input};
  int errors = 0;
  for (std::size_t at = 8; at < std::min<std::size_t>(whole.size(), 4000); at += 61) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(~damaged[at]);
    support::write_file_atomically(input.path, damaged, false);
    errors += error_of([&] { read_results({}, workspace); }) != "no error";
  }
  BOOST_TEST(errors > 10);
}

BOOST_AUTO_TEST_CASE(a_column_that_is_not_there_is_named_with_its_file) {
  test::TempFolder folder;
  artifact::Tables tables;
  artifact::Table docs("lm_doc", {{"length", artifact::ColumnType::kInteger, ""}});
  docs.add_row({128});
  tables.tables.push_back(std::move(docs));
  artifact::write_eval_tables(folder / "other.h5", {}, tables);
  artifact::Workspace workspace;
  workspace.inputs["scores"] = {{folder / "other.h5", artifact::Kind::kEvalTable, "", {{"encoding", "rope"}}}};
  const std::string message = error_of([&] { read_results({}, workspace); });
  BOOST_TEST(message.find("no column 'L'") != std::string::npos, message);
  BOOST_TEST(message.find("other.h5") != std::string::npos, message);
}

BOOST_AUTO_TEST_CASE(claims_that_no_longer_hold_are_returned_with_their_verdicts) {
  test::TempFolder folder;
  artifact::Workspace workspace = sample::write_inputs(folder.path(), {.encodings = {"none", "rope"},
                                                                       .seeds = {1, 2, 3},
                                                                       .lengths = {128, 512},
                                                                       .retrieval = false,
                                                                       .copy = false,
                                                                       .curves = false});
  const auto fallen = [&](const std::string& claims) {
    support::write_file_atomically(folder / "claims.yml", "claims:\n" + claims, false);
    ReportConfig config;
    config.claims = (folder / "claims.yml").string();
    workspace.outputs["report"] = folder / ("report" + std::to_string(claims.size()));
    return write_report(config, workspace);
  };
  const std::string worse =
      "    table: lm_doc\n    measure: nll_sum\n    per: tokens_scored\n    tests:\n      - {where: {L: 512, protocol: "
      "sliding}, of: rope, above: none}\n";
  BOOST_TEST(fallen("  C1:\n    says: rope is worse at 512\n" + worse).empty());
  const auto better = fallen(
      "  C1:\n    says: rope is better\n    table: lm_doc\n    measure: nll_sum\n    per: tokens_scored\n    tests:\n"
      "      - {where: {L: 512, protocol: sliding}, of: none, above: rope}\n");
  BOOST_TEST_REQUIRE(better.size() == 1u);
  BOOST_TEST(better[0].find("C1: refuted, expected reproduced") == 0u, better[0]);
  // A verdict that was expected is none that fell.
  BOOST_TEST(fallen("  C1:\n    says: rope is better, they say\n    expected: refuted\n    table: lm_doc\n    measure: "
                    "nll_sum\n    per: tokens_scored\n    tests:\n"
                    "      - {where: {L: 512, protocol: sliding}, of: none, above: rope}\n")
                 .empty());
}

namespace {

/// A drop or its control off the checkpoint `parent`, and the scores of its model, with no axis `encoding`.
void add_branch(const std::filesystem::path& folder, const std::string& arm, const std::string& encoding, int seed,
                artifact::Workspace& workspace) {
  const std::string name = arm + encoding + std::to_string(seed), fork = "digest of " + encoding + std::to_string(seed);
  const Labels labels{{"arm", arm}, {"seed", std::to_string(seed)}};
  artifact::Table train("train", artifact::train_columns()), validation("validation", artifact::validation_columns());
  for (int step = 110; step <= 200; step += 10) train.add_row({step, step * 2048, 3.0, 1.2, 0.001, 1.0, 0});
  validation.add_row({200, 200 * 2048, arm == "drop" ? 3.4 : 3.0, 1.2, 1000, 4000});
  artifact::Tables curve;
  curve.tables = {std::move(train), std::move(validation)};
  curve.facts = {{"encoding", {{"kind", arm == "drop" ? "none" : encoding}}},
                 {"first_step", 100},
                 {"length", 128},
                 {"status", "ok"}};
  artifact::Recipe recipe;
  recipe.config = {{"drop", {{"arm", arm}}}};
  recipe.inputs = {{"init", {fork}}};
  artifact::write_metrics(folder / (name + ".metrics.h5"), recipe, curve);
  auto of_curve = labels, of_scores = labels;
  of_curve["stage"] = "drop";
  of_scores["stage"] = "evaluate";
  workspace.inputs["curves"].push_back({folder / (name + ".metrics.h5"), artifact::Kind::kMetrics, "", of_curve});
  const sample::Options options{.documents = 8, .retrieval = false, .copy = false};
  artifact::Input scores = sample::write_scores(folder / (name + ".h5"), options, encoding, arm, seed);
  scores.labels = of_scores;
  workspace.inputs["scores"].push_back(scores);
}

}  // namespace

BOOST_AUTO_TEST_CASE(drops_without_an_axis_of_encodings_find_their_control_by_the_checkpoint_that_both_continue) {
  test::TempFolder folder;
  artifact::Workspace workspace;
  workspace.progress = &support::silent_progress();
  for (const int seed : {1, 2, 3}) {
    for (const char* arm : {"drop", "nodrop"}) add_branch(folder.path(), arm, "rope", seed, workspace);
  }
  const Results results = read_results({}, workspace);
  for (const Run& run : results.runs) BOOST_TEST(run.encoding == "rope");  // what it had, and not what is left
  for (const Curve& curve : results.curves) BOOST_TEST(curve.run.encoding == "rope");
  const auto sections = make_sections(results);
  const auto table = [&](const std::string& id) -> const Table& {
    for (const Section& section : sections) {
      for (const Table& own : section.tables) {
        if (own.id == id) return own;
      }
    }
    BOOST_FAIL("no table " << id);
    return sections.front().tables.front();
  };
  const std::string plan = to_csv(table("drop_plan"));
  BOOST_TEST(plan.find("no control") == std::string::npos, plan);
  BOOST_TEST(plan.find("rope,") != std::string::npos, plan);
  BOOST_TEST(to_csv(table("drop_effect")).find("rope,drop,") != std::string::npos, to_csv(table("drop_effect")));
  // Drop and control are in one panel.
  for (const Section& section : sections) {
    for (const Figure& figure : section.figures) {
      if (figure.id != "perplexity_variants") continue;
      BOOST_TEST_REQUIRE(figure.panels.size() == 1u);
      BOOST_TEST(names_of(figure.panels[0]) == (std::vector<std::string>{"drop", "nodrop"}),
                 boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_table_of_ones_own_has_its_place_on_the_page_and_figures_as_the_config_asks) {
  test::TempFolder folder;
  artifact::Workspace workspace = sample::write_inputs(folder.path(), {.encodings = {"rope", "alibi"},
                                                                       .seeds = {1, 2, 3},
                                                                       .lengths = {128, 256},
                                                                       .documents = 8,
                                                                       .retrieval = false,
                                                                       .copy = false,
                                                                       .curves = false});
  for (artifact::Input& input : workspace.inputs["scores"])
    input.labels = {{"stage", "scores"}, {"encoding", input.labels["encoding"]}, {"seed", input.labels["seed"]}};
  for (const char* encoding : {"alibi", "rope"}) {
    for (const int seed : {1, 2, 3}) {
      using enum artifact::ColumnType;
      artifact::Table own(
          "my_entropy",
          {{"pe", kText, ""}, {"layer", kInteger, ""}, {"distance", kInteger, "tokens"}, {"entropy", kReal, "nats"}});
      for (const int layer : {0, 1, 10}) {
        for (const int distance : {1, 2, 4, 8})
          own.add_row({encoding, layer, distance, 0.1 * layer + 1.0 / distance + 0.01 * seed});
      }
      artifact::Tables tables;
      tables.tables.push_back(std::move(own));
      const auto path = folder / support::cat("own_", encoding, seed, ".h5");
      artifact::write_eval_tables(path, {}, tables);
      workspace.inputs["scores"].push_back(
          {path,
           artifact::Kind::kEvalTable,
           "",
           {{"stage", "entropy"}, {"encoding", encoding}, {"seed", std::to_string(seed)}}});
    }
  }
  ReportConfig config;
  config.figures = {"table=my_entropy x=distance y=entropy facet=layer"};
  const Results results = read_results(config, workspace);
  BOOST_TEST(results.runs.size() == 6u);  // the models, whose tables these are
  BOOST_TEST(results.variants.size() == 1u);
  const auto sections = make_sections(results);
  const auto own =
      std::find_if(sections.begin(), sections.end(), [](const Section& section) { return section.id == "own_tables"; });
  BOOST_TEST_REQUIRE((own != sections.end()));
  BOOST_TEST_REQUIRE(own->figures.size() == 1u);
  BOOST_TEST_REQUIRE(own->figures[0].panels.size() == 3u);
  BOOST_TEST(own->figures[0].panels[1].title == "layer 1");
  const Series& line = own->figures[0].panels[1].series.back();
  BOOST_TEST(line.points.at(3).y == 0.1 + 1.0 / 8 + 0.02, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(line.points[3].high > line.points[3].y);  // three seeds
  BOOST_TEST(own->tables.at(0).rows.size() == 30u);
  // Encodings are not joined to one line where neither the lines nor the panels are of encodings.
  config.figures = {"table=my_entropy x=layer y=entropy series=distance facet=layer"};
  const auto by_distance = make_sections(read_results(config, workspace));
  const auto of_figure = std::find_if(by_distance.begin(), by_distance.end(),
                                      [](const Section& section) { return section.id == "own_tables"; });
  std::vector<std::string> titles;
  for (const Panel& panel : of_figure->figures.at(0).panels) titles.push_back(panel.title);
  BOOST_TEST(titles == (std::vector<std::string>{"alibi, layer 0", "alibi, layer 1", "alibi, layer 10", "rope, layer 0",
                                                 "rope, layer 1", "rope, layer 10"}),
             boost::test_tools::per_element());
  BOOST_TEST(own->tables[0].caption.find("The first 30 of 72 rows") == 0u, own->tables[0].caption);
  BOOST_TEST(perplexity_in(sections).rows.size() == 2u);  // no rows of dashes
  for (const Section& section : sections) {
    for (const std::string& line_of_result : section.lines)
      BOOST_TEST(line_of_result.find("scores:") == std::string::npos, line_of_result);
  }
  // A missing part that the config asks for is named, with the nearest.
  for (const auto& [text, message] :
       {std::pair<std::string, std::string>{"table=my_entropi x=distance y=entropy", "my_entropy"},
        {"table=my_entropy x=distanse y=entropy", "distance"},
        {"table=my_entropy x=distance", "needs 'table=', 'x=' and 'y='"},
        {"tabel=my_entropy x=distance y=entropy", "table"}}) {
    config.figures = {text};
    const std::string error = error_of([&, &asked = config] { make_sections(read_results(asked, workspace)); });
    BOOST_TEST(error.find(message) != std::string::npos, error);
  }
}

BOOST_AUTO_TEST_CASE(rules_at_evaluation_and_tables_of_ones_own_beside_other_scores_make_no_empty_rows) {
  test::TempFolder folder;
  const sample::Options options{.documents = 8, .retrieval = false, .copy = false};
  artifact::Workspace workspace;
  workspace.progress = &support::silent_progress();
  const auto scores = [&](const std::string& file, const std::string& variant, Labels labels) {
    artifact::Input input = sample::write_scores(folder / (file + ".h5"), options, "rope", variant, 1);
    labels.insert({{"encoding", "rope"}, {"seed", "1"}});
    input.labels = labels;
    workspace.inputs["scores"].push_back(input);
    return input.path;
  };
  // One model twice, once more with another encoding laid over it, and a user's table with fewer labels.
  scores("plain", "decay", {{"stage", "scores"}, {"from", "model"}});
  scores("trained", "decay", {{"stage", "rules"}, {"rule", "trained"}});
  const auto laid_over = scores("yarn", "yarn", {{"stage", "rules"}, {"rule", "yarn8"}});
  artifact::Tables tables = artifact::read_eval_tables(laid_over);
  tables.facts["trained_encoding"] = {{"kind", "rope"}};
  artifact::write_eval_tables(laid_over, {}, tables);
  artifact::Table own("my_entropy", {{"distance", artifact::ColumnType::kInteger, "tokens"}});
  own.add_row({1});
  tables = {};
  tables.tables.push_back(std::move(own));
  artifact::write_eval_tables(folder / "own.h5", {}, tables);
  workspace.inputs["scores"].push_back(
      {folder / "own.h5", artifact::Kind::kEvalTable, "", {{"stage", "entropy"}, {"encoding", "rope"}, {"seed", "1"}}});
  const Results results = read_results({}, workspace);
  BOOST_TEST(results.runs.size() == 3u);
  BOOST_TEST_REQUIRE(results.arms.size() == 2u);
  BOOST_TEST(results.arms[0].variant == "model");
  BOOST_TEST(results.arms[1].variant == "rules, yarn8");
  const auto sections = make_sections(results);
  BOOST_TEST(perplexity_in(sections).rows.size() == 2u);

  // The same table of another text is another run, and keeps the label that tells them apart.
  artifact::Workspace texts;
  texts.progress = workspace.progress;
  for (const char* text : {"novels", "web"}) {
    artifact::Input input = sample::write_scores(folder / (std::string(text) + ".h5"), options, "rope", "decay", 1);
    artifact::Tables read = artifact::read_eval_tables(input.path);
    read.facts["data_digest"] = text;
    artifact::write_eval_tables(input.path, {}, read);
    input.labels = {{"encoding", "rope"}, {"seed", "1"}, {"text", text}};
    texts.inputs["scores"].push_back(input);
  }
  const Results two = read_results({}, texts);
  BOOST_TEST_REQUIRE(two.runs.size() == 2u);
  BOOST_TEST(two.runs[1].labels.at("text") == "web");
  BOOST_TEST(two.variants == (std::vector<std::string>{"novels", "web"}), boost::test_tools::per_element());
  // Another table of one of the texts joins the run with its label, and erases nothing that tells them apart.
  artifact::Table more("my_entropy",
                       {{"run_id", artifact::ColumnType::kText, ""}, {"y", artifact::ColumnType::kReal, ""}});
  more.add_row({two.runs[1].run_id, 1.0});
  artifact::Tables of_web;
  of_web.tables.push_back(std::move(more));
  of_web.facts["data_digest"] = "web";
  artifact::write_eval_tables(folder / "more.h5", {}, of_web);
  texts.inputs["scores"].push_back({folder / "more.h5",
                                    artifact::Kind::kEvalTable,
                                    "",
                                    {{"stage", "more"}, {"encoding", "rope"}, {"seed", "1"}, {"text", "web"}}});
  const Results three = read_results({}, texts);
  BOOST_TEST_REQUIRE(three.runs.size() == 2u);
  BOOST_TEST(three.variants == (std::vector<std::string>{"novels", "web"}), boost::test_tools::per_element());
  BOOST_TEST(three.tables.at("my_entropy").at(0).run == 1u);
}

// A training that does not read its seed is one model, however many tasks name it.
BOOST_AUTO_TEST_CASE(copies_of_a_model_are_one_seed) {
  const test::TempFolder folder;
  artifact::Workspace workspace;
  workspace.progress = &support::silent_progress();
  for (const char* seed : {"1", "2", "3"}) {
    const sample::Options options{.documents = 8, .retrieval = false, .copy = false};
    artifact::Input input =
        sample::write_scores(folder / (std::string(seed) + ".h5"), options, "rope", "decay", seed[0] == '3' ? 3 : 1);
    input.labels["seed"] = seed;
    workspace.inputs["scores"].push_back(input);
  }
  const Results results = read_results({}, workspace);
  BOOST_TEST_REQUIRE(results.arms.size() == 1u);
  BOOST_TEST(results.arms[0].runs.size() == 2u);
  BOOST_TEST(results.copies == (std::vector<std::string>{"rope with seed 2 is the model of seed 1"}));
  BOOST_TEST(results.missing.empty());
  artifact::Workspace logs;
  logs.progress = workspace.progress;
  for (const char* seed : {"1", "2"}) {
    artifact::Input input = sample::write_curves(folder / (std::string(seed) + ".metrics.h5"), "rope", "trunk", 1);
    input.digest = std::string(64, 'a');
    input.labels = {{"encoding", "rope"}, {"seed", seed}};
    logs.inputs["curves"].push_back(input);
  }
  const Results trained = read_results({}, logs);
  BOOST_TEST(trained.curves.size() == 1u);
  BOOST_TEST(trained.copies == results.copies);
  // One model whose evaluations draw something else for each seed stays as it was.
  artifact::Tables drawn = artifact::read_eval_tables(folder / "2.h5");
  drawn.facts["data_digest"] = "of seed 2";
  artifact::write_eval_tables(folder / "2.h5", {}, drawn);
  drawn = artifact::read_eval_tables(folder / "1.h5");
  drawn.facts["data_digest"] = "of seed 1";
  artifact::write_eval_tables(folder / "1.h5", {}, drawn);
  const Results other = read_results({}, workspace);
  BOOST_TEST_REQUIRE(other.arms.size() == 1u);
  BOOST_TEST(other.arms[0].runs.size() == 3u);
  BOOST_TEST(other.copies.empty());
}

namespace {

/// Evaluations of one encoding, in the order of their calls.
class Evaluations {
 public:
  Evaluations() { workspace_.progress = &support::silent_progress(); }

  /// The loss of three documents.
  void add(const std::string& model, const Labels& labels, int step = 300, int stride = 128, double nll = 300) {
    artifact::Table docs = schema::table_of<schema::LmDocument>({}, {});
    for (int d = 0; d < 3; ++d)
      docs.add_row({model, "rope", 1, step, "test", "prefix", 128, stride, d, 100, 300, nll + d});
    write(std::move(docs), labels);
  }
  /// Another table of the same model.
  void probe(const std::string& model, const Labels& labels) {
    artifact::Table own("my_probe",
                        {{"run_id", artifact::ColumnType::kText, ""}, {"y", artifact::ColumnType::kReal, ""}});
    own.add_row({model, 1.0});
    write(std::move(own), labels);
  }
  /// A user's table without rows, in one artifact with the loss.
  void add_with_empty_table(const std::string& model) {
    artifact::Table docs = schema::table_of<schema::LmDocument>({}, {});
    docs.add_row({model, "rope", 1, 300, "test", "prefix", 128, 128, 0, 100, 300, 300.0});
    artifact::Tables tables;
    tables.tables = {std::move(docs), artifact::Table("my_probe", {{"y", artifact::ColumnType::kReal, ""}})};
    write(std::move(tables), {});
  }
  /// All tables that a call with these two lengths makes. Some of them sum up both.
  void evaluate(const std::string& model, const Labels& labels, std::int64_t first) {
    const schema::Identity identity{model, "rope", 1, 300};
    const std::string reference = support::cat("reference ", first);
    const auto of_all = static_cast<double>(first);
    std::vector<schema::LmDocument> docs;
    std::vector<schema::LmLength> numbers;
    std::vector<schema::ProbePositionLoss> losses;
    for (const std::int64_t length : {first, 2 * first}) {
      const auto nats = 300.0 + static_cast<double>(length);
      docs.push_back({.corpus = "test",
                      .protocol = "anchored",
                      .length = length,
                      .stride = length,
                      .score = {.id = length, .tokens = 100, .bytes = 300, .nll = nats}});
      numbers.push_back(
          {.corpus = "test", .protocol = "anchored", .measure = "ratio", .length = length, .value = nats});
      losses.push_back({.corpus = "test", .context = length, .last = length, .nll_mean = nats});
    }
    numbers.push_back({.corpus = "test", .protocol = "anchored", .measure = "effective_context", .value = of_all});
    artifact::Tables tables;
    const auto one = [&]<typename Row>(Row row) { tables.tables.push_back(schema::table_of<Row>({row}, identity)); };
    tables.tables.push_back(schema::table_of(docs, identity));
    tables.tables.push_back(schema::table_of(numbers, identity));
    tables.tables.push_back(schema::table_of(losses, identity));
    one(schema::LmPosition{.corpus = "test", .bins = "log", .bin_lo = 1, .bin_hi = first, .nll_mean = of_all});
    one(schema::LongPpl{.corpus = "test", .reference = reference, .length = 1, .longppl = of_all});
    one(schema::ProbeSimilarity{.corpus = "test", .length = 1, .reference = reference, .divergence = of_all});
    one(schema::AlgoLength{.task = "copy", .measure = "len90", .value = of_all, .status = "ok"});
    one(schema::Parameters{.parameters = 10, .total = 100, .length = 1024, .table_bytes = first});
    write(std::move(tables), labels);
  }
  /// The log of a training at a learning rate; NaN: it diverged.
  void train(const std::string& encoding, const std::string& rate, double loss) {
    artifact::Table train("train", artifact::train_columns()), validation("validation", artifact::validation_columns());
    train.add_row({100, 1000, 3.0, 1.2, std::stod(rate), 1.0, 0});
    if (std::isfinite(loss)) validation.add_row({100, 1000, loss, 1.2, 1000, 4000});
    artifact::Tables tables;
    tables.tables = {std::move(train), std::move(validation)};
    tables.facts = {{"status", std::isfinite(loss) ? "ok" : "diverged"}};
    auto& inputs = workspace_.inputs["curves"];
    const auto path = folder_ / support::cat("curves", inputs.size(), ".h5");
    artifact::write_metrics(path, {}, tables);
    inputs.push_back({path, artifact::Kind::kMetrics, "", {{"encoding", encoding}, {"lr", rate}, {"seed", "1"}}});
  }
  Results read() const { return read_results({}, workspace_); }

 private:
  void write(artifact::Table table, Labels labels) {
    artifact::Tables tables;
    tables.tables.push_back(std::move(table));
    write(std::move(tables), std::move(labels));
  }
  void write(artifact::Tables tables, Labels labels) {
    auto& inputs = workspace_.inputs["scores"];
    const auto path = folder_ / support::cat("scores", inputs.size(), ".h5");
    artifact::write_eval_tables(path, {}, tables);
    labels.insert({{"encoding", "rope"}, {"seed", "1"}});
    inputs.push_back({path, artifact::Kind::kEvalTable, "", labels});
  }

  test::TempFolder folder_;
  artifact::Workspace workspace_;
};

using Variants = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_CASE(an_axis_in_which_evaluations_of_one_model_differ_still_tells_other_models_apart) {
  // Stages of two trainings, and a probe of one of them: with the first seed alone, and before the others.
  Evaluations stages;
  stages.probe("short1", {{"stage", "probes"}, {"seed", "1"}});
  for (const std::string seed : {"1", "2", "3"}) {
    stages.add("short" + seed, {{"stage", "evaluate"}, {"seed", seed}});
    stages.add("long" + seed, {{"stage", "evaluate_long"}, {"seed", seed}});
  }
  const Results two = stages.read();
  BOOST_TEST(two.runs.size() == 6u);
  BOOST_TEST(two.variants == (Variants{"evaluate", "evaluate_long"}), boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(two.arms.size() == 2u);
  for (const Arm& arm : two.arms) BOOST_TEST(arm.runs.size() == 3u);

  // A probe without the axis that tells its model from another one.
  Evaluations makers;
  makers.probe("trunk", {{"stage", "probes"}});
  makers.add("trunk", {{"stage", "scores"}, {"from", "train"}});
  makers.add("branch", {{"stage", "scores"}, {"from", "decay"}});
  BOOST_TEST(makers.read().variants == (Variants{"train", "decay"}), boost::test_tools::per_element());

  // One model under two labels of an axis that it ignores.
  Evaluations bases;
  for (const char* base : {"10000", "500000"}) {
    bases.add("none", {{"encoding", "none"}, {"base", base}});
    bases.add(std::string("rope") + base, {{"base", base}});
  }
  const Results three = bases.read();
  BOOST_TEST(three.runs.size() == 3u);
  BOOST_TEST(three.variants == (Variants{"base 10000", "base 500000"}), boost::test_tools::per_element());
  BOOST_TEST(three.arms.size() == 3u);
}

BOOST_AUTO_TEST_CASE(a_seed_that_comes_again_is_no_further_seed) {
  Evaluations snapshots;
  for (const int step : {100, 200, 300}) snapshots.add("at" + std::to_string(step), {}, step);
  const Results three = snapshots.read();
  BOOST_TEST(three.variants == (Variants{"step 100", "step 200", "step 300"}), boost::test_tools::per_element());
  for (const Arm& arm : three.arms) BOOST_TEST(arm.runs.size() == 1u);

  Evaluations alike;
  alike.add("one", {});
  alike.add("other", {});
  const std::string message = error_of([&] { alike.read(); });
  BOOST_TEST(message.find("2 runs of rope have the seed '1'") != std::string::npos, message);
  for (const char* file : {"scores0.h5; ", "scores1.h5"}) BOOST_TEST(message.find(file) != std::string::npos, message);
}

BOOST_AUTO_TEST_CASE(evaluations_with_other_settings_are_not_joined) {
  Evaluations strides;
  strides.add("one", {{"stride", "64"}}, 300, 64);
  strides.add("one", {{"stride", "16"}}, 300, 16);
  const Results two = strides.read();
  BOOST_TEST(two.runs.size() == 2u);
  BOOST_TEST(two.variants == (Variants{"stride 64", "stride 16"}), boost::test_tools::per_element());

  // The same numbers again, but for rounding, are one evaluation and count once.
  Evaluations same;
  same.add("one", {{"stage", "evaluate"}});
  same.add("one", {{"stage", "again"}}, 300, 128, 300.001);
  const Results one = same.read();
  BOOST_TEST(one.runs.size() == 1u);
  BOOST_TEST_REQUIRE(one.lm.size() == 1u);
  BOOST_TEST(one.lm[0].scores.size() == 3u);
}

BOOST_AUTO_TEST_CASE(evaluations_at_other_lengths_are_joined_though_some_tables_sum_up_all_lengths) {
  Evaluations lengths;
  for (const std::string seed : {"1", "2"}) {
    lengths.evaluate("model" + seed, {{"stage", "evaluate"}, {"seed", seed}}, 128);
    lengths.evaluate("model" + seed, {{"stage", "evaluate_long"}, {"seed", seed}}, 512);
  }
  const Results results = lengths.read();
  BOOST_TEST(results.runs.size() == 2u);
  BOOST_TEST(results.variants == (Variants{""}), boost::test_tools::per_element());
  BOOST_TEST(results.lm.size() == 8u);
  const auto rows = [&](const char* name) {
    std::size_t all = 0;
    for (const GatheredTable& table : results.tables.at(name)) all += table.table.rows();
    return all;
  };
  // By seed: each length, each reference, and one number of all lengths.
  for (const auto& [name, of_seed] : {std::pair("lm_length", 5u),
                                      {"probe_position_loss", 4u},
                                      {"lm_longppl", 2u},
                                      {"probe_similarity", 2u},
                                      {"lm_position", 1u},
                                      {"algo_length", 1u},
                                      {"parameters", 1u}})
    BOOST_TEST(rows(name) == 2 * of_seed, name);
}

BOOST_AUTO_TEST_CASE(a_model_that_lacks_an_evaluation_keeps_no_axis_of_evaluations) {
  Evaluations suites;
  for (const std::string seed : {"42", "43"}) {
    for (const std::string training : {"plain", "mixed"}) {
      const Labels labels{{"stage", "evaluate"}, {"from", training}, {"seed", seed}};
      Labels lm = labels, passkey = labels;
      lm["suite"] = "lm";
      passkey["suite"] = "passkey";
      if (training + seed != "mixed43") suites.add(training + seed, lm);  // which failed
      suites.probe(training + seed, passkey);
    }
  }
  const Results results = suites.read();
  BOOST_TEST(results.variants == (Variants{"plain", "mixed"}), boost::test_tools::per_element());
  BOOST_TEST(results.arms.size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_drop_its_control_and_a_trunk_stay_apart_though_probes_without_from_come_first) {
  test::TempFolder folder;
  artifact::Workspace workspace;
  workspace.progress = &support::silent_progress();
  auto& inputs = workspace.inputs["scores"];
  const auto scores = [&](const std::string& maker, const std::string& encoding, const std::string& kind) {
    const sample::Options options{.documents = 8, .retrieval = false, .copy = false};
    artifact::Input input = sample::write_scores(folder / (maker + ".scores.h5"), options, encoding, kind, 1);
    input.labels = {{"stage", "evaluate"}, {"from", maker}, {"seed", "1"}};
    inputs.push_back(input);
    return input.path;
  };
  /// Before all else, of a model without an encoding.
  const auto probe = [&](const std::filesystem::path& model) {
    using enum artifact::ColumnType;
    artifact::Table own("my_probe", {{"run_id", kText, ""}, {"pe", kText, ""}, {"step", kInteger, ""}});
    own.add_row({artifact::read_eval_tables(model).facts["run_id"].get<std::string>(), "none", 300});
    artifact::Tables tables;
    tables.tables.push_back(std::move(own));
    const auto path = folder / support::cat("probe", inputs.size(), ".h5");
    artifact::write_eval_tables(path, {}, tables);
    inputs.insert(inputs.begin(), {path, artifact::Kind::kEvalTable, "", {{"stage", "probes"}, {"seed", "1"}}});
  };
  const auto encodings = [&] {
    std::map<std::string, std::string> found;  // by variant
    const Results results = read_results({}, workspace);
    for (const Arm& arm : results.arms) found[arm.variant] += arm.encoding;
    return found;
  };
  std::map<std::string, std::string> expected{{"drop", "rope"}, {"nodrop", "rope"}};
  for (const std::string arm : {"drop", "nodrop"}) {
    add_branch(folder.path(), arm, "rope", 1, workspace);
    workspace.inputs["curves"].back().labels = {{"stage", arm}, {"seed", "1"}};
    inputs.pop_back();
  }
  probe(scores("drop", "none", "drop"));
  scores("nodrop", "rope", "nodrop");
  BOOST_TEST((encodings() == expected));
  // A model that never had an encoding, and that no training here made.
  expected["trunk"] = "none";
  probe(scores("trunk", "none", "decay"));
  BOOST_TEST((encodings() == expected));
}

BOOST_AUTO_TEST_CASE(a_baseline_whose_models_are_all_left_out_is_replaced) {
  Evaluations rates;
  for (const std::string encoding : {"rope", "none"}) {
    for (const std::string rate : {"1e-3", "3e-3"}) {
      rates.add(encoding + rate, {{"encoding", encoding}, {"lr", rate}});
      rates.train(encoding, rate, encoding == "rope" ? NAN : 3.0 + std::stod(rate));
    }
  }
  const Results results = rates.read();
  BOOST_TEST_REQUIRE(results.arms.size() == 1u);
  BOOST_TEST(results.baseline == "none");
}

BOOST_AUTO_TEST_CASE(a_users_table_without_rows_is_known_to_claims) {
  Evaluations own;
  own.add_with_empty_table("one");
  BOOST_TEST(own.read().tables.count("my_probe") == 1u);
}

BOOST_AUTO_TEST_CASE(a_missing_gnuplot_is_named_with_its_package) {
  test::TempFolder folder;
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder.path().c_str(), 1);
  artifact::Workspace workspace;
  const std::string message = error_of([&] { write_report({}, workspace); });
  ::setenv("PATH", path.c_str(), 1);
  BOOST_TEST(message.find("'gnuplot' is not on the PATH") != std::string::npos, message);
  BOOST_TEST(message.find("gnuplot-nox") != std::string::npos, message);
}

BOOST_AUTO_TEST_SUITE_END()
