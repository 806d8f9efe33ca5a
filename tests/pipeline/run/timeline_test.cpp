// The timeline of a run, read back from plan and journal: when tasks were ready, where they ran, what the end waited
// for.
#include "pipeline/run/timeline.h"

#include <boost/test/unit_test.hpp>

#include "pipeline/store/journal.h"
#include "support/error.h"
#include "support/files.h"
#include "support/make_old.h"
#include "support/temp_folder.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

namespace {

constexpr double kStart = 1'700'000'000;

/// A run folder written by hand.
class Told {
 public:
  Told() : store_(folder_ / "store", {.durable = false}) { support::make_folders(run_folder()); }

  std::filesystem::path run_folder() const { return store_.runs_folder() / "20261121-000000-aaaa"; }
  void task(const std::string& id, const std::vector<std::string>& needs = {}, const std::string& state = "run") {
    Json json{
        {"id", id}, {"stage", id.substr(0, id.find('['))}, {"plan_key", "p"}, {"task_key", "k"}, {"state", state}};
    if (state != "reuse") json["needs"] = needs;
    tasks_.push_back(std::move(json));
  }
  void event(double at, Json json) {
    json["seq"] = ++seq_;
    json["time"] = kStart + at;
    journal_ += journal_line(json);
  }
  void start(double at, const std::string& id, int attempt = 1) {
    event(at, {{"event", "start"}, {"task", id}, {"attempt", attempt}, {"cpus", 1}});
  }
  void exit(double at, const std::string& id, int attempt = 1, const std::string& outcome = "done",
            std::int64_t rss = 0) {
    event(at, {{"event", "exit"}, {"task", id}, {"attempt", attempt}, {"class", outcome}, {"peak_rss_bytes", rss}});
  }
  void publish(double at, const std::string& id, const std::string& snapshot = "", std::uint64_t bytes = 10) {
    Json json{{"event", "publish"}, {"task", id}, {"attempt", 1}, {"bytes", bytes}};
    if (!snapshot.empty()) json["snapshot"] = snapshot;
    event(at, json);
  }
  void ran(double from, double to, const std::string& id, std::int64_t rss = 0) {
    start(from, id);
    exit(to, id, 1, "done", rss);
    publish(to, id);
  }
  Timeline read(double ended = 0) const {
    const Json plan{{"schema", "pe-run/1"},
                    {"run", "20261121-000000-aaaa"},
                    {"pipeline", "toy"},
                    {"title", "A toy"},
                    {"root", "/nowhere"},
                    {"host", "h"},
                    {"pid", 1},
                    {"started", kStart},
                    {"capacity", "cpus 2"},
                    {"tasks", tasks_}};
    support::write_file_atomically(run_folder() / "plan.json", plan.dump(), false);
    support::write_file_atomically(run_folder() / "journal.h.1.jsonl", journal_, false);
    test::make_old(run_folder());  // a run of another host is alive while it writes
    if (ended > 0) {
      support::write_file_atomically(run_folder() / "summary.json",
                                     Json{{"exit_code", 0}, {"ended", kStart + ended}}.dump(), false);
    }
    return read_timeline(store_, "20261121-000000-aaaa");
  }

