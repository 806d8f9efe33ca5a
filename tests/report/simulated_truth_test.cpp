// Studies whose truth is known, judged as real ones are: false findings, coverage, wrong refutations and power.
// PE_TEST_STUDIES says how many studies of each kind: 20000 is the soak, in which three standard errors of a share are
// 0.5 %. A handful goes the whole way, from artifacts of scores to the files of a report.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "artifact/eval_table.h"
#include "report/claims/claims.h"
#include "report/page/report.h"
#include "report/results/results.h"
#include "schema/language_modelling.h"
#include "statistics/two_level.h"
#include "support/files.h"
#include "support/parse_json.h"
#include "support/process.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "support/text.h"

using namespace pe;
using namespace pe::report;
using namespace pe::statistics;

namespace {

enum class NoiseShape { kNormal, kLognormalItems, kSeedsThatLearnOrNot };

/// One kind of study: the difference of two arms is `effect` plus noise of seeds, documents and both together.
struct Kind {
  const char* name;
  NoiseShape shape = NoiseShape::kNormal;
  std::size_t seeds = 3, documents = 40;
  double seed_sd = 1, document_sd = 1, rest_sd = 1;
  double effect = 0;
};

int studies_of_each_kind(int quick) {
  const char* text = std::getenv("PE_TEST_STUDIES");
  return text ? std::atoi(text) : quick;
}

class Noise {
 public:
  explicit Noise(std::uint64_t seed) : random_(seed) {}
  double uniform() { return random_.uniform(); }
  double normal() { return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(2 * 3.14159265358979323846 * uniform()); }
  /// Mean 0 and standard deviation 1, skewed to the right.
  double lognormal() { return (std::exp(normal()) - std::exp(0.5)) / std::sqrt((std::exp(1.0) - 1) * std::exp(1.0)); }

