// Keys: golden ones, changes that must not move them, changes that must.
#include "pipeline/plan/key.h"
#include "pipeline/plan/idle_axes.h"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <set>

#include "pipeline/grid_fixture.h"
#include "support/files.h"
#include "support/test_data.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::few;
using pe::test::GridFolder;
using pe::test::kGrid;
using pe::test::replaced;

namespace {

const std::string kTrunk = "trunk[encoding=rope,size=tiny,seed=42]";

/// Plan keys of every task, by id.
std::map<std::string, std::string> keys_of(const GridFolder& folder, const std::string& text,
                                           const ExpandOptions& options = few()) {
  std::map<std::string, std::string> keys;
  for (const Task& task : folder.keyed(text, options).tasks) keys[task.id] = task.plan_key;
  return keys;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(key)

BOOST_AUTO_TEST_CASE(golden_keys_and_preimages_hold) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid, few());
  Json golden = Json::object();
  for (const char* id : {"fetch", "tokenize", kTrunk.c_str(), "decay[encoding=rope,size=tiny,seed=42,branch=b50]",
                         "evaluate[from=droppe,encoding=rope,size=tiny,seed=42,drop=d15,suite=needle]", "report"}) {
    const Task& task = test::find_task(graph, id);
    std::vector<InputDigest> inputs;
    for (const Edge& edge : task.inputs) {
      inputs.push_back(
          {edge.role, support::sha256_hex(graph.tasks[edge.producer].id), edge.snapshot.empty() ? -1 : 100});
    }
    const Json preimage = task_preimage(graph, task, inputs);
    golden[id] = {{"plan_key", task.plan_key}, {"task_key", task_key_of(preimage)}, {"preimage", preimage}};
  }
  const auto file = test::source_root() / "tests" / "pipeline" / "golden" / "keys.json";
  const std::string text = golden.dump(1) + "\n";
  if (std::getenv("PE_TEST_ACCEPT")) {
    support::make_folders(file.parent_path());
    support::write_file_atomically(file, text, false);
    BOOST_ERROR("the golden keys were rewritten; run again without PE_TEST_ACCEPT");
  }
  const Json before = Json::parse(support::read_file(file));
  for (const auto& [id, entry] : golden.items()) {
    for (const auto& difference : support::differences(before.value(id, Json::object()), entry)) {
      BOOST_ERROR(id << ": " << difference.path << " " << difference.before.dump() << " -> "
                     << difference.after.dump());
    }
  }
}

