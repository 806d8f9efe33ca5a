// The studies of pipelines/ at their smallest scale, from config to report: doc/studies/README.md lists them.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "support/files.h"
#include "support/json.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/yaml.h"

namespace fs = std::filesystem;

namespace {

/// A copy of a study's pipeline and of all configs, and a separate store.
class Study {
 public:
  explicit Study(std::string name) : name_(std::move(name)) {
    fs::copy(pe::test::source_root() / "configs", folder_ / "configs", fs::copy_options::recursive);
    fs::create_directory(folder_ / "pipelines");
    fs::copy(pe::test::source_root() / "pipelines" / (name_ + ".yml"), file());
  }
  fs::path file() const { return folder_ / "pipelines" / (name_ + ".yml"); }
  fs::path path(const std::string& below) const { return folder_ / below; }
  pe::support::CapturedOutput call(const std::string& verb, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {(pe::test::build_root() / "stages/pe-pipeline").string(),
                                      verb,
                                      file().string(),
                                      "--scale",
                                      "smoke",
                                      "--store",
                                      (folder_ / "store").string()};
    words.insert(words.end(), more.begin(), more.end());
    return pe::support::capture(words, "", 64u << 20, folder_.path());
  }
  /// Of words alone: neither file nor store is added.
  pe::support::CapturedOutput plain_call(std::vector<std::string> words) const {
    words.insert(words.begin(), (pe::test::build_root() / "stages/pe-pipeline").string());
    return pe::support::capture(words, "", 64u << 20, folder_.path());
  }
  pe::support::CapturedOutput run() const { return call("run", {"--durability", "off", "--progress", "plain"}); }
  std::string reported(const std::string& member) const {
    return pe::support::read_file(folder_ / "reports" / name_ / "latest" / member);
  }
  /// Ids of the claims that the pipeline names.
  std::vector<std::string> claims() const {
    std::vector<std::string> ids;
    const pe::support::Node pipeline = pe::support::read_yaml(file());
    const pe::support::Node* named = pipeline.find("claims");
    if (!named) return ids;
    const pe::support::Node claims = pe::support::read_yaml(folder_ / named->text);
    for (const auto& claim : claims.find("claims")->members) ids.push_back(claim.key);
    return ids;
  }

