#include "pipeline/maintenance/garbage.h"

#include <sys/stat.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <set>

#include "pipeline/maintenance/pin.h"
#include "pipeline/maintenance/uses.h"
#include "pipeline/run/run_fixture.h"
#include "pipeline/run/run_status.h"
#include "pipeline/store/journal.h"
#include "support/as_plain_user.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/make_old.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
namespace fs = std::filesystem;

namespace {

/// A store with the results of three runs: a→b, then another salt of both, then another pipeline.
struct SomeRuns : test::SmallRun {
  std::size_t a, b;
  SomeRuns() {
    a = add("a");
    b = add("b", {a});
    options.run_id = "20260101-000000-0001";
    BOOST_REQUIRE(run().exit_code == 0);
    old_keys = keys();
    task(a).config.edit()["salt"] = "2";
    options.run_id = "20260102-000000-0002";
    BOOST_REQUIRE(run().exit_code == 0);
    test::make_old(folder / "store");
    open();
  }
  std::set<std::string> keys() {
    open();
    std::set<std::string> all;
    for (const auto& key : store->keys()) all.insert(key.key);
    return all;
  }
  GarbageReport collect(GarbageOptions garbage = {}) {
    open();
    return collect_garbage(*store, garbage);
  }
  static std::size_t count(const GarbageReport& report, Deletion::What what) {
    std::size_t n = 0;
    for (const auto& dropped : report.dropped) n += dropped.what == what;
    return n;
  }
  std::set<std::string> old_keys;
};

/// While it lives, no user can list a folder or read a file: it is a link to itself.
class Unlistable {
 public:
  explicit Unlistable(fs::path folder) : folder_(std::move(folder)), aside_(folder_.string() + ".aside") {
    there_ = fs::exists(folder_);
    if (there_) fs::rename(folder_, aside_);
    fs::create_symlink(folder_.filename(), folder_);
  }
  ~Unlistable() {
    fs::remove(folder_);
    if (there_) fs::rename(aside_, folder_);
  }
  Unlistable(const Unlistable&) = delete;

 private:
  fs::path folder_, aside_;
  bool there_ = false;
};

/// Every file below a folder.
std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (fs::is_regular_file(entry.symlink_status())) files.insert(entry.path().string());
  }
  return files;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(garbage)

BOOST_FIXTURE_TEST_CASE(a_folder_that_cannot_be_listed_is_not_empty_and_nothing_goes, SomeRuns) {
  write_pin(*store, {"paper", {{*old_keys.begin(), -1}}, {}, ""});
  const std::string plan_key = store->find({*old_keys.begin(), -1})->plan_key;
  test::make_old(folder / "store");
  GarbageOptions options_;
  options_.grace_s = 0;
  options_.keep_last = 1;
  options_.max_bytes = 1;
  const std::string shard = old_keys.begin()->substr(0, 2);
  for (const std::string& part :
       {"tasks/" + shard, std::string("tasks"), std::string("tracks"), std::string("objects"), std::string("roots"),
        std::string("runs"), std::string("runs/20260102-000000-0002"), std::string("leases"), std::string("work"),
        "work/" + plan_key, "work/" + plan_key + "/a01", std::string("memo"), std::string("used"),
        std::string("runs/20260102-000000-0002/plan.json"), std::string("runs/20260102-000000-0002/summary.json"),
        std::string("roots/paper.json")}) {
    open();
    const Unlistable hidden(folder / "store" / part);
    const auto before = files_below(folder / "store");
    // Damaged pins are reported, since they may stay so; all else is an error, for which `gc` ends with 4.
    if (part == "roots/paper.json") {
      BOOST_TEST(count(collect_garbage(*store, options_), Deletion::What::kResult) == 0u);
      continue;
    }
    BOOST_CHECK_THROW(collect_garbage(*store, options_), support::IoError);
    BOOST_TEST((files_below(folder / "store") == before), part);
  }
  BOOST_TEST(count(collect(options_), Deletion::What::kResult) > 0u);
}

