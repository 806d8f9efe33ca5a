// Explanations down to the field, input, version or file that differs.
#include "pipeline/plan/explain.h"

#include <boost/test/unit_test.hpp>

#include "pipeline/file/selection.h"
#include "pipeline/grid_fixture.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::FakeStore;
using pe::test::few;
using pe::test::GridFolder;
using pe::test::kGrid;

namespace {

std::vector<std::string> lines(const Graph& graph, const StoreView& store, const PlanOptions& options = {}) {
  std::vector<std::string> found;
  const Plan plan = make_plan(graph, store, options);
  for (const CauseGroup& group : group_causes(graph, plan, store)) {
    std::vector<std::string> causes;
    for (const Cause& cause : group.causes) causes.push_back(cause.str());
    found.push_back(std::to_string(group.tasks.size()) + " " + group.stage + ": " + support::join(causes, "; "));
  }
  return found;
}

using Lines = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(explain)

BOOST_AUTO_TEST_CASE(what_never_ran_is_new_and_the_rest_follows) {
  const Graph graph = GridFolder().keyed(kGrid, few());
  const Lines found = lines(graph, FakeStore());
  BOOST_TEST(found.size() == 8u);
  BOOST_TEST(found.front() == "18 evaluate: follows tokenize, decay");
  BOOST_TEST(found.back() == "1 report: follows evaluate, trunk, decay, droppe");
  BOOST_TEST((std::find(found.begin(), found.end(), "1 fetch: no result yet") != found.end()));
}

BOOST_AUTO_TEST_CASE(a_changed_field_is_named_with_both_values_and_its_line) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, few()));
  folder.write("configs/train.yml", "train:\n  batch: 512\n  length: 1024\n  lr: 1e-3\n");
  const Graph graph = folder.keyed(kGrid, few());
  const Plan plan = make_plan(graph, store);
  const auto groups = group_causes(graph, plan, store);
  const auto trunk =
      std::find_if(groups.begin(), groups.end(), [](const CauseGroup& group) { return group.stage == "trunk"; });
  BOOST_REQUIRE((trunk != groups.end()));
  BOOST_REQUIRE(trunk->causes.size() == 1u);
  const Cause& cause = trunk->causes.front();
  BOOST_TEST(cause.str() == "train.lr 0.003 -> 0.001");
  BOOST_TEST(trunk->tasks.size() == 2u);
  BOOST_TEST(cause.place.line == 4);
  BOOST_TEST(cause.place.file.find("configs/train.yml") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(several_causes_stand_side_by_side) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, few()));
  const Lines found =
      lines(folder.keyed(kGrid, few({"report.style=fancy", "evaluate.eval.context=[1024, 2048]"})), store);
  BOOST_TEST(found == (Lines{"24 evaluate: eval.context [1024, 2048, 4096, 8192, 16384] -> [1024, 2048]",
                             "1 report: style plain -> fancy"}));
}

BOOST_AUTO_TEST_CASE(a_stage_with_another_name_is_compared_with_the_one_it_was) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, few()));
  std::string renamed = kGrid;
  for (std::size_t at = 0; (at = renamed.find("droppe", at)) != std::string::npos; at += 7)
    renamed.replace(at, 6, "without");
  const std::string file = "configs/without.yml";
  renamed.replace(renamed.find(file), file.size(), "configs/droppe.yml");
  // The name alone is in no key.
  for (const std::string& line : lines(folder.keyed(renamed, few()), store)) {
    BOOST_TEST(line.find("without:") == std::string::npos, line);
  }
  const Lines found = lines(folder.keyed(renamed, few({"without.drop.end=0.5"})), store);
  const auto line = std::find_if(found.begin(), found.end(),
                                 [](const std::string& one) { return one.find("without:") != std::string::npos; });
  BOOST_REQUIRE((line != found.end()));
  BOOST_TEST(line->find("without: no result by this name yet; compared with droppe; drop.end ") != std::string::npos,
             *line);
  BOOST_TEST(line->find(" -> 0.5") != std::string::npos, *line);
}

// Pipelines share a store, and names of stages too: a difference between two of them is not a change by a user.
BOOST_AUTO_TEST_CASE(a_pipeline_is_compared_with_itself_where_it_can_be) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, few()));
  std::string other = kGrid;
  other.replace(other.find("fineweb_grid"), 12, "another_grid");
  const Graph graph = folder.keyed(other, few({"report.style=fancy"}));
  BOOST_TEST(
      lines(graph, store) ==
      (Lines{"1 report: no result of this pipeline yet; compared with pipeline fineweb_grid; style plain -> fancy"}));
  store.run(graph);  // newer
  BOOST_TEST(lines(folder.keyed(kGrid, few({"report.style=bold"})), store) == (Lines{"1 report: style plain -> bold"}));
}