BOOST_AUTO_TEST_CASE(keys_made_in_bulk_are_those_of_the_documents) {
  const GridFolder folder;
  const std::string by_build = replaced(kGrid, "code: result-version", "code: build");
  for (const std::string& text : {std::string(kGrid), by_build}) {
    Graph graph = folder.keyed(text);
    for (Task& task : graph.tasks) {  // every third stage reads labels
      if (task.label.size() % 3 != 0) continue;
      auto stage = std::make_shared<StageDescription>(*task.stage);
      stage->reads_labels = true;
      task.stage = std::move(stage);
    }
    compute_plan_keys(graph);
    KeyMaker maker;
    for (const Task& task : graph.tasks) {
      BOOST_TEST(task.plan_key == support::canonical_hash("pe/plan/1", plan_preimage(graph, task)), task.id);
      std::vector<InputDigest> inputs;
      for (const Edge& edge : task.inputs) {
        inputs.push_back(
            {edge.role, support::sha256_hex(graph.tasks[edge.producer].id), edge.snapshot.empty() ? -1 : 70'000});
      }
      BOOST_TEST(maker.task_key(graph, task, inputs) == task_key_of(task_preimage(graph, task, inputs)), task.id);
      BOOST_TEST(maker.config(task) == support::canonical_cbor(task_preimage(graph, task, inputs).at("config")),
                 task.id);
    }
  }
}

BOOST_AUTO_TEST_CASE(order_space_comments_and_spelling_do_not_move_a_key) {
  const GridFolder folder;
  const auto before = keys_of(folder, kGrid);
  std::string text = replaced(kGrid, "tiny: 2.4e9", "tiny:   2_400M");
  text = replaced(text, "train.seed: $(seed)\n        train.schedule: wsd\n",
                  "train.schedule: wsd\n        train: {seed: $(seed)}\n");
  text = replaced(text, "decay.share: 0.2", "decay.share: 2e-1");
  text = replaced(text, "axes:\n  encoding", "\n\n# a comment\naxes:\n  encoding");
  BOOST_TEST((keys_of(folder, text) == before));
  folder.write("configs/train.yml", "{train: {length: 1_024, batch: 0512, lr: 0.003}}\n");
  BOOST_TEST((keys_of(folder, text) == before));
}

BOOST_AUTO_TEST_CASE(policy_titles_and_names_do_not_move_a_key) {
  const GridFolder folder;
  const auto before = keys_of(folder, kGrid);
  std::string text = replaced(kGrid, "name: fineweb_grid", "name: other");
  text = replaced(text, "eval: {cpus: 4, mem: 24G, gpus: 1, time: 1h, pack: 8}",
                  "eval: {cpus: 4, mem: 4G, gpus: 1, time: 9h, pools: [a]}");
  text = replaced(text, "retry: {max: 2", "retry: {max: 7");
  text = replaced(text, "checkpoint: {every: 10m, keep: 2}", "checkpoint: {every: 1m, keep: 9}");
  text = replaced(text, "partition: {net: transfer", "partition: {net: other");
  BOOST_TEST((keys_of(folder, text) == before));
  folder.write("configs/tokenize.yml", "workers: 9\n");
  BOOST_TEST((keys_of(folder, text) == before));
  // A title is printed by the report, so it is in that key and in no other.
  auto titled = keys_of(folder, replaced(text, "title: FineWeb-Edu grid", "title: A grid"));
  BOOST_TEST(titled.at("report") != before.at("report"));
  titled["report"] = before.at("report");
  BOOST_TEST((titled == before));
}

BOOST_AUTO_TEST_CASE(a_renamed_stage_and_a_relabelled_axis_keep_their_keys) {
  const GridFolder folder;
  const auto before = keys_of(folder, kGrid);
  std::string text = kGrid;
  for (std::size_t at = text.find("suite: [perplexity"); at != std::string::npos; at = std::string::npos) {
    text.replace(at, 7, "suite: {perplexity: , needle: , pass: passkey}}\n#");
  }
  text = replaced(text, "configs/eval/$(suite).yml", "configs/eval/$(suite.value).yml");
  const auto after = keys_of(folder, text);
  BOOST_TEST(after.at("evaluate[from=decay,encoding=rope,size=tiny,seed=42,branch=b25,suite=pass]") ==
             before.at("evaluate[from=decay,encoding=rope,size=tiny,seed=42,branch=b25,suite=passkey]"));
}

// A table that prints the labels of its inputs must not show old names: a stage's labels are in its key.
BOOST_AUTO_TEST_CASE(labels_are_in_the_keys_of_stages_that_are_told_them) {
  const GridFolder folder;
  const auto keys = [&](bool reads, const std::string& label) {
    Graph graph = folder.keyed(kGrid, few());
    const std::size_t evaluated = test::find_task(graph, "report").inputs.front().producer;
    graph.tasks[evaluated].axes.front().second = label;
    Task& report = graph.tasks.back();
    BOOST_REQUIRE(report.label == "report");
    auto stage = std::make_shared<StageDescription>(*report.stage);
    stage->reads_labels = reads;
    report.stage = std::move(stage);
    compute_plan_keys(graph);
    std::vector<InputDigest> inputs;
    for (const Edge& edge : report.inputs) inputs.push_back({edge.role, support::sha256_hex("same"), -1});
    const Json first = task_preimage(graph, report, inputs).at("inputs").at(report.inputs.front().role).at(0);
    BOOST_TEST(first.contains("labels") == reads);
    if (reads) BOOST_TEST(first.at("labels").at(graph.tasks[evaluated].axes.front().first) == label);
    return std::pair(report.plan_key, KeyMaker().task_key(graph, report, inputs));
  };
  const auto told = keys(true, "a"), renamed = keys(true, "b");
  BOOST_TEST(told.first != renamed.first);
  BOOST_TEST(told.second != renamed.second);
  BOOST_TEST((keys(false, "a") == keys(false, "b")));
}

BOOST_AUTO_TEST_CASE(a_stage_that_does_not_say_whether_it_reads_labels_is_told_them) {
  Json document = test::stage_documents().front();
  document.erase("reads_labels");
  BOOST_TEST(parse_description(document, "a stage").reads_labels);
  document["reads_labels"] = false;
  BOOST_TEST(!parse_description(document, "a stage").reads_labels);
}

BOOST_AUTO_TEST_CASE(a_revision_is_in_the_keys_of_the_configs_that_it_concerns) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid, few());
  Task task = test::find_task(graph, kTrunk);
  const Json before = task_preimage(graph, task, {});
  const auto revised = [&](const Json& when, int number) {
    auto stage = std::make_shared<StageDescription>(*test::find_task(graph, kTrunk).stage);
    stage->revisions = {{"train.rounding", when, number}};
    task.stage = stage;
    return task_preimage(graph, task, {});
  };
  BOOST_TEST((revised({{"train.schedule", "cosine"}}, 2) == before));
  BOOST_TEST((revised({{"train.schedule", "wsd"}, {"train.seed", 43}}, 2) == before));
  Json after = revised({{"train.schedule", "wsd"}, {"train.seed", {41, 42}}}, 2);
  BOOST_TEST(after["config"]["train"]["rounding"] == 2);
  BOOST_TEST(task_key_of(after) != task_key_of(before));
  BOOST_TEST(task_key_of(after) != task_key_of(revised({{"train.schedule", "wsd"}}, 3)));
  after["config"]["train"].erase("rounding");
  BOOST_TEST((after == before));
  // A value that is not the default, and the default.
  BOOST_TEST((revised({{"train.seed", nullptr}}, 2) != before));
  BOOST_TEST((revised({{"train.missing", nullptr}}, 2) == before));
  BOOST_TEST((revised({{"train.missing", Json::array()}}, 2) != before));
  BOOST_TEST((revised({{"train.seed", Json::array()}}, 2) == before));
}

