// How tasks become elements, arrays and dependencies, without any Slurm.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <random>
#include <set>

#include "pipeline/cluster/array_layout.h"
#include "pipeline/cluster/batch.h"
#include "pipeline/grid_fixture.h"

using namespace pe::pipeline;  // NOLINT
using namespace pe::test;      // NOLINT

namespace {

std::vector<bool> all(const Graph& graph) { return std::vector<bool>(graph.tasks.size(), true); }

/// Every task to run has its place, and its producers are waited for: by its array, or within its element.
void check_sound(const Graph& graph, const std::vector<bool>& to_run, const std::vector<JobArray>& arrays,
                 std::int64_t largest) {
  std::map<std::size_t, std::pair<std::size_t, std::int64_t>> place;
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    BOOST_TEST(static_cast<std::int64_t>(arrays[k].elements.size()) <= largest);
    for (const auto& [index, tasks] : arrays[k].elements) {
      BOOST_TEST((index >= 0 && (index < largest || !arrays[k].live_job.empty())));
      BOOST_TEST(std::is_sorted(tasks.begin(), tasks.end()));
      for (const std::size_t i : tasks) BOOST_TEST(place.emplace(i, std::pair(k, index)).second, graph.tasks[i].id);
    }
    for (const ArrayNeed& need : arrays[k].needs) BOOST_TEST(need.array < k);
  }
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    BOOST_TEST((place.count(i) == 1) == to_run[i], graph.tasks[i].id);
    if (!to_run[i]) continue;
    const auto [array, index] = place.at(i);
    if (!arrays[array].live_job.empty()) continue;
    for (const Edge& edge : graph.tasks[i].inputs) {
      if (!to_run[edge.producer]) continue;
      const auto [other, at] = place.at(edge.producer);
      if (other == array && at == index) continue;
      const bool waited =
          std::any_of(arrays[array].needs.begin(), arrays[array].needs.end(), [&](const ArrayNeed& need) {
            if (need.array != other) return false;
            if (need.kind == ArrayNeed::Kind::kAfterCorr) return at == index;
            return need.indices.empty() ||
                   std::find(need.indices.begin(), need.indices.end(), at) != need.indices.end();
          });
      BOOST_TEST(waited, graph.tasks[i].id << " does not wait for " << graph.tasks[edge.producer].id);
    }
  }
}

std::set<std::string> kinds(const JobArray& array) {
  std::set<std::string> found;
  for (const ArrayNeed& need : array.needs) {
    found.insert(need.kind == ArrayNeed::Kind::kAfterCorr ? "corr"
                 : need.kind == ArrayNeed::Kind::kAfterOk ? "ok"
                                                          : "any");
  }
  return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cluster_elements)

BOOST_AUTO_TEST_CASE(the_grid_of_900_tasks_is_a_few_dozen_arrays) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid);
  const auto arrays = group(graph, all(graph), {});
  check_sound(graph, all(graph), arrays, 1001);
  BOOST_TEST(arrays.size() <= 50u);
  for (const JobArray& array : arrays) {
    if (array.label == "decay") BOOST_TEST(kinds(array).count("corr") == 1u);
    if (array.label == "report") BOOST_TEST((kinds(array) == std::set<std::string>{"any"}));
  }
}

BOOST_AUTO_TEST_CASE(a_lane_walks_a_chain_and_what_all_share_stays_apart) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid);
  Grouping lanes;
  lanes.mode = "lane";
  const auto arrays = group(graph, all(graph), lanes);
  check_sound(graph, all(graph), arrays, 1001);
  BOOST_TEST(arrays.size() <= 12u);
  for (const JobArray& array : arrays) {
    for (const auto& [index, tasks] : array.elements) {
      const auto trunks =
          std::count_if(tasks.begin(), tasks.end(), [&](std::size_t i) { return graph.tasks[i].label == "trunk"; });
      BOOST_TEST(trunks <= 1);
      if (graph.tasks[tasks.front()].label == "trunk") BOOST_TEST(tasks.size() > 1u);
    }
  }
}

