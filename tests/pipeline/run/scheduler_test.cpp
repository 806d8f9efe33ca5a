#include "pipeline/plan/ready_queue.h"
#include "pipeline/plan/slots.h"
#include "pipeline/run/gpu_lease.h"

#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include <algorithm>
#include <cstdlib>

#include "pipeline/run/run_fixture.h"
#include "support/temp_folder.h"

using namespace pe::pipeline;  // NOLINT

namespace {

Resources demand(std::int64_t cpus, double gpus = 0, std::vector<std::string> pools = {}) {
  Resources resources;
  resources.cpus = cpus;
  resources.mem_bytes = 1 << 20;
  resources.gpus = gpus;
  resources.pools = std::move(pools);
  return resources;
}

Capacity capacity() {
  Capacity capacity;
  capacity.cpus = 8;
  capacity.mem_bytes = 1LL << 30;
  capacity.gpus = {"0", "1", "3"};
  capacity.pools = {{"net", 2}};
  return capacity;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(scheduler)

BOOST_AUTO_TEST_CASE(gpus_are_handed_out_by_id_and_come_back_in_order) {
  Slots slots(capacity());
  const auto a = slots.take(demand(1, 2));
  BOOST_TEST((a->gpus == std::vector<std::string>{"0", "1"}));
  BOOST_TEST(!slots.take(demand(1, 2)));
  const auto b = slots.take(demand(1, 1));
  BOOST_TEST((b->gpus == std::vector<std::string>{"3"}));
  slots.give_back(*b);
  slots.give_back(*a);
  BOOST_TEST((slots.take(demand(1, 3))->gpus == capacity().gpus));
}

BOOST_AUTO_TEST_CASE(a_gpu_that_another_program_holds_is_passed_over) {
  pe::test::TempFolder folder;
  GpuLeases theirs(folder.path()), ours(folder.path());
  BOOST_TEST(theirs.take("1"));
  Slots slots(capacity());
  const auto slot = slots.take(demand(1, 2), 1, &ours);
  BOOST_TEST((slot->gpus == std::vector<std::string>{"0", "3"}));
  for (const auto& id : slot->gpus) ours.give_back(id);
  slots.give_back(*slot);
  BOOST_TEST(!slots.take(demand(1, 3), 1, &ours));
  theirs.give_back("1");
  BOOST_TEST(slots.take(demand(1, 3), 1, &ours).has_value());
}

BOOST_AUTO_TEST_CASE(shares_fill_a_gpu_before_the_next_is_begun) {
  Slots slots(capacity());
  std::vector<Slot> taken;
  const auto ids = [&](double share) {
    const auto slot = slots.take(demand(1, share));
    if (!slot) return std::string("none");
    taken.push_back(*slot);
    return slot->gpus.size() == 1 ? slot->gpus[0] : std::string("many");
  };
  BOOST_TEST(ids(0.5) == "0");
  BOOST_TEST(ids(0.25) == "0");
  BOOST_TEST(ids(0.5) == "1");  // a quarter is left of the first
  BOOST_TEST(ids(0.25) == "0");
  BOOST_TEST(ids(1) == "3");
  BOOST_TEST(ids(1) == "none");
  BOOST_TEST(ids(0.5) == "1");
  BOOST_TEST(ids(0.01) == "none");
  for (const Slot& slot : taken) slots.give_back(slot);
  BOOST_TEST((slots.take(demand(1, 3))->gpus == capacity().gpus));
}

BOOST_AUTO_TEST_CASE(shares_of_a_gpu_are_leased_from_other_programs_too) {
  pe::test::TempFolder folder;
  GpuLeases theirs(folder.path()), ours(folder.path());
  BOOST_TEST(theirs.take("0", 50));
  BOOST_TEST(ours.take("0", 25));
  BOOST_TEST(!ours.take("0"));
  BOOST_TEST(!ours.take("0", 26));
  BOOST_TEST(ours.take("0", 25));
  BOOST_TEST(!theirs.take("0", 1));
  ours.give_back("0", 25);
  BOOST_TEST(theirs.take("0", 25));
  theirs.give_back("0", 50);
  theirs.give_back("0", 25);
  ours.give_back("0", 25);
  BOOST_TEST(ours.take("0"));
}

BOOST_AUTO_TEST_CASE(a_gpu_is_the_same_by_number_and_by_uuid) {
  pe::test::TempFolder folder;
  const auto driver = folder / "gpus";
  const auto describe = [&](const std::string& place, const std::string& uuid) {
    std::filesystem::create_directories(driver / place);
    std::ofstream(driver / place / "information") << "Model: \t x\nGPU UUID: \t " << uuid << "\nDevice Minor: 0\n";
  };
  describe("0000:81:00.0", "GPU-bbbb1111-2222");
  describe("0000:01:00.0", "GPU-aaaa1111-2222");
  GpuLeases theirs(folder / "locks", driver), ours(folder / "locks", driver);
  std::filesystem::create_directories(folder / "locks");
  BOOST_TEST(theirs.take("1"));
  BOOST_TEST(!ours.take("GPU-bbbb1111-2222"));
  BOOST_TEST(!ours.take("GPU-bbbb"));
  BOOST_TEST(ours.take("GPU-aaaa"));
  BOOST_TEST(!theirs.take("0"));
  BOOST_TEST(ours.take("7"));  // unknown: by its text
  BOOST_TEST(!theirs.take("7"));
}

BOOST_AUTO_TEST_CASE(pools_hold_what_they_were_given_else_one) {
  Slots slots(capacity());
  BOOST_TEST(slots.take(demand(1, 0, {"net"})).has_value());
  BOOST_TEST(slots.take(demand(1, 0, {"net"})).has_value());
  BOOST_TEST(!slots.take(demand(1, 0, {"net"})));
  const auto disk = slots.take(demand(1, 0, {"disk"}));
  BOOST_TEST(disk.has_value());
  BOOST_TEST(!slots.take(demand(1, 0, {"disk"})));
  slots.give_back(*disk);
  BOOST_TEST(slots.take(demand(1, 0, {"disk"})).has_value());
}

BOOST_AUTO_TEST_CASE(a_demand_above_the_machine_names_the_flag_that_lowers_it) {
  Resources big = demand(9);
  big.name = "train";
  BOOST_TEST(impossible(big, capacity()).find("--set resources.train.cpus=8") != std::string::npos);
  big.cpus = 1;
  big.mem_bytes = 2LL << 30;
  BOOST_TEST(impossible(big, capacity()).find("--set resources.train.mem=1024M") != std::string::npos);
  big.mem_bytes = 0;
  big.gpus = 4;
  BOOST_TEST(impossible(big, capacity()).find("--gpus") != std::string::npos);
  // Resources without a name belong to a stage, in the file.
  Resources own = demand(1);
  own.mem_bytes = 2LL << 30;
  const std::string text = impossible(own, capacity());
  BOOST_TEST(text.find("`resources: {mem: 1024M}`, or raise --mem") != std::string::npos, text);
  BOOST_TEST(text.find("--set") == std::string::npos, text);
  Capacity tiny = capacity();
  tiny.mem_bytes = 16;
  BOOST_TEST(impossible(own, tiny).find("0M") == std::string::npos, impossible(own, tiny));
  BOOST_TEST(impossible(own, tiny).find("here: raise --mem") != std::string::npos, impossible(own, tiny));
  BOOST_TEST(impossible(demand(8, 3), capacity()) == "");
  BOOST_TEST(impossible(demand(1, 0.5), capacity()) == "");
  Capacity none = capacity();
  none.gpus.clear();
  BOOST_TEST(impossible(demand(1, 0.5), none).find("it asks for 0.5 of a GPU") == 0u);
}

BOOST_AUTO_TEST_CASE(this_machine_has_something) {
  const Capacity here = detect_capacity();
  BOOST_TEST(here.cpus >= 1);
  BOOST_TEST(here.mem_bytes > (64 << 20));
}

BOOST_AUTO_TEST_CASE(a_gpu_that_is_visible_twice_counts_once) {
  const char* const before = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string kept = before ? before : "";
  ::setenv("CUDA_VISIBLE_DEVICES", "1,0,1", 1);
  const Capacity here = detect_capacity();
  if (before)
    ::setenv("CUDA_VISIBLE_DEVICES", kept.c_str(), 1);
  else
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  BOOST_TEST((here.gpus == std::vector<std::string>{"1", "0"}));
}

BOOST_AUTO_TEST_CASE(the_longest_remaining_path_then_most_descendants_then_order) {
  Graph graph;
  graph.tasks.resize(6);  // 0 alone, 1 → 2 → 3, 4 → 5
  graph.tasks[2].inputs.push_back({"in", 1, "out", ""});
  graph.tasks[3].inputs.push_back({"in", 2, "out", ""});
  graph.tasks[5].inputs.push_back({"in", 4, "out", ""});
  ReadyQueue queue(graph, {2, 1, 1, 1, 1, 1});
  for (const std::size_t task : {0, 1, 4}) queue.add(task);
  std::vector<std::size_t> order;
  for (auto next = queue.first(); next; next = queue.after(*next)) order.push_back(*next);
  BOOST_TEST((order == std::vector<std::size_t>{1, 4, 0}));
  BOOST_TEST(queue.remaining(1) == 3.0);
  queue.remove(1);
  BOOST_TEST(queue.size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_walk_goes_on_whatever_leaves_the_queue) {
  Graph graph;
  graph.tasks.resize(4);
  ReadyQueue queue(graph, {4, 3, 2, 1});
  for (const std::size_t task : {0, 1, 2, 3}) queue.add(task);
  queue.remove(0);  // the current one
  queue.remove(1);  // and the one that would have been next
  BOOST_TEST((queue.after(0) == std::optional<std::size_t>(2)));
  queue.add(1);
  BOOST_TEST((queue.after(0) == std::optional<std::size_t>(1)));
  for (const std::size_t task : {1, 2, 3}) queue.remove(task);
  BOOST_TEST(!queue.after(0));
  BOOST_TEST(!queue.first());
}

BOOST_AUTO_TEST_CASE(what_a_waiting_task_gathers_is_not_taken_from_it) {
  Slots slots(capacity());
  const auto running = slots.take(demand(2, 1));
  const Resources large = demand(4, 3);
  BOOST_TEST(!slots.has_room(large));
  // Two GPUs are free, and both are kept; of six CPUs two are not.
  BOOST_TEST(!slots.has_room_beside(demand(1, 1), 1, large, 1));
  BOOST_TEST(slots.has_room_beside(demand(2), 1, large, 1));
  BOOST_TEST(!slots.has_room_beside(demand(3), 1, large, 1));
  // A share may use a GPU that is begun already, unless the large task waits for that one, too.
  BOOST_TEST(!slots.has_room_beside(demand(1, 0.5), 1, large, 1));
  const auto share = slots.take(demand(1, 0.25));
  BOOST_TEST(!slots.has_room_beside(demand(1, 0.5), 1, large, 1));
  BOOST_TEST(slots.has_room_beside(demand(1, 0.5), 1, demand(1, 1), 1));
  slots.give_back(*share);
  slots.give_back(*running);
  BOOST_TEST(slots.has_room(large));
}

BOOST_AUTO_TEST_CASE(as_many_shares_fit_on_a_gpu_as_their_sum_allows) {
  for (const auto& [share, count] : {std::pair(0.125, 8), {0.333, 3}, {0.14, 7}, {0.5, 2}, {0.3, 3}}) {
    Capacity one = capacity();
    one.cpus = 100;
    one.gpus.resize(1);
    Slots slots(one);
    int fits = 0;
    while (slots.take(demand(1, share))) ++fits;
    BOOST_TEST(fits == count, share);
  }
}

BOOST_FIXTURE_TEST_CASE(a_task_of_four_gpus_starts_beside_a_stream_of_small_ones, pe::test::SmallRun) {
  options.capacity.cpus = 16;
  for (int i = 0; i < 4; ++i)
    options.capacity.gpus.push_back("test-" + std::to_string(::getpid()) + "-" + std::to_string(i));
  std::size_t gate = add("gate");
  task(gate).resources.gpus = 1;
  // Ready from the start, and never all done at one moment: each takes another time.
  for (int i = 0; i < 60; ++i) {
    const std::string name = "small" + std::to_string(i);
    task(add(name)).resources.gpus = 1;
    behaviour[name] = [i](pe::test::FakeAttempt& attempt) {
      attempt.seconds = 1 + 0.37 * (i % 7);
      pe::test::write_all_outputs(attempt);
    };
  }
  const auto large = add("large", {gate});
  task(large).resources.gpus = 4;
  options.expected_s.assign(graph.tasks.size(), 0);
  options.expected_s[large] = 1000;  // the longest path, hence the most urgent
  BOOST_TEST(run().exit_code == kRunDone);
  const auto at = std::find(runner->started.begin(), runner->started.end(), "large") - runner->started.begin();
  // The tasks that ran when it became ready, and some that were sure to end before it could start.
  BOOST_TEST(at < 16);
}

BOOST_AUTO_TEST_SUITE_END()