 private:
  test::TempFolder folder_;
  Store store_;
  Json tasks_ = Json::array();
  std::string journal_;
  std::int64_t seq_ = 0;
};

const TimelineTask& task_of(const Timeline& timeline, const std::string& id) {
  for (const TimelineTask& task : timeline.tasks) {
    if (task.id == id) return task;
  }
  throw std::runtime_error("no task " + id);
}

std::vector<std::string> critical_of(const Timeline& timeline) {
  std::vector<std::string> ids;
  for (const std::size_t i : timeline.critical) ids.push_back(timeline.tasks[i].id);
  return ids;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(timeline)

BOOST_AUTO_TEST_CASE(a_task_waits_from_its_last_input_to_its_start) {
  Told told;
  told.task("a");
  told.task("b[seed=1]", {"a"});
  told.task("b[seed=2]", {"a"});
  told.ran(0, 10, "a");
  told.ran(10, 14, "b[seed=1]");
  told.ran(14, 15, "b[seed=2]");
  const Timeline timeline = told.read(16);
  BOOST_TEST(timeline.state == "done");
  BOOST_TEST(timeline.length_s == 16, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(task_of(timeline, "b[seed=1]").waited_s() == 0.0);
  BOOST_TEST(task_of(timeline, "b[seed=2]").ready_s == 10, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(task_of(timeline, "b[seed=2]").waited_s() == 4, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(timeline.task_seconds() == 15, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(timeline.lanes == 1u);
  BOOST_TEST((timeline.stages == std::vector<std::string>{"a", "b"}));
}

BOOST_AUTO_TEST_CASE(no_two_spans_of_a_slot_overlap_and_no_more_slots_are_used_than_needed) {
  Told told;
  for (int i = 0; i < 40; ++i) told.task("t[i=" + std::to_string(i) + "]");
  // Three at a time, of lengths that drift apart.
  double free[3] = {0, 0, 0};
  for (int i = 0; i < 40; ++i) {
    double& slot = *std::min_element(free, free + 3);
    told.ran(slot, slot + 1 + i % 7 * 0.3, "t[i=" + std::to_string(i) + "]");
    slot += 1 + i % 7 * 0.3;
  }
  const Timeline timeline = told.read(100);
  BOOST_TEST(timeline.lanes == 3u);
  for (const TimelineTask& a : timeline.tasks) {
    for (const TimelineTask& b : timeline.tasks) {
      if (&a == &b || a.spans[0].lane != b.spans[0].lane) continue;
      BOOST_TEST((a.spans[0].end_s <= b.spans[0].start_s + 1e-6 || b.spans[0].end_s <= a.spans[0].start_s + 1e-6));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_critical_path_is_what_the_end_waited_for) {
  Told told;
  told.task("quick");
  told.task("slow");
  told.task("middle", {"quick", "slow"});
  told.task("aside", {"quick"});
  told.task("last", {"middle", "aside"});
  told.ran(0, 1, "quick");
  told.ran(0, 9, "slow");
  told.ran(1, 2, "aside");
  told.ran(9, 11, "middle");
  told.ran(11, 12, "last");
  BOOST_TEST((critical_of(told.read(12)) == std::vector<std::string>{"slow", "middle", "last"}));
}

BOOST_AUTO_TEST_CASE(a_snapshot_is_there_before_its_trunk_ends) {
  Told told;
  told.task("trunk");
  told.task("decay", {"trunk@b25"});
  told.start(0, "trunk");
  told.publish(5, "trunk", "b25");
  told.ran(6, 8, "decay");
  told.publish(20, "trunk", "final");
  told.exit(20, "trunk");
  const Timeline timeline = told.read(20);
  BOOST_TEST(task_of(timeline, "decay").ready_s == 5, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(task_of(timeline, "decay").waited_s() == 1, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(timeline.lanes == 2u);
  BOOST_TEST((critical_of(timeline) == std::vector<std::string>{"trunk"}));
}

BOOST_AUTO_TEST_CASE(attempts_reuse_and_failures_are_told_apart) {
  Told told;
  told.task("there", {}, "reuse");
  told.task("again", {"there"});
  told.task("bad");
  told.task("behind", {"bad"});
  told.start(0, "again", 1);
  told.exit(2, "again", 1, "oom", 900);
  told.event(2, {{"event", "retry"}, {"task", "again"}, {"attempt", 1}});
  told.start(3, "again", 2);
  told.exit(6, "again", 2, "done", 500);
  told.publish(6, "again");
  told.start(0, "bad");
  told.exit(1, "bad", 1, "permanent", 300);
  told.event(1, {{"event", "fail"}, {"task", "bad"}, {"attempt", 1}, {"reason", "exit code 2"}});
  told.event(1, {{"event", "block"}, {"task", "behind"}, {"reason", "needs bad, which failed"}});
  const Timeline timeline = told.read(6);
  BOOST_TEST(task_of(timeline, "there").state == "reused");
  BOOST_TEST(task_of(timeline, "again").spans.size() == 2u);
  BOOST_TEST(task_of(timeline, "again").spans[0].outcome == "oom");
  BOOST_TEST(task_of(timeline, "again").peak_rss_bytes() == 900);
  BOOST_TEST(task_of(timeline, "bad").state == "failed");
  BOOST_TEST(task_of(timeline, "bad").reason == "exit code 2");
  BOOST_TEST(task_of(timeline, "behind").state == "blocked");
  BOOST_TEST(task_of(timeline, "behind").spans.empty());
  BOOST_TEST(timeline.peak_together_bytes() == 1200);
  BOOST_TEST(timeline.count("reused") == 1u);
}

BOOST_AUTO_TEST_CASE(a_run_that_died_and_a_torn_journal_still_have_a_timeline) {
  Told told;
  told.task("a");
  told.task("b");
  told.ran(0, 2, "a");
  told.start(1, "b");
  const Timeline whole = told.read();
  BOOST_TEST(whole.state == "died");
  BOOST_TEST(task_of(whole, "b").spans[0].outcome == "lost");
  BOOST_TEST(whole.length_s == 2, boost::test_tools::tolerance(1e-6));
  // Cut anywhere, it reads without a fuss and never says more than it did.
  const std::string journal = support::read_file(told.run_folder() / "journal.h.1.jsonl");
  const Store store(told.run_folder().parent_path().parent_path(), {.durable = false, .create = false});
  for (std::size_t length = 0; length < journal.size(); length += 3) {
    support::write_file_atomically(told.run_folder() / "journal.h.1.jsonl", journal.substr(0, length), false);
    const Timeline cut = read_timeline(store, "20261121-000000-aaaa");
    BOOST_TEST(cut.tasks.size() == 2u);
    BOOST_TEST(cut.length_s <= whole.length_s + 1e-6);
  }
  BOOST_CHECK_THROW(read_timeline(store, "20261121-000000-bbbb"), support::Error);
}

BOOST_AUTO_TEST_SUITE_END()
