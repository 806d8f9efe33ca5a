// The shipped pipelines expand without a mistake, with the built stages.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <map>

#include "pipeline/expand/expand.h"
#include "pipeline/grid_fixture.h"
#include "pipeline/plan/cost.h"
#include "support/test_data.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
namespace fs = std::filesystem;

namespace {

/// The stages are next to their descriptions; a build of the tests alone has none.
boost::test_tools::assertion_result stages_are_built(boost::unit_test::test_unit_id) {
  const fs::path folder = test::build_root() / "stages";
  for (const char* stage : {"fetch", "import", "tokenize", "train", "branch-decay", "drop-pe", "extend",
                            "search-factors", "evaluate", "measure", "sample", "report"}) {
    if (fs::exists(folder / (std::string("pe-") + stage + ".describe.json"))) continue;
    boost::test_tools::assertion_result result(false);
    result.message() << "pe-" << stage << " is not built in " << folder;
    return result;
  }
  return true;
}

Graph shipped(const std::string& name, const std::vector<std::string>& axis = {}) {
  StageCatalog catalog({test::build_root() / "stages"});
  ExpandOptions options;
  options.axis = axis;
  return expand(read_pipeline_file(test::source_root() / "pipelines" / name), catalog, options);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(shipped_pipelines)

BOOST_AUTO_TEST_CASE(every_pipeline_expands, *boost::unit_test::precondition(stages_are_built)) {
  for (const auto& entry : fs::directory_iterator(test::source_root() / "pipelines")) {
    if (entry.path().extension() != ".yml") continue;
    BOOST_TEST_CONTEXT(entry.path().filename()) {
      BOOST_CHECK_NO_THROW(BOOST_TEST(!shipped(entry.path().filename().string()).tasks.empty()));
    }
  }
}

BOOST_AUTO_TEST_CASE(stages_say_how_many_parameters_their_models_have,
                     *boost::unit_test::precondition(stages_are_built)) {
  const Graph graph = shipped("fineweb_grid.yml", {"encoding=rope", "seed=42"});
  const std::map<std::string, double> written = {
      {"tiny", 58.7e6}, {"small", 163.6e6}, {"medium", 469.8e6}, {"large", 1208.0e6}};
  const std::map<std::string, double> flops = {{"tiny", 390.1e6}, {"small", 1094.7e6}, {"medium", 3120.6e6}};
  std::size_t seen = 0;
  for (const Task& task : graph.tasks) {
    const auto size =
        std::find_if(task.axes.begin(), task.axes.end(), [](const auto& axis) { return axis.first == "size"; });
    if (size == task.axes.end()) continue;
    const ModelCosts costs = model_costs(graph, task);
    BOOST_REQUIRE_MESSAGE(costs.parameters && costs.flops, task.id);
    BOOST_TEST(*costs.parameters == written.at(size->second), boost::test_tools::tolerance(1e-3));
    if (flops.count(size->second))
      BOOST_TEST(*costs.flops == flops.at(size->second), boost::test_tools::tolerance(1e-3));
    const bool dropped = task.id.find("arm=drop") != std::string::npos;
    BOOST_TEST(costs.encoding == (dropped ? "none" : "rope"), task.id);
    ++seen;
  }
  BOOST_TEST(seen == 4u * (1 + 3 + 4 + 3 * 7));
}

// Models that pe-import brings have the size of their checkpoint, which no config has.
BOOST_AUTO_TEST_CASE(every_training_has_a_cost_before_it_ran, *boost::unit_test::precondition(stages_are_built)) {
  std::size_t seen = 0;
  for (const auto& entry : fs::directory_iterator(test::source_root() / "pipelines")) {
    if (entry.path().extension() != ".yml") continue;
    const Graph graph = shipped(entry.path().filename().string());
    const bool imports = std::any_of(graph.tasks.begin(), graph.tasks.end(),
                                     [](const Task& task) { return task.stage->name == "import"; });
    for (const Task& task : graph.tasks) {
      if (imports || !task.stage->costs.contains("tokens")) continue;
      const ModelCosts costs = model_costs(graph, task);
      BOOST_TEST((costs.parameters && costs.flops && own_tokens(graph, task)), entry.path().filename()
                                                                                   << ": " << task.id);
      ++seen;
    }
  }
  BOOST_TEST(seen > 1000u);
}

BOOST_AUTO_TEST_CASE(the_full_grid_has_every_cell, *boost::unit_test::precondition(stages_are_built)) {
  const Graph graph = shipped("fineweb_grid.yml");
  const auto cells = test::count_label(graph, "trunk");
  BOOST_TEST(cells == graph.axes["encoding"].size() * 4 * 3);
  BOOST_TEST(test::count_label(graph, "decay") == 3 * cells);
  BOOST_TEST(test::count_label(graph, "droppe") == 4 * (cells - 12));  // what has no encoding has none to drop
  BOOST_TEST(test::count_label(graph, "evaluate") == 3 * (3 * cells + 4 * (cells - 12)));
  BOOST_TEST(graph.dropped == 0u);
  for (const Task& task : graph.tasks) {
    // A clone plans in full: it contains all files that are hashed into keys.
    for (const ExternalInput& external : task.externals) {
      for (const std::string& path : external.paths) BOOST_TEST(fs::is_regular_file(path), path);
    }
    if (task.label == "trunk") BOOST_TEST(task.config->at("compute").at("device") == "cuda");
  }
}

BOOST_AUTO_TEST_SUITE_END()