BOOST_AUTO_TEST_CASE(a_neutral_value_is_in_no_key) {
  const GridFolder folder;
  const auto before = keys_of(folder, kGrid);
  folder.write("configs/model.yml", "model: {width: 512, layers: 6, qk_norm: false}\n");
  BOOST_TEST((keys_of(folder, kGrid) == before));
  folder.write("configs/model.yml", "model: {width: 512, layers: 6, qk_norm: true}\n");
  BOOST_TEST(keys_of(folder, kGrid).at(kTrunk) != before.at(kTrunk));
}

BOOST_AUTO_TEST_CASE(a_moved_root_keeps_its_keys) {
  BOOST_TEST((keys_of(GridFolder(), kGrid) == keys_of(GridFolder(), kGrid)));
}

BOOST_AUTO_TEST_CASE(each_declared_key_moves_the_key_of_its_stage_and_of_no_other_cell) {
  const GridFolder folder;
  const auto before = keys_of(folder, kGrid);
  std::set<std::string> seen;
  for (const auto& [id, key] : before) seen.insert(key);
  const std::vector<std::pair<std::string, std::string>> settings{{"trunk.model.encoding", "{kind: yarn, factor: 2}"},
                                                                  {"trunk.model.width", "128"},
                                                                  {"trunk.model.layers", "9"},
                                                                  {"trunk.train.seed", "1"},
                                                                  {"trunk.train.batch", "256"},
                                                                  {"trunk.train.length", "512"},
                                                                  {"trunk.train.lr", "1e-4"},
                                                                  {"trunk.compute.threads", "2"},
                                                                  {"trunk.compute.isa", "portable"},
                                                                  {"trunk.compute.dtype", "fp32"},
                                                                  {"trunk.compute.device", "cpu"},
                                                                  {"trunk.compute.micro_batch", "8"},
                                                                  {"trunk.compute.ranks", "3"},
                                                                  {"tokenize.tokenizer", "bytes"},
                                                                  {"tokenize.vocabulary", "300"},
                                                                  {"fetch.on_bad", "skip"},
                                                                  {"fetch.words", "7"}};
  for (const auto& [key, value] : settings) {
    ExpandOptions options = few();
    options.set = {key + "=" + value};
    const auto after = keys_of(folder, kGrid, options);
    const std::string stage = key.substr(0, key.find('.'));
    const std::string id = stage == "trunk" ? kTrunk : stage;
    BOOST_TEST(seen.insert(after.at(id)).second, key + " did not move the key");
    BOOST_TEST(after.at("report") != before.at("report"));
    if (stage == "trunk") BOOST_TEST(after.at("tokenize") == before.at("tokenize"));
  }
}

