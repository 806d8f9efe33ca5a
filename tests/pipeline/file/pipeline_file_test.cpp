// The shape of pipeline files: accepted forms, and the message of each mistake.
#include "pipeline/file/pipeline_file.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "pipeline/grid_fixture.h"
#include "support/error.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

namespace {

std::string refusal(const std::string& text) {
  try {
    parse_pipeline_file(text, "a.yml", "/");
  } catch (const support::ConfigError& error) {
    BOOST_TEST(error.exit_code() == 2);
    return error.what();
  }
  return {};
}

void check(const std::string& text, const std::string& expected) {
  const std::string message = refusal(text);
  BOOST_TEST(message.find(expected) != std::string::npos, "expected:\n" << expected << "\nfound:\n" << message);
}

const std::string kHead = "schema: pe-pipeline/1\nname: a\n";
const std::string kStages = "stages:\n  fetch: {run: pe-fetch}\n";

std::string reference_error(const std::string& text) {
  support::Diagnostics diagnostics;
  BOOST_TEST(!parse_reference(text, {}, diagnostics).has_value());
  return diagnostics.empty() ? "" : diagnostics.items().front().message;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pipeline_file)

BOOST_AUTO_TEST_CASE(the_grid_reads_whole) {
  const PipelineFile file = parse_pipeline_file(test::kGrid, "grid.yml", "/root");
  BOOST_TEST(file.name == "fineweb_grid");
  BOOST_TEST(file.stages.size() == 7u);
  BOOST_TEST(file.axes.size() == 3u);
  BOOST_TEST(file.axes[2].values[1].label == "43");
  BOOST_TEST(file.find_stage("decay")->axes[0].values[2].value.text == "1.00");
  BOOST_TEST(file.find_stage("report")->gather[1].references.size() == 3u);
  BOOST_TEST(file.find_stage("report")->allow_partial);
  BOOST_TEST(file.find_stage("trunk")->snapshots[4].first == "d15");
}

BOOST_AUTO_TEST_CASE(a_message_has_line_caret_and_a_way_out) {
  BOOST_TEST(refusal(kHead + "stages:\n  fetch: {rum: pe-fetch}\n") ==
             "a.yml:4:11: unknown key 'rum' in stage 'fetch'\n"
             "    4 |   fetch: {rum: pe-fetch}\n"
             "      |           ^^^ did you mean 'run'?\n"
             "  while reading stage 'fetch' (a.yml:4:3)\n"
             "a.yml:4:3: stage 'fetch' lacks 'run'\n"
             "    4 |   fetch: {rum: pe-fetch}\n"
             "      |   ^^^^^ `run: pe-train` names the program of the stage\n"
             "  while reading stage 'fetch' (a.yml:4:3)");
}

BOOST_AUTO_TEST_CASE(mistakes_of_the_top_level_are_told) {
  check(kStages, "the file lacks 'schema'");
  check(kStages, "the file lacks 'name'");
  check(kHead, "the file lacks 'stages'");
  check("schema: pe-pipeline/2\nname: a\n" + kStages,
        "a.yml:1:9: this pe-pipeline does not know schema 'pe-pipeline/2'");
  check("schema: something\nname: a\n" + kStages, "this is not a pipeline file: schema 'something'");
  check("schema: pe-pipeline/1\nname: A b\n" + kStages, "a.yml:2:7: name 'A b' does not match [a-z0-9_-]+");
  check("schema: pe-pipeline/1\nname: golden\n" + kStages, "a pipeline cannot be called 'golden'");
  check(kHead + "axis: {}\n" + kStages, "did you mean 'axes'?");
  check(kHead + "name: b\n" + kStages, "a.yml:3:1: ");
  check(kHead + "stages: []\n", "expected a map for 'stages', found a list");
  check(kHead + "stages: {}\n", "'stages' is empty");
  check(kHead + "slurm: gpu\n" + kStages, "expected a map for 'slurm'");
  check(kHead + "defaults: {numerics: exakt}\n" + kStages, "unknown value 'exakt' of 'numerics'");
  check("- a\n", "expected a map with `schema: pe-pipeline/1`, found a list");
}

BOOST_AUTO_TEST_CASE(mistakes_of_axes_vars_and_scales_are_told) {
  check(kHead + "axes: {Seed: [1]}\n" + kStages, "name of axis 'Seed' does not match [a-z][a-z0-9_]*");
  check(kHead + "axes: {from: [1]}\n" + kStages, "an axis cannot be called 'from'");
  check(kHead + "axes: {seed: []}\n" + kStages, "axis 'seed' has no values");
  check(kHead + "axes: {seed: 4}\n" + kStages,
        "expected a list of labels or a map label -> value for axis 'seed', found '4'");
  check(kHead + "axes: {seed: [1, 1]}\n" + kStages, "label '1' occurs twice in axis 'seed'");
  check(kHead + "axes: {lr: [2e-3, 0.002]}\n" + kStages, "'0.002' and '2e-3' of axis 'lr' are one number");
  check(kHead + "axes: {seed: [a b]}\n" + kStages, "give it a label: `seed: {label: value}`");
  check(kHead + "axes: {seed: [{a: 1}]}\n" + kStages, "a list holds scalars");
  check(kHead + "axes: {a: [1]}\nvars: {a: 1}\n" + kStages, "'a' is an axis and a var");
  check(kHead + "vars: {A: 1}\n" + kStages, "name of var 'A' does not match [a-z][a-z0-9_]*");
  check(kHead + "scales: {a: {default: true}, b: {default: true}}\n" + kStages,
        "two scales are marked `default: true`");
  check(kHead + "scales: {a: {var: {}}}\n" + kStages, "did you mean 'vars'?");
}

BOOST_AUTO_TEST_CASE(mistakes_of_sequential_seeds_are_told) {
  const auto file = [](const std::string& members) {
    return kHead + "axes: {seed: [1, 2, 3, 4, 5]}\nsequential: {" + members + "}\n" + kStages;
  };
  const PipelineFile good =
      parse_pipeline_file(file("axis: seed, claim: A1, from: 4, most: 5, alpha: 0.1"), "a.yml", "/");
  BOOST_REQUIRE(good.sequential.has_value());
  BOOST_TEST(good.sequential->from == 4);
  BOOST_TEST(good.sequential->most == 5);
  BOOST_TEST(good.sequential->alpha == 0.1);
  check(file("axis: seed, most: 5"), "'sequential' lacks 'claim'");
  check(file("axis: seed, claim: A1"), "'sequential' lacks 'most'");
  check(file("axis: seed, claim: A1, from: 2, most: 5"), "'from' must be an integer from 3, found '2'");
  check(file("axis: seed, claim: A1, from: 5, most: 4"), "'sequential.from' is 5, above 'most', 4");
  check(file("axis: seed, claim: A1, most: 5, alpha: 0.7"), "expected at most 0.5 as 'sequential.alpha', found 0.7");
  check(file("axis: seed, claim: A1, most: 5, alpha: 0"), "'alpha' must be a number from 1e-06, found '0'");
  check(file("axis: seed, claims: A1, most: 5"), "did you mean 'claim'?");
  check(kHead + "sequential: [seed]\n" + kStages, "expected a map for 'sequential', found a list");
}

BOOST_AUTO_TEST_CASE(mistakes_of_stages_are_told) {
  const auto stage = [](const std::string& rest) { return kHead + "stages:\n  a: {run: pe-a, " + rest + "}\n"; };
  check(kHead + "stages: {A: {run: x}}\n", "stage label 'A' does not match [a-z][a-z0-9_]*");
  check(kHead + "stages: {vars: {run: x}}\n", "a stage cannot be called 'vars'");
  check(kHead + "stages: {a: 3}\n", "expected a map for stage 'a', found '3'");
  check(stage("over: [b, b]"), "axis 'b' is listed twice in 'over'");
  check(stage("needs: {x: [b, c]}"), "expected one reference for role 'x', found a list");
  check(stage("needs: {x: [b, c]}"), "`gather` takes several artifacts");
  check(stage("each: {x: b, y: c}"), "'each' of stage 'a' has 2 roles; it takes one");
  check(stage("config: {sets: {}}"), "did you mean 'set'?");
  check(stage("config: {lr: 3}"), "values of the stage go under `set`");
  check(stage("exclude: {a: b}"), "expected a list of maps axis -> label for 'exclude', found a map");
  check(stage("exclude: [{}]"), "an empty entry of 'exclude' would match everything");
  check(stage("snapshots: {}"), "'snapshots' is empty");
  for (const char* label : {"a b", ".", "..", "-x", "+1"})
    check(stage(support::cat("snapshots: {'", label, "': 1}")),
          support::cat("snapshot label '", label, "' does not match"));
  check(stage("budgets: 1/4"), "expected a list of shares of the horizon for 'budgets', found '1/4'");
  check(stage("budgets: []"), "write [1/8, 1/4, 1/2, 1], or {ends: [0.25, 1], share: 0.1}");
  check(stage("budgets: [1/4, 5/4]"), "expected a share of the horizon above 0, at most 1, as a budget, found '5/4'");
  check(stage("budgets: [1/0]"), "as a budget, found '1/0'");
  check(stage("budgets: [1/4, 0.25]"), "budget 'b25' is listed twice");
  check(stage("budgets: {end: [1]}"), "did you mean 'ends'?");
  check(stage("budgets: {ends: [1], share: 1}"),
        "expected a fraction between 0 and 1 as the share of a budget that decays, found '1'");
  check(stage("budgets: [1]"), "stage 'a' has budgets, but needs no 'init'");
  check(stage("budgets: [1], needs: {init: b@half}"), "names a snapshot, and so do its budgets");
  check(kHead + "stages:\n  b: {run: pe-b, snapshots: {b100: 0.9}}\n  a: {run: pe-a, budgets: [1], needs: {init: b}}\n",
        "snapshot 'b100' of stage 'b' is at 0.9, but the budgets of stage 'a' need it at 0.8");
  check(stage("allow_partial: yes"), "expected true or false for 'allow_partial'");
  check(stage("checkpoint: 3"), "expected a map for 'checkpoint'");
}

BOOST_AUTO_TEST_CASE(brackets_inside_braces_must_be_quoted_and_the_error_says_so) {
  check(kHead + "stages:\n  a: {run: pe-a, needs: {x: trunk[seed=42]}}\n",
        "inside { } or [ ] a reference with brackets is quoted: 'trunk[seed=42]'");
}

BOOST_AUTO_TEST_CASE(references_are_read_part_by_part) {
  support::Diagnostics diagnostics;
  const auto reference = parse_reference("trunk.metrics@d15[seed=42, size=tiny]", {}, diagnostics);
  BOOST_REQUIRE(reference.has_value());
  BOOST_TEST(reference->stage == "trunk");
  BOOST_TEST(reference->output == "metrics");
  BOOST_TEST(reference->snapshot == "d15");
  BOOST_REQUIRE(reference->pins.size() == 2u);
  BOOST_TEST(reference->pins[1].first == "size");
  BOOST_TEST(reference->pins[1].second == "tiny");
  BOOST_TEST(reference_error("") == "reference '': it names no stage");
  BOOST_TEST(reference_error("a.") == "reference 'a.': no output after '.'");
  BOOST_TEST(reference_error("a@[x=1]") == "reference 'a@[x=1]': no snapshot after '@'");
  BOOST_TEST(reference_error("a[x=1") == "reference 'a[x=1': ']' is missing at the end");
  BOOST_TEST(reference_error("a[x]") == "reference 'a[x]': 'x' is not of the form axis=label");
  BOOST_TEST(reference_error("a[]") == "reference 'a[]': '' is not of the form axis=label");
}

BOOST_AUTO_TEST_CASE(the_root_is_the_nearest_folder_with_configs) {
  const test::GridFolder folder;
  folder.write("pipelines/deep/er/a.yml", "");
  BOOST_TEST(find_root(folder.path("pipelines/deep/er/a.yml")) == folder.root());
  const test::TempFolder other;
  BOOST_TEST(find_root(other / "b.yml") == other.path());
}

namespace {

/// The variable has this value until the end.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_home_is_no_root_and_no_project_reaches_beyond_its_version_control) {
  const test::TempFolder home;
  const Variable variable("HOME", home.path().string());
  for (const char* folder : {"configs", "work/deep", "repository/.git", "repository/grids", "project/configs",
                             "project/.git", "project/grids"})
    std::filesystem::create_directories(home / folder);
  BOOST_TEST(find_root(home / "work/deep/a.yml") == home / "work/deep");
  BOOST_TEST(find_root(home / "repository/grids/a.yml") == home / "repository/grids");
  BOOST_TEST(find_root(home / "project/grids/a.yml") == home / "project");
  BOOST_TEST(find_root(home / "a.yml") == home.path());  // who works in the home itself means it
}

BOOST_AUTO_TEST_CASE(a_store_is_found_from_a_folder_of_its_project) {
  const test::TempFolder home;
  const Variable variable("HOME", home.path().string());
  for (const char* folder : {"store", "project/store", "project/pipelines/old", "elsewhere"})
    std::filesystem::create_directories(home / folder);
  support::write_file_atomically(home / "store/VERSION", "1\n", false);
  support::write_file_atomically(home / "project/store/VERSION", "1\n", false);
  BOOST_TEST(find_root_of_store(home / "project/pipelines/old") == home / "project");
  BOOST_TEST(find_root_of_store(home / "project") == home / "project");
  BOOST_TEST(find_root_of_store(home / "elsewhere") == home / "elsewhere");
}

// Reading was quadratic in the keys of a map and the labels of an axis, and each mistake was reported.
BOOST_AUTO_TEST_CASE(a_hundred_thousand_labels_and_unknown_keys_are_read_in_time_and_told_within_bounds) {
  const auto began = std::chrono::steady_clock::now();
  std::string labels, unknown;
  for (int i = 0; i < 100'000; ++i) {
    labels += support::cat(i ? ", " : "", "l", i);
    unknown += support::cat("unknown_", i, ": 1\n");
  }
  const std::string begin = "schema: pe-pipeline/1\nname: a\naxes: {a: [";
  const PipelineFile file = parse_pipeline_file(begin + labels + "]}\nstages: {one: {run: pe-toy}}\n", "a.yml", "/");
  BOOST_TEST(file.axes.at(0).values.size() == 100'000u);
  try {
    parse_pipeline_file("schema: pe-pipeline/1\nname: a\nstages: {one: {run: pe-toy}}\n" + unknown, "a.yml", "/");
    BOOST_TEST(false);
  } catch (const support::ConfigError& error) {
    BOOST_TEST(error.diagnostics().size() == 101u);
    BOOST_TEST(error.diagnostics().back().message == "these are the first 100 mistakes; there may be more");
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  BOOST_TEST(took.count() < 60);  // a second or two on an idle machine; minutes before
}

BOOST_AUTO_TEST_CASE(a_missing_file_names_the_nearest) {
  const test::GridFolder folder;
  folder.write("pipelines/smoke.yml", "");
  try {
    read_pipeline_file(folder.path("pipelines/smok.yml"));
    BOOST_TEST(false);
  } catch (const support::ConfigError& error) {
    BOOST_TEST(std::string(error.what()).find("smoke.yml'?") != std::string::npos, error.what());
  }
}

BOOST_AUTO_TEST_SUITE_END()