BOOST_FIXTURE_TEST_CASE(a_run_of_another_scale_a_selection_and_one_that_failed_protect_but_do_not_replace, SomeRuns) {
  const auto newest = keys();
  GarbageOptions options_;
  options_.keep_last = 1;
  // Each of them makes results under another salt.
  const auto then = [&](const std::string& salt) {
    task(a).config.edit()["salt"] = salt;
    options.run_id = "20260103-000000-" + salt;
    run();
    test::make_old(folder / "store");
  };
  graph.variant = "--scale smoke";
  then("3");
  graph.variant.clear();
  options.whole = false;
  then("4");
  options.whole = true;
  behaviour["b"] = [](test::FakeAttempt& attempt) { attempt.code = 2; };
  then("5");
  behaviour.clear();
  const auto all = keys();
  BOOST_TEST(all.size() == newest.size() + 5);
  BOOST_TEST(count(collect(options_), Deletion::What::kResult) == old_keys.size());
  auto left = all;
  for (const std::string& key : old_keys) left.erase(key);
  BOOST_TEST((keys() == left));
  // A complete run of the same kind takes the place of all that came before it, but for the other scale's.
  then("6");
  BOOST_TEST(count(collect(options_), Deletion::What::kResult) == 5u);
}

BOOST_FIXTURE_TEST_CASE(a_run_with_nothing_to_do_counts_as_a_run, SomeRuns) {
  task(a).config.edit()["salt"] = "";
  const Plan again = plan();
  BOOST_REQUIRE(again.nothing_to_do());
  note_use(store->root(), graph, again, {});
  GarbageOptions options_;
  options_.keep_last = 1;
  BOOST_TEST(count(collect(options_), Deletion::What::kResult) == 2u);
  for (const std::string& key : old_keys) BOOST_TEST(keys().count(key) == 1u);
  BOOST_TEST(run().executed == 0u);
  // Said again it is as young as then.
  test::make_old(folder / "store");
  const fs::path file = fs::directory_iterator(folder / "store/used")->path() / "plan.json";
  const auto before = fs::last_write_time(file);
  renew_use(store->root(), graph.name, graph.root, graph.variant);
  BOOST_TEST((fs::last_write_time(file) > before));
}

BOOST_FIXTURE_TEST_CASE(a_run_whose_plan_is_damaged_keeps_every_result, SomeRuns) {
  support::write_file_atomically(folder / "store/runs/20260102-000000-0002/plan.json", "{\"schema\":", false);
  test::make_old(folder / "store");
  GarbageOptions options_;
  options_.keep_last = 1;
  options_.max_bytes = 1;
  const GarbageReport report = collect(options_);
  BOOST_TEST(count(report, Deletion::What::kResult) == 0u);
  BOOST_TEST(count(report, Deletion::What::kLog) == 0u);
  BOOST_REQUIRE(report.notes.size() == 1u);
  BOOST_TEST(report.notes[0].find("20260102-000000-0002") != std::string::npos, report.notes[0]);
}

BOOST_FIXTURE_TEST_CASE(without_a_limit_no_result_goes, SomeRuns) {
  const auto before = keys();
  const GarbageReport report = collect();
  BOOST_TEST(count(report, Deletion::What::kResult) == 0u);
  BOOST_TEST(keys() == before);
  for (const auto& key : store->keys()) BOOST_TEST(store->complete(*store->find(key)));
}

BOOST_FIXTURE_TEST_CASE(keep_last_drops_what_only_older_runs_used_and_a_dry_run_nothing, SomeRuns) {
  const auto before = keys();
  GarbageOptions options_;
  options_.keep_last = 1;
  options_.dry_run = true;
  BOOST_TEST(count(collect(options_), Deletion::What::kResult) == 2u);
  BOOST_TEST(keys() == before);
  options_.dry_run = false;
  const GarbageReport report = collect(options_);
  BOOST_TEST(count(report, Deletion::What::kResult) == 2u);
  BOOST_TEST(report.bytes_after < report.bytes_before);
  BOOST_TEST(keys().size() == before.size() - 2);
  for (const std::string& key : old_keys) BOOST_TEST(keys().count(key) == 0u);
  // The newest run finds all its results; the dropped ones are in the trash, whole.
  BOOST_TEST(run().executed == 0u);
  BOOST_TEST(!fs::is_empty(folder / "store/trash"));
  // A dropped result is made again like one that never existed.
  task(a).config.edit()["salt"] = "";
  BOOST_TEST(run().executed == 2u);
}

