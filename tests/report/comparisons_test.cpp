// Claims of pages about comparisons: bold, sentences, corrections, intervals of shares, small samples, lengths of
// training.
#include <boost/test/unit_test.hpp>

#include "report/page/report.h"
#include "report/results/comparison.h"
#include "report/section_results.h"
#include "schema/algorithmic.h"
#include "schema/models.h"
#include "support/error.h"

using namespace pe;
using namespace pe::report;
using namespace pe::report::sample;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t bold_in(const Table& table) {
  std::size_t count = 0;
  for (const Row& row : table.rows) {
    for (const report::Cell& cell : row.cells) count += cell.best;
  }
  return count;
}

/// Answers to `items` items at one length in each seed: `right[seed]` of them exact.
Results retrieval(const std::vector<int>& right, int items, std::vector<double> depths = {0.5}) {
  Results results;
  results.train_length = 128;
  results.variants = {""};
  results.encodings = {"rope"};
  Arm arm{"rope", "", {}};
  for (std::size_t seed = 0; seed < right.size(); ++seed) {
    arm.runs.push_back(seed);
    results.runs.push_back({.encoding = "rope", .seed = std::to_string(seed)});
    for (const double depth : depths) {
      for (int i = 0; i < items; ++i) {
        results.trials.push_back({.run = seed,
                                  .task = "passkey",
                                  .length = 128,
                                  .depth = depth,
                                  .item = std::to_string(i) + " " + std::to_string(depth),
                                  .exact = i < right[seed] ? 1.0 : 0.0,
                                  .digits = 5,
                                  .nll = 1,
                                  .nll_control = 2});
      }
    }
  }
  results.arms = {arm};
  return results;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(comparisons)

BOOST_AUTO_TEST_CASE(clear_differences_are_bold_in_tables_of_any_size) {
  // 12 × 3 × 8 = 288 tests: the smallest p of 10,000 resamples, times 288, is above 0.05.
  std::vector<std::string> encodings;
  for (int e = 0; e <= 12; ++e) encodings.push_back("e" + std::to_string(e));
  const Results results = perplexities({.encodings = encodings,
                                        .protocols = {"prefix", "blocks", "sliding"},
                                        .lengths = {16, 32, 64, 128, 256, 512, 1024, 2048},
                                        .better = 0.2});
  const Section section = section_of("differences", results);
  const Table& table = table_of(section, "differences");
  BOOST_TEST_REQUIRE(table.rows.size() == 288u);
  BOOST_TEST(bold_in(table) >= 24u);  // the better one, everywhere
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const bool better = table.rows[row].cells[0].text == "e12";
    if (better) BOOST_TEST(cell_of(table, row, "delta_nll").best);
  }
  BOOST_TEST(*cell_of(table, 0, "seeds").number == 3);
  BOOST_TEST(*cell_of(table, 0, "documents").number == 40);
}

