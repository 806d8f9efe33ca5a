// Expansion: axes, joins, exclusion, snapshots, configs, and the message of every mistake.
#include "pipeline/expand/expand.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <tuple>

#include "pipeline/grid_fixture.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::GridFolder;
using pe::test::kGrid;
using pe::test::replaced;

namespace {

/// The first line of a message, and whether the rest contains `part`.
void check_refusal(const std::string& message, const std::string& first_line, const std::string& part = {}) {
  BOOST_TEST(message.substr(0, message.find('\n')) == first_line);
  if (!part.empty()) BOOST_TEST(message.find(part) != std::string::npos, message << "\ndoes not say: " << part);
}

/// A small pipeline whose stages' rest is given.
std::string small(const std::string& stages, const std::string& top = {}) {
  return "schema: pe-pipeline/1\nname: small\n" + top + "stages:\n" + stages;
}

const char* const kFetchTokenize =
    "  fetch: {run: pe-fetch}\n"
    "  tokenize: {run: pe-tokenize, needs: {raw: fetch}}\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(expand)

BOOST_AUTO_TEST_CASE(the_grid_of_two_sizes_has_900_tasks_and_2647_edges) {
  const Graph graph = GridFolder().expand(kGrid);
  BOOST_TEST(graph.tasks.size() == 900u);
  BOOST_TEST(test::count_edges(graph) == 2647u);
  BOOST_TEST(graph.dropped == 15u);
  BOOST_TEST(test::count_label(graph, "trunk") == 45u);
  BOOST_TEST(test::count_label(graph, "decay") == 135u);
  BOOST_TEST(test::count_label(graph, "droppe") == 78u);
  BOOST_TEST(test::count_label(graph, "evaluate") == 639u);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    for (const Edge& edge : graph.tasks[i].inputs) BOOST_REQUIRE_LT(edge.producer, i);
  }
}