 private:
  support::Xoshiro random_;
};

/// Losses by document of arms "a0", "a1", … and "b", which every arm's difference is taken from.
Results draw_study(const Kind& kind, int arms, Noise& noise) {
  using enum artifact::ColumnType;
  Results results;
  std::vector<double> base(kind.documents);
  for (double& value : base) value = 50 + 10 * noise.normal();
  std::vector<std::vector<double>> of_document(static_cast<std::size_t>(arms), std::vector<double>(kind.documents));
  for (auto& own : of_document) {
    for (double& value : own)
      value = kind.document_sd * (kind.shape == NoiseShape::kLognormalItems ? noise.lognormal() : noise.normal());
  }
  for (std::size_t seed = 0; seed < kind.seeds; ++seed) {
    for (int arm = -1; arm < arms; ++arm) {
      // One seed in five does not learn: mean 0 and standard deviation `seed_sd` again.
      const double of_seed =
          kind.shape == NoiseShape::kSeedsThatLearnOrNot ? (noise.uniform() < 0.2 ? 2 : -0.5) : noise.normal();
      artifact::Table table("lm_doc",
                            {{"doc_id", kInteger, ""}, {"nll_sum", kReal, "nats"}, {"tokens_scored", kReal, ""}});
      for (std::size_t document = 0; document < kind.documents; ++document) {
        double value = base[document];
        if (arm < 0 && kind.shape == NoiseShape::kSeedsThatLearnOrNot) value += kind.seed_sd * of_seed;
        if (arm >= 0) {
          value += kind.effect + kind.seed_sd * of_seed + of_document[static_cast<std::size_t>(arm)][document] +
                   kind.rest_sd * noise.normal();
        }
        table.add_row({static_cast<std::int64_t>(document), value * 128, 128.0});
      }
      Run run;
      run.encoding = arm < 0 ? "b" : "a" + std::to_string(arm);
      run.seed = std::to_string(seed);
      results.runs.push_back(run);
      if (seed == 0) results.encodings.push_back(run.encoding);
      results.tables["lm_doc"].push_back({results.runs.size() - 1, "simulated", std::move(table)});
    }
  }
  return results;
}

std::vector<ClaimSpec> claims_of(const std::string& tests) {
  const test::TempFolder folder;
  support::write_file_atomically(folder / "claims.yml",
                                 "claims:\n  C1:\n    says: a difference\n    table: lm_doc\n    measure: nll_sum\n    "
                                 "per: tokens_scored\n    tests:\n" +
                                     tests,
                                 false);
  return read_claims(folder / "claims.yml");
}

/// The share of studies for which `counts` is true.
double share_of(const Kind& kind, int studies, const std::string& tests,
                const std::function<bool(const ClaimResult&)>& counts, int arms = 1) {
  const std::vector<ClaimSpec> claims = claims_of(tests);
  Noise noise(kind.seeds * 1000 + kind.documents);
  int counted = 0;
  for (int study = 0; study < studies; ++study) counted += counts(judge(claims, draw_study(kind, arms, noise)).at(0));
  return static_cast<double>(counted) / studies;
}

/// Three standard errors of a share from so many studies.
double slack(double share, int studies) { return 3 * std::sqrt(share * (1 - share) / studies); }

const std::string kAbove = "      - {of: a0, above: b}\n";

std::vector<Kind> kinds(std::size_t seeds) {
  return {{.name = "seeds, documents and rest", .seeds = seeds},
          {.name = "seeds dominate", .seeds = seeds, .seed_sd = 1, .document_sd = 0.5, .rest_sd = 0.5},
          {.name = "documents dominate", .seeds = seeds, .seed_sd = 0.02, .document_sd = 2, .rest_sd = 0.2},
          {.name = "no noise of seeds", .seeds = seeds, .seed_sd = 0, .document_sd = 1, .rest_sd = 1},
          // Seeds vary a little more than the rest: the hardest place for a lower limit of their variance.
          {.name = "little noise of seeds", .seeds = seeds, .seed_sd = 0.22, .document_sd = 0.2, .rest_sd = 1}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(simulated_truth)

BOOST_AUTO_TEST_CASE(without_an_effect_findings_are_rare_and_intervals_cover_it) {
  const int studies = studies_of_each_kind(400);
  for (const std::size_t seeds : {3, 5, 10, 16}) {
    for (const Kind& kind : kinds(seeds)) {
      double found = 0, covered = 0;
      share_of(kind, studies, kAbove, [&](const ClaimResult& result) {
        const Interval interval = result.tests.at(0).interval;
        covered += interval.low <= 0 && interval.high >= 0;
        found += result.verdict == Verdict::kReproduced || result.verdict == Verdict::kRefuted;  // in either direction
        return false;
      });
      BOOST_TEST_MESSAGE(seeds << " seeds, " << kind.name << ": found " << found / studies << ", covered "
                               << covered / studies);
      BOOST_TEST_CONTEXT(seeds << " seeds, " << kind.name) {
        BOOST_TEST(found / studies <= 0.06 + slack(0.05, studies));
        BOOST_TEST(covered / studies >= 0.93 - slack(0.05, studies));
        BOOST_TEST(covered / studies <= 0.97 + slack(0.04, studies));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_true_claim_is_hardly_ever_refuted) {
  const int studies = studies_of_each_kind(200);
  const auto refuted = [](const ClaimResult& result) { return result.verdict == Verdict::kRefuted; };
  for (const std::size_t seeds : {3, 5, 10, 16}) {
    for (Kind kind : kinds(seeds)) {
      kind.effect = 1e-6;  // true, and beyond any detection
      BOOST_TEST_CONTEXT(seeds << " seeds, " << kind.name) {
        const double share = share_of(kind, studies, kAbove, refuted);
        BOOST_TEST_MESSAGE(seeds << " seeds, " << kind.name << ": refuted " << share);
        BOOST_TEST(share <= 0.03 + slack(0.03, studies));
        // Six comparisons that all hold.
        BOOST_TEST(share_of(kind, studies, "      - {of: [a0, a1, a2, a3, a4, a5], above: b}\n", refuted, 6) <=
                   0.03 + slack(0.03, studies));
        // A bound that is met exactly.
        BOOST_TEST(share_of(kind, studies, "      - {of: a0, above: b, margin: -0.000001}\n", refuted) <=
                   0.03 + slack(0.03, studies));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_promised_difference_is_reproduced_in_three_of_four_studies_at_any_number_of_seeds) {
  const int studies = studies_of_each_kind(400);
  for (const std::size_t seeds : {3, 5, 10, 16}) {
    for (Kind kind : kinds(seeds)) {
      const NoiseLevels noise{.seed = std::sqrt(kind.seed_sd * kind.seed_sd +
                                                kind.rest_sd * kind.rest_sd / static_cast<double>(kind.documents)),
                              .item = kind.document_sd};
      kind.effect = detectable_difference(noise, kind.seeds, kind.documents);
      const double share = share_of(kind, studies, kAbove,
                                    [](const ClaimResult& result) { return result.verdict == Verdict::kReproduced; });
      BOOST_TEST_MESSAGE(seeds << " seeds, " << kind.name << ": reproduced " << share);
      BOOST_TEST(share >= 0.75 - slack(0.25, studies), seeds << " seeds, " << kind.name << ": " << share);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_equivalence_is_false_at_its_bound_in_one_study_of_twenty) {
  const int studies = studies_of_each_kind(400);
  const auto reproduced = [](const ClaimResult& result) { return result.verdict == Verdict::kReproduced; };
  for (const std::size_t seeds : {3, 5, 16}) {
    Kind kind{.name = "seeds and documents",
              .seeds = seeds,
              .seed_sd = 0.1,
              .document_sd = 0.1,
              .rest_sd = 0.1,
              .effect = 0.5};
    // The mean of "b" is its documents' mean; the arm is compared with it by two claims, each a side of the bound.
    const std::string inside = "      - {of: a0, above: b, margin: -0.5}\n      - {of: b, above: a0, margin: -0.5}\n";
    const double wrong = share_of(kind, studies, inside, reproduced);
    BOOST_TEST(wrong <= 0.05 + slack(0.05, studies), seeds << " seeds");
    kind.effect = 0;
    const double right = share_of(kind, studies, inside, reproduced);
    BOOST_TEST_MESSAGE(seeds << " seeds: equivalence at its bound " << wrong << ", of equals " << right);
    if (seeds == 16) BOOST_TEST(right >= 0.9);
  }
}

BOOST_AUTO_TEST_CASE(seeds_that_learn_or_do_not_and_skewed_documents_give_few_false_findings) {
  const int studies = studies_of_each_kind(400);
  const auto found = [](const ClaimResult& result) {
    return result.verdict == Verdict::kReproduced || result.verdict == Verdict::kRefuted;
  };
  for (const std::size_t seeds : {5, 16}) {
    const Kind bimodal{.name = "bimodal",
                       .shape = NoiseShape::kSeedsThatLearnOrNot,
                       .seeds = seeds,
                       .seed_sd = 1,
                       .document_sd = 0.5,
                       .rest_sd = 0.5};
    BOOST_TEST(share_of(bimodal, studies, kAbove, found) <= 0.06 + slack(0.05, studies), seeds << " seeds");
  }
  const Kind skewed{.name = "skewed",
                    .shape = NoiseShape::kLognormalItems,
                    .seeds = 5,
                    .documents = 200,
                    .seed_sd = 0.2,
                    .document_sd = 1,
                    .rest_sd = 0.3};
  BOOST_TEST(share_of(skewed, studies, kAbove, found) <= 0.09 + slack(0.07, studies));
}

namespace {

/// Scores of one arm over seeds: the shares of right answers that its trainings would have on all items.
struct Scores {
  const char* name;
  std::function<double(Noise&)> of_seed;
  double median = 0;    ///< of `of_seed`
  double shared = 0.5;  ///< share of items that are easy or hard for every seed alike
};

Results draw_scores(const Scores& scores, std::size_t seeds, std::size_t items, Noise& noise) {
  using enum artifact::ColumnType;
  Results results;
  std::vector<double> of_item(items), is_shared(items);
  for (std::size_t item = 0; item < items; ++item)
    of_item[item] = noise.uniform(), is_shared[item] = noise.uniform() < scores.shared;
  for (std::size_t seed = 0; seed < seeds; ++seed) {
    const double share = scores.of_seed(noise);
    artifact::Table table("lm_doc",
                          {{"doc_id", kInteger, ""}, {"token_correct", kReal, ""}, {"tokens_scored", kReal, ""}});
    for (std::size_t item = 0; item < items; ++item) {
      const double hardness = is_shared[item] ? of_item[item] : noise.uniform();
      table.add_row({static_cast<std::int64_t>(item), hardness < share ? 1.0 : 0.0, 1.0});
    }
    Run run;
    run.encoding = "a0";
    run.seed = std::to_string(seed);
    results.runs.push_back(run);
    results.tables["lm_doc"].push_back({seed, "simulated", std::move(table)});
  }
  results.encodings = {"a0"};
  return results;
}

/// How often the median's interval covers it, and how often a bound just below it is refuted and one just above is
/// reproduced.
struct ScoreRates {
  double covered = 0, refuted = 0, reproduced = 0;
};
ScoreRates score_rates(const Scores& scores, std::size_t seeds, int studies) {
  const auto claims = [&](double bound) {
    return claims_of(support::cat("      - {measure: token_correct, of: a0, at_least: ", bound, "}\n"));
  };
  const auto at = claims(scores.median), above = claims(scores.median + 1e-3);
  Noise noise(seeds);
  ScoreRates rates;
  for (int study = 0; study < studies; ++study) {
    const Results results = draw_scores(scores, seeds, 64, noise);
    const TestResult result = judge(at, results).at(0).tests.at(0);
    BOOST_TEST_REQUIRE(result.is_score);
    rates.covered += std::isnan(result.interval.low) || (result.interval.low <= 0 && result.interval.high >= 0);
    rates.refuted += result.verdict == Verdict::kRefuted;
    rates.reproduced += judge(above, results).at(0).verdict == Verdict::kReproduced;
  }
  return {rates.covered / studies, rates.refuted / studies, rates.reproduced / studies};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_number_that_scores_reach_is_judged_by_their_median) {
  const int studies = studies_of_each_kind(200);
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  const std::vector<Scores> kinds = {
      // Half of the trainings learn: any number between is a median, such as a half.
      {.name = "half learn",
       .of_seed = [](Noise& noise) { return noise.uniform() < 0.5 ? 0.97 : 0.03; },
       .median = 0.5},
      {.name = "four of five learn",
       .of_seed = [](Noise& noise) { return noise.uniform() < 0.8 ? 0.97 : 0.03; },
       .median = 0.97},
      {.name = "all degrees",
       .of_seed = [&](Noise& noise) { return logistic(1.5 + 2 * noise.normal()); },
       .median = logistic(1.5)},
      {.name = "seeds alike, items shared", .of_seed = [](Noise&) { return 0.9; }, .median = 0.9, .shared = 1}};
  for (const std::size_t seeds : {3, 5, 6, 10, 16}) {
    for (const Scores& scores : kinds) {
      const ScoreRates rates = score_rates(scores, seeds, studies);
      BOOST_TEST_MESSAGE(seeds << " seeds, " << scores.name << ": covered " << rates.covered
                               << ", refuted at the bound " << rates.refuted << ", reproduced beyond it "
                               << rates.reproduced);
      BOOST_TEST_CONTEXT(seeds << " seeds, " << scores.name) {
        BOOST_TEST(rates.covered >= 0.9 - slack(0.1, studies));
        BOOST_TEST(rates.refuted <= 0.03 + slack(0.03, studies));
        BOOST_TEST(rates.reproduced <= 0.05 + slack(0.05, studies));
      }
    }
  }
  // Ten seeds of which nineteen in twenty learn show it.
  const auto claims = claims_of("      - {measure: token_correct, of: a0, at_least: 0.5}\n");
  const Scores learn{.name = "", .of_seed = [](Noise& noise) { return noise.uniform() < 0.95 ? 0.97 : 0.03; }};
  Noise noise(1);
  int reproduced = 0;
  for (int study = 0; study < studies; ++study)
    reproduced += judge(claims, draw_scores(learn, 10, 64, noise)).at(0).verdict == Verdict::kReproduced;
  BOOST_TEST(reproduced >= 0.8 * studies);
}

namespace {

/// The same with every loss times `factor`.
artifact::Table scaled(const artifact::Table& table, double factor) {
  artifact::Table made(table.name(), table.columns());
  const auto nll = table.reals("nll_sum"), tokens = table.reals("tokens_scored");
  for (std::size_t row = 0; row < table.rows(); ++row)
    made.add_row({table.integers("doc_id")[row], factor * nll[row], tokens[row]});
  return made;
}

/// The scores of a drawn study as artifacts, an evaluation for each model, and pe-report's result from them.
Json report_of(const std::filesystem::path& folder, Results study, const std::string& claims) {
  artifact::Workspace workspace;
  workspace.progress = &support::silent_progress();
  workspace.outputs["report"] = folder / "report";
  for (GatheredTable& gathered : study.tables.at("lm_doc")) {
    const Run& run = study.runs[gathered.run];
    artifact::Table table = schema::plain_table_of<schema::LmDocument>({});
    const auto nll = gathered.table.reals("nll_sum");
    for (std::size_t document = 0; document < nll.size(); ++document)
      table.add_row({"test", "anchored", 128, 128, static_cast<std::int64_t>(document), 128, 512, nll[document]});
    artifact::Tables tables;
    tables.tables.push_back(std::move(table));
    tables.facts = {{"run_id", run.encoding + run.seed}, {"train_length", 128}};
    const auto path = folder / (run.encoding + "_" + run.seed + ".h5");
    artifact::write_eval_tables(path, {}, tables);
    workspace.inputs["scores"].push_back(
        {path, artifact::Kind::kEvalTable, "", {{"encoding", run.encoding}, {"seed", run.seed}}});
  }
  support::write_file_atomically(folder / "claims.yml", claims, false);
  ReportConfig config;
  config.baseline = "b";
  config.claims = (folder / "claims.yml").string();
  write_report(config, workspace);
  return support::parse_json(support::read_file(folder / "report" / "report.json"));
}

/// The cells of a row by column, of the first row whose first cell has that text.
Json row_of(const Json& report, const std::string& table, const std::string& first) {
  for (const Json& section : report.at("sections")) {
    for (const Json& each : section.at("tables")) {
      if (each.at("id") != table) continue;
      for (const Json& cells : each.at("rows")) {
        if (cells.at(0).value("text", "") != first) continue;
        Json row;
        for (std::size_t i = 0; i < cells.size(); ++i) row[each.at("columns").at(i).value("id", "")] = cells.at(i);
        return row;
      }
    }
  }
  BOOST_FAIL("no row " << first << " in " << table);
  return {};
}

struct HasPlotPrograms {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(support::find_program("gnuplot") &&
                                               support::find_program("rsvg-convert"));
    result.message() << "gnuplot or rsvg-convert is not on the PATH";
    return result;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(reports_of_known_studies_say_the_truth_in_their_files,
                     *boost::unit_test::precondition(HasPlotPrograms{})) {
  const std::string claims =
      "claims:\n"
      "  worse: {says: a0 is worse, table: lm_doc, measure: nll_sum, per: tokens_scored, tests: [{of: a0, above: b}]}\n"
      "  better: {says: a0 is better, table: lm_doc, measure: nll_sum, per: tokens_scored, tests: [{of: b, above: "
      "a0}]}\n";
  Noise noise(2024);
  for (const std::size_t seeds : {2, 3, 5, 16}) {
    for (const double effect : {0.0, 1.0}) {
      const test::TempFolder folder;
      const Kind kind{.name = "small noise",
                      .seeds = seeds,
                      .documents = 40,
                      .seed_sd = 0.05,
                      .document_sd = 0.1,
                      .rest_sd = 0.1,
                      .effect = effect};
      Results study = draw_study(kind, 1, noise);
      for (GatheredTable& gathered : study.tables.at("lm_doc"))
        gathered.table = scaled(gathered.table, 0.06);  // losses of 3 nats
      const Json report = report_of(folder.path(), std::move(study), claims);
      const std::string result = support::read_file(folder / "report" / "result.txt"),
                        page = support::read_file(folder / "report" / "report.html");
      const std::string worse = row_of(report, "verdicts", "worse")["verdict"]["text"],
                        better = row_of(report, "verdicts", "better")["verdict"]["text"];
      const Json difference = row_of(report, "differences", "a0");
      BOOST_TEST_CONTEXT(seeds << " seeds, effect " << effect << ": " << result) {
        if (seeds == 2) {
          BOOST_TEST(worse == "inconclusive");
          BOOST_TEST(result.find("not shown: two seeds") != std::string::npos);
        } else if (effect > 0) {
          BOOST_TEST(worse == "reproduced");
          BOOST_TEST(better == "refuted");
          BOOST_TEST(result.find(" % below a0 (significant)") != std::string::npos);
        } else {
          BOOST_TEST(worse == "inconclusive");
          BOOST_TEST(better == "inconclusive");
          BOOST_TEST(result.find("not significant") != std::string::npos);
        }
        BOOST_TEST(page.find(seeds == 2   ? "not shown: two seeds"
                             : effect > 0 ? "(significant: p"
                                          : "(not significant: p") != std::string::npos);
        if (seeds == 2) continue;  // the interval comes from the documents alone
        BOOST_TEST(difference["low"]["value"].get<double>() <= 0.06 * effect);
        BOOST_TEST(difference["high"]["value"].get<double>() >= 0.06 * effect);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
