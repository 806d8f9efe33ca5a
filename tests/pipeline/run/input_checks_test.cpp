#include "pipeline/run/input_checks.h"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "pipeline/run/run_fixture.h"
#include "support/fault_point.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
namespace fs = std::filesystem;

namespace {

/// In real time: stages end immediately, and a wait is a wait.
class PatientRunner : public Runner {
 public:
  void start(const Launch& launch) override {
    test::FakeAttempt attempt;
    attempt.task = Json::parse(support::read_file(launch.directory / "task.json"));
    test::write_all_outputs(attempt);
    RunnerEvent event;
    event.ticket = launch.ticket;
    event.kind = RunnerEvent::Kind::kExit;
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }
  std::vector<RunnerEvent> wait(double timeout_s) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(timeout_s), [&] { return woken_ || !events_.empty(); });
    woken_ = false;
    return std::exchange(events_, {});
  }
  void signal(std::uint64_t, int) override {}
  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_all();
  }
  double now() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RunnerEvent> events_;
  bool woken_ = false;
};

/// Thirty inputs in the store, on a disk that is slow for each; two tasks read them all, and a third reads what
/// these make. Synced and with threads, as users run.
struct SlowDisk : test::SmallRun {
  static constexpr int kInputs = 30;
  std::size_t first = 0, second = 0, last = 0;
  std::atomic<int> reads{0};
  int ticks_while_verifying = 0;
  int reads_at_stop = -1;
  double most_shown = 0;

  SlowDisk() {
    std::vector<std::size_t> parts;
    for (int i = 0; i < kInputs; ++i) parts.push_back(add("part" + std::to_string(i)));
    first = add("first", parts);
    second = add("second", parts);
    last = add("last", {first, second});
    SmallRun::run();
    for (const auto task_of : {first, second}) task(task_of).config.edit()["salt"] = "new";
  }

  RunSummary run_slowly(const StopFunction& stop) {
    const support::FaultHook hook([this](std::string_view step) {
      if (step != "read object") return;
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
      ++reads;
    });
    Store slow(folder / "store");
    options.publish_threads = 2;
    compute_plan_keys(graph);
    const Plan planned = make_plan(graph, StoreReader(slow));
    PatientRunner patient;
    struct Watcher : RunListener {
      explicit Watcher(SlowDisk& owner) : at(owner) {}
      void on_event(const RunEvent& event, const RunState&) override {
        if (event.name == "stop") at.reads_at_stop = at.reads;
      }
      void on_tick(const RunState& state) override {
        const auto verifying = state.counts.find(TaskPhase::kVerifying);
        if (verifying == state.counts.end() || verifying->second == 0) return;
        ++at.ticks_while_verifying;
        for (const RunningTask& task : state.running) {
          if (task.progress.value("what", "").rfind("verifying", 0) == 0) at.most_shown += 1;
        }
      }
      SlowDisk& at;
    } watcher(*this);
    return pipeline::run(graph, planned, slow, patient, watcher, options, stop);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(input_checks)

BOOST_FIXTURE_TEST_CASE(reading_inputs_does_not_hold_up_the_loop_and_each_object_is_read_once, SlowDisk) {
  const RunSummary summary = run_slowly({});
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST(summary.executed == 3u);
  // Both read the same; and results of this run count as read.
  BOOST_TEST(reads == kInputs);
  BOOST_TEST(ticks_while_verifying >= 2);  // with heartbeats, and the display
  BOOST_TEST(most_shown >= 2);
}

BOOST_FIXTURE_TEST_CASE(an_interrupt_is_seen_while_inputs_are_read_and_reading_is_given_up, SlowDisk) {
  const RunSummary summary = run_slowly([&] { return reads >= 3 ? 1 : 0; });
  BOOST_TEST(summary.exit_code == kRunIncomplete);
  BOOST_TEST(summary.executed == 0u);
  BOOST_TEST((reads_at_stop >= 3 && reads_at_stop < kInputs));
  BOOST_TEST(reads < kInputs);
  BOOST_TEST((summary.phases[first] == TaskPhase::kReady));
  BOOST_TEST(fs::is_empty(folder / "store" / "leases"));
  // The same command continues.
  BOOST_TEST(run_slowly({}).exit_code == kRunDone);
}

BOOST_FIXTURE_TEST_CASE(damage_that_is_found_before_the_start_is_mended_by_the_producer, SlowDisk) {
  const auto key = *store->hint(task(0).plan_key);
  const fs::path object = store->object_path(store->find({key, -1})->outputs.at(0).object);
  const auto size = fs::file_size(object);
  fs::permissions(object, fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(object, std::ios::binary) << std::string(size, 'x');
  const RunSummary summary = run_slowly({});
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST(summary.executed == 4u);
  BOOST_TEST(store->damaged(store->find({key, -1})->outputs.at(0)).empty());
}

BOOST_AUTO_TEST_SUITE_END()