BOOST_AUTO_TEST_CASE(a_cell_expanded_alone_is_the_cell_of_the_grid) {
  // Sharing between instances while a grid is expanded (configs, references, labels) must not show.
  const GridFolder folder;
  const Graph grid = folder.expand(kGrid);
  for (const auto& [encoding, size, seed] :
       {std::tuple{"rope", "tiny", "42"}, {"alibi", "small", "44"}, {"pope", "tiny", "43"}}) {
    ExpandOptions one = GridFolder::plain_options();
    one.axis = {support::cat("encoding=", encoding), support::cat("size=", size), support::cat("seed=", seed)};
    const Graph alone = folder.expand(kGrid, one);
    BOOST_TEST(alone.tasks.size() > 10u);
    for (const Task& task : alone.tasks) {
      if (task.label == "report") continue;  // it gathers what there is
      const Task& same = test::find_task(grid, task.id);
      BOOST_TEST(*task.config == *same.config, task.id);
      BOOST_TEST(task.resources.name == same.resources.name);
      BOOST_TEST(*task.checkpoint == *same.checkpoint);
      BOOST_REQUIRE(task.inputs.size() == same.inputs.size());
      for (std::size_t i = 0; i < task.inputs.size(); ++i) {
        BOOST_TEST(alone.tasks[task.inputs[i].producer].id == grid.tasks[same.inputs[i].producer].id);
        BOOST_TEST(task.inputs[i].role == same.inputs[i].role);
        BOOST_TEST(task.inputs[i].snapshot == same.inputs[i].snapshot);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_instance_carries_its_axes_config_and_policy) {
  const Graph graph = GridFolder().expand(kGrid);
  const Task& trunk = test::find_task(graph, "trunk[encoding=alibi,size=small,seed=43]");
  BOOST_TEST(trunk.config->at("model").at("encoding").at("kind") == "alibi");
  BOOST_TEST(trunk.config->at("model").at("width") == 768);
  BOOST_TEST(trunk.config->at("train").at("seed") == 43);
  BOOST_TEST(trunk.config->at("train").at("tokens") == 6'600'000'000);
  BOOST_TEST(trunk.resources.name == "gpu4");
  BOOST_TEST(trunk.resources.mem_bytes == 96LL << 30);
  BOOST_TEST(trunk.config->at("compute").at("device") == "cuda");
  BOOST_TEST(trunk.config->at("compute").at("ranks") == 4);
  BOOST_TEST(trunk.config->at("compute").at("threads") == 4);  // 16 CPUs, 4 ranks
  BOOST_TEST(trunk.config->at("compute").at("dtype") == "bf16");
  BOOST_TEST(trunk.config->at("compute").at("micro_batch") == 32);
  BOOST_TEST(trunk.config->at("compute").at("isa") == "avx2");
  BOOST_TEST(trunk.retry->max == 2);
  BOOST_TEST(trunk.retry->backoff_s == 30);
  BOOST_TEST(trunk.checkpoint->at("every_s") == 600.0);
  BOOST_TEST(trunk.config->at("checkpoint").at("every") == 600.0);  // the stage hears of it, and no key does
  BOOST_TEST(trunk.config->at("checkpoint").at("keep") == 2);
  // 6.6e9 tokens at 512 x 1024 a step are 12,589 steps, the last one short.
  BOOST_REQUIRE(trunk.snapshots.size() == 5u);
  BOOST_TEST(trunk.snapshots[0].label == "b25");
  BOOST_TEST(trunk.snapshots[0].step == 2518);
  BOOST_TEST(trunk.snapshots[4].label == "d15");
  BOOST_TEST(trunk.snapshots[4].step == 11802);
}

BOOST_AUTO_TEST_CASE(an_instance_of_each_begins_with_its_producer) {
  const Graph graph = GridFolder().expand(kGrid);
  const Task& task =
      test::find_task(graph, "evaluate[from=decay,encoding=rope,size=tiny,seed=42,branch=b50,suite=needle]");
  BOOST_REQUIRE(task.inputs.size() == 2u);
  BOOST_TEST(task.inputs[0].role == "data");
  BOOST_TEST(task.inputs[1].role == "model");
  BOOST_TEST(graph.tasks[task.inputs[1].producer].id == "decay[encoding=rope,size=tiny,seed=42,branch=b50]");
  BOOST_TEST(task.config->at("eval").at("task") == "needle");
  const auto labels = labels_of(graph.tasks[task.inputs[1].producer], task.inputs[1].snapshot);
  BOOST_TEST(labels.at("branch") == "b50");
  BOOST_TEST(labels.at("stage") == "decay");
}

BOOST_AUTO_TEST_CASE(a_report_has_title_and_labels_in_its_config) {
  const Graph graph = GridFolder().expand(kGrid);
  const Task& report = graph.tasks.back();
  BOOST_TEST(report.config->at("title") == "FineWeb-Edu grid, one trunk per cell, branches share it");
  BOOST_REQUIRE(report.config->at("labels").size() == report.inputs.size());
  BOOST_TEST(report.config->at("labels")[0] ==
             "scores stage=evaluate,branch=b25,encoding=none,from=decay,seed=42,size=tiny,suite=perplexity");
  BOOST_TEST(report.config->at("labels")[639] == "curves stage=trunk,encoding=none,seed=42,size=tiny,snapshot=d15");
}

BOOST_AUTO_TEST_CASE(a_report_is_told_which_labels_a_run_leaves_out) {
  const GridFolder folder;
  BOOST_TEST(folder.expand(kGrid).tasks.back().config->at("left_out") == Json::array());
  ExpandOptions options = GridFolder::plain_options();
  options.axis = {"encoding=rope,none,alibi,pope", "seed=42,43"};
  const Json narrowed = folder.expand(kGrid, options).tasks.back().config->at("left_out");
  BOOST_TEST((std::find(narrowed.begin(), narrowed.end(), "seed=44") != narrowed.end()), narrowed.dump());
  BOOST_TEST((std::find(narrowed.begin(), narrowed.end(), "encoding=rope") == narrowed.end()), narrowed.dump());
  BOOST_TEST(std::count_if(narrowed.begin(), narrowed.end(),
                           [](const Json& label) { return label.get<std::string>().rfind("size=", 0) == 0; }) == 0,
             narrowed.dump());
}

BOOST_AUTO_TEST_CASE(a_report_knows_the_looks_of_a_study_that_adds_seeds) {
  const GridFolder folder;
  const Graph fixed = folder.expand(kGrid);
  BOOST_TEST(!fixed.sequential.has_value());
  const std::string text = std::string(kGrid) + "\nsequential: {axis: seed, claim: A1, most: 3, alpha: 0.01}\n";
  ExpandOptions options = GridFolder::plain_options();
  options.axis = {"seed=42,43"};
  const Graph graph = folder.expand(text, options);  // a look before the last one has the same plan of looks
  BOOST_REQUIRE(graph.sequential.has_value());
  BOOST_TEST(graph.sequential->axis == "seed");
  BOOST_TEST(graph.tasks.back().config->at("sequential") ==
             (Json{{"claim", "A1"}, {"from", 3}, {"most", 3}, {"alpha", 0.01}}));
  const auto& fields = fixed.tasks.back().stage->fields;
  BOOST_TEST(!support::hashed_config(fields, *fixed.tasks.back().config).contains("sequential"));
  BOOST_TEST(support::hashed_config(fields, *graph.tasks.back().config).at("sequential").at("claim") == "A1");
}

BOOST_AUTO_TEST_CASE(seeds_are_added_along_an_axis_of_the_scale_and_for_a_stage_that_judges) {
  const GridFolder folder;
  const auto with = [](const std::string& members) { return std::string(kGrid) + "\nsequential: {" + members + "}\n"; };
  const auto says = [](const std::string& refused, const std::string& part) {
    BOOST_TEST(refused.find(part) != std::string::npos, refused);
  };
  const std::string misspelt = folder.refusal(with("axis: sed, claim: A1, most: 3"));
  says(misspelt, "'sequential': no axis 'sed'");
  says(misspelt, "did you mean 'seed'?");
  says(folder.refusal(with("axis: seed, claim: A1, most: 6")), "'sequential.most' is 6, but axis 'seed' has 3 labels");
  const std::string trunks =
      small(std::string(kFetchTokenize) + "  trunk: {run: pe-train, over: [seed], needs: {data: tokenize}}\n",
            "scales: {full: {axes: {seed: [1, 2, 3]}}}\nsequential: {axis: seed, claim: A1, most: 3}\n");
  ExpandOptions options = GridFolder::plain_options();
  options.scale = "full";
  const std::string refused = folder.refusal(trunks, options);
  BOOST_TEST(refused.find("no axis") == std::string::npos, refused);
  says(refused, "'sequential': no stage makes a report that judges claim 'A1'");
}

BOOST_AUTO_TEST_CASE(variables_may_be_used_in_defaults_alone) {
  const Graph graph = GridFolder().expand(
      small(std::string(kFetchTokenize) + "  trunk: {run: pe-train, over: [seed], needs: {data: tokenize}, config: "
                                          "{set: {train.seed: $(seed)}}}\n",
            "axes: {seed: [1]}\nvars: {n: 2, tries: 3}\n"
            "defaults: {resources: {cpus: $(n)}, retry: {max: $(tries)}}\n"));
  BOOST_TEST(graph.tasks.back().resources.cpus == 2);
  BOOST_TEST(graph.tasks.back().retry->max == 3);
}

BOOST_AUTO_TEST_CASE(defaults_that_name_an_axis_are_those_of_each_label) {
  const Graph graph = GridFolder().expand(
      small("  fetch: {run: pe-fetch, over: [size, n]}\n"
            "  tokenize: {run: pe-tokenize, over: [size, n], needs: {raw: fetch}}\n"
            "  trunk: {run: pe-train, over: [size, n], needs: {data: tokenize}, config: {set: {train.seed: 1}}}\n",
            "axes: {size: [tiny, small], n: [2, 3]}\n"
            "defaults: {config: [\"configs/model/$(size).yml\"], checkpoint: {every: $(n)s}}\n"));
  for (const auto& [size, width] : {std::pair("tiny", 512), {"small", 768}}) {
    for (const int n : {2, 3}) {
      const Task& trunk = test::find_task(graph, support::cat("trunk[size=", size, ",n=", n, "]"));
      BOOST_TEST(trunk.config->at("model").at("width") == width);
      BOOST_TEST(trunk.checkpoint->at("every_s") == n);
    }
  }
}

BOOST_AUTO_TEST_CASE(narrowing_an_axis_keeps_the_rest) {
  ExpandOptions options = GridFolder::plain_options();
  options.axis = {"encoding=rope,none", "seed=42", "size=tiny"};
  const Graph graph = GridFolder().expand(kGrid, options);
  BOOST_TEST(test::count_label(graph, "trunk") == 2u);
  BOOST_TEST(test::count_label(graph, "decay") == 6u);
  BOOST_TEST(test::count_label(graph, "droppe") == 2u);
  BOOST_TEST(graph.dropped == 0u);
}

BOOST_AUTO_TEST_CASE(settings_lay_values_over_stages_vars_axes_and_resources) {
  const GridFolder folder;
  ExpandOptions options = GridFolder::plain_options();
  options.folder = folder.root();
  options.set = {"trunk.train.lr=1e-3",         "vars.tokens.tiny=1M",   "axes.seed=[7]",
                 "fetch.path=some texts, $(x)", "resources.gpu1.cpus=3", "axes.branch={b25: 0.3}"};
  const Graph graph = folder.expand(kGrid, options);
  const Task& trunk = test::find_task(graph, "trunk[encoding=rope,size=tiny,seed=7]");
  BOOST_TEST(trunk.config->at("train").at("lr") == 1e-3);
  BOOST_TEST(trunk.config->at("train").at("tokens") == 1'000'000);
  BOOST_TEST(trunk.resources.cpus == 3);
  BOOST_TEST(graph.tasks[0].config->at("path")[0] == (folder.root() / "some texts, $(x)").string());
  BOOST_TEST(graph.tasks[0].externals.at(0).paths.at(0) == (folder.root() / "some texts, $(x)").string());
  BOOST_TEST(test::find_task(graph, "decay[encoding=rope,size=tiny,seed=7,branch=b25]").config->at("decay").at("end") ==
             0.3);
  BOOST_TEST(graph.origins_of(trunk).at("train.lr").file == "--set trunk.train.lr");
}

BOOST_AUTO_TEST_CASE(a_label_is_added_to_an_axis_or_changed) {
  const std::string trunks = small(std::string(kFetchTokenize) +
                                       "  trunk: {run: pe-train, over: [size, seed], needs: {data: tokenize}, "
                                       "config: {set: {train.seed: $(seed), model.width: $(size.value)}}}\n",
                                   "axes: {seed: [1, 2], size: {s: 8, l: 16}}\n");
  const GridFolder folder;
  ExpandOptions options = GridFolder::plain_options();
  options.set = {"axes.size.m=12", "axes.size.l=32", "axes.seed.3="};
  const Graph graph = folder.expand(trunks, options);
  BOOST_TEST(graph.axes["size"] == Json({"s", "l", "m"}));
  BOOST_TEST(graph.axes["seed"] == Json({"1", "2", "3"}));
  BOOST_TEST(test::find_task(graph, "trunk[size=m,seed=3]").config->at("model").at("width") == 12);
  BOOST_TEST(test::find_task(graph, "trunk[size=m,seed=3]").config->at("train").at("seed") == 3);
  BOOST_TEST(test::find_task(graph, "trunk[size=l,seed=1]").config->at("model").at("width") == 32);
  options.set = {"axes.sise.m=12"};
  check_refusal(folder.refusal(trunks, options), "--set axes.sise.m: no axis 'sise'", "did you mean 'size'?");
  options.set = {};
  options.axis = {"seed=1,2,3"};
  check_refusal(folder.refusal(trunks, options), "--axis seed=1,2,3: axis 'seed' has no label '3'",
                "expected one of 1, 2; --axis keeps labels that are there, --set axes.seed.3=VALUE adds one");
}

BOOST_AUTO_TEST_CASE(origins_name_file_and_line) {
  const GridFolder folder;
  const Graph graph = folder.expand(kGrid);
  const Task& trunk = test::find_task(graph, "trunk[encoding=rope,size=small,seed=42]");
  const support::Origins origins = graph.origins_of(trunk);
  BOOST_TEST(origins.at("train.lr").line == 3);
  BOOST_TEST(origins.at("train.lr").file.find("configs/train.yml") != std::string::npos);
  BOOST_TEST(origins.at("model.width").file.find("configs/model/small.yml") != std::string::npos);
  BOOST_TEST(origins.at("train.seed").file == "pipelines/test.yml");
  BOOST_TEST(origins.count("train.none") == 0u);
}

BOOST_AUTO_TEST_CASE(a_scale_lays_vars_and_axes_over_the_file) {
  const std::string text =
      replaced(kGrid, "resources:\n  net:",
               "scales:\n  cpu: {vars: {tokens: {tiny: 1M}}, axes: {size: [tiny], seed: [1]}}\n  full: {}\n"
               "resources:\n  net:");
  ExpandOptions options = GridFolder::plain_options();
  const GridFolder folder;
  BOOST_TEST(folder.expand(text, options).tasks.size() == 900u);
  options.scale = "cpu";
  const Graph graph = folder.expand(text, options);
  BOOST_TEST(test::count_label(graph, "trunk") == 8u);
  BOOST_TEST(test::find_task(graph, "trunk[encoding=rope,size=tiny,seed=1]").config->at("train").at("tokens") ==
             1'000'000);
  options.scale = "cpus";
  check_refusal(folder.refusal(text, options), "--scale cpus: no scale 'cpus'", "did you mean 'cpu'?");
}

BOOST_AUTO_TEST_CASE(a_pin_replaces_an_axis_that_the_reader_lacks) {
  const std::string trunks = small(std::string(kFetchTokenize) +
                                       "  trunk: {run: pe-train, over: [seed], needs: {data: tokenize}, "
                                       "config: {set: {train.seed: $(seed)}}}\n"
                                       "  score: {run: pe-evaluate, needs: {data: tokenize, model: 'trunk[seed=2]'}}\n",
                                   "axes: {seed: [1, 2]}\n");
  const Graph graph = GridFolder().expand(trunks);
  const Task& score = test::find_task(graph, "score");
  BOOST_TEST(graph.tasks[score.inputs[1].producer].id == "trunk[seed=2]");
  const GridFolder folder;
  check_refusal(folder.refusal(replaced(trunks, "'trunk[seed=2]'", "trunk")),
                "pipelines/test.yml:8:60: stage 'score' lacks axis 'seed' of stage 'trunk'",
                "pin it: 'trunk[seed=…]', take all with `gather`, or make an instance for each with `each`");
  check_refusal(folder.refusal(replaced(trunks, "'trunk[seed=2]'", "'trunk[seed=3]'")),
                "pipelines/test.yml:8:60: axis 'seed' of stage 'trunk' has no label '3'");
  check_refusal(folder.refusal(replaced(trunks, "'trunk[seed=2]'", "'trunk[sed=2]'")),
                "pipelines/test.yml:8:60: stage 'trunk' has no axis 'sed'", "did you mean 'seed'?");
}

BOOST_AUTO_TEST_CASE(gather_follows_shared_axes) {
  const std::string text = small(std::string(kFetchTokenize) +
                                     "  trunk: {run: pe-train, over: [seed, size], needs: {data: tokenize}, "
                                     "config: {set: {train.seed: $(seed), model.width: $(size.value)}}}\n"
                                     "  score: {run: pe-evaluate, each: {model: trunk}, needs: {data: tokenize}}\n"
                                     "  report: {run: pe-report, over: [size], gather: {scores: score}}\n"
                                     "  one: {run: pe-report, gather: {scores: 'score[seed=2]'}}\n",
                                 "axes: {seed: [1, 2], size: {s: 8, l: 16}}\n");
  const Graph graph = GridFolder().expand(text);
  const Task& report = test::find_task(graph, "report[size=l]");
  BOOST_REQUIRE(report.inputs.size() == 2u);
  BOOST_TEST(graph.tasks[report.inputs[0].producer].id == "score[from=trunk,seed=1,size=l]");
  BOOST_TEST(graph.tasks[report.inputs[1].producer].id == "score[from=trunk,seed=2,size=l]");
  const Task& one = test::find_task(graph, "one");
  BOOST_REQUIRE(one.inputs.size() == 2u);
  BOOST_TEST(graph.tasks[one.inputs[0].producer].id == "score[from=trunk,seed=2,size=s]");
}

BOOST_AUTO_TEST_CASE(a_snapshot_in_each_adds_an_axis) {
  const std::string text =
      small(std::string(kFetchTokenize) +
            "  trunk: {run: pe-train, needs: {data: tokenize}, snapshots: {half: 0.5, final: 1.0}}\n"
            "  score: {run: pe-evaluate, each: {model: [trunk@half, trunk@final]}, needs: {data: tokenize}}\n");
  const Graph graph = GridFolder().expand(text);
  BOOST_TEST(test::find_task(graph, "score[from=trunk,snapshot=final]").inputs.at(1).snapshot == "final");
  BOOST_TEST(test::find_task(graph, "score[from=trunk,snapshot=half]").inputs.at(1).snapshot == "half");
}

BOOST_AUTO_TEST_CASE(snapshots_are_points_of_the_horizon_rounded_half_up) {
  const auto trunk = [](const std::string& points) {
    return small(std::string(kFetchTokenize) + "  trunk: {run: pe-train, needs: {data: tokenize}, snapshots: " +
                 points + ", config: {set: {train.batch: 10, train.length: 10, train.tokens: 901}}}\n");
  };
  const Graph graph = GridFolder().expand(trunk("{h: 0.25, i: 0.35, t: {tokens: 101}, s: {step: 7}, final: 1.0}"));
  std::string points;
  for (const SnapshotPoint& point : graph.tasks[2].snapshots)
    points += point.label + "=" + std::to_string(point.step) + " ";
  BOOST_TEST(points == "t=2 h=3 i=4 s=7 final=10 ");
  const GridFolder folder;
  check_refusal(folder.refusal(trunk("{s: {step: 11}}")),
                "pipelines/test.yml:6:66: snapshot 's' is at step 11, beyond the horizon of 10 steps (train.tokens = "
                "901 at 100 tokens per step)");
  check_refusal(folder.refusal(trunk("{s: 1.5}")),
                "pipelines/test.yml:6:66: snapshot 's' must be a fraction from 0 to 1, found '1.5'",
                "a point in tokens is {tokens: 1M}");
}

// The grid writes out the meaning of budgets: every task must be the same one, by its key.
BOOST_AUTO_TEST_CASE(budgets_are_an_axis_snapshots_and_the_values_of_a_decay) {
  const std::string written =
      "    over: [encoding, size, seed, branch]\n    axes: {branch: {b25: 0.25, b50: 0.50, b100: 1.00}}\n"
      "    needs: {data: tokenize, init: 'trunk@$(branch)'}\n";
  const std::string values =
      "set: {decay.horizon_tokens: $(tokens.$size), decay.end: $(branch.value), decay.share: 0.2}";
  std::string short_form = replaced(kGrid, "{b25: 0.20, b50: 0.40, b100: 0.80, d10: 0.625", "{d10: 0.625");
  short_form = replaced(
      short_form, written,
      "    over: [encoding, size, seed]\n    needs: {data: tokenize, init: trunk}\n    budgets: [1/4, 1/2, 1]\n");
  short_form = replaced(short_form, ", " + values, "");
  const GridFolder folder;
  const Graph expected = folder.keyed(kGrid), graph = folder.keyed(short_form);
  BOOST_REQUIRE(graph.tasks.size() == expected.tasks.size());
  std::size_t decays = 0;
  for (const Task& task : expected.tasks) {
    if (task.label == "report") continue;  // it prints the name of the axis
    std::string id = task.id;
    if (const auto at = id.find("branch="); at != std::string::npos) id.replace(at, 6, "budget");
    const Task& same = test::find_task(graph, id);
    BOOST_TEST(same.plan_key == task.plan_key, id);
    BOOST_TEST(*same.config == *task.config, id);
    BOOST_REQUIRE(same.snapshots.size() == task.snapshots.size());
    for (std::size_t i = 0; i < same.snapshots.size(); ++i) {
      BOOST_TEST(same.snapshots[i].label == task.snapshots[i].label);
      BOOST_TEST(same.snapshots[i].step == task.snapshots[i].step);
    }
    decays += task.label == "decay";
  }
  BOOST_TEST(decays == 135u);
}

BOOST_AUTO_TEST_CASE(budgets_take_another_share_and_refuse_values_beside_them) {
  const GridFolder folder;
  const auto text = [](const std::string& budgets, const std::string& rest = "",
                       const std::string& run = "pe-branch-decay") {
    return small(std::string(kFetchTokenize) +
                 "  trunk: {run: pe-train, needs: {data: tokenize}, config: {set: {train.batch: 10, train.length: 10, "
                 "train.tokens: 100000}}}\n"
                 "  decay: {run: " +
                 run + ", needs: {data: tokenize, init: trunk}, budgets: " + budgets + rest + "}\n");
  };
  const Graph graph = folder.expand(text("{ends: [1/8, 0.5], share: 0.1}"));
  BOOST_REQUIRE(graph.tasks.size() == 5u);
  std::string points;
  for (const SnapshotPoint& point : graph.tasks[2].snapshots)
    points += point.label + "=" + std::to_string(point.step) + " ";
  BOOST_TEST(points == "b12.5=113 b50=450 ");  // 112.5 steps, half up
  const Task& eighth = test::find_task(graph, "decay[budget=b12.5]");
  BOOST_TEST(eighth.inputs[1].snapshot == "b12.5");
  const Json expected = {{"horizon_tokens", 100000}, {"end", 0.125}, {"share", 0.1}};
  BOOST_TEST(eighth.config->at("decay") == expected);
  ExpandOptions one = GridFolder::plain_options();
  one.axis = {"budget=b50"};
  BOOST_TEST(folder.expand(text("[1/8, 1/2]"), one).tasks.size() == 4u);

  check_refusal(folder.refusal(text("[1/8]", ", config: {set: {decay.share: 0.3}}")),
                "pipelines/test.yml:7:80: 'decay.share' of stage 'decay' is 0.3, but its budgets say 0.2", "remove it");
  check_refusal(folder.refusal(text("[1/8]", ", config: {set: {decay: {end: 1}}}")),
                "pipelines/test.yml:7:80: 'decay.end' of stage 'decay' is 1.0, but its budgets say 0.125");
  check_refusal(
      folder.refusal(text("[1/8]", ", config: {set: {decay.horizon_tokens: 5M}}")),
      "pipelines/test.yml:7:80: 'decay.horizon_tokens' of stage 'decay' is 5000000, but it branches off trunk, whose "
      "'train.tokens' is 100000");
  check_refusal(folder.refusal(text("[1/8]", "", "pe-drop-pe")),
                "pipelines/test.yml:7:75: pe-drop-pe has no setting for its end, so it takes no budgets",
                "pe-branch-decay does");
}

BOOST_AUTO_TEST_CASE(a_stage_with_snapshots_is_always_named_with_one) {
  const std::string text = small(std::string(kFetchTokenize) +
                                 "  trunk: {run: pe-train, needs: {data: tokenize}, snapshots: {half: 0.5}}\n"
                                 "  score: {run: pe-evaluate, needs: {data: tokenize, model: trunk}}\n");
  const GridFolder folder;
  check_refusal(folder.refusal(text), "pipelines/test.yml:7:60: stage 'trunk' has snapshots and must be named with one",
                "such as trunk@half");
  check_refusal(folder.refusal(replaced(text, "model: trunk", "model: trunk@final")),
                "pipelines/test.yml:7:60: stage 'trunk' has no snapshot 'final'", "expected one of half");
}

BOOST_AUTO_TEST_CASE(mistakes_are_shown_with_place_and_a_way_out) {
  const GridFolder folder;
  const auto refused = [&](const std::string& from, const std::string& to) {
    return folder.refusal(replaced(kGrid, from, to));
  };
  check_refusal(refused("needs: {raw: fetch}", "needs: {raw: fetsh}"),
                "pipelines/test.yml:39:18: unknown stage 'fetsh'", "^^^^^ did you mean 'fetch'?");
  check_refusal(refused("slurm:\n", "slurm:\n  signal_lead: 3h\n"),
                "pipelines/test.yml:29:16: 'signal_lead' is 3 h 0 min, but fetch has 2 h 0 min",
                "Slurm sends its signal that long before the end");
  check_refusal(refused("needs: {raw: fetch}", "needs: {row: fetch}"),
                "pipelines/test.yml:39:13: pe-tokenize has no input 'row'", "did you mean 'raw'?");
  check_refusal(refused("over: [encoding, size, seed]", "over: [encodin, size, seed]"),
                "pipelines/test.yml:45:12: unknown axis 'encodin' in 'over' of stage 'trunk'",
                "did you mean 'encoding'?");
  check_refusal(
      refused("run: pe-report", "run: pe-reprot"),
      "pipelines/test.yml:87:10: the program 'pe-reprot' is neither in the folder of pe-pipeline nor on the PATH",
      "did you mean 'pe-report'?");
  check_refusal(refused("resources: net", "resources: nett"), "pipelines/test.yml:34:16: no resources 'nett'",
                "did you mean 'net'?");
  check_refusal(refused("train.seed: $(seed)", "train.sed: $(seed)"),
                "pipelines/test.yml:53:9: unknown key 'sed' in 'train' of stage 'trunk' (pe-train)",
                "did you mean 'seed'?");
  check_refusal(refused("train.seed: $(seed)", "train.seed: $(sead)"),
                "pipelines/test.yml:53:21: unknown name 'sead' in $(sead)", "did you mean 'seed'?");
  check_refusal(refused("$(tokens.$size)", "$(tokens.huge)"),
                "pipelines/test.yml:56:23: 'tokens' has no 'huge' in $(tokens.huge)",
                "expected one of tiny, small, medium, large");
  check_refusal(refused("$(tokens.$size)", "$(branch)"),
                "pipelines/test.yml:56:23: stage 'trunk' has no axis 'branch' in $(branch)",
                "add 'branch' to its `over`");
  check_refusal(refused("exclude: [{encoding: none}]", "exclude: [{encoding: ropes}]"),
                "pipelines/test.yml:72:26: 'exclude' of stage 'droppe': axis 'encoding' has no label 'ropes'",
                "did you mean 'rope'?");
  check_refusal(
      refused("init: 'trunk@$(branch)'", "init: 'trunk.metrics@$(branch)'"),
      "pipelines/test.yml:64:35: output 'metrics' of stage 'trunk' is metrics; input 'init' takes checkpoint");
  check_refusal(refused("init: 'trunk@$(branch)'", "init: fetch"),
                "pipelines/test.yml:64:35: stage 'fetch' has no output of kind checkpoint, which input 'init' takes",
                "its outputs are raw (raw-text)");
  check_refusal(refused("init: 'trunk@$(branch)'", "init: 'trunk@b$(branch)'"),
                "pipelines/test.yml:64:35: stage 'trunk' has no snapshot 'bb25'", "did you mean 'b25'?");
  check_refusal(refused("    needs: {data: tokenize}\n    resources: $(train", "    resources: $(train"),
                "pipelines/test.yml:43:3: input 'data' (token-shards) of stage 'trunk' is left empty",
                "`needs: {data: STAGE}` fills it");
  check_refusal(
      refused("needs: {data: tokenize}\n    resources: eval",
              "needs: {data: tokenize, model: decay}\n    resources: eval"),
      "pipelines/test.yml:79:12: input 'model' of stage 'evaluate' is filled twice: by `needs` and by `each`");
  check_refusal(refused("vocabulary: 65536", "vocabulary: 12"),
                "pipelines/test.yml:41:76: 'vocabulary' must be from 256 to 1048576, found '12' (stage 'tokenize' "
                "(pe-tokenize))");
  check_refusal(refused("config: {file: configs/report.yml}", "config: {file: configs/report.yaml}"),
                "pipelines/test.yml:91:20: no config file 'configs/report.yaml'", "did you mean 'configs/report.yml'?");
  check_refusal(refused("  train_on: {", "  spare: 1\n  train_on: {"),
                "pipelines/test.yml:19:3: var 'spare' is not used");
  check_refusal(refused("  seed: [42, 43, 44]", "  seed: [42, 43, 44]\n  spare: [1]"),
                "pipelines/test.yml:16:3: no stage uses axis 'spare'");
  check_refusal(refused("  seed: [42, 43, 44]", "  seed: {41: 41, 42: 43}"),
                "pipelines/test.yml:15:22: axis 'seed': no stage reads the value of '42', which is '43'",
                "write $(seed.value) for the value");
  const std::string label = replaced(kGrid, "$(encoding.value)", "$(encoding)");
  check_refusal(
      GridFolder().refusal(replaced(label, "encoding: [none, sinusoidal, learned, binary, decimal, rope, alibi, pope]",
                                    "encoding: {none: none, learned: learned, rope: {kind: rope, base: 500}}")),
      "pipelines/test.yml:13:50: axis 'encoding': no stage reads the value of 'rope', which is a map");
  check_refusal(refused("axes: {suite: [per", "axes: {seed: [1], suite: [per"),
                "pipelines/test.yml:81:12: axis 'seed' of stage 'evaluate' exists at the top");
  check_refusal(refused("each: {model: [decay, droppe]}", "each: {model: [decay, decay]}"),
                "pipelines/test.yml:77:3: two instances are called "
                "evaluate[from=decay,encoding=none,size=tiny,seed=42,branch=b25,suite=perplexity]");
}

BOOST_AUTO_TEST_CASE(all_mistakes_of_a_file_are_told_together) {
  std::string text = replaced(kGrid, "needs: {raw: fetch}", "needs: {raw: fetsh}");
  text = replaced(text, "train.seed: $(seed)", "train.sed: $(seed)");
  text = replaced(text, "resources: net", "resources: nett");
  const std::string message = GridFolder().refusal(text);
  BOOST_TEST(message.find("unknown stage 'fetsh'") != std::string::npos);
  BOOST_TEST(message.find("no resources 'nett'") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_cycle_is_shown) {
  const std::string text = small(
      "  a: {run: pe-branch-decay, needs: {data: t, init: b}}\n"
      "  b: {run: pe-branch-decay, needs: {data: t, init: c}}\n"
      "  c: {run: pe-branch-decay, needs: {data: t, init: a}}\n"
      "  f: {run: pe-fetch}\n  t: {run: pe-tokenize, needs: {raw: f}}\n");
  check_refusal(GridFolder().refusal(text), "pipelines/test.yml:4:3: the stages form a cycle: c -> b -> a -> c");
}

BOOST_AUTO_TEST_CASE(a_key_of_a_config_file_must_be_declared_by_some_stage) {
  const GridFolder folder;
  folder.write("configs/train.yml", "train:\n  lr: 3e-3\n  warmpu: 4\n");
  check_refusal(folder.refusal(kGrid), "ROOT/configs/train.yml:3:3: unknown key 'train.warmpu' in a config file",
                "no stage of this pipeline declares it");
  folder.write("configs/train.yml", "train:\n  lr: 3e-3\n  bacth: 4\n");
  check_refusal(folder.refusal(kGrid), "ROOT/configs/train.yml:3:3: unknown key 'train.bacth' in a config file",
                "did you mean 'train.batch'?");
}

BOOST_AUTO_TEST_CASE(flags_that_name_nothing_are_refused) {
  const GridFolder folder;
  const auto refused = [&](const std::string& set) {
    ExpandOptions options = GridFolder::plain_options();
    options.set = {set};
    return folder.refusal(kGrid, options);
  };
  check_refusal(refused("trnk.train.lr=1"), "--set trnk.train.lr: no stage 'trnk'", "did you mean 'trunk'?");
  check_refusal(refused("trunk.train.rl=1"),
                "--set trunk.train.rl: unknown key 'rl' in 'train' of stage 'trunk' (pe-train)", "did you mean 'lr'?");
  check_refusal(refused("vars.tokns=1"), "--set vars.tokns: no var 'tokns'", "did you mean 'tokens'?");
  check_refusal(refused("axes.sed=[1]"), "--set axes.sed: no axis 'sed'", "did you mean 'seed'?");
  check_refusal(refused("nonsense"), "--set: a setting is STAGE.key=value, found 'nonsense'");
  ExpandOptions options = GridFolder::plain_options();
  options.axis = {"encoding=rop"};
  check_refusal(folder.refusal(kGrid, options), "--axis encoding=rop: axis 'encoding' has no label 'rop'",
                "did you mean 'rope'?");
}

BOOST_AUTO_TEST_CASE(axes_of_one_name_keep_those_of_the_labels_that_they_have) {
  const std::string two = R"(schema: pe-pipeline/1
name: two
stages:
  fetch: {run: pe-fetch}
  tokenize: {run: pe-tokenize, needs: {raw: fetch}}
  small: {run: pe-train, over: [encoding], axes: {encoding: {rope: rope, none: none}}, needs: {data: tokenize}}
  large: {run: pe-train, over: [encoding], axes: {encoding: {alibi: alibi, none: none}}, needs: {data: tokenize}}
)";
  const GridFolder folder;
  const auto tasks = [&](const std::string& labels) {
    ExpandOptions options = GridFolder::plain_options();
    options.axis = {"encoding=" + labels};
    std::string all;
    for (const Task& task : folder.expand(two, options).tasks) all += task.id + " ";
    return all;
  };
  BOOST_TEST(tasks("none") == "fetch tokenize small[encoding=none] large[encoding=none] ");
  BOOST_TEST(tasks("alibi,rope") == "fetch tokenize small[encoding=rope] large[encoding=alibi] ");
  BOOST_TEST(tasks("alibi") == "fetch tokenize large[encoding=alibi] ");
  ExpandOptions options = GridFolder::plain_options();
  options.axis = {"encoding=alibis"};
  check_refusal(folder.refusal(two, options), "--axis encoding=alibis: axis 'encoding' has no label 'alibis'",
                "did you mean 'alibi'?");
}

BOOST_AUTO_TEST_CASE(a_missing_input_path_is_no_mistake_of_the_file) {
  const Graph graph = GridFolder().keyed(replaced(kGrid, "path: data/fineweb-edu", "path: data/absent"));
  BOOST_TEST(graph.tasks[0].externals.at(0).content->missing.find("data/absent") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_share_of_a_gpu_is_not_the_same_as_none) {
  // Two instances whose configs differ only where `compute: auto` reads their resources.
  const Graph graph = GridFolder().expand(R"(schema: pe-pipeline/1
name: shares
axes: {gpus: {none: 0, quarter: 0.25, one: 1}}
stages:
  fetch: {run: pe-fetch}
  tokenize: {run: pe-tokenize, needs: {raw: fetch}}
  trunk:
    run: pe-train
    over: [gpus]
    needs: {data: tokenize}
    resources: {cpus: 1, mem: 1G, gpus: $(gpus.value)}
)");
  const auto device = [&](const std::string& id) { return (*test::find_task(graph, id).config)["compute"]["device"]; };
  BOOST_TEST(device("trunk[gpus=none]") == "cpu");
  BOOST_TEST(device("trunk[gpus=quarter]") == "cuda");
  BOOST_TEST(device("trunk[gpus=one]") == "cuda");
}

BOOST_AUTO_TEST_CASE(what_was_excluded_takes_its_descendants_along) {
  const std::string text =
      replaced(kGrid, "exclude: [{encoding: learned, size: small}]", "only: [{encoding: [rope, alibi], seed: 42}]");
  BOOST_TEST(GridFolder().expand(text).excluded == 48u - 4 + 3 * 2 * 2);  // trunks, and drops of `none`
  const Graph graph = GridFolder().expand(text);
  BOOST_TEST(test::count_label(graph, "trunk") == 4u);
  BOOST_TEST(test::count_label(graph, "decay") == 12u);
  BOOST_TEST(graph.dropped == 132u + 76u);
}

BOOST_AUTO_TEST_SUITE_END()