BOOST_AUTO_TEST_CASE(shares_of_a_gpu_have_the_time_of_their_rounds) {
  const GridFolder folder;
  Graph graph = folder.keyed(kGrid);
  for (Task& task : graph.tasks) {
    if (task.label != "trunk") continue;
    task.resources.gpus = 0.25;
    task.resources.pack = 5;
    task.resources.time_s = 3600;
  }
  std::set<std::size_t> sizes;
  for (const JobArray& array : group(graph, all(graph), {})) {
    if (array.label != "trunk") continue;
    const std::size_t count = array.elements.begin()->second.size();
    sizes.insert(count);
    BOOST_TEST(array.resources.time_s == (count > 4 ? 7200 : 3600), count << " tasks");
  }
  BOOST_TEST(sizes.count(5) == 1U);

  // A chain runs one task after the other.
  for (Task& task : graph.tasks) {
    task.resources = {};
    task.resources.cpus = 3;
    task.resources.gpus = 0.5;
    task.resources.time_s = 3600;
  }
  Grouping lanes;
  lanes.mode = "lane";
  bool chain = false;
  for (const JobArray& array : group(graph, all(graph), lanes)) {
    const std::vector<std::size_t>& tasks = array.elements.begin()->second;
    const double rounds = array.resources.time_s / 3600;
    BOOST_TEST(rounds >= static_cast<double>(tasks.size()) / 2, array.label);
    BOOST_TEST(array.resources.cpus <= 6);
    BOOST_TEST(array.resources.gpus == 1.0);
    if (tasks.size() != 2) continue;
    chain = true;
    BOOST_TEST(rounds == 2.0);
    BOOST_TEST(array.resources.cpus == 3);
  }
  BOOST_TEST(chain);
}

BOOST_AUTO_TEST_CASE(arrays_stay_below_the_limit_of_the_site) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid);
  for (const std::int64_t largest : {1, 2, 7, 101}) {
    for (const char* mode : {"stage", "lane"}) {
      Grouping grouping;
      grouping.mode = mode;
      grouping.largest_array = largest;
      check_sound(graph, all(graph), group(graph, all(graph), grouping), largest);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_there_or_in_the_queue_already_is_not_sent_again) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid);
  std::vector<bool> to_run = all(graph);
  Grouping grouping;
  std::int64_t index = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const std::string& label = graph.tasks[i].label;
    if (label == "fetch" || label == "tokenize") to_run[i] = false;  // in the store
    if (label == "trunk" && graph.tasks[i].id.find("seed=42") != std::string::npos) grouping.live[i] = {"77", index++};
  }
  const auto arrays = group(graph, to_run, grouping);
  check_sound(graph, to_run, arrays, 1001);
  BOOST_TEST_REQUIRE(!arrays.empty());
  BOOST_TEST(arrays[0].live_job == "77");
  bool follows = false;
  for (const JobArray& array : arrays) {
    if (array.label == "trunk" && array.live_job.empty()) BOOST_TEST(array.needs.empty());
    for (const ArrayNeed& need : array.needs) follows = follows || need.array == 0;
  }
  BOOST_TEST(follows);
}

BOOST_AUTO_TEST_CASE(random_parts_of_the_grid_are_grouped_soundly) {
  const GridFolder folder;
  const Graph graph = folder.keyed(kGrid);
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    std::vector<bool> to_run(graph.tasks.size());
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      to_run[i] = random() % 4 != 0;
      for (const Edge& edge : graph.tasks[i].inputs) {
        if (to_run[edge.producer] && random() % 2) to_run[i] = true;
      }
    }
    Grouping grouping;
    grouping.mode = random() % 2 ? "lane" : "stage";
    grouping.largest_array = 1 + static_cast<std::int64_t>(random() % 200);
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      if (to_run[i] && random() % 9 == 0)
        grouping.live[i] = {std::to_string(100 + random() % 3), static_cast<std::int64_t>(random() % 300)};
    }
    check_sound(graph, to_run, group(graph, to_run, grouping), std::max<std::int64_t>(grouping.largest_array, 300));
  }
}

