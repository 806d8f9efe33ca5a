// Results of CPUs with other instruction sets, for commands that read results.
#include "pipeline/plan/other_cpus.h"

#include <boost/test/unit_test.hpp>

#include "pipeline/file/selection.h"
#include "pipeline/grid_fixture.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::FakeStore;
using pe::test::GridFolder;
using pe::test::kGrid;
using Used = std::map<std::string, std::size_t>;

namespace {

ExpandOptions on(const std::string& isa, const std::string& encodings, std::vector<std::string> set = {}) {
  ExpandOptions options = GridFolder::plain_options();
  options.axis = {"encoding=" + encodings, "size=tiny", "seed=42"};
  options.isa = options.bf16_isa = isa;
  options.set = std::move(set);
  return options;
}

std::set<std::string> sets_of(const Graph& graph, const std::string& encoding) {
  std::set<std::string> sets;
  for (const Task& task : graph.tasks) {
    if (task.id.find("encoding=" + encoding) == std::string::npos || !task.config->contains("compute")) continue;
    sets.insert(task.config->at("compute").at("isa").get<std::string>());
  }
  return sets;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(other_cpus)

BOOST_AUTO_TEST_CASE(results_of_another_set_are_found_and_those_of_this_one_come_first) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, on("avx512", "none,rope")));
  store.run(folder.keyed(kGrid, on("avx2", "rope")));
  Graph graph = folder.keyed(kGrid, on("avx2", "none,rope"));
  const std::size_t missing = make_plan(graph, store).count(TaskState::kRun);
  const Used used = use_results_of_other_cpus(graph, store);
  BOOST_TEST_REQUIRE(used.size() == 1U);
  BOOST_TEST(used.at("avx512") > 0U);
  BOOST_TEST((sets_of(graph, "none") == std::set<std::string>{"avx512"}));
  BOOST_TEST((sets_of(graph, "rope") == std::set<std::string>{"avx2"}));
  Graph keyed = graph;
  compute_plan_keys(keyed);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) BOOST_TEST(graph.tasks[i].plan_key == keyed.tasks[i].plan_key);
  const Plan plan = make_plan(graph, store);
  BOOST_TEST(plan.count(TaskState::kRun) == missing - used.at("avx512"));
  BOOST_TEST((plan.tasks[test::index_of(graph, "report")].state == TaskState::kRun));  // its inputs are a new mixture
}

BOOST_AUTO_TEST_CASE(a_result_without_readers_hides_no_chain_of_another_set) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, on("avx512", "rope")));
  // Another study has trained the same trunk here.
  const Graph own = folder.keyed(kGrid, on("avx2", "rope"));
  PlanOptions trunk;
  trunk.selected = select(own, {"trunk"});
  BOOST_TEST(!store.run(own, trunk).empty());
  Graph graph = folder.keyed(kGrid, on("avx2", "rope"));
  use_results_of_other_cpus(graph, store);
  BOOST_TEST((sets_of(graph, "rope") == std::set<std::string>{"avx512"}));
}

BOOST_AUTO_TEST_CASE(without_a_result_tasks_keep_the_set_of_this_machine) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, on("avx512", "rope")));
  Graph graph = folder.keyed(kGrid, on("avx2", "none"));
  const Graph before = graph;
  use_results_of_other_cpus(graph, store);
  BOOST_TEST((sets_of(graph, "none") == std::set<std::string>{"avx2"}));
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) BOOST_TEST(graph.tasks[i].plan_key == before.tasks[i].plan_key);
}

BOOST_AUTO_TEST_CASE(a_set_that_the_config_names_stays) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, on("avx512", "rope")));
  Graph graph = folder.keyed(kGrid, on("avx2", "rope", {"trunk.compute.isa=portable"}));
  use_results_of_other_cpus(graph, store);
  const Task& trunk = graph.tasks[test::index_of(graph, "trunk[encoding=rope,size=tiny,seed=42]")];
  BOOST_TEST(trunk.config->at("compute").at("isa") == "portable");
}

BOOST_AUTO_TEST_CASE(a_task_to_be_made_keeps_the_set_of_this_machine) {
  const GridFolder folder;
  FakeStore store;
  store.run(folder.keyed(kGrid, on("avx512", "rope")));
  Graph graph = folder.keyed(kGrid, on("avx2", "rope"));
  use_results_of_other_cpus(graph, store, select(graph, {"trunk"}));
  const Task& trunk = graph.tasks[test::index_of(graph, "trunk[encoding=rope,size=tiny,seed=42]")];
  BOOST_TEST(trunk.config->at("compute").at("isa") == "avx2");
}

BOOST_AUTO_TEST_SUITE_END()