BOOST_AUTO_TEST_CASE(a_raised_result_version_or_revision_is_named_as_a_part_of_the_program) {
  const auto after = [](const auto& change) {
    FakeStore store;
    Graph graph = GridFolder().keyed(kGrid, few());
    store.run(graph);
    StageDescription raised = *graph.tasks.back().stage;
    change(raised);
    graph.tasks.back().stage = std::make_shared<StageDescription>(raised);
    compute_plan_keys(graph);
    return lines(graph, store);
  };
  BOOST_TEST(after([](StageDescription& stage) { stage.version = 5; }) ==
             (Lines{"1 report: result version of pe-report 4 -> 5"}));
  BOOST_TEST(after([](StageDescription& stage) {
               stage.revisions = {{"report.rounding", {{"style", "plain"}}, 2}};
             }) == (Lines{"1 report: revision report.rounding of pe-report unset -> 2"}));
}

BOOST_AUTO_TEST_CASE(labels_of_inputs_that_are_gone_or_new_are_named) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, few()));
  ExpandOptions other = few();
  other.axis[0] = "encoding=none,alibi";
  const Graph graph = folder.keyed(kGrid, other);
  const Explanation why = explain_all(graph, make_plan(graph, store), store, {graph.tasks.size() - 1})[0];
  const auto named =
      std::ranges::find_if(why.causes, [](const Cause& cause) { return cause.what.starts_with("labels"); });
  BOOST_TEST_REQUIRE((named != why.causes.end()));
  BOOST_TEST(named->what.find(" gone, ") != std::string::npos, named->what);
  BOOST_TEST(named->what.find("encoding=alibi") != std::string::npos, named->what);
}

BOOST_AUTO_TEST_CASE(another_schedule_is_named_without_the_horizon_that_it_frees) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, few()));
  const Lines found = lines(folder.keyed(kGrid, few({"trunk.train.schedule=cosine"})), store);
  BOOST_TEST((std::find(found.begin(), found.end(), "2 trunk: train.schedule wsd -> cosine") != found.end()));
}

BOOST_AUTO_TEST_CASE(changed_input_files_are_named) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, few()));
  folder.write("data/fineweb-edu/a.txt", "Once there was another text.\n");
  folder.write("data/fineweb-edu/c.txt", "More.\n");
  const Graph graph = folder.keyed(kGrid, few());
  const Explanation why = explain_all(graph, make_plan(graph, store), store, {0}).front();
  BOOST_REQUIRE(why.causes.size() == 1u);
  BOOST_TEST(why.causes[0].str() == "files of path (1 changed, 1 new, 0 gone; such as a.txt)");
}

BOOST_AUTO_TEST_CASE(a_changed_input_content_is_named_with_both_digests) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, few()));
  const Graph graph = folder.keyed(kGrid, few({"tokenize.vocabulary=1000"}));
  store.run(graph, {select(graph, {"tokenize"}), false});
  const Plan plan = make_plan(graph, store);
  const Explanation why =
      explain_all(graph, plan, store, {test::index_of(graph, "trunk[encoding=rope,size=tiny,seed=42]")}).front();
  BOOST_REQUIRE(why.causes.size() == 1u);
  BOOST_TEST(why.causes[0].what == "content of input data");
  BOOST_TEST(why.causes[0].before.size() == 12u);
  BOOST_TEST(why.causes[0].before != why.causes[0].after);
}

BOOST_AUTO_TEST_CASE(records_that_hold_odd_values_are_compared_as_far_as_they_can_be) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid, few());
  for (const char* text : {R"([{"digest": 5}])", R"([5])", R"({"digest": "x"})", R"("x")", "7",
                           R"([["a.txt", 5], 5, [[]]])", R"([[5, "x"]])"}) {
    const auto odd = [&](const Json& document) {
      Json changed = document;
      for (Json& value : changed) value = Json::parse(text);
      const auto bytes = Json::to_cbor(changed);
      return std::make_shared<const std::string>(bytes.begin(), bytes.end());
    };
    FakeStore store;
    store.run(graph);
    std::vector<std::shared_ptr<const std::string>> kept;
    for (auto& [stage, tasks] : store.past) {
      for (PastTask& task : tasks) {
        task.key.key = std::string(64, '0');  // of another day
        for (std::string_view* part : {&task.inputs, &task.externals}) {
          if (part->empty()) continue;
          kept.push_back(odd(Json::from_cbor(part->begin(), part->end())));
          *part = *kept.back();
        }
      }
    }
    store.results.clear();
    BOOST_TEST(!lines(graph, store).empty(), text);
  }
}

BOOST_AUTO_TEST_CASE(what_is_reused_says_so) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid, few());
  FakeStore store;
  store.run(graph);
  const Plan plan = make_plan(graph, store);
  const Explanation why = explain_all(graph, plan, store, {0}).front();
  BOOST_TEST(why.causes.at(0).str() == "the result is there");
  BOOST_TEST(why.against == plan.tasks[0].task_key);
  BOOST_TEST(group_causes(graph, plan, store).empty());
}

BOOST_AUTO_TEST_SUITE_END()