BOOST_AUTO_TEST_CASE(indices_are_told_in_ranges) {
  BOOST_TEST(index_list({{0, {}}, {1, {}}, {2, {}}, {5, {}}, {7, {}}, {8, {}}}) == "0-2,5,7-8");
  BOOST_TEST(index_list({{4, {}}}) == "4");
}

BOOST_AUTO_TEST_CASE(options_are_words_that_no_shell_reads) {
  JobArray array;
  array.label = "trunk $(x)";
  array.elements = {{0, {}}, {1, {}}};
  array.resources.name = "gpu";
  array.resources.cpus = 4;
  array.resources.mem_bytes = 3LL << 30;
  array.resources.gpus = 2;
  array.resources.time_s = 5400;
  array.policy.partitions = {{"gpu", "a\"b c"}, {"default", "other"}};
  array.policy.gpu_type = "a100";
  array.policy.max_running = 1;
  array.policy.setup = {"module load cuda"};
  BatchPlace place{"RUN", "0123456789ab", "/a folder/it's", {"/bin/pe pipeline", "__element", "it's"}};
  const auto words = sbatch_options(array, place);
  const auto has = [&](const std::string& word) {
    BOOST_TEST(std::count(words.begin(), words.end(), word) == 1, word);
  };
  has("--job-name=trunk___x_.0123456789ab");
  has("--partition=a\"b c");
  has("--gres=gpu:a100:2");
  has("--mem=3072M");
  has("--cpus-per-task=4");
  has("--time=90");
  has("--array=0-1%1");
  has("--signal=B:USR1@120");
  has("--chdir=/a folder/it's");
  BOOST_TEST(batch_script(array, place) ==
             "#!/bin/bash\nmodule load cuda\nexec '/bin/pe pipeline' __element 'it'\\''s' \"$SLURM_ARRAY_TASK_ID\"\n");
  // Slurm takes the last --gres alone.
  array.policy.options = {"--gres=nvme:1", "--exclusive"};
  const auto scratch = sbatch_options(array, place);
  BOOST_TEST(std::count(scratch.begin(), scratch.end(), "--gres=gpu:a100:2,nvme:1") == 1);
  BOOST_TEST(std::count(scratch.begin(), scratch.end(), "--exclusive") == 1);
  BOOST_TEST(
      std::count_if(scratch.begin(), scratch.end(), [](const auto& word) { return word.starts_with("--gres"); }) == 1);
  array.policy.memory = "per-cpu";
  array.policy.gpus = "per-node";
  array.policy.nodes = 2;
  const auto two = sbatch_options(array, place);
  for (const char* word :
       {"--mem-per-cpu=768M", "--gpus-per-node=a100:1", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=2"})
    BOOST_TEST(std::count(two.begin(), two.end(), word) == 1, word);
  array.policy.memory = "none";
  for (const std::string& word : sbatch_options(array, place)) BOOST_TEST(word.find("--mem") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(who_is_over_is_never_named) {
  using Kind = ArrayNeed::Kind;
  const std::vector<ArrayNeed> needs{
      {Kind::kAfterCorr, 0, {}}, {Kind::kAfterOk, 1, {3, 4}}, {Kind::kAfterOk, 2, {}}, {Kind::kAfterAny, 3, {}}};
  BOOST_TEST(dependency(needs, {{0, "10"}, {1, "11"}, {2, "12"}, {3, "13"}}) ==
             "aftercorr:10,afterok:11_3:11_4:12,afterany:13");
  BOOST_TEST(dependency(needs, {{1, "11"}}) == "afterok:11_3:11_4");
  BOOST_TEST(dependency(needs, {}) == "");
}

BOOST_AUTO_TEST_SUITE_END()
