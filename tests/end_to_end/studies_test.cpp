// Shipped pipelines that train and measure in one go, at their smallest scale, from config to report.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>

#include "support/files.h"
#include "support/json.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(studies)

BOOST_AUTO_TEST_CASE(the_structured_rows_plan_and_run_to_a_report_with_every_cell) {
  const pe::test::TempFolder folder;
  fs::copy(pe::test::source_root() / "configs", folder / "configs", fs::copy_options::recursive);
  fs::create_directory(folder / "pipelines");
  fs::copy(pe::test::source_root() / "pipelines/dummy.yml", folder / "pipelines/dummy.yml");
  const auto call = [&](std::vector<std::string> words) {
    words.insert(words.begin(), (pe::test::build_root() / "stages/pe-pipeline").string());
    words.insert(words.end(), {"--scale", "quick", "--store", (folder / "store").string()});
    return pe::support::capture(words, "", 64u << 20, folder.path());
  };
  const std::string file = (folder / "pipelines/dummy.yml").string();
  const auto plan = call({"plan", file, "--json"});
  BOOST_REQUIRE_MESSAGE(plan.status.code == 0, plan.out << plan.err);
  // Five encodings over the batch, two bare, six in each of two blocks, and the report.
  BOOST_TEST(pe::Json::parse(plan.out).at("tasks").size() == 5u + 2 + 12 + 1);
  const auto run = call({"run", file, "--durability", "off", "--progress", "plain"});
  BOOST_REQUIRE_MESSAGE(run.status.code == 0, run.out << run.err);
  const std::string page = pe::support::read_file(folder / "reports/dummy/latest/report.html");
  for (const char* cell : {"post_norm_over_batch", "bare_bidirectional", "pre_norm_causal", "post_norm_causal", "sininit", "lrope", "A15_fixed", "not testable"}) {
    BOOST_TEST(page.find(cell) != std::string::npos, cell);
  }
  const auto again = call({"run", file, "--durability", "off", "--progress", "plain"});
  BOOST_TEST(again.status.code == 0);
  BOOST_TEST((again.out + again.err).find("nothing to do") != std::string::npos, again.out << again.err);
  // The claims are part of the report's key.
  pe::support::write_file_atomically(folder / "configs/claims/dummy.yml",
                                     pe::support::read_file(folder / "configs/claims/dummy.yml") + "  # changed\n", false);
  const auto changed = call({"plan", file});
  BOOST_TEST(changed.out.find("1 run") != std::string::npos, changed.out << changed.err);
}

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
                                 (folder / "pipelines/recipes_smoke.yml").string(), "--store", (folder / "store").string(),
                                 "--durability", "off", "--progress", "plain"},
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