BOOST_AUTO_TEST_CASE(a_trajectory_has_its_horizon_in_the_key_only_where_it_shapes_the_steps) {
  const GridFolder folder;
  const auto key = [&](const std::vector<std::string>& set) {
    ExpandOptions options = few();
    options.set = set;
    return keys_of(folder, kGrid, options).at(kTrunk);
  };
  BOOST_TEST(key({}) == key({"trunk.train.tokens=9B"}));
  BOOST_TEST(key({"trunk.train.schedule=cosine"}) != key({"trunk.train.schedule=cosine", "trunk.train.tokens=9B"}));
  BOOST_TEST(key({"trunk.train.decay_share=0.2"}) != key({"trunk.train.decay_share=0.2", "trunk.train.tokens=9B"}));
  BOOST_TEST(key({}) != key({"trunk.train.schedule=cosine"}));
}

BOOST_AUTO_TEST_CASE(a_reader_of_a_snapshot_has_its_step_in_the_key) {
  const GridFolder folder;
  const auto before = keys_of(folder, kGrid);
  const auto after = keys_of(folder, replaced(kGrid, "b25: 0.20", "b25: 0.21"));
  BOOST_TEST(after.at(kTrunk) == before.at(kTrunk));
  BOOST_TEST(after.at("decay[encoding=rope,size=tiny,seed=42,branch=b25]") !=
             before.at("decay[encoding=rope,size=tiny,seed=42,branch=b25]"));
  BOOST_TEST(after.at("decay[encoding=rope,size=tiny,seed=42,branch=b50]") ==
             before.at("decay[encoding=rope,size=tiny,seed=42,branch=b50]"));
}

BOOST_AUTO_TEST_CASE(tolerant_numerics_leave_compute_out) {
  const GridFolder folder;
  const std::string tolerant = replaced(kGrid, "numerics: exact", "numerics: tolerant");
  ExpandOptions options = few();
  options.isa = "avx512";
  BOOST_TEST((keys_of(folder, tolerant) == keys_of(folder, tolerant, options)));
  BOOST_TEST(keys_of(folder, kGrid).at(kTrunk) != keys_of(folder, kGrid, options).at(kTrunk));
}