 private:
  pe::test::TempFolder folder_;
  std::string name_;
};

/// Every stage runs, every claim gets a verdict (of models this small: any), and a second run has nothing to do.
void runs_to_its_report(const std::string& name, bool tests_claims = true, const std::vector<std::string>& texts = {}) {
  BOOST_TEST_CONTEXT(name) {
    const Study study(name);
    const auto run = study.run();
    BOOST_REQUIRE_MESSAGE(run.status.code == 0, run.out << run.err);
    const pe::Json report = pe::Json::parse(study.reported("report.json"));
    BOOST_TEST(report.at("missing").empty(), report.at("missing").dump());
    BOOST_TEST(study.claims().empty() != tests_claims);
    const std::string verdicts = tests_claims ? study.reported("tables/verdicts.csv") : "";
    for (const std::string& claim : study.claims())
      BOOST_TEST(verdicts.find("\n" + claim + ",") != std::string::npos, claim << " in " << verdicts);
    const std::string page = texts.empty() ? "" : study.reported("report.html");
    for (const std::string& text : texts) BOOST_TEST(page.find(text) != std::string::npos, text);
    const auto again = study.run();
    BOOST_TEST((again.out + again.err).find("nothing to do") != std::string::npos, again.out << again.err);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(studies)

BOOST_AUTO_TEST_CASE(the_structured_rows_plan_and_run_to_a_report_with_every_cell) {
  const Study study("dummy");
  const auto plan = study.call("plan", {"--json"});
  BOOST_REQUIRE_MESSAGE(plan.status.code == 0, plan.out << plan.err);
  // Five encodings over the batch, two bare, six in each of two blocks, six on hard rows of two forms, and the report.
  BOOST_TEST(pe::Json::parse(plan.out).at("tasks").size() == 5u + 2 + 12 + 12 + 1);
  const auto run = study.run();
  BOOST_REQUIRE_MESSAGE(run.status.code == 0, run.out << run.err);
  const std::string page = study.reported("report.html");
  for (const char* cell : {"post_norm_over_batch", "bare_bidirectional", "pre_norm_causal", "post_norm_causal",
                           "sininit", "lrope", "hard_echo", "A15_fixed", "A15_learned", "not testable"}) {
    BOOST_TEST(page.find(cell) != std::string::npos, cell);
  }
  const auto again = study.run();
  BOOST_TEST(again.status.code == 0);
  BOOST_TEST((again.out + again.err).find("nothing to do") != std::string::npos, again.out << again.err);
  // The claims are part of the report's key.
  std::string claims = pe::support::read_file(study.path("configs/claims/dummy.yml"));
  claims.insert(claims.find("says: \"") + 7, "Changed: ");
  pe::support::write_file_atomically(study.path("configs/claims/dummy.yml"), claims, false);
  const auto changed = study.call("plan");
  BOOST_TEST(changed.out.find("1 run") != std::string::npos, changed.out << changed.err);
  // Its numbers are the same; additional parts of the new report are listed in words.
  fs::rename(study.path("reports/dummy"), study.path("before"));
  const auto made = study.run();
  BOOST_REQUIRE_MESSAGE(made.status.code == 0, made.out << made.err);
  const auto diff =
      study.plain_call({"diff", study.path("before/latest").string(), study.path("reports/dummy/latest").string()});
  BOOST_TEST(diff.status.code == 1);
  BOOST_TEST(diff.out.find("none changed beyond noise, 0 within, 0 without") != std::string::npos,
             diff.out << diff.err);
  BOOST_TEST(diff.out.find("-> Changed: ") != std::string::npos, diff.out);
}

BOOST_AUTO_TEST_CASE(published_claims_about_language_models_get_their_verdicts) { runs_to_its_report("claims_tier_b"); }

BOOST_AUTO_TEST_CASE(the_first_thousand_steps_on_stories_are_compared) {
  runs_to_its_report(
      "tinystories_ape_rope_alibi", true,
      {"Texts that the models wrote", "One text of each model, of its first seed, for 3 of 3 prompts; all 15 are in"});
}

BOOST_AUTO_TEST_CASE(rankings_by_protocol_are_compared) { runs_to_its_report("protocol_ranking"); }

BOOST_AUTO_TEST_CASE(distances_and_keys_are_parted) { runs_to_its_report("distances_or_keys"); }

BOOST_AUTO_TEST_CASE(texts_rank_encodings) { runs_to_its_report("text_ranking"); }

BOOST_AUTO_TEST_CASE(the_use_of_context_is_measured) { runs_to_its_report("context_used"); }

BOOST_AUTO_TEST_CASE(windows_of_alibis_source_are_measured) { runs_to_its_report("alibi_curve"); }

BOOST_AUTO_TEST_CASE(the_atlas_runs_at_its_smallest_scale) { runs_to_its_report("atlas"); }

BOOST_AUTO_TEST_CASE(the_noise_of_seeds_is_measured) { runs_to_its_report("how_many_seeds"); }

BOOST_AUTO_TEST_CASE(encodings_are_dropped_beside_their_controls) {
  runs_to_its_report("scaffold_nope_rope_yarn_pope");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(studies_of_many_models)

BOOST_AUTO_TEST_CASE(drops_are_compared_by_the_steps_left) { runs_to_its_report("steps_left"); }

BOOST_AUTO_TEST_CASE(known_results_get_their_verdicts) { runs_to_its_report("known_results"); }

BOOST_AUTO_TEST_CASE(published_claims_about_small_tasks_get_their_verdicts) { runs_to_its_report("claims_tier_a"); }

BOOST_AUTO_TEST_CASE(the_exploration_gives_a_verdict_on_every_reason) { runs_to_its_report("exploration"); }

BOOST_AUTO_TEST_CASE(the_guides_thirteen_are_trained_and_tuned) { runs_to_its_report("guide_thirteen"); }

BOOST_AUTO_TEST_CASE(the_full_grid_runs_at_its_smallest_scale) { runs_to_its_report("fineweb_grid", false); }

BOOST_AUTO_TEST_SUITE_END()

// A hundred and more trainings: minutes, so only where they are asked for by name.
BOOST_AUTO_TEST_SUITE(recipes, *boost::unit_test::disabled())

BOOST_AUTO_TEST_CASE(every_recipe_runs_to_one_report) {
  const pe::test::TempFolder folder;
  fs::copy(pe::test::source_root() / "configs", folder / "configs", fs::copy_options::recursive);
  fs::create_directory(folder / "pipelines");
  fs::copy(pe::test::source_root() / "pipelines/recipes_smoke.yml", folder / "pipelines/recipes_smoke.yml");
  const auto run = [&] {
    return pe::support::capture({(pe::test::build_root() / "stages/pe-pipeline").string(), "run",
                                 (folder / "pipelines/recipes_smoke.yml").string(), "--store",
                                 (folder / "store").string(), "--durability", "off", "--progress", "plain"},
                                "", 64u << 20, folder.path());
  };
  const auto first = run();
  BOOST_REQUIRE_MESSAGE(first.status.code == 0, first.out << first.err);
  const pe::Json report = pe::Json::parse(pe::support::read_file(folder / "reports/recipes_smoke/latest/report.json"));
  BOOST_TEST(report.dump().find("two_ranks") != std::string::npos);
  const auto again = run();
  BOOST_TEST((again.out + again.err).find("nothing to do") != std::string::npos, again.out << again.err);
}

BOOST_AUTO_TEST_SUITE_END()