BOOST_AUTO_TEST_CASE(holms_family_is_one_protocol_and_length) {
  const Results results = perplexities(
      {.encodings = {"rope", "a", "b"}, .protocols = {"prefix", "blocks"}, .better = 0.01, .seed_sd = 0.003});
  const Section section = section_of("differences", results);
  const Table& table = table_of(section, "differences");
  // Two tests in each family, so that no corrected p is more than twice its p (or its neighbour's, where that is
  // larger).
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const double p = *cell_of(table, row, "p").number, holm = *cell_of(table, row, "p_holm").number;
    double other = 0;
    for (std::size_t k = 0; k < table.rows.size(); ++k) {
      if (k != row && table.rows[k].cells[1].text == table.rows[row].cells[1].text &&
          *cell_of(table, k, "length").number == *cell_of(table, row, "length").number)
        other = *cell_of(table, k, "p").number;
    }
    BOOST_TEST(std::abs(holm - std::min(1.0, p <= other ? 2 * p : std::max(p, 2 * other))) < 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(bold_and_sentences_know_the_noise_of_seeds) {
  // Equal encodings with a standard deviation over seeds of 0.05 nats: the documents "tell them apart", three seeds do
  // not.
  const Results three = perplexities({.seed_sd = 0.05});
  const Section section = section_of("perplexity", three);
  BOOST_TEST(bold_in(section.tables[0]) == 0u);
  BOOST_TEST_REQUIRE(section.findings.size() == 2u);
  for (const std::string& finding : section.findings) {
    BOOST_TEST(contains(finding, "(not significant: p = "), finding);
    BOOST_TEST(contains(finding, "3 seeds)"), finding);
  }
  BOOST_TEST(contains(section.tables[0].caption, "noise of 3 seeds and of the documents"), section.tables[0].caption);
  const Section clear = section_of("perplexity", perplexities({.better = 0.3, .seed_sd = 0.01}));
  BOOST_TEST(bold_in(clear.tables[0]) == 2u);
  BOOST_TEST(contains(clear.findings[0], "(significant: p"), clear.findings[0]);

  const Section one = section_of("perplexity", perplexities({.seeds = {"1"}, .seed_sd = 0.05}));
  BOOST_TEST(contains(one.findings[0], "(not shown: one seed, beyond the noise of the documents)"), one.findings[0]);
  BOOST_TEST(contains(one.tables[0].caption, "no number is bold: with one seed"), one.tables[0].caption);
  const Perplexities pair{.seeds = {"1", "2"}, .better = 0.3};
  const Section two = section_of("perplexity", perplexities(pair));
  BOOST_TEST(contains(two.findings[0], "(not shown: two seeds, "), two.findings[0]);
  BOOST_TEST(bold_in(two.tables[0]) == 0u);
  BOOST_TEST(bold_in(table_of(section_of("differences", perplexities(pair)), "differences")) == 0u);
  const Section forest = section_of("differences", three);
  const Point& point = forest.figures.at(0).panels.at(0).series.at(0).points.at(0);
  BOOST_TEST(point.high - point.low > 0.05);  // seeds, and not 0.001 of the documents
}

BOOST_AUTO_TEST_CASE(the_end_of_a_run_says_what_the_page_says) {
  const auto lines = [](const Perplexities& options) { return section_of("perplexity", perplexities(options)).lines; };
  const Perplexities three{.encodings = {"none", "rope", "alibi"}, .lengths = {128, 512, 1024}, .better = 0.3};
  Results unmeasured = perplexities(three);
  for (LmCell& cell : unmeasured.lm)
    cell = {.run = cell.run, .protocol = "prefix", .length = 128, .status = "skipped_docs"};
  const auto none = section_of("perplexity", unmeasured).lines;
  BOOST_TEST_REQUIRE(none.size() == 1u);
  BOOST_TEST(none[0].rfind("no perplexity was measured: ", 0) == 0u, none[0]);
  const auto clear = lines(three);
  BOOST_TEST_REQUIRE(clear.size() == 2u);  // the training length, and the longest
  BOOST_TEST(clear[0].rfind("perplexity at 128 (1×), prefix: alibi ", 0) == 0u, clear[0]);
  BOOST_TEST(clear[1].rfind("perplexity at 1,024 (8×), prefix: alibi ", 0) == 0u, clear[1]);
  for (const std::string& line : clear) {
    BOOST_TEST(contains(line, ", 26 % below "), line);  // 1 - exp(-0.3)
    BOOST_TEST(contains(line, " (significant)"), line);
    BOOST_TEST(support::display_width(line) <= kLineColumns, line);
  }
  // The line has the verdict, the protocol and the numbers of the page's sentence.
  for (const auto& [options, verdict] :
       {std::pair<Perplexities, const char*>{{.better = 0.3}, "significant"},
        {{.seed_sd = 0.05}, "not significant: p = "},
        {{.seeds = {"1"}, .better = 0.3}, "not shown: one seed"},
        {{.seeds = {"1", "2"}, .protocols = {"anchored"}, .better = 0.3}, "not shown: two seeds"}}) {
    const Section section = section_of("perplexity", perplexities(options));
    BOOST_TEST_REQUIRE(section.lines.size() == section.findings.size());
    for (std::size_t i = 0; i < section.lines.size(); ++i) {
      const std::string &line = section.lines[i], &sentence = section.findings[i];
      BOOST_TEST(contains(line, verdict), line);
      BOOST_TEST(contains(sentence, verdict), sentence);
      BOOST_TEST(contains(line, ", " + options.protocols[0] + ": "), line);
      BOOST_TEST(contains(sentence, ", " + options.protocols[0] + ", "), sentence);
      const std::size_t at = line.find(": ") + 2;
      const std::string best = line.substr(at, line.find(',', at) - at);  // "alibi 14.91"
      BOOST_TEST(contains(sentence, best.substr(0, best.find(' ')) + " has the lowest perplexity, " +
                                        best.substr(best.find(' ') + 1)),
                 sentence);
    }
  }
  // Long names keep the essential part; the rest is cut.
  const auto longest = lines(
      {.encodings = {"none", "an_encoding_with_a_long_name", "another_encoding_with_a_long_name"}, .better = 0.3});
  BOOST_TEST(contains(longest[0], "another_encoding_with_a_long_name "), longest[0]);
  BOOST_TEST(!contains(longest[0], "; "), longest[0]);

  Section first, second;
  first.lines = {"one\033[2J", "two"};
  second.lines = {"three"};
  const std::string text = result_text({first, second});
  BOOST_TEST(contains(text, "two\n"), text);
  BOOST_TEST(!contains(text, "three"), text);
  BOOST_TEST(!contains(text, "\033"), text);
  BOOST_TEST(result_text({Section{}}).empty());
}

BOOST_AUTO_TEST_CASE(sentences_forest_and_parity_use_one_protocol) {
  const Results results = perplexities({.protocols = {"prefix", "sliding", "anchored"}, .better = 0.3});
  BOOST_TEST(headline_protocol(results) == "anchored");
  for (const std::string& finding : section_of("perplexity", results).findings)
    BOOST_TEST(contains(finding, ", anchored, "), finding);
  BOOST_TEST(contains(section_of("differences", results).figures.at(0).title, "anchored"));
  const Table checks = table_of(section_of("checks", results), "checks");
  BOOST_TEST(contains(cell_of(checks, 5, "reason").text, "(anchored)"), cell_of(checks, 5, "reason").text);
  BOOST_TEST(headline_protocol(perplexities({.protocols = {"prefix", "sliding"}})) == "sliding");
}

BOOST_AUTO_TEST_CASE(a_mean_over_other_seeds_is_no_lead) {
  // By itself e0 is better, since seeds that e1 lacks are easy. On the seeds of both it is worse.
  Results results = perplexities({.encodings = {"e0", "e1"}, .seeds = {"1", "2", "3", "4", "5"}, .better = 0.3});
  for (LmCell& cell : results.lm) {
    const Run& run = results.runs[cell.run];
    if (run.encoding != "e0" || run.seed < "4") continue;
    cell.nll -= 2;
    for (auto& score : cell.scores) score.nll -= 2 * static_cast<double>(score.tokens);
  }
  auto& runs = results.arms[1].runs;
  runs.resize(3);
  const Section section = section_of("perplexity", results);
  BOOST_TEST(contains(section.findings.at(0), "e0 has the lowest perplexity"), section.findings.at(0));
  BOOST_TEST(!contains(section.findings.at(0), "significant"), section.findings.at(0));
  for (const std::string& line : section.lines) BOOST_TEST(!contains(line, "below"), line);
  for (const Table& table : section.tables) BOOST_TEST(bold_in(table) == 0u, table.id);
}

BOOST_AUTO_TEST_CASE(rows_of_figures_are_named_by_what_tells_them_apart) {
  Results results;
  results.variants = {"evaluate, scaffold, drop, late 2", "evaluate, scaffold, drop, d50", "evaluate, scaffold", ""};
  const Arm late{"rope", results.variants[0], {}}, half{"rope", results.variants[1], {}},
      yarn{"yarn", results.variants[1], {}}, other{"rope", results.variants[2], {}}, plain{"rope", "", {}};
  using Names = std::vector<std::string>;
  BOOST_TEST(row_names(results, {&late, &half}) == (Names{"rope, late 2", "rope, d50"}),
             boost::test_tools::per_element());
  BOOST_TEST(row_names(results, {&yarn, &half}) == (Names{"yarn", "rope"}), boost::test_tools::per_element());
  BOOST_TEST(row_names(results, {&half}) == Names{"rope"}, boost::test_tools::per_element());
  // With different numbers of labels it is unclear which of them correspond.
  BOOST_TEST(row_names(results, {&half, &other, &plain}) ==
                 (Names{"rope, evaluate, scaffold, drop, d50", "rope, evaluate, scaffold", "rope"}),
             boost::test_tools::per_element());
  // Of several with as many labels the common ones go, and a trunk among its branches keeps its name.
  const Arm trunk{"rope", "evaluate_trained", {}};
  BOOST_TEST(
      row_names(results, {&trunk, &late, &half}) == (Names{"rope, evaluate_trained", "rope, late 2", "rope, d50"}),
      boost::test_tools::per_element());
  // Short names that would be equal stay whole.
  const Arm equal{"rope", "d50", {}};
  BOOST_TEST(row_names(results, {&equal, &half, &late}) ==
                 (Names{"rope, d50", "rope, evaluate, scaffold, drop, d50", "rope, evaluate, scaffold, drop, late 2"}),
             boost::test_tools::per_element());
  BOOST_TEST(row_names(results, {}).empty());
}

// As in pipelines/exploration.yml, whose report has models of text and models of tasks.
BOOST_AUTO_TEST_CASE(models_to_which_no_text_was_read_have_no_differences) {
  Results results = perplexities({.encodings = {"rope", "none"}});
  const std::size_t rows = table_of(section_of("differences", results), "differences").rows.size();
  for (Arm& arm : results.arms) arm.variant = "text";
  results.variants = {"text", "task"};
  for (const char* encoding : {"rope", "none"}) {
    results.arms.push_back({encoding, "task", {results.runs.size()}});
    results.runs.push_back({.encoding = encoding, .seed = "1"});
  }
  const Section section = section_of("differences", results);
  BOOST_TEST(table_of(section, "differences").rows.size() == rows);
  BOOST_TEST(section.figures.at(0).y_names.size() == 1U);
}

// As in pipelines/scaffold_nope_rope_yarn_pope.yml, where every row read "rope, evaluate, scaffold, d…".
BOOST_AUTO_TEST_CASE(rows_of_dropped_encodings_show_when_they_were_dropped) {
  const Results one = perplexities({.encodings = {"rope"}});
  Results results = one;
  results.arms.clear();
  results.variants = {"evaluate, scaffold, drop, d50", "evaluate, scaffold, drop, d87",
                      "evaluate, scaffold, nodrop, d50", "evaluate, scaffold, nodrop, d87"};
  for (const std::string& variant : results.variants) results.arms.push_back({"rope", variant, one.arms[0].runs});
  const Section section = section_of("differences", results);
  const Figure& figure = section.figures.at(0);
  BOOST_TEST(figure.id == "drop_effect");
  BOOST_TEST(figure.y_names == (std::vector<std::string>{"rope, d87", "rope, d50"}), boost::test_tools::per_element());
  BOOST_TEST(figure.panels.at(0).series.at(0).name ==
             "rope, evaluate, scaffold, drop, d50");  // in data, the whole name
}

BOOST_AUTO_TEST_CASE(small_samples_are_marked) {
  const Section few = section_of("perplexity", perplexities({.documents = 8}));
  BOOST_TEST(contains(format_cell(few.tables[0].rows[0].cells.back(), few.tables[0].columns.back()), "†"));
  BOOST_TEST(contains(to_markdown(few.tables[0]), "†: fewer than 30"));
  BOOST_TEST(contains(few.findings[0], "only 8 documents"), few.findings[0]);
  const Section many = section_of("perplexity", perplexities({.documents = 30}));
  BOOST_TEST(!contains(to_markdown(many.tables[0]), "†"));
  BOOST_TEST(!contains(many.findings[0], "only"), many.findings[0]);
  // Skewed documents need more: one in forty with a loss far above the others is no bell.
  Results skewed = perplexities({.documents = 40});
  for (LmCell& cell : skewed.lm) {
    cell.scores[7].nll += 400;
    cell.nll += 4.0 / 40;
  }
  const Section heavy = section_of("perplexity", skewed);
  BOOST_TEST(heavy.tables[0].rows[0].cells.back().few);
  BOOST_TEST(cell_of(table_of(section_of("retrieval", retrieval({5}, 10)), "passkey"), 0, "exact_128").few);
}

BOOST_AUTO_TEST_CASE(exact_answers_of_seeds_are_not_pooled) {
  const auto cell = [](const Results& results) {
    return cell_of(table_of(section_of("retrieval", results), "passkey"), 0, "exact_128");
  };
  const report::Cell one = cell(retrieval({45}, 50));
  BOOST_TEST(one.interval->low == statistics::wilson(45, 50).low);
  // Seeds often learn a task or do not: each is shown, with the median, and no interval over them.
  const report::Cell three = cell(retrieval({45, 45, 0}, 50));
  BOOST_TEST(!three.interval.has_value());
  BOOST_TEST(!three.half_width.has_value());
  BOOST_TEST(*three.number == 0.9);
  BOOST_TEST(three.parts == (std::vector<double>{0.9, 0.9, 0}), boost::test_tools::per_element());
  const report::Cell two = cell(retrieval({50, 0}, 50));
  BOOST_TEST(!two.interval.has_value());
  BOOST_TEST(two.parts.size() == 2u);
  const report::Cell bimodal = cell(retrieval({50, 0, 50, 0}, 50));
  BOOST_TEST(*bimodal.number == 0.5);
  BOOST_TEST(bimodal.parts.size() == 4u);
  const Figure figure = section_of("retrieval", retrieval({50, 0, 50, 0}, 50)).figures.at(0);
  for (const Series& series : figure.panels.at(0).series) {
    BOOST_TEST((series.role == Series::Role::kPoints || series.role == Series::Role::kMain));
    for (const Point& point : series.points) BOOST_TEST(std::isnan(point.low));  // no band
  }
}

BOOST_AUTO_TEST_CASE(trials_are_counted_in_their_own_task) {
  Results results = retrieval({3, 3, 3}, 12, {0.0, 0.5, 1.0});
  for (int i = 0; i < 20; ++i)  // facts at several depths have none
    results.trials.push_back({.run = 0,
                              .task = "ruler_mk",
                              .length = 512,
                              .depth = NAN,
                              .item = std::to_string(i),
                              .exact = 1,
                              .digits = 5});
  const Section section = section_of("retrieval", results);
  BOOST_TEST(contains(table_of(section, "passkey").caption, "12 trials per length at each of 3 depths"),
             table_of(section, "passkey").caption);
  BOOST_TEST(contains(table_of(section, "ruler_mk").caption, "20 trials per length,"),
             table_of(section, "ruler_mk").caption);
}

BOOST_AUTO_TEST_CASE(tables_of_a_task_hold_the_models_that_were_asked) {
  Results results = retrieval({3}, 12, {0.0, 0.5});
  results.variants = {"text", "copies", "sums"};
  results.arms[0].variant = "text";
  for (const char* task : {"copies", "sums"}) {
    results.arms.push_back({"rope", task, {results.runs.size()}});
    results.tasks.push_back({.run = results.runs.size(),
                             .task = task,
                             .length = 10,
                             .n = 100,
                             .exact = 0.5,
                             .token_accuracy = 0.6,
                             .nll = 1});
    results.runs.push_back({.encoding = "rope", .variant = task, .seed = "0"});
  }
  results.tasks.back().status = "na_positions";  // was asked, and has no answer
  const Section tasks = section_of("tasks", results), found = section_of("retrieval", results);
  for (const char* task : {"copies", "sums"}) {
    const Table& table = table_of(tasks, task);
    BOOST_TEST_REQUIRE(table.rows.size() == 1u);
    BOOST_TEST(table.rows[0].cells[1].text == task);
  }
  BOOST_TEST(table_of(found, "passkey").rows.size() == 1u);
  BOOST_TEST_REQUIRE(found.figures.size() == 2u);
  BOOST_TEST(found.figures[1].panels.size() == 1u);  // the map by length and depth
}

BOOST_AUTO_TEST_CASE(the_training_length_is_that_of_the_run) {
  Results results = perplexities({.encodings = {"rope", "alibi", "t5"}});
  // A model that was trained on at 512 tokens is in one table with one of 128.
  results.train_length = 0;
  results.variants = {"decay", "extend"};
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
    results.arms[arm].variant = arm == 2 ? "extend" : "decay";
    for (const std::size_t run : results.arms[arm].runs) {
      results.runs[run].train_length = arm == 2 ? 512 : 128;
      results.runs[run].variant = results.arms[arm].variant;
    }
  }
  const Section section = section_of("perplexity", results);
  BOOST_TEST_REQUIRE(section.figures.at(0).panels.size() == 2u);
  BOOST_TEST(section.figures[0].panels[0].rules.at(0).at == 128);
  BOOST_TEST(section.figures[0].panels[1].rules.at(0).at == 512);
  BOOST_TEST(contains(training_sentence(results), "Training lengths: 128 tokens (decay); 512 tokens (extend)."),
             training_sentence(results));
  BOOST_TEST(contains(section.findings.at(0), "decay: at 128 tokens"), section.findings.at(0));
  const Table checks = table_of(section_of("checks", results), "checks");
  BOOST_TEST(cell_of(checks, 5, "verdict").text == "pass");  // the two of 128 are compared
  // One that has no number where it was trained may be worse.
  for (LmCell& cell : results.lm) {
    if (results.runs[cell.run].encoding != "t5" || cell.length != 512) continue;
    cell.status = "overflow";
    cell.nll = NAN;
  }
  const Table unknown = table_of(section_of("checks", results), "checks");
  BOOST_TEST(cell_of(unknown, 5, "verdict").text == "unknown");
  BOOST_TEST(contains(cell_of(unknown, 5, "reason").text, "t5, extend overflow"), cell_of(unknown, 5, "reason").text);
}

BOOST_AUTO_TEST_CASE(tasks_are_drawn_in_their_own_unit_with_exact_match_first) {
  Results results;
  results.train_length = 48;  // the model's window
  results.variants = {""};
  results.encodings = {"rope"};
  results.runs = {{.encoding = "rope", .seed = "1", .train_length = 48}};
  results.arms = {{"rope", "", {0}}};
  for (const std::int64_t length : {10, 20, 40}) {
    results.tasks.push_back({.run = 0,
                             .task = "copy_repeat",
                             .length = length,
                             .n = 100,
                             .exact = length <= 20 ? 1.0 : 0.1,
                             .token_accuracy = 0.9,
                             .nll = 0.1,
                             .chance = 0.04});
  }
  using enum artifact::ColumnType;
  add<schema::AlgoLength>(results, 0,
                          {{"copy_repeat", "len90", 20.0, "ok"},
                           {"copy_repeat", "ext_ratio", 1.0, "ok"},
                           {"copy_repeat", "ood_mean_em", 0.1, "ok"}});
  const Section section = section_of("tasks", results);
  const Figure& figure = section.figures.at(0);
  BOOST_TEST(contains(figure.title, "Exact match"), figure.title);
  BOOST_TEST(!contains(figure.x.title, "tokens"), figure.x.title);
  BOOST_TEST_REQUIRE(figure.panels.at(0).shades.size() == 1u);
  BOOST_TEST(figure.panels[0].shades[0].high == 20);  // where training ended, and not the window of 48
  BOOST_TEST(!contains(figure.caption, "48"), figure.caption);
  const Table& table = table_of(section, "copy_repeat");
  BOOST_TEST(table.columns[1].id == "exact_10");
  BOOST_TEST(table.columns[3].header == "40 (2.00×)", table.columns[3].header);
  const Table& reach = table_of(section, "copy_repeat_reach");
  BOOST_TEST(*cell_of(reach, 0, "len90").number == 20);
  BOOST_TEST(cell_of(reach, 0, "seeds").text == "1: 10.0");
  BOOST_TEST(contains(table.caption, "chance level of token accuracy: 4"), table.caption);
}

BOOST_AUTO_TEST_CASE(a_sweep_of_learning_rates_is_one_model_chosen_on_validation_data) {
  // Four rates: the test scores favour 1e-3, validation favours 3e-3.
  Results results = perplexities({.encodings = {"rope"}, .seeds = {"1", "2", "3", "4"}});
  const std::vector<std::pair<std::string, double>> rates = {
      {"1e-3", 3.2}, {"3e-3", 3.0}, {"1e-2", 3.02}, {"3e-2", NAN}};
  for (std::size_t i = 0; i < rates.size(); ++i) {
    results.runs[i].labels = {
        {"stage", "evaluate"}, {"from", "train"}, {"encoding", "rope"}, {"lr", rates[i].first}, {"seed", "1"}};
    Curve curve;
    curve.run = {.labels = {{"stage", "train"}, {"encoding", "rope"}, {"lr", rates[i].first}, {"seed", "1"}},
                 .encoding = "rope",
                 .seed = "1"};
    curve.run.facts = {{"step", 100}, {"stability", {{"spikes", 0}, {"steps_judged", 100}, {"nonfinite_steps", 0}}}};
    curve.train = {{1, 10, 6, 2}, {96, 1000, 3.1, 1}};
    curve.validation = {{100, 1000, rates[i].second, 1}};
    curve.diverged = std::isnan(rates[i].second);
    results.curves.push_back(curve);
  }
  BOOST_TEST(select_values({"lr"}, results) == std::vector<std::string>{"lr"}, boost::test_tools::per_element());
  BOOST_TEST_REQUIRE(results.selections.size() == 1u);
  BOOST_TEST(results.selections[0].chosen == "3e-3");
  BOOST_TEST(!results.selections[0].at_edge);
  BOOST_TEST(results.selections[0].candidates.size() == 4u);
  BOOST_TEST(results.selections[0].candidates[0].label == "1e-3");  // by number, not by name
  BOOST_TEST(results.curves.size() == 1u);
  BOOST_TEST(results.unselected_curves.size() == 3u);
  for (const LmCell& cell : results.lm) BOOST_TEST(cell.run == 1u);
  BOOST_TEST(!results.runs[0].selected);
  BOOST_TEST(results.runs[1].selected);
  // The label "stable" needs three rates, and a sweep reaches it: none diverged but one at the edge.
  const Section section = section_of("stability", results);
  BOOST_TEST(contains(to_csv(table_of(section, "selections")), "3e-3,3,"), to_csv(table_of(section, "selections")));
  BOOST_TEST(*cell_of(table_of(section, "stability"), 0, "sensitivity").number > 0.05);
  BOOST_TEST(cell_of(table_of(section, "stability"), 0, "label").text == "needs care");
  const Figure& figure = section.figures.at(0);
  BOOST_TEST(figure.id == "learning_rates");
  BOOST_TEST(figure.setting == "100 steps · 1 seed");                // of these trainings, and not of the study
  BOOST_TEST(figure.panels.at(0).series.at(0).points.size() == 3u);  // the one that diverged has none
  results.unselected_curves.pop_back();                              // without the one that diverged
  results.unselected_curves[0].validation[0].loss = 3.01;
  const Section calm = section_of("stability", results);
  BOOST_TEST(cell_of(table_of(calm, "stability"), 0, "label").text == "stable");

  BOOST_TEST(contains(to_csv(table_of(section, "selections")), "yes, on the seeds that are compared"));
  BOOST_TEST(contains(section.findings.at(0), "chosen on the seeds that are compared"), section.findings.at(0));

  // Without validation losses nothing can be chosen, and the rates stay separate models.
  Results blind = perplexities({.encodings = {"rope"}, .seeds = {"1", "2"}});
  for (const char* rate : {"1", "2"}) {
    Curve curve;
    curve.run = {.labels = {{"encoding", "rope"}, {"lr", rate}, {"seed", "1"}}, .encoding = "rope", .seed = "1"};
    blind.curves.push_back(curve);
  }
  BOOST_TEST(select_values({"lr"}, blind).empty());
  BOOST_TEST(blind.curves.size() == 2u);
}

BOOST_AUTO_TEST_CASE(an_encoding_without_a_choice_is_left_out_and_the_others_are_chosen) {
  // alibi diverged at both rates, and no log of t5 was gathered.
  Results results = perplexities({.encodings = {"rope", "alibi", "t5"}, .seeds = {"1", "1"}});
  for (std::size_t run = 0; run < 6; ++run) {
    const std::string rate = run % 2 == 0 ? "1e-3" : "3e-3";
    results.runs[run].labels = {{"encoding", results.runs[run].encoding}, {"lr", rate}, {"seed", "1"}};
    if (run >= 4) continue;
    Curve curve;
    curve.run = {.labels = results.runs[run].labels, .encoding = results.runs[run].encoding, .seed = "1"};
    curve.peak_rate = std::stod(rate);
    curve.train = {{100, 1000, 3, 1}};
    if (run < 2) curve.validation = {{100, 1000, run == 0 ? 3.1 : 3.0, 1}};
    curve.diverged = run >= 2;
    results.curves.push_back(curve);
  }
  BOOST_TEST(select_values({"lr"}, results) == std::vector<std::string>{"lr"}, boost::test_tools::per_element());
  std::vector<bool> selected;
  for (const Run& run : results.runs) selected.push_back(run.selected);
  BOOST_TEST(selected == (std::vector<bool>{false, true, false, false, false, false}),
             boost::test_tools::per_element());
  BOOST_TEST(results.curves.size() == 1u);
  const Section section = section_of("stability", results);
  BOOST_TEST(contains(section.findings.at(0), "no value of 'lr' has a validation loss in every seed: alibi, t5."),
             section.findings.at(0));
  const std::string checks = to_csv(table_of(section_of("checks", results), "checks"));
  BOOST_TEST(contains(checks, "'alibi' has no learning rate with a validation loss in every seed"), checks);
}

BOOST_AUTO_TEST_CASE(scores_at_two_rates_leave_though_one_of_them_alone_has_a_log) {
  Results results = perplexities({.encodings = {"rope", "alibi"}, .seeds = {"1", "1"}});
  for (std::size_t run = 0; run < 4; ++run) {
    results.runs[run].labels = {
        {"encoding", results.runs[run].encoding}, {"lr", run % 2 == 0 ? "1e-3" : "3e-3"}, {"seed", "1"}};
    if (run == 3) continue;
    Curve curve;
    curve.run = {.labels = results.runs[run].labels, .encoding = results.runs[run].encoding, .seed = "1"};
    curve.train = {{100, 1000, 3, 1}};
    if (run < 2) curve.validation = {{100, 1000, run == 0 ? 3.1 : 3.0, 1}};
    results.curves.push_back(curve);
  }
  BOOST_TEST(select_values({"lr"}, results) == std::vector<std::string>{"lr"}, boost::test_tools::per_element());
  std::vector<bool> selected;
  for (const Run& run : results.runs) selected.push_back(run.selected);
  BOOST_TEST(selected == (std::vector<bool>{false, true, false, false}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(seeds_that_choose_are_not_compared) {
  // By seed 1 alone 1e-3 is best, by the others 3e-3.
  const auto make = [] {
    Results results = perplexities({.encodings = {"rope"}, .seeds = {"1", "2", "3", "1", "2", "3"}});
    for (std::size_t run = 0; run < 6; ++run) {
      const std::string rate = run < 3 ? "1e-3" : "3e-3", seed = results.runs[run].seed;
      results.runs[run].labels = {{"encoding", "rope"}, {"lr", rate}, {"seed", seed}};
      Curve curve;
      curve.run = {.labels = results.runs[run].labels, .encoding = "rope", .seed = seed};
      curve.validation = {{100, 1000, (rate == "1e-3") == (seed == "1") ? 3.0 : 3.1, 1}};
      results.curves.push_back(curve);
    }
    return results;
  };
  Results same = make(), own = make(), wrong = make();
  select_values({"lr"}, same);
  BOOST_TEST(same.selections.at(0).chosen == "3e-3");
  select_values({"lr"}, own, {"1"});
  BOOST_TEST(own.selections.at(0).chosen == "1e-3");
  BOOST_TEST(own.selections.at(0).own_seeds);
  BOOST_TEST(own.selections.at(0).candidates.at(0).losses.size() == 1u);
  std::vector<bool> selected;
  for (const Run& run : own.runs) selected.push_back(run.selected);
  BOOST_TEST(selected == (std::vector<bool>{false, true, true, false, false, false}), boost::test_tools::per_element());
  BOOST_TEST(own.curves.size() == 2u);
  BOOST_TEST(contains(section_of("stability", own).findings.at(0), "chosen on seeds that are not compared"));
  BOOST_CHECK_THROW(select_values({"lr"}, wrong, {"9"}), support::ConfigError);
  BOOST_CHECK_THROW(select_values({"lr"}, wrong, {"1", "2", "3"}), support::ConfigError);
}

BOOST_AUTO_TEST_CASE(pilots_choose_for_trainings_without_the_axis) {
  Results results = perplexities({.encodings = {"rope", "alibi"}, .seeds = {"42"}});
  const auto trained = [&](const std::string& encoding, std::string rate, const std::string& seed, double loss) {
    Curve curve;
    curve.run = {.labels = {{"encoding", encoding}, {"seed", seed}}, .encoding = encoding, .seed = seed};
    curve.peak_rate = std::stod(rate);
    if (seed == "7") curve.run.labels["lr"] = std::move(rate);
    curve.train = {{100, 1000, loss, 1}};
    curve.validation = {{100, 1000, loss, 1}};
    results.curves.push_back(curve);
  };
  for (const char* encoding : {"alibi", "rope"}) {
    trained(encoding, "2e-3", "7", 3.2);
    trained(encoding, "4e-3", "7", 3.0);
    trained(encoding, "8e-3", "7", 3.1);
  }
  Results alone = results;
  trained("fire", "8e-3", "7", 2.9);  // no training as yet, so nothing is said of its rates
  trained("alibi", "4e-3", "42", 2.5);
  trained("rope", "4e-3", "42", 2.5);
  Results another = results;
  BOOST_CHECK_THROW(select_values({"lr"}, alone, {"7"}), support::ConfigError);
  another.curves.back().peak_rate = 8e-3;

  select_values({"lr"}, results, {"7"});
  select_values({"lr"}, another, {"7"});
  BOOST_TEST(results.selections.at(0).chosen == "4e-3");
  BOOST_TEST(!results.selections.at(0).at_edge);
  BOOST_TEST_REQUIRE(results.curves.size() == 2u);  // pilots are not compared
  BOOST_TEST(results.curves[0].run.seed == "42");
  BOOST_TEST(results.runs[0].selected);
  const auto rates = [](const Results& of) {
    const Table table = table_of(section_of("checks", of), "checks");
    return cell_of(table, 3, "verdict").text + ": " + cell_of(table, 3, "reason").text;
  };
  BOOST_TEST(contains(rates(results), "pass: three learning rates"), rates(results));
  BOOST_TEST(contains(rates(another), "FAIL: 'rope' was trained at 0.008, and 0.004 had the lowest"), rates(another));
}

BOOST_AUTO_TEST_CASE(levels_hold_the_noise_of_documents_and_of_seeds) {
  // The documents' mean is 3 nats, of which 40 documents with a standard deviation of 0.4 know 0.06.
  int covered = 0, before = 0;
  const int studies = 300;
  for (int study = 0; study < studies; ++study) {
    std::vector<std::string> seeds;
    for (int s = 0; s < 5; ++s) seeds.push_back(std::to_string(1000 * study + s));
    Results results = perplexities({.encodings = {"rope", "alibi"}, .seeds = seeds, .lengths = {128}, .seed_sd = 0.02});
    for (LmCell& cell : results.lm) {  // other documents in every study
      cell.nll = 0;
      for (std::size_t d = 0; d < cell.scores.size(); ++d) {
        cell.scores[d].nll += 100 * (noise({31, static_cast<std::uint64_t>(study), d}, 0.4) - noise({22, d}, 0.4));
        cell.nll += cell.scores[d].nll / 100 / static_cast<double>(cell.scores.size());
      }
    }
    const report::Cell cell = section_of("perplexity", results).tables[0].rows[0].cells.back();
    covered += cell.interval->low <= std::exp(3.0) && std::exp(3.0) <= cell.interval->high;
    std::vector<double> nll;
    for (const std::size_t run : results.arms[0].runs) nll.push_back(results.find_lm(run, "prefix", 128)->nll);
    const auto seeds_alone = statistics::summarise_seeds(nll);
    before += std::abs(seeds_alone.mean - 3) <= seeds_alone.half_width;
  }
  BOOST_TEST(covered >= 0.91 * studies, covered);
  BOOST_TEST(covered <= 0.99 * studies, covered);
  BOOST_TEST(before < 0.6 * studies, before);  // an interval over seeds alone is none for other documents
}

BOOST_AUTO_TEST_CASE(rows_and_names_are_of_models_that_have_the_measure) {
  Results results = perplexities({.encodings = {"rope", "alibi"}});
  for (Run& run : results.runs) run.variant = "scores";
  for (Arm& arm : results.arms) arm.variant = "scores";
  results.variants = {"scores", "entropy"};
  for (const char* encoding : {"rope", "alibi"}) {
    results.arms.push_back({encoding, "entropy", {results.runs.size()}});
    results.runs.push_back({.encoding = encoding, .variant = "entropy", .seed = "1"});
  }
  const Section section = section_of("perplexity", results);
  BOOST_TEST(section.tables[0].rows.size() == 2u);
  BOOST_TEST(table_of(section, "perplexity_seeds").rows.size() == 6u);
  for (const std::string& line : section.lines) BOOST_TEST(!contains(line, "scores"), line);
  for (const std::string& finding : section.findings) BOOST_TEST(!contains(finding, "scores"), finding);
}

BOOST_AUTO_TEST_CASE(a_gain_beyond_training_is_shown_of_models_that_acquired_the_task) {
  Results results = retrieval({0}, 20);
  results.encodings.push_back("alibi");
  results.arms.push_back({"alibi", "", {1}});
  results.runs.push_back({.encoding = "alibi", .seed = "0"});
  for (int i = 0; i < 20; ++i) {
    const std::string item = std::to_string(i);
    // rope learned it; alibi did not, and its loss moves at 256 for other reasons.
    results.trials.push_back({.run = 0,
                              .task = "passkey",
                              .length = 256,
                              .depth = 0.5,
                              .item = item,
                              .digits = 5,
                              .nll = 1,
                              .nll_control = 2});
    results.trials.push_back({.run = 1,
                              .task = "passkey",
                              .length = 128,
                              .depth = 0.5,
                              .item = item,
                              .digits = 5,
                              .nll = 2,
                              .nll_control = 2});
    results.trials.push_back({.run = 1,
                              .task = "passkey",
                              .length = 256,
                              .depth = 0.5,
                              .item = item,
                              .digits = 5,
                              .nll = 2,
                              .nll_control = 14});
  }
  const Section section = section_of("retrieval", results);
  const Table& table = table_of(section, "passkey");
  BOOST_TEST(cell_of(table, 0, "gain_256").number.has_value());
  BOOST_TEST(!cell_of(table, 1, "gain_256").number.has_value());
  BOOST_TEST(contains(cell_of(table, 1, "gain_256").reason, "not acquired"));
  BOOST_TEST(*cell_of(table, 1, "gain_128").number == 0);
  const Figure& figure = section.figures.at(0);
  for (const Series& series : figure.panels.at(0).series)
    BOOST_TEST(series.points.size() == (series.name == "rope" ? 2u : 1u));
  BOOST_TEST(contains(figure.caption, "where they were trained: alibi"), figure.caption);
}

BOOST_AUTO_TEST_CASE(a_decision_has_class_interval_cost_and_seeds) {
  using enum artifact::ColumnType;
  Results results =
      perplexities({.encodings = {"rope", "alibi"}, .protocols = {"anchored"}, .lengths = {128, 256, 512, 1024}});
  for (LmCell& cell : results.lm) {  // rope loses a nat at four times its length
    if (results.runs[cell.run].encoding != "rope" || cell.length < 512) continue;
    for (auto& score : cell.scores) score.nll += 100;
    cell.nll += 1;
  }
  for (std::size_t run = 0; run < results.runs.size(); ++run) {
    const double slow = results.runs[run].encoding == "rope" ? 12 : 10;
    std::vector<std::vector<artifact::Cell>> rows;
    for (const char* component : {"forward", "training_step"})
      rows.push_back({"a CPU", "fp32", "best", 1, 1024, component, 5, slow, slow - 1, slow + 1, 300, "ok"});
    add<schema::Cost>(results, run, rows);
  }
  const Section section = section_of("decision", results);
  const Table& table = table_of(section, "decision");
  BOOST_TEST_REQUIRE(table.rows.size() == 2u);
  BOOST_TEST(cell_of(table, 0, "class").text == "limited");
  BOOST_TEST(*cell_of(table, 0, "usable").number == 256);
  BOOST_TEST(cell_of(table, 0, "usable").interval->high == 256);
  BOOST_TEST(cell_of(table, 1, "class").text == "large (as far as was tested)");
  BOOST_TEST(*cell_of(table, 1, "usable").number == 1024);
  BOOST_TEST(*cell_of(table, 0, "forward").number == 12);
  BOOST_TEST(*cell_of(table, 1, "seeds").number == 3);
  BOOST_TEST_REQUIRE(section.figures.size() == 1u);
  BOOST_TEST_REQUIRE(section.figures[0].panels.size() == 2u);
  const Series& point = section.figures[0].panels[0].series[1];
  BOOST_TEST(point.points.at(0).x == 12);
  BOOST_TEST(point.points[0].low < point.points[0].y);
  // Noise that hides the bound widens the interval, and one length leaves nothing to decide.
  const Section noisy = section_of(
      "decision",
      perplexities({.encodings = {"rope", "alibi"}, .protocols = {"anchored"}, .documents = 10, .rest_sd = 0.5}));
  const report::Cell usable = cell_of(table_of(noisy, "decision"), 0, "usable");
  BOOST_TEST(usable.interval->low == 128);
  BOOST_TEST(usable.interval->high == 512);
  BOOST_TEST(section_of("decision", perplexities({.lengths = {128}})).empty());
  // A length that too few documents reach was not tested. One without positions is a failure of the model.
  const auto class_at_512 = [&](const std::string& status) {
    Results short_texts = perplexities({.protocols = {"anchored"}, .lengths = {128, 256, 512}});
    for (LmCell& cell : short_texts.lm) {
      if (cell.length == 512) cell = {.run = cell.run, .protocol = "anchored", .length = 512, .status = status};
    }
    const Section decided = section_of("decision", short_texts);
    return cell_of(table_of(decided, "decision"), 0, "class").text;
  };
  BOOST_TEST(class_at_512("skipped_docs") == "limited (as far as was tested)");
  BOOST_TEST(class_at_512("na_positions") == "limited");
  BOOST_TEST(class_at_512("overflow") == "limited");
  // One document allows no comparison, so nothing was measured and nothing failed.
  const Section one = section_of("decision", perplexities({.protocols = {"anchored"}, .documents = 1}));
  BOOST_TEST((one.empty() || cell_of(table_of(one, "decision"), 0, "class").text == "not measured"));
}

BOOST_AUTO_TEST_CASE(a_mean_of_windows_has_no_interval_of_the_loss_over_documents) {
  Results results = perplexities({});
  const Arm& arm = results.arms[0];
  BOOST_TEST(level_of(arm_score(results, arm, "prefix", 128)).has_value());
  for (LmCell& cell : results.lm) cell.nll += 0.1;
  BOOST_TEST(!level_of(arm_score(results, arm, "prefix", 128)).has_value());
}

BOOST_AUTO_TEST_CASE(a_report_says_which_differences_it_can_show) {
  const Section three = section_of("power", perplexities({.encodings = {"rope", "a", "b", "c"}, .seed_sd = 0.02}));
  BOOST_TEST_REQUIRE(three.findings.size() == 1u);
  BOOST_TEST(contains(three.findings[0], "3 seeds and 40 documents at 128"), three.findings[0]);
  BOOST_TEST(contains(three.findings[0], "with a power of 80 %"), three.findings[0]);
  const Table& power = table_of(three, "power");
  BOOST_TEST(*cell_of(power, 0, "seeds_10").number < *cell_of(power, 0, "seeds_3").number / 2);
  // A study to come is planned with the upper limit of the seeds' sd, which with three seeds is 2.1 times the
  // shown one.
  BOOST_TEST(*cell_of(power, 0, "shown").number < *cell_of(power, 0, "seeds_3").number);
  BOOST_TEST(*cell_of(power, 0, "seeds_3").number < 2.12 * *cell_of(power, 0, "shown").number);
  const Section one = section_of("power", perplexities({.seeds = {"1"}, .seed_sd = 0.02}));
  BOOST_TEST(contains(one.findings.at(0), "one seed and 40 documents"), one.findings.at(0));
  BOOST_TEST(contains(one.findings[0], "can show no difference"), one.findings[0]);
  BOOST_TEST(cell_of(table_of(one, "power"), 0, "shown").reason == "the noise of training takes three seeds to know");

  // A text or size with much noise says nothing of another one.
  Results both = perplexities({.seed_sd = 0.001});
  const Results noisy = perplexities({.seed_sd = 0.2});
  both.variants = {"quiet", "noisy"};
  for (Arm& arm : both.arms) arm.variant = "quiet";
  for (Arm arm : noisy.arms) {
    arm.variant = "noisy";
    for (std::size_t& run : arm.runs) run += both.runs.size();
    both.arms.push_back(std::move(arm));
  }
  for (LmCell cell : noisy.lm) {
    cell.run += both.runs.size();
    both.lm.push_back(std::move(cell));
  }
  both.runs.insert(both.runs.end(), noisy.runs.begin(), noisy.runs.end());
  const Section variants = section_of("power", both);
  const Table& apart = table_of(variants, "power");
  BOOST_TEST_REQUIRE(apart.rows.size() == 4u);  // two lengths of each
  for (const std::size_t row : {0u, 1u, 2u, 3u}) {
    const bool quiet = cell_of(apart, row, "measure").text == "NLL, prefix, quiet";
    BOOST_TEST((*cell_of(apart, row, "shown").number < 0.02) == quiet, cell_of(apart, row, "measure").text);
  }

  // Of tasks, too: by trials where there are some, by seeds where there are summaries. Answers without any noise say
  // nothing.
  Results trials = retrieval({20, 25, 30}, 50);
  trials.baseline = "none";
  BOOST_TEST(section_of("power", trials).empty());  // nothing to compare with
  Arm none{"none", "", {}};
  for (std::size_t seed = 0; seed < 3; ++seed) {
    none.runs.push_back(trials.runs.size());
    trials.runs.push_back({.encoding = "none", .seed = std::to_string(seed)});
    for (int i = 0; i < 50; ++i) {
      trials.trials.push_back({.run = none.runs.back(),
                               .task = "passkey",
                               .length = 128,
                               .depth = 0.5,
                               .item = std::to_string(i) + " " + std::to_string(0.5),
                               .exact = i % 7 == 0 ? 1.0 : 0.0,
                               .digits = 5,
                               .nll = 1,
                               .nll_control = 2});
    }
  }
  trials.arms.push_back(none);
  // A task that the baseline was not asked has the first encoding in its place, and one that all of a seed answered
  // does not lead.
  Results renamed = trials;
  renamed.baseline = "t5";
  BOOST_TEST(!section_of("power", renamed).empty());
  const Section asked = section_of("power", trials);
  BOOST_TEST(
      contains(asked.findings.at(0), "3 seeds and 50 items at 128 (1×) (exact match, passkey) show differences of "),
      asked.findings.at(0));
  BOOST_TEST(*cell_of(table_of(asked, "power"), 0, "seed_sd").number == 0.1,
             boost::test_tools::tolerance(1e-9));  // 0.4, 0.5, 0.6 less a constant
  for (Trial& trial : trials.trials) trial.exact = 0;
  BOOST_TEST(section_of("power", trials).empty());
}

BOOST_AUTO_TEST_CASE(the_smallest_difference_is_of_a_measure_whose_noise_is_known) {
  Results results = perplexities({.encodings = {"rope", "a"}, .seed_sd = 0.02});
  Results one = perplexities({.encodings = {"rope", "a"}, .seeds = {"1"}, .seed_sd = 0.02});
  results.variants = {"few", "many"};
  for (Arm& arm : results.arms) arm.variant = "many";
  for (Arm arm : one.arms) {
    arm.variant = "few";
    for (std::size_t& run : arm.runs) run += results.runs.size();
    results.arms.push_back(std::move(arm));
  }
  for (LmCell cell : one.lm) {
    cell.run += results.runs.size();
    results.lm.push_back(std::move(cell));
  }
  results.runs.insert(results.runs.end(), one.runs.begin(), one.runs.end());
  const Section section = section_of("power", results);
  BOOST_TEST(cell_of(table_of(section, "power"), 0, "measure").text == "NLL, prefix, few");
  BOOST_TEST(contains(section.findings.at(0), "(NLL, prefix, many)"), section.findings[0]);
}

// One seed of the best mean, and the other arm was better on that seed.
BOOST_AUTO_TEST_CASE(a_lead_that_common_seeds_contradict_is_not_shown) {
  Results results = perplexities({.encodings = {"rope", "alibi"}, .lengths = {128}, .seed_sd = 0.3});
  const auto level = [&](std::size_t run) {
    return std::find_if(results.lm.begin(), results.lm.end(), [&](const LmCell& cell) { return cell.run == run; });
  };
  Arm &rope = results.arms[0], &alibi = results.arms[1];
  for (std::size_t seed = 0; seed < rope.runs.size(); ++seed) {  // alibi: 1, 2, 2; rope: 1.1 in the first seed
    const double of_alibi = seed == 0 ? 1 : 2;
    const auto set = [&](LmCell& cell, double nll) {
      cell.nll = nll;
      for (schema::DocumentScore& score : cell.scores) score.nll = nll * static_cast<double>(score.tokens);
    };
    set(*level(rope.runs[seed]), 1.1);
    set(*level(alibi.runs[seed]), of_alibi);
  }
  rope.runs.resize(1);
  const Section section = section_of("perplexity", results);
  BOOST_TEST(contains(section.findings.at(0), "rope has the lowest perplexity"), section.findings[0]);
  BOOST_TEST(contains(section.findings[0], "(not shown: on the seeds that both have, it is lower)"),
             section.findings[0]);
  BOOST_TEST(contains(section.lines.at(0), "(not shown: on the seeds that both have, it is lower)"), section.lines[0]);
}

BOOST_AUTO_TEST_CASE(equal_encodings_give_findings_in_a_report_as_often_as_the_level_says) {
  // Through the output of a report: the table of differences with its corrected p, bold and sentences of perplexity.
  for (const int seeds : {3, 5, 10}) {
    int found = 0, bold = 0, sentences = 0;
    for (int study = 0; study < 1000; ++study) {
      std::vector<std::string> names;
      for (int s = 0; s < seeds; ++s) names.push_back(std::to_string(1000 * study + s));
      const Results results =
          perplexities({.seeds = names, .lengths = {128}, .documents = 20, .seed_sd = 0.01, .rest_sd = 0.03});
      const Section differences = section_of("differences", results), perplexity = section_of("perplexity", results);
      found += *cell_of(table_of(differences, "differences"), 0, "p_holm").number < 0.05;
      bold += bold_in(perplexity.tables.at(0)) > 0;
      sentences += contains(perplexity.findings.at(0), "(significant");
    }
    BOOST_TEST(found <= 60, seeds << " seeds: " << found << " of 1,000");
    BOOST_TEST(found > 0);
    BOOST_TEST(bold == found, seeds << " seeds: " << bold);
    BOOST_TEST(sentences == found, seeds << " seeds: " << sentences);
  }
}

BOOST_AUTO_TEST_CASE(known_differences_lie_in_a_reports_intervals_as_often_as_it_says) {
  for (const int seeds : {3, 5, 10}) {
    int covered = 0;
    for (int study = 0; study < 1000; ++study) {
      std::vector<std::string> names;
      for (int s = 0; s < seeds; ++s) names.push_back(std::to_string(1000 * study + s));
      const Section section = section_of(
          "differences",
          perplexities(
              {.seeds = names, .lengths = {128}, .documents = 20, .better = 0.03, .seed_sd = 0.02, .rest_sd = 0.03}));
      const Table& table = table_of(section, "differences");
      covered += *cell_of(table, 0, "low").number <= -0.03 && -0.03 <= *cell_of(table, 0, "high").number;
    }
    BOOST_TEST(covered >= 930, seeds << " seeds: " << covered << " of 1,000");
    BOOST_TEST(covered <= 970, seeds << " seeds: " << covered << " of 1,000");
  }
}

BOOST_AUTO_TEST_CASE(two_seeds_are_printed_both_and_bits_per_byte_by_length) {
  Results results = perplexities({.seeds = {"1", "2"}, .seed_sd = 0.05});
  for (LmCell& cell : results.lm) cell.bpb = cell.nll / 3;
  const Section section = section_of("perplexity", results);
  const report::Cell& cell = section.tables[0].rows[0].cells.back();
  BOOST_TEST(!cell.half_width.has_value());  // two values are no sample
  BOOST_TEST(!cell.interval.has_value());
  BOOST_TEST_REQUIRE(cell.parts.size() == 2u);
  BOOST_TEST(cell.parts[0] == std::exp(results.find_lm(0, "prefix", 512)->nll), boost::test_tools::tolerance(1e-12));
  const Table& bits = table_of(section, "bits_per_byte");
  BOOST_TEST(*cell_of(bits, 0, "bpb_512").number ==
                 (results.find_lm(0, "prefix", 512)->nll + results.find_lm(1, "prefix", 512)->nll) / 6,
             boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(captions_say_the_same_documents_only_where_they_are) {
  Results results = perplexities({});
  BOOST_TEST(contains(section_of("perplexity", results).tables[0].caption, ", the same for every model"));
  results.lm.front().scores.front().id = 99;
  const std::string caption = section_of("perplexity", results).tables[0].caption;
  BOOST_TEST(contains(caption, "not the same for every model"), caption);
  Results trials = retrieval({3, 4}, 12);
  BOOST_TEST(contains(table_of(section_of("retrieval", trials), "passkey").caption, ", the same for every model"));
  trials.trials.back().item = "another";
  BOOST_TEST(contains(table_of(section_of("retrieval", trials), "passkey").caption, "not the same for every model"));
}

BOOST_AUTO_TEST_CASE(what_the_config_notes_stands_in_captions) {
  Results results = perplexities({.better = 0.3});
  const char* note = "one learning rate serves all";
  BOOST_TEST(!contains(section_of("perplexity", results).tables[0].caption, note));
  results.notes = {note};
  const Section section = section_of("perplexity", results);
  BOOST_TEST(contains(section.tables[0].caption, note), section.tables[0].caption);
  for (const Figure& figure : section.figures) BOOST_TEST(contains(figure.caption, note), figure.caption);
}

BOOST_AUTO_TEST_CASE(captions_of_perplexity_have_three_sentences) {
  const auto sentences = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = text.find('.'); at != std::string::npos; at = text.find('.', at + 1))
      count += at + 1 == text.size() || text[at + 1] == ' ';
    return count;
  };
  const Section section =
      section_of("perplexity", perplexities({.protocols = {"prefix", "sliding", "anchored"}, .better = 0.3}));
  for (const Figure& figure : section.figures) BOOST_TEST(sentences(figure.caption) <= 3u, figure.caption);
  for (const Table& table : section.tables) BOOST_TEST(sentences(table.caption) <= 3u, table.caption);
  BOOST_TEST(contains(section.tables[0].caption, "; bold: the best"), section.tables[0].caption);
}

BOOST_AUTO_TEST_CASE(cells_and_trials_are_found_by_an_index_that_follows_changes) {
  Results results = perplexities({});
  BOOST_TEST(results.find_lm(0, "prefix", 512) == &results.lm[1]);
  BOOST_TEST((results.find_lm(0, "prefix", 1024) == nullptr));
  results.lm.push_back({.run = 0, .protocol = "prefix", .length = 1024});
  BOOST_TEST(results.find_lm(0, "prefix", 1024) == &results.lm.back());
  const Results trials = retrieval({3, 4}, 12);
  BOOST_TEST(trials.find_trials(1, "passkey", 128).size() == 12u);
  BOOST_TEST(trials.find_trials(1, "passkey", 256).empty());
}

BOOST_AUTO_TEST_SUITE_END()