BOOST_AUTO_TEST_CASE(content_of_input_files_is_in_the_key_and_their_place_is_not) {
  const GridFolder folder;
  const auto before = keys_of(folder, kGrid);
  folder.write("data/moved/a.txt", "Once there was a text.\n");
  folder.write("data/moved/deeper/b.txt", "And another.\n");
  BOOST_TEST((keys_of(folder, replaced(kGrid, "data/fineweb-edu", "data/moved")) == before));
  folder.write("data/fineweb-edu/deeper/b.txt", "And another!\n");
  BOOST_TEST(keys_of(folder, kGrid).at("fetch") != before.at("fetch"));
  folder.write("data/fineweb-edu/deeper/b.txt", "And another.\n");
  BOOST_TEST((keys_of(folder, kGrid) == before));
  std::filesystem::rename(folder.path("data/fineweb-edu/a.txt"), folder.path("data/fineweb-edu/c.txt"));
  BOOST_TEST(keys_of(folder, kGrid).at("fetch") != before.at("fetch"));
}

BOOST_AUTO_TEST_CASE(the_order_of_a_list_of_paths_is_in_the_key) {
  const GridFolder folder;
  folder.write("x/part-0.txt", "one");
  folder.write("y/part-0.txt", "two");
  const auto key_of = [&](const std::vector<std::string>& paths) {
    Graph graph;
    Task& task = graph.tasks.emplace_back();
    task.stage = test::stage_catalog().find("pe-fetch", folder.root(), {});
    task.config = support::defaults(task.stage->fields);
    ExternalInput& external = task.externals.emplace_back();
    external.field = "path";
    for (const std::string& path : paths) external.paths.push_back(folder.path(path).string());
    StampMemo memo = StampMemo::of_inputs(folder.path("store"));
    hash_externals(graph, memo);
    compute_plan_keys(graph);
    BOOST_TEST(graph.tasks[0].plan_key == support::canonical_hash("pe/plan/1", plan_preimage(graph, graph.tasks[0])));
    return graph.tasks[0].plan_key;
  };
  const std::string files = key_of({"x/part-0.txt", "y/part-0.txt"});
  BOOST_TEST(key_of({"y/part-0.txt", "x/part-0.txt"}) != files);
  const std::string folders = key_of({"x", "y"});
  BOOST_TEST(key_of({"y", "x"}) != folders);
  folder.write("x/part-0.txt", "two");  // the two contents change places under equal names
  folder.write("y/part-0.txt", "one");
  BOOST_TEST(key_of({"x", "y"}) != folders);
  BOOST_TEST(key_of({"y", "x"}) == folders);
}

BOOST_AUTO_TEST_CASE(a_result_version_moves_its_stage_and_code_build_hashes_the_build) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid, few());
  Task task = graph.tasks[0];
  const std::string before = KeyMaker().task_key(graph, task, {});
  StageDescription stage = *task.stage;
  stage.program_digest = "ffff";
  task.stage = std::make_shared<StageDescription>(stage);
  BOOST_TEST(KeyMaker().task_key(graph, task, {}) == before);
  task.hash_build = true;
  BOOST_TEST(KeyMaker().task_key(graph, task, {}) != before);
  task.hash_build = false;
  stage.version = 2;
  task.stage = std::make_shared<StageDescription>(stage);
  BOOST_TEST(KeyMaker().task_key(graph, task, {}) != before);
}

// The usual slip of a first pipeline: three copies of a model would pass for three seeds.
BOOST_AUTO_TEST_CASE(an_axis_that_nothing_reads_is_named) {
  const GridFolder folder;
  BOOST_TEST(idle_axes(folder.keyed(kGrid)).empty());
  std::string unread = kGrid;
  const std::string seed = "        train.seed: $(seed)\n";
  unread.erase(unread.find(seed), seed.size());
  const std::vector<std::string> found = idle_axes(folder.keyed(unread));
  BOOST_TEST_REQUIRE(found.size() == 1u);
  BOOST_TEST(found[0].find("axis 'seed' changes nothing in stage 'trunk'") == 0u, found[0]);
}

BOOST_AUTO_TEST_SUITE_END()