BOOST_FIXTURE_TEST_CASE(the_newest_run_is_the_newest_by_the_clock_whatever_its_id, SomeRuns) {
  task(a).config.edit()["salt"] = "3";
  options.run_id = "20250101-000000-0000";
  BOOST_REQUIRE(run().executed == 2u);
  test::make_old(folder / "store");
  GarbageOptions options_;
  options_.keep_last = 1;
  BOOST_TEST(count(collect(options_), Deletion::What::kResult) == 4u);
  BOOST_TEST(run().executed == 0u);
}

BOOST_FIXTURE_TEST_CASE(runs_logs_and_remembered_plans_are_bounded, SomeRuns) {
  const auto before = keys();
  const auto work = [&] {
    std::size_t n = 0;
    for (const auto& entry : fs::directory_iterator(folder / "store/work")) n += entry.is_directory();
    return n;
  };
  for (int i = 0; i < 5; ++i) {
    const fs::path memo = folder / ("store/memo/noop-" + std::to_string(i));
    fs::create_directories(memo.parent_path());
    support::write_file_atomically(memo, std::string(1000, 'm'), false);
    support::write_file_atomically(memo.string() + ".mark", "i", false);
    const auto when = fs::file_time_type::clock::now() - std::chrono::hours(48 + i);
    fs::last_write_time(memo, when);
    fs::last_write_time(memo.string() + ".mark", when);
  }
  const fs::path unfinished = folder / "store/memo/records.tmp.7";  // its writer was killed
  support::write_file_atomically(unfinished, "half", false);
  fs::last_write_time(unfinished, fs::file_time_type::clock::now() - std::chrono::hours(48));
  BOOST_TEST(work() == 4u);  // a and b under each salt
  GarbageOptions options_;
  options_.keep_runs = 1;
  options_.keep_memos = 2;
  options_.grace_s = 72 * 3600;
  GarbageReport report = collect(options_);
  BOOST_TEST(report.dropped.empty());  // all of it is younger than the grace
  options_.grace_s = 24 * 3600;
  options_.dry_run = true;
  report = collect(options_);
  BOOST_TEST(count(report, Deletion::What::kRun) == 1u);
  BOOST_TEST(store->runs().size() == 2u);
  options_.dry_run = false;
  report = collect(options_);
  BOOST_TEST(report.runs == 2u);
  BOOST_TEST(count(report, Deletion::What::kRun) == 1u);
  BOOST_TEST(count(report, Deletion::What::kLog) == 2u);
  BOOST_TEST(count(report, Deletion::What::kMemo) == 6u);
  BOOST_TEST(count(report, Deletion::What::kLeftover) == 1u);
  BOOST_TEST(!fs::exists(unfinished));
  BOOST_TEST((store->runs() == std::vector<std::string>{"20260102-000000-0002"}));
  BOOST_TEST(work() == 2u);
  BOOST_TEST(fs::exists(folder / "store/memo/noop-1"));
  BOOST_TEST(!fs::exists(folder / "store/memo/noop-2"));
  BOOST_TEST(!fs::exists(folder / "store/memo/noop-2.mark"));
  BOOST_TEST(report.bytes_after < report.bytes_before);
  BOOST_TEST(report.bytes_after == collect(options_).bytes_before);
  BOOST_TEST(keys() == before);  // no result goes
  BOOST_TEST(run().executed == 0u);
}

BOOST_FIXTURE_TEST_CASE(curves_stay_as_long_as_the_result, SomeRuns) {
  // No kept run names the tasks of the first run. One of them has curves; both have results.
  const std::string plan_key =
      Json::parse(support::read_file(folder / "store/runs/20260101-000000-0001/plan.json"))["tasks"][0]["plan_key"];
  const fs::path log = store->attempts(plan_key).back() / "metrics.jsonl";
  support::write_file_atomically(log, "{}\n", false);
  test::make_old(folder / "store");
  GarbageOptions options_;
  options_.keep_runs = 1;
  BOOST_TEST(count(collect(options_), Deletion::What::kLog) == 1u);
  BOOST_TEST(fs::exists(log));
  const auto key = store->hint(plan_key);
  BOOST_REQUIRE(key);
  BOOST_REQUIRE(store->forget({*key, -1}));
  test::make_old(folder / "store");
  BOOST_TEST(count(collect(options_), Deletion::What::kLog) == 1u);
  BOOST_TEST(!fs::exists(log));
}

