// A frozen graph is the graph: the same tasks under the same keys, even if the files have changed.
#include "pipeline/plan/frozen_graph.h"
#include "pipeline/cluster/subgraph.h"
#include "pipeline/plan/program_watch.h"

#include <boost/test/unit_test.hpp>

#include "pipeline/grid_fixture.h"
#include "support/error.h"
#include "support/files.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::few;
using pe::test::GridFolder;
using pe::test::kGrid;
namespace fs = std::filesystem;

namespace {

std::string refusal(const Json& document) {
  try {
    thaw(document);
  } catch (const support::ArtifactError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(frozen_graph)

BOOST_AUTO_TEST_CASE(what_is_thawed_is_what_was_frozen) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid, few());
  // Through text, as in a file; and after every source file is gone.
  const std::string text = freeze(graph).dump();
  fs::remove_all(folder.path("configs"));
  const Graph again = thaw(Json::parse(text));
  BOOST_REQUIRE_EQUAL(again.tasks.size(), graph.tasks.size());
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const Task &then = graph.tasks[i], &now = again.tasks[i];
    BOOST_TEST(now.id == then.id);
    BOOST_TEST(now.plan_key == then.plan_key);
    BOOST_TEST(*now.config == *then.config);
    BOOST_TEST(now.inputs.size() == then.inputs.size());
    BOOST_TEST(now.resources.gpus == then.resources.gpus);
    BOOST_TEST(now.snapshots.size() == then.snapshots.size());
    BOOST_TEST(task_preimage(again, now, {}) == task_preimage(graph, then, {}));
  }
  BOOST_TEST(freeze(again).dump() == text);
}

BOOST_AUTO_TEST_CASE(a_part_of_a_graph_has_what_its_file_says_of_all_stages) {
  const GridFolder folder;
  Graph graph = folder.keyed(kGrid, few());
  graph.environment = {"LAB_TOKEN"};
  const Graph part = subgraph(graph, std::vector<bool>(graph.tasks.size(), true)).graph;
  BOOST_TEST(part.environment == graph.environment);
  BOOST_TEST(part.title == graph.title);
  BOOST_TEST(part.stage_labels == graph.stage_labels);
}

BOOST_AUTO_TEST_CASE(a_graph_frozen_by_an_earlier_version_is_thawed) {
  const GridFolder folder;
  const Json now = freeze(folder.keyed(kGrid, few()));
  // Versions before 24 November 2026 also wrote the labels of each edge's producer.
  Json earlier = now;
  earlier["labels"] = {{{"stage", "trunk"}}};
  for (Json& task : earlier["tasks"]) {
    for (Json& edge : task["inputs"]) edge.push_back(0);
  }
  BOOST_TEST(freeze(thaw(earlier)) == now);
}

BOOST_AUTO_TEST_CASE(a_plan_of_a_thawed_graph_finds_what_the_first_one_made) {
  const GridFolder folder;
  test::FakeStore store;
  const Graph graph = folder.keyed(kGrid, few());
  store.run(graph);
  const Graph again = thaw(freeze(graph));
  BOOST_TEST(make_plan(again, store).nothing_to_do());
}

BOOST_AUTO_TEST_CASE(what_is_no_frozen_graph_or_an_altered_one_is_refused) {
  const GridFolder folder;
  const Json whole = freeze(folder.keyed(kGrid, few()));
  BOOST_TEST(refusal(Json()).find("expected a frozen graph") != std::string::npos);
  BOOST_TEST(refusal({{"schema", "pe-graph/2"}}).find("schema 'pe-graph/2'") != std::string::npos);
  for (const auto& [name, value] : whole.items()) {
    if (name == "schema") continue;
    Json cut = whole;
    cut.erase(name);
    BOOST_TEST(refusal(cut).find("damaged") != std::string::npos, name);
  }
  Json altered = whole;
  altered["tasks"][3]["config"] = 1'000'000;
  BOOST_TEST(refusal(altered).find("damaged") != std::string::npos);
  altered = whole;
  altered["tasks"][0]["inputs"] = Json::parse(R"([["data", 5, "out", "", 0]])");
  BOOST_TEST(refusal(altered).find("reads what comes later") != std::string::npos);
  altered = whole;
  altered["tasks"][0]["plan_key"] = std::string(64, 'a');
  BOOST_TEST(refusal(altered).find("another key for 'fetch'") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_program_rebuilt_since_is_named) {
  const GridFolder folder;
  const auto build = [&](int version, const std::string& comment) {
    Json described = test::stage_documents().front();
    described["version"] = version;
    folder.write("own/pe-own", "#!/bin/sh\n# " + comment + "\ncat <<'END'\n" + described.dump() + "\nEND\n");
    fs::permissions(folder.path("own/pe-own"), fs::perms::owner_all);
  };
  build(1, "first");
  Graph graph;
  StageCatalog catalog;
  Task& task = graph.tasks.emplace_back();
  task.stage = catalog.find(folder.path("own/pe-own").string(), folder.root(), {});
  task.config = support::defaults(task.stage->fields);
  compute_plan_keys(graph);
  const Graph frozen = thaw(freeze(graph));
  ProgramWatch watch;
  using State = ProgramWatch::State;
  const auto change = [&](const Graph& of) { return watch.look(*of.tasks[0].stage, of.tasks[0].hash_build); };
  BOOST_TEST((change(frozen).state == State::kSame));
  build(1, "rebuilt");
  BOOST_TEST((change(frozen).state == State::kSame));  // another build of the same version gives the same bytes
  graph.tasks[0].hash_build = true;
  compute_plan_keys(graph);
  BOOST_TEST(change(thaw(freeze(graph))).why.find("another build now") != std::string::npos);
  build(2, "raised");
  BOOST_TEST((change(frozen).state == State::kOther));
  BOOST_TEST(change(frozen).why.find("result version 2 now, planned with 1") != std::string::npos);
  fs::remove(folder.path("own/pe-own"));
  BOOST_TEST((change(frozen).state == State::kGone));
  BOOST_TEST(change(frozen).why.find("is gone") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