BOOST_FIXTURE_TEST_CASE(what_a_stage_can_continue_from_goes_only_under_a_size_limit, SomeRuns) {
  const std::string plan_key(64, 'a');
  const fs::path attempt = store->new_attempt(plan_key);
  fs::create_directories(attempt / "checkpoints");
  support::write_file_atomically(attempt / "checkpoints/step-1.h5", std::string(100'000, 'c'), false);
  support::write_file_atomically(attempt / "stage.log", "log", false);
  test::make_old(folder / "store");
  GarbageReport report = collect();
  BOOST_TEST(fs::exists(attempt / "checkpoints/step-1.h5"));
  GarbageOptions options_;
  options_.max_bytes = report.bytes_after - 50'000;
  report = collect(options_);
  BOOST_TEST(!fs::exists(attempt / "checkpoints/step-1.h5"));
  BOOST_TEST(count(report, Deletion::What::kCheckpoint) == 1u);
  BOOST_TEST(report.fits);
}

BOOST_FIXTURE_TEST_CASE(checkpoints_of_an_interrupted_training_with_results_stay, SomeRuns) {
  // The newest run names this task, which has a result, as a trunk has one after its first snapshot.
  const std::string plan_key =
      Json::parse(support::read_file(folder / "store/runs/20260102-000000-0002/plan.json"))["tasks"][0]["plan_key"];
  const fs::path attempt = store->new_attempt(plan_key);
  fs::create_directories(attempt / "checkpoints");
  support::write_file_atomically(attempt / "checkpoints/step-9.h5", std::string(100'000, 'c'), false);
  GarbageOptions options_;
  options_.max_bytes = 1;
  const auto left_after = [&](const char* outcome) {
    support::write_file_atomically(attempt / "exit.json", Json{{"class", outcome}, {"step", 9}}.dump(), false);
    test::make_old(folder / "store");
    collect(options_);
    return fs::exists(attempt / "checkpoints/step-9.h5");
  };
  BOOST_TEST(left_after("interrupted"));
  BOOST_TEST(left_after("checkpointed"));
  BOOST_TEST(!left_after("done"));
}

BOOST_FIXTURE_TEST_CASE(a_pin_keeps_a_result_and_an_unreadable_pin_keeps_all, SomeRuns) {
  Pin pin;
  pin.name = "paper";
  pin.keys = {{*old_keys.begin(), -1}};
  write_pin(*store, pin);
  GarbageOptions options_;
  options_.keep_last = 1;
  support::write_file_atomically(folder / "store/roots/broken.json", "{", false);
  GarbageReport report = collect(options_);
  BOOST_TEST(count(report, Deletion::What::kResult) == 0u);
  BOOST_TEST(report.notes.size() == 1u);
  fs::remove(folder / "store/roots/broken.json");
  report = collect(options_);
  BOOST_TEST(report.kept_by_pins == 1u);
  BOOST_TEST(count(report, Deletion::What::kResult) == 1u);
  BOOST_TEST(keys().count(*old_keys.begin()) == 1u);
  BOOST_TEST(remove_pin(*store, "paper"));
  BOOST_TEST(!remove_pin(*store, "paper"));
  BOOST_CHECK_THROW(remove_pin(*store, "../x"), support::ConfigError);
}

BOOST_FIXTURE_TEST_CASE(what_is_younger_than_the_grace_stays, SomeRuns) {
  GarbageOptions options_;
  options_.keep_last = 1;
  options_.grace_s = 72 * 3600;
  BOOST_TEST(count(collect(options_), Deletion::What::kResult) == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_live_run_and_a_lease_keep_what_they_need, SomeRuns) {
  // A run of this very process that has no summary yet.
  const fs::path live = folder / "store/runs/20260101-000000-0001";
  fs::remove(live / "summary.json");
  Json plan = Json::parse(support::read_file(live / "plan.json"));
  plan["pid"] = ::getpid();
  support::write_file_atomically(live / "plan.json", plan.dump(), false);
  test::make_old(folder / "store");
  GarbageOptions options_;
  options_.keep_last = 1;
  BOOST_TEST(live_runs(*store).size() == 1u);
  for (const auto& [what, other] :
       {std::pair<const char*, Json>{"process_start", 1}, std::pair<const char*, Json>{"boot", "an earlier one"}}) {
    Json gone = plan;  // the number lives, but is another process's now
    gone[what] = other;
    support::write_file_atomically(live / "plan.json", gone.dump(), false);
    BOOST_TEST(live_runs(*store).empty());
  }
  support::write_file_atomically(live / "plan.json", plan.dump(), false);
  test::make_old(folder / "store");
  BOOST_TEST(count(collect(options_), Deletion::What::kResult) == 0u);
  support::write_file_atomically(live / "summary.json", "{}", false);
  test::make_old(folder / "store");
  // A lease protects the result that its plan key leads to.
  compute_plan_keys(graph);
  const std::string first = *old_keys.begin();
  const auto plan_key = store->find({first, -1})->plan_key;
  fs::create_directories(folder / "store/leases");
  support::write_file_atomically(folder / ("store/leases/" + plan_key), "{}", false);
  const GarbageReport report = collect(options_);
  BOOST_TEST(keys().count(first) == 1u);
  BOOST_TEST(count(report, Deletion::What::kResult) == 1u);
}

BOOST_FIXTURE_TEST_CASE(an_object_without_a_record_goes_and_one_that_is_published_meanwhile_stays, SomeRuns) {
  const fs::path file = folder / "orphan.h5";
  test::write_fake_output(file, "orphan");
  const OutputRecord orphan = store->publish_output({"out", artifact::Kind::kMetrics, false, file});
  test::make_old(folder / "store/objects");
  std::optional<support::FaultHook> hook([&](std::string_view step) {
    // Another process publishes the same bytes between the look and the move.
    if (step == "drop") store->publish_output({"out", artifact::Kind::kMetrics, false, file});
  });
  GarbageReport report = collect_garbage(*store, {});
  hook.reset();
  BOOST_TEST(store->has_object(orphan.object));
  BOOST_TEST(count(report, Deletion::What::kLeftover) == 0u);
  test::make_old(folder / "store/objects");
  report = collect();
  BOOST_TEST(!store->has_object(orphan.object));
  BOOST_TEST(count(report, Deletion::What::kLeftover) == 1u);
}

BOOST_FIXTURE_TEST_CASE(an_old_file_is_young_when_it_is_published, SomeRuns) {
  const fs::path file = folder / "slow.h5";
  test::write_fake_output(file, "slow");
  fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(48));
  const OutputRecord output = store->publish_output({"out", artifact::Kind::kMetrics, false, file});
  for (const double grace : {24 * 3600.0, 0.0}) {
    GarbageOptions options_;
    options_.grace_s = grace;
    collect_garbage(*store, options_);
    BOOST_TEST(store->has_object(output.object), "grace " << grace);  // its record comes next
  }
}

BOOST_FIXTURE_TEST_CASE(a_run_of_another_host_lives_while_it_writes_whatever_the_clocks_say, SomeRuns) {
  const fs::path run = folder / "store/runs/20260101-000000-0001";
  fs::remove(run / "summary.json");
  Json plan = Json::parse(support::read_file(run / "plan.json"));
  plan["host"] = "elsewhere";
  plan["machine"] = "another";
  for (const double ahead : {-3600.0, 3600.0}) {
    plan["started"] = support::unix_time() + ahead;
    support::write_file_atomically(run / "plan.json", plan.dump(), false);
    const Json progress{{"time", support::unix_time() + ahead}};
    support::write_file_atomically(run / "progress.json", progress.dump(), false);
    BOOST_TEST(live_runs(*store).size() == 1u, "ahead by " << ahead);
    test::make_old(run);
    BOOST_TEST(live_runs(*store).empty(), "ahead by " << ahead);
  }
}

BOOST_FIXTURE_TEST_CASE(a_run_that_begins_meanwhile_gets_its_results_back, SomeRuns) {
  GarbageOptions options_;
  options_.keep_last = 1;
  std::size_t drops = 0;
  const support::FaultHook hook([&](std::string_view step) {
    if (step != "drop" || ++drops != 2) return;
    // One result is gone already when a run appears that wants both.
    const fs::path later = folder / "store/runs/20270101-000000-0003";
    fs::create_directories(later);
    fs::copy_file(folder / "store/runs/20260101-000000-0001/plan.json", later / "plan.json");
    std::string lines;
    for (const std::string& key : old_keys)
      lines += journal_line({{"seq", 1}, {"time", 1.0}, {"event", "reuse"}, {"key", key}});
    support::write_file_atomically(later / "journal.h.1.jsonl", lines, false);
  });
  const GarbageReport report = collect(options_);
  BOOST_TEST(drops >= 2u);
  BOOST_TEST(report.restored == 1u);
  for (const std::string& key : old_keys) {
    BOOST_TEST(keys().count(key) == 1u);
    open();
    const auto result = store->find({key, -1});
    BOOST_REQUIRE(result.has_value());
    BOOST_TEST(store->complete(*result));
  }
}

BOOST_FIXTURE_TEST_CASE(a_pin_that_is_made_meanwhile_gets_its_results_back, SomeRuns) {
  GarbageOptions options_;
  options_.keep_last = 1;
  std::size_t drops = 0;
  const support::FaultHook hook([&](std::string_view step) {
    if (step != "drop" || ++drops != 2) return;
    Pin pin{"paper", {}, {}, ""};
    for (const std::string& key : old_keys) pin.keys.push_back({key, -1});
    write_pin(*store, pin);
  });
  const GarbageReport report = collect(options_);
  BOOST_TEST(drops >= 2u);
  BOOST_TEST(report.restored == 1u);
  for (const std::string& key : old_keys) BOOST_TEST(keys().count(key) == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_run_that_meanwhile_has_nothing_to_do_gets_its_results_back, SomeRuns) {
  task(a).config.edit()["salt"] = "";
  const Plan again = plan();
  BOOST_REQUIRE(again.nothing_to_do());
  GarbageOptions options_;
  options_.keep_last = 1;
  std::size_t drops = 0;
  const support::FaultHook hook([&](std::string_view step) {
    if (step == "drop" && ++drops == 2) note_use(store->root(), graph, again, {});
  });
  const GarbageReport report = collect(options_);
  BOOST_TEST(drops >= 2u);
  BOOST_TEST(report.restored == 1u);
  for (const std::string& key : old_keys) BOOST_TEST(keys().count(key) == 1u);
}

BOOST_FIXTURE_TEST_CASE(scratch_of_a_living_process_stays, SomeRuns) {
  const fs::path own = support::unique_sibling(folder / "store/work/verify");
  const std::string name = own.filename().string();
  const std::string pid = "." + std::to_string(::getpid()) + ".";
  const std::size_t at = name.rfind(pid);
  BOOST_REQUIRE(at != std::string::npos);
  const fs::path dead = own.parent_path() / (name.substr(0, at) + ".999999999." + name.substr(at + pid.size()));
  for (const fs::path& each : {own, dead}) {
    fs::create_directories(each);
    support::write_file_atomically(each / "left.txt", "x", false);
  }
  test::make_old(folder / "store");
  GarbageOptions options_;
  options_.grace_s = 0;
  collect(options_);
  BOOST_TEST(fs::exists(own / "left.txt"));
  BOOST_TEST(!fs::exists(dead));
}

BOOST_FIXTURE_TEST_CASE(a_size_limit_takes_the_cheapest_results_first_and_says_when_it_cannot_be_had, SomeRuns) {
  // The first run's results: one took an hour, the other a second.
  std::string dear, cheap;
  for (const std::string& key : old_keys) {
    Record record = *store->read({key, -1});
    const bool is_dear = record.task == "a";
    (is_dear ? dear : cheap) = key;
    record.occasion["wall_s"] = is_dear ? 3600.0 : 1.0;
    support::write_file_atomically(store->record_path(record.key), to_json(record).dump(1) + "\n", false);
  }
  test::make_old(folder / "store");
  GarbageOptions options_;
  options_.max_bytes = collect({.dry_run = true}).bytes_before - 1;
  GarbageReport report = collect(options_);
  BOOST_TEST(report.fits);
  BOOST_REQUIRE(count(report, Deletion::What::kResult) == 1u);
  BOOST_TEST(keys().count(cheap) == 0u);
  BOOST_TEST(keys().count(dear) == 1u);
  options_.max_bytes = 1;
  report = collect(options_);
  BOOST_TEST(!report.fits);
  BOOST_TEST(keys().count(dear) == 0u);
  BOOST_TEST(keys().size() == 2u);  // the newest run's stay
  BOOST_TEST(run().executed == 0u);
}

BOOST_FIXTURE_TEST_CASE(the_trash_is_emptied_after_its_grace, SomeRuns) {
  GarbageOptions options_;
  options_.keep_last = 1;
  GarbageReport report = collect(options_);
  BOOST_TEST(count(report, Deletion::What::kTrash) == 0u);
  // Nothing can age a ctime: no grace at all simulates its end.
  options_.grace_s = 0;
  report = collect(options_);
  BOOST_TEST(count(report, Deletion::What::kTrash) >= 4u);
  BOOST_TEST(report.deleted > 0u);
  BOOST_TEST(fs::is_empty(folder / "store/trash"));
}

// On some file systems a rename does not set ctime: then the folder of the day tells how long things have lain there.
BOOST_FIXTURE_TEST_CASE(what_came_into_the_trash_within_the_grace_stays_by_its_ctime_and_by_the_time_of_its_folder,
                        SomeRuns) {
  const fs::path day = folder / "store/trash/2026-01-02";
  fs::create_directories(day);
  support::write_file_atomically(day / "first", "x", false);
  GarbageOptions options_;
  options_.grace_s = 1;
  const auto there = [&] { return fs::exists(day / "first"); };
  const auto set_folder = [&](std::chrono::hours ago) {
    fs::last_write_time(day, fs::file_time_type::clock::now() - ago);
  };
  set_folder(std::chrono::hours(48));
  collect(options_);
  BOOST_TEST(there());  // its ctime is young
  ::usleep(1'200'000);
  set_folder(std::chrono::hours(0));
  collect(options_);
  BOOST_TEST(there());  // its ctime is old, and something came into the folder just now
  set_folder(std::chrono::hours(48));
  options_.dry_run = true;
  BOOST_TEST(count(collect(options_), Deletion::What::kTrash) == 1u);
  BOOST_TEST(there());
  options_.dry_run = false;
  collect(options_);
  BOOST_TEST(!there());
}

BOOST_FIXTURE_TEST_CASE(an_unreadable_record_keeps_every_object, SomeRuns) {
  const std::string key = *old_keys.begin();
  const auto object = store->find({key, -1})->outputs.front().object;
  const fs::path path = store->record_path({key, -1});
  support::write_file_atomically(path, "{", false);
  test::make_old(folder / "store");
  const GarbageReport report = collect();
  BOOST_TEST(report.notes.size() == 1u);
  BOOST_TEST(store->has_object(object));
}

BOOST_FIXTURE_TEST_CASE(a_record_that_only_cannot_be_read_is_not_damaged_and_nothing_goes, SomeRuns) {
  const fs::path path = store->record_path({*old_keys.begin(), -1});
  test::make_old(folder / "store");
  GarbageOptions all;
  all.grace_s = 0;
  all.keep_last = 1;
  const auto before = files_below(folder / "store");
  {
    const Unlistable hidden(path);
    BOOST_CHECK_THROW(collect(all), support::IoError);
  }
  BOOST_TEST((files_below(folder / "store") == before));
  BOOST_TEST(count(collect(all), Deletion::What::kResult) > 0u);
}

BOOST_FIXTURE_TEST_CASE(a_work_folder_that_another_user_closed_stays_and_the_rest_goes, SomeRuns) {
  const fs::path closed = store->work_folder(task(a).plan_key) / "a01", open_one = store->work_folder(task(b).plan_key);
  for (const fs::path& each : {closed, open_one / "a01"}) {
    fs::create_directories(each / "out");
    support::write_file_atomically(each / "out/left.txt", "x", false);
  }
  test::make_old(folder / "store");
  ::chmod(closed.c_str(), 0);
  const auto drops = [&] {
    const GarbageReport report = collect();
    const bool told =
        report.notes.size() == 1 && report.notes[0].find(closed.parent_path().string()) != std::string::npos;
    return told && !fs::exists(open_one / "a01/out") ? 7 : 1;
  };
  BOOST_TEST(test::as_plain_user(folder.path(), drops, {closed}) == 7);
  ::chmod(closed.c_str(), 0755);
  BOOST_TEST(fs::exists(closed / "out/left.txt"));
}

BOOST_AUTO_TEST_SUITE_END()
