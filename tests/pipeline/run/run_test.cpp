#include "pipeline/run/run.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <utility>

#include "pipeline/plan/frozen_graph.h"
#include "pipeline/run/run_fixture.h"
#include "pipeline/run/run_status.h"
#include "support/as_plain_user.h"
#include "support/can_mount.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/process.h"
#include "support/program.h"
#include "support/temp_folder.h"
#include "support/text.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::FakeAttempt;
using pe::test::SmallRun;
using pe::test::write_all_outputs;
namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

/// a → b → d, a → c → d.
struct Diamond : SmallRun {
  std::size_t a = add("a"), b = add("b", {a}), c = add("c", {a}), d = add("d", {b, c});
};

/// fetch, a trunk with snapshots at 10 and 20, and a child of each.
struct Trunk : SmallRun {
  std::size_t data = add("data"), trunk = add("trunk", {data}), early = add("early"), late = add("late");
  Trunk() {
    task(trunk).snapshots = {{"s10", 10}, {"s20", 20}};
    for (const auto& [child, label] : {std::pair(early, "s10"), std::pair(late, "s20")}) {
      task(child).inputs.push_back({"init", trunk, "out", label});
    }
    behaviour["trunk"] = [](FakeAttempt& attempt) {
      write_all_outputs(attempt);
      for (const Json& snapshot : attempt.task.at("snapshots")) {
        attempt.messages.push_back({{"event", "snapshot"}, {"step", snapshot.at("step")}});
      }
      attempt.seconds = 100;
    };
  }
};

void fail_with(FakeAttempt& attempt, int code) { attempt.code = code; }

}  // namespace

BOOST_AUTO_TEST_SUITE(run)

BOOST_FIXTURE_TEST_CASE(the_first_run_makes_everything_and_the_second_nothing, Diamond) {
  const RunSummary first = run();
  BOOST_TEST(first.exit_code == kRunDone);
  BOOST_TEST(first.executed == 4u);
  BOOST_TEST((runner->started == Names{"a", "b", "c", "d"}));
  open();
  BOOST_TEST(plan().nothing_to_do());
  const RunSummary second = run();
  BOOST_TEST(second.executed == 0u);
  BOOST_TEST(second.reused == 4u);
  BOOST_TEST(runner->started.empty());
}

BOOST_FIXTURE_TEST_CASE(a_changed_config_runs_what_follows_but_equal_contents_stop_it, Diamond) {
  run();
  task(a).config.edit()["salt"] = "x";
  // It gives the same result as before: early cutoff.
  behaviour["a"] = [](FakeAttempt& attempt) {
    attempt.task["config"]["salt"] = "";
    write_all_outputs(attempt);
  };
  const RunSummary summary = run();
  BOOST_TEST((runner->started == Names{"a"}));
  BOOST_TEST(summary.reused == 3u);
  behaviour.clear();
  task(a).config.edit()["salt"] = "y";
  run();
  BOOST_TEST((runner->started == Names{"a", "b", "c", "d"}));
}

BOOST_FIXTURE_TEST_CASE(nobody_reads_a_result_that_is_only_likely_to_hold, SmallRun) {
  const std::size_t a = add("a"), b = add("b", {a}), c = add("c", {b});
  run();
  for (const std::size_t lost : {a, c}) BOOST_REQUIRE(store->forget({*store->hint(task(lost).plan_key), -1}));
  // Made again it gives something else, though its recipe is the same. So b's old result, which the plan takes for
  // likely, is not what c must read.
  behaviour["a"] = [](FakeAttempt& attempt) { write_all_outputs(attempt, "not the same twice"); };
  open();
  BOOST_TEST((plan().tasks[b].state == TaskState::kLikelyReuse));
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"a", "b", "c"}));
  BOOST_TEST(store->read({*store->hint(task(c).plan_key), -1})->inputs.begin()->digest == content(b));
}

namespace {

/// A run of one task whose stage answers --check in this way.
struct Checked : SmallRun {
  std::string answer(const std::string& script, const StopFunction& stop = {}) {
    if (graph.tasks.empty()) add("a");
    const fs::path program = folder / "pe-checked";
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(program, fs::perms::owner_all);
    stage->executable = program.string();
    stage->program_digest = support::program_digest(program, {});
    options.check_configs = true;
    try {
      run({}, stop);
    } catch (const support::ConfigError& error) {
      return error.diagnostics().front().message;
    }
    return "";
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_config_counts_as_accepted_only_by_its_answer, Checked) {
  BOOST_TEST(answer("cat >/dev/null") == "pe-checked answered 0 of 1 configs");
  BOOST_TEST(answer("head -c 300 /bin/sh") == "pe-checked answered 0 of 1 configs");
  BOOST_TEST(answer("echo '{\"ok\": false}'") == "a: its config is refused, without a reason");
  BOOST_TEST(answer("echo '{\"ok\": \"yes\"}'") == "a: its config is refused, without a reason");
  BOOST_TEST(answer("echo '{\"ok\": false, \"errors\": [\"too long\"]}'") == "a: too long");
  BOOST_TEST(answer("echo '{\"ok\": true}'; exit 2").find("refuses a config (exit code 2)") != std::string::npos);
  BOOST_TEST(answer("echo '{\"ok\": true}'") == "");
}

BOOST_FIXTURE_TEST_CASE(an_interrupt_is_heard_while_a_stage_checks_configs, Checked) {
  const auto begun = std::chrono::steady_clock::now();
  int asked = 0;
  BOOST_TEST(answer("sleep 600", [&] { return ++asked > 3 ? 1 : 0; }) == "");
  BOOST_TEST((std::chrono::steady_clock::now() - begun < std::chrono::seconds(30)));
  BOOST_TEST(runner->started.empty());
}

BOOST_FIXTURE_TEST_CASE(a_stage_that_hangs_in_check_is_killed_and_the_run_says_so, SmallRun) {
  // It reads nothing, so that text that does not fit into a pipe must not block the run either.
  const auto a = add("a");
  task(a).config = Json{{"name", "a"}, {"salt", std::string(300'000, 'x')}};
  const fs::path program = folder / "pe-stuck", pid = folder / "pid";
  std::ofstream(program)
      << "#!/bin/sh\n[ \"$1\" = --check ] || exit 9\nsleep 600 & echo $! >\"${0%/*}/pid\"\nsleep 600\n";
  fs::permissions(program, fs::perms::owner_all);
  stage->executable = program.string();
  stage->program_digest = support::program_digest(program, {});
  options.check_configs = true;
  options.check_patience_s = 1;
  const auto begun = std::chrono::steady_clock::now();
  BOOST_CHECK_EXCEPTION(run(), support::ConfigError, [&](const support::ConfigError& error) {
    const auto& told = error.diagnostics().front();
    BOOST_TEST(told.message == "'" + program.string() + "' did not answer --check within 1.1 s");
    BOOST_TEST(told.hint == "a stage reads configs from standard input, one a line, until it ends");
    return true;
  });
  BOOST_TEST((std::chrono::steady_clock::now() - begun < std::chrono::seconds(60)));
  BOOST_TEST(runner->started.empty());
  BOOST_TEST(events.empty());
  // The children of the stage are gone, too.
  pid_t child = 0;
  std::ifstream told(pid);
  BOOST_REQUIRE(static_cast<bool>(told >> child));
  const auto there = [&] {
    std::string state;
    std::ifstream(support::cat("/proc/", child, "/stat")).ignore(1000, ')') >> state;
    return !state.empty() && state != "Z";
  };
  for (int i = 0; i < 1000 && there(); ++i) ::usleep(10'000);
  BOOST_TEST(!there());
  // The store was not touched: the next run continues as if nothing had happened.
  options.check_configs = false;
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"a"}));
}

BOOST_FIXTURE_TEST_CASE(a_failure_blocks_only_its_descendants, Diamond) {
  const std::size_t lone = add("lone");
  behaviour["b"] = [](FakeAttempt& attempt) { fail_with(attempt, 70); };
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunFailed);
  BOOST_TEST(summary.failed == 1u);
  BOOST_TEST(summary.blocked == 1u);
  BOOST_TEST((summary.phases[c] == TaskPhase::kDone));
  BOOST_TEST((summary.phases[lone] == TaskPhase::kDone));
  BOOST_TEST((summary.phases[d] == TaskPhase::kBlocked));
  const TaskFailure& failure = summary.failures.at(0);
  BOOST_TEST((failure.outcome == Outcome::kPermanent));
  BOOST_TEST(failure.reason == "exit code 70");
  BOOST_TEST((failure.tail == Names{"the log of b"}));
  BOOST_TEST(fs::exists(failure.log));
  BOOST_TEST(shell_command(failure.rerun) == "pe-pipeline run small.yml b");
  // Repaired, only missing tasks run.
  behaviour.clear();
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"b", "d"}));
}

BOOST_FIXTURE_TEST_CASE(fail_fast_starts_nothing_new, SmallRun) {
  for (int i = 0; i < 6; ++i) add("t" + std::to_string(i));
  options.capacity.cpus = 1;
  options.keep_going = false;
  behaviour["t1"] = [](FakeAttempt& attempt) { fail_with(attempt, 2); };
  const RunSummary summary = run();
  BOOST_TEST((runner->started == Names{"t0", "t1"}));
  BOOST_TEST(summary.exit_code == kRunFailed);
}

BOOST_FIXTURE_TEST_CASE(no_more_run_at_once_than_the_slots_allow, SmallRun) {
  for (int i = 0; i < 9; ++i) task(add("t" + std::to_string(i))).resources.cpus = 2;
  options.capacity.cpus = 5;
  run();
  BOOST_TEST(runner->most_at_once == 2u);
  BOOST_TEST(runner->started.size() == 9u);
}

BOOST_FIXTURE_TEST_CASE(a_pool_holds_one_unless_told, SmallRun) {
  for (int i = 0; i < 4; ++i) task(add("t" + std::to_string(i))).resources.pools = {"net"};
  run();
  BOOST_TEST(runner->most_at_once == 1u);
}

BOOST_FIXTURE_TEST_CASE(the_longest_remaining_path_goes_first, SmallRun) {
  const auto s = add("short"), l0 = add("l0"), l1 = add("l1", {l0});
  add("l2", {l1});
  (void)s;
  options.capacity.cpus = 1;
  run();
  BOOST_TEST(
      (runner->started == Names{"l0", "l1", "short", "l2"} || runner->started == Names{"l0", "l1", "l2", "short"}));
}

BOOST_FIXTURE_TEST_CASE(a_transient_failure_is_tried_once_more, Diamond) {
  int times = 0;
  behaviour["a"] = [&](FakeAttempt& attempt) {
    if (++times == 1)
      fail_with(attempt, 1);
    else
      write_all_outputs(attempt);
  };
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST(times == 2);
  times = 0;
  behaviour["a"] = [&](FakeAttempt& attempt) {
    ++times;
    fail_with(attempt, 1);
  };
  task(a).config.edit()["salt"] = "again";
  const RunSummary summary = run();
  BOOST_TEST(times == 2);
  BOOST_TEST(summary.failed == 1u);
  BOOST_TEST((summary.failures.at(0).outcome == Outcome::kTransient));
}

BOOST_FIXTURE_TEST_CASE(a_kill_for_memory_is_tried_with_more_capped_at_the_machine, SmallRun) {
  const auto t = add("t");
  task(t).resources.mem_bytes = 60LL << 30;
  task(t).retry.edit().max = 2;
  int times = 0;
  behaviour["t"] = [&](FakeAttempt& attempt) {
    if (++times < 3) {
      attempt.signal = SIGKILL;
      attempt.out_of_memory = true;
    } else {
      write_all_outputs(attempt);
    }
  };
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST(times == 3);
}

BOOST_FIXTURE_TEST_CASE(a_checkpoint_exit_is_requeued_free_while_steps_move, SmallRun) {
  add("t");
  int times = 0;
  behaviour["t"] = [&](FakeAttempt& attempt) {
    ++times;
    if (times > 1) BOOST_TEST(!attempt.task.at("resume").is_null());
    if (times < 8) {
      fs::create_directories(attempt.folder / "checkpoints");
      std::ofstream(attempt.folder / "checkpoints" / "state") << times;
      attempt.messages.push_back({{"event", "checkpoint"}, {"step", times * 10}});
      fail_with(attempt, 75);
    } else {
      write_all_outputs(attempt);
    }
  };
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST(times == 8);
}

BOOST_FIXTURE_TEST_CASE(a_checkpoint_exit_without_a_step_does_not_loop, SmallRun) {
  add("t");
  int times = 0;
  behaviour["t"] = [&](FakeAttempt& attempt) {
    ++times;
    fail_with(attempt, 75);
  };
  const RunSummary summary = run();
  BOOST_TEST(times == 2);
  BOOST_TEST((summary.failures.at(0).outcome == Outcome::kNoProgress));
}

BOOST_FIXTURE_TEST_CASE(an_exit_without_its_outputs_is_broken_and_never_retried, Diamond) {
  int times = 0;
  behaviour["a"] = [&](FakeAttempt&) { ++times; };
  RunSummary summary = run();
  BOOST_TEST(times == 1);
  BOOST_TEST((summary.failures.at(0).outcome == Outcome::kBroken));
  BOOST_TEST(summary.failures.at(0).reason.find("output 'out' is missing") != std::string::npos);
  behaviour["a"] = [&](FakeAttempt& attempt) {
    std::ofstream(attempt.task["outputs"]["out"].get<std::string>()) << "no HDF5";
  };
  summary = run();
  BOOST_TEST((summary.failures.at(0).outcome == Outcome::kBroken));
  BOOST_TEST(store->keys().empty());
}

BOOST_FIXTURE_TEST_CASE(a_failed_write_of_a_stage_fails_that_task_alone, Diamond) {
  behaviour["b"] = [](FakeAttempt& attempt) { fail_with(attempt, 74); };
  behaviour["c"] = [](FakeAttempt& attempt) {
    write_all_outputs(attempt);
    attempt.seconds = 100;
  };
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunFailed);
  BOOST_TEST((runner->started == Names{"a", "b", "c"}));
  BOOST_TEST(runner->signalled.empty());
  BOOST_TEST(summary.executed == 2u);
  BOOST_REQUIRE(summary.failures.size() == 1u);
  BOOST_TEST((summary.failures[0].outcome == Outcome::kIo));
  BOOST_TEST(summary.failures[0].reason.find("; the disk of the store (") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(any_failure_on_a_full_disk_names_the_disk, Diamond,
                        *boost::unit_test::precondition(test::CanMount())) {
  const test::TempFolder folder;
  const fs::path tiny = folder / "tiny";
  fs::create_directory(tiny);
  BOOST_REQUIRE(::mount("tmpfs", tiny.c_str(), "tmpfs", 0, "size=4m") == 0);
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "/tmp";
  ::setenv("TMPDIR", tiny.c_str(), 1);
  behaviour["b"] = [](FakeAttempt& attempt) { fail_with(attempt, 1); };  // as programs end that are not ours
  const RunSummary summary = run();
  ::setenv("TMPDIR", kept.c_str(), 1);
  ::umount2(tiny.c_str(), MNT_DETACH);
  BOOST_REQUIRE(summary.failures.size() == 1u);
  const std::string& reason = summary.failures[0].reason;
  BOOST_TEST(reason.find("; the disk of TMPDIR (" + tiny.string() + ") has 4") != std::string::npos, reason);
}

BOOST_FIXTURE_TEST_CASE(a_store_that_takes_no_more_files_ends_the_run_with_4, Diamond) {
  behaviour["b"] = [](FakeAttempt& attempt) {
    fail_with(attempt, 74);
    fs::remove_all(attempt.folder);
    std::ofstream(attempt.folder) << "no folder, so nothing can be written into it";
  };
  options.capacity.cpus = 1;
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunStore);
  BOOST_TEST((runner->started == Names{"a", "b"}));
}

BOOST_FIXTURE_TEST_CASE(without_descriptors_a_task_starts_later, SmallRun) {
  add("a");
  int times = 0;
  behaviour["a"] = [&](FakeAttempt& attempt) {
    if (++times < 3) throw support::IoError("cannot start 'pe-fake': Too many open files", false, EMFILE);
    write_all_outputs(attempt);
  };
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST(times == 3);
  const auto names = event_names(0);
  BOOST_TEST((std::find(names.begin(), names.end(), "retry") == names.end()));
  BOOST_TEST(store->attempts(graph.tasks[0].plan_key).size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_run_that_never_gets_descriptors_ends, SmallRun) {
  add("a");
  behaviour["a"] = [](FakeAttempt&) {
    throw support::IoError("cannot start 'pe-fake': Too many open files", false, EMFILE);
  };
  BOOST_TEST(run().exit_code == kRunFailed);
}

namespace {

/// a, then b, of a stage that is a script.
struct Edited : SmallRun {
  fs::path program = folder / "pe-edited";
  std::size_t a = 0, b = 0;
  Edited() {
    edit(1, "first");
    StageCatalog catalog;
    stage = std::make_shared<StageDescription>(*catalog.find(program.string(), folder.path(), {}));
    a = add("a");
    b = add("b", {a});
  }
  void edit(int version, const std::string& comment) const {
    const fs::path fresh = folder / "fresh";
    std::ofstream(fresh) << "#!/bin/sh\n# " << comment << "\ncat <<'END'\n"
                         << pe::test::fake_description(version).dump() << "\nEND\n";
    fs::permissions(fresh, fs::perms::owner_all);
    fs::rename(fresh, program);
  }
  /// The first task, during which a person does something.
  void meanwhile(std::function<void()> act) {
    behaviour["a"] = [act = std::move(act)](FakeAttempt& attempt) {
      write_all_outputs(attempt);
      act();
    };
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_stage_of_another_result_version_is_not_started, Edited) {
  meanwhile([&] { edit(2, "raised"); });
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunFailed);
  BOOST_TEST((runner->started == Names{"a"}));
  BOOST_REQUIRE(summary.failures.size() == 1u);
  BOOST_TEST((summary.failures[0].outcome == Outcome::kOtherProgram));
  BOOST_TEST(summary.failures[0].reason == "pe-fake: result version 2 now, planned with 1");
  BOOST_TEST(store->keys().size() == 1u);
}

// As in a job that has waited in a queue: nothing but the frozen graph is known of the program.
BOOST_FIXTURE_TEST_CASE(a_frozen_graph_does_not_start_another_result_version, Edited) {
  pipeline::compute_plan_keys(graph);
  graph = thaw(freeze(graph));
  edit(2, "raised while it waited");
  RunSummary summary = run();
  BOOST_TEST(runner->started.empty());
  BOOST_REQUIRE(summary.failures.size() == 1u);
  BOOST_TEST((summary.failures[0].outcome == Outcome::kOtherProgram));
  edit(1, "put back");
  summary = run();
  BOOST_TEST(summary.exit_code == kRunDone);
}

BOOST_FIXTURE_TEST_CASE(another_text_of_the_same_version_counts_as_the_same_program, Edited) {
  meanwhile([&] { edit(1, "a comment"); });
  BOOST_TEST(run().exit_code == kRunDone);
}

BOOST_FIXTURE_TEST_CASE(where_the_build_is_in_the_key_another_text_is_not_started, Edited) {
  task(b).hash_build = true;
  meanwhile([&] { edit(1, "edition B"); });
  const RunSummary summary = run();
  BOOST_REQUIRE(summary.failures.size() == 1u);
  BOOST_TEST(summary.failures[0].reason == "pe-fake: another build now (code: build)");
  BOOST_TEST(store->keys().size() == 1u);
  edit(1, "first");  // put back: nothing of edition B is under its key
  behaviour.clear();
  BOOST_TEST(run().executed == 1u);
}

BOOST_FIXTURE_TEST_CASE(what_a_program_made_that_changed_meanwhile_is_not_published, Edited) {
  task(a).hash_build = true;
  meanwhile([&] { edit(1, "edition B"); });
  const RunSummary summary = run();
  BOOST_REQUIRE(summary.failures.size() == 1u);
  BOOST_TEST((summary.failures[0].outcome == Outcome::kOtherProgram));
  BOOST_TEST(summary.failures[0].reason.find("it changed while it ran") != std::string::npos);
  BOOST_TEST(store->keys().empty());
}

BOOST_FIXTURE_TEST_CASE(a_program_that_a_linker_is_writing_is_waited_for, Edited) {
  meanwhile([&] { fs::remove(program); });
  double gone_since = -1;
  const RunSummary summary = run({}, [&] {
    if (!fs::exists(program) && gone_since < 0) gone_since = runner->now();
    if (gone_since > 0 && runner->now() > gone_since + 2.5) edit(1, "linked again");
    return 0;
  });
  BOOST_TEST(summary.exit_code == kRunDone);
  std::vector<double> delays;
  for (const RunEvent& event : events) {
    if (event.name != "retry") continue;
    BOOST_TEST(event.detail.at("class") == "node");
    delays.push_back(event.detail.at("delay_s"));
  }
  BOOST_TEST((delays == std::vector<double>{1, 2}));
}

BOOST_FIXTURE_TEST_CASE(a_service_that_does_not_answer_is_asked_again_later, SmallRun) {
  const auto t = add("t");
  task(t).retry.edit().max = 3;
  task(t).retry.edit().backoff_s = 30;
  int times = 0;
  behaviour["t"] = [&](FakeAttempt& attempt) {
    if (++times < 3)
      fail_with(attempt, 69);
    else
      write_all_outputs(attempt);
  };
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST(summary.wall_s >= 90.0);  // 30 s, then 60 s
}

BOOST_FIXTURE_TEST_CASE(children_of_a_snapshot_start_while_the_trunk_still_runs, Trunk) {
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"data", "trunk", "early", "late"}));
  std::int64_t trunk_exit = 0, early_start = 0;
  for (std::size_t at = 0; at < events.size(); ++at) {
    if (events[at].name == "exit" && events[at].task == static_cast<std::int64_t>(trunk))
      trunk_exit = static_cast<std::int64_t>(at);
    if (events[at].name == "start" && events[at].task == static_cast<std::int64_t>(early))
      early_start = static_cast<std::int64_t>(at);
  }
  BOOST_TEST(early_start < trunk_exit);
  const auto key = store->hint(task(trunk).plan_key);
  BOOST_TEST((store->steps(*key) == std::vector<std::int64_t>{10, 20}));
}

BOOST_FIXTURE_TEST_CASE(a_trunk_stops_at_the_last_snapshot_that_is_needed, Trunk) {
  PlanOptions only_early;
  only_early.selected = {false, false, true, false};
  std::vector<std::int64_t> asked;
  const auto usual = behaviour["trunk"];
  behaviour["trunk"] = [&](FakeAttempt& attempt) {
    asked.clear();
    for (const Json& snapshot : attempt.task.at("snapshots")) asked.push_back(snapshot.at("step"));
    usual(attempt);
  };
  run(only_early);
  BOOST_TEST((asked == std::vector<std::int64_t>{10}));
  run();
  BOOST_TEST((asked == std::vector<std::int64_t>{20}));
  BOOST_TEST((runner->started == Names{"trunk", "late"}));
}

BOOST_FIXTURE_TEST_CASE(a_trunk_whose_work_folder_is_gone_is_told_of_its_newest_snapshot, Trunk) {
  Json earlier;
  const auto usual = behaviour["trunk"];
  behaviour["trunk"] = [&](FakeAttempt& attempt) {
    earlier = attempt.task.value("earlier", Json());
    usual(attempt);
  };
  run();
  BOOST_TEST(earlier.is_null());
  const auto key = *store->hint(task(trunk).plan_key);
  const std::string object = store->find({key, 10})->outputs.at(0).object;
  const auto make_20_again = [&] {
    store->forget({key, 20});
    fs::remove_all(store->root() / "work");
    earlier = "the trunk did not run";
    BOOST_TEST(run().exit_code == kRunDone);
    BOOST_TEST((runner->started == Names{"trunk"}));
  };
  make_20_again();
  BOOST_TEST_REQUIRE(earlier.is_object());
  BOOST_TEST(earlier["step"] == 10);
  BOOST_TEST(earlier["outputs"]["out"] == store->object_path(object).string());

  // A longer budget of another pipeline: the point at 20 is not asked for, and the newest there is.
  task(trunk).snapshots = {{"s10", 10}, {"s30", 30}};
  task(late).inputs.back().snapshot = "s30";
  run();
  BOOST_TEST(earlier["step"] == 20);
  task(trunk).snapshots = {{"s10", 10}, {"s20", 20}};
  task(late).inputs.back().snapshot = "s20";

  PlanOptions force;
  force.selected = {false, true, false, false};
  force.force = true;
  run(force);
  BOOST_TEST(earlier.is_null());
  options.resume = false;
  make_20_again();
  BOOST_TEST(earlier.is_null());
  options.resume = true;

  fs::permissions(store->object_path(object), fs::perms::owner_write, fs::perm_options::add);
  const auto size = fs::file_size(store->object_path(object));
  std::ofstream(store->object_path(object), std::ios::binary) << std::string(size, 'x');
  make_20_again();
  BOOST_TEST(earlier.is_null());
}

BOOST_FIXTURE_TEST_CASE(a_diverged_snapshot_makes_its_descendants_diverged_without_running, Trunk) {
  const std::size_t leaf = add("leaf", {late}, "init"), report = add("report", {early, leaf});
  behaviour["trunk"] = [](FakeAttempt& attempt) {
    write_all_outputs(attempt);
    attempt.messages.push_back({{"event", "snapshot"}, {"step", 10}});
    attempt.messages.push_back({{"event", "snapshot"}, {"step", 20}, {"status", "diverged"}});
    attempt.code = 76;
  };
  Json missing;
  behaviour["report"] = [&](FakeAttempt& attempt) {
    missing = attempt.task.value("missing", Json());
    write_all_outputs(attempt);
  };
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"data", "trunk", "early", "report"}));
  BOOST_TEST(missing.at("in").at(0).at("reason") == "diverged");
  const auto key = store->hint(task(late).plan_key);
  BOOST_TEST((store->find({*key, -1})->status == ResultStatus::kDiverged));
  // And it stays so: nothing runs again.
  run();
  BOOST_TEST(runner->started.empty());
  (void)report;
}

BOOST_FIXTURE_TEST_CASE(a_divergence_may_be_declared_a_failure, SmallRun) {
  task(add("t")).record_divergence = false;
  behaviour["t"] = [](FakeAttempt& attempt) { attempt.code = 76; };
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunFailed);
  BOOST_TEST((summary.failures.at(0).outcome == Outcome::kDiverged));
}

BOOST_FIXTURE_TEST_CASE(a_partial_gather_goes_on_without_what_failed, SmallRun) {
  const auto x = add("x"), y = add("y"), report = add("report", {x, y}), strict = add("strict", {x, y});
  task(report).allow_partial = true;
  Json document;
  behaviour["y"] = [](FakeAttempt& attempt) { fail_with(attempt, 2); };
  behaviour["report"] = [&](FakeAttempt& attempt) {
    document = attempt.task;
    write_all_outputs(attempt);
  };
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunFailed);
  BOOST_TEST((summary.phases[report] == TaskPhase::kDone));
  BOOST_TEST((summary.phases[strict] == TaskPhase::kBlocked));
  BOOST_TEST(document.at("inputs").at("in").size() == 1u);
  BOOST_TEST(document.at("missing").at("in").at(0).at("producer") == "y");
  BOOST_TEST(document.at("missing").at("in").at(0).at("reason") == "failed");
}

BOOST_FIXTURE_TEST_CASE(a_report_from_the_store_names_what_is_not_there_and_makes_nothing_else, SmallRun) {
  const auto data = add("data"), x = add("x", {data}), y = add("y", {data}), report = add("report", {x, y});
  const auto strict = add("strict", {y}, "init");
  task(report).allow_partial = true;
  PlanOptions only;
  only.selected = {false, true, false, false, false};
  BOOST_TEST(run(only).exit_code == kRunDone);
  Json document;
  behaviour["report"] = [&](FakeAttempt& attempt) {
    document = attempt.task;
    write_all_outputs(attempt);
  };
  only.selected = {false, false, false, true, false};
  only.make_inputs = false;
  BOOST_TEST(run(only).exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"report"}));
  BOOST_TEST(document.at("inputs").at("in").size() == 1u);
  BOOST_TEST(document.at("missing").at("in").at(0).at("producer") == "y");
  BOOST_TEST(document.at("missing").at("in").at(0).at("reason") == "not in the store");
  // The same again is reused. A task that needs a missing input is blocked.
  BOOST_TEST(run(only).exit_code == kRunDone);
  BOOST_TEST(runner->started.empty());
  only.selected = {false, false, false, true, true};
  const RunSummary blocked = run(only);
  BOOST_TEST(blocked.exit_code == kRunIncomplete);
  BOOST_TEST(blocked.blocked == 1u);
  BOOST_TEST((blocked.phases[strict] == TaskPhase::kBlocked));
  BOOST_TEST(runner->started.empty());
  // With all inputs the report is another one.
  run();
  BOOST_TEST((runner->started == Names{"y", "strict", "report"}));
  BOOST_TEST(!document.contains("missing"));
}

BOOST_FIXTURE_TEST_CASE(a_damaged_input_is_not_made_again_by_a_run_from_the_store, Diamond) {
  run();
  const auto key = *store->hint(task(a).plan_key);
  const fs::path object = store->object_path(store->find({key, -1})->outputs.at(0).object);
  const auto size = fs::file_size(object);
  fs::permissions(object, fs::perms::owner_write, fs::perm_options::add);
  std::ofstream(object, std::ios::binary) << std::string(size, 'x');
  task(b).config.edit()["salt"] = "new";
  PlanOptions only;
  only.selected = {false, true, false, false};
  only.make_inputs = false;
  const RunSummary summary = run(only);
  BOOST_TEST(summary.exit_code == kRunIncomplete);
  BOOST_TEST(runner->started.empty());
  BOOST_TEST((summary.phases[b] == TaskPhase::kBlocked));
  // A run that may make inputs repairs it.
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"a", "b", "d"}));
}

BOOST_FIXTURE_TEST_CASE(a_missing_input_file_is_incomplete_not_failed, Diamond) {
  task(a).externals.push_back({"path", {"/nowhere"}, ExternalContent{{{}}, "/nowhere", {}}});
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunIncomplete);
  BOOST_TEST(summary.blocked == 4u);
  BOOST_TEST(runner->started.empty());
}

BOOST_FIXTURE_TEST_CASE(a_forced_task_runs_again_and_its_parents_do_not, Diamond) {
  run();
  PlanOptions force;
  force.selected = {false, false, true, false};
  force.force = true;
  const RunSummary summary = run(force);
  BOOST_TEST((runner->started == Names{"c"}));
  BOOST_TEST(summary.conflicts == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_forced_task_replaces_its_result_and_its_readers_run, Diamond) {
  run();
  const std::string before = content(c);
  const fs::path link = folder / "root/out/small/c/c.h5";
  const std::string shown = fs::read_symlink(link).string();
  open();
  const ResultKey key{*store->hint(task(c).plan_key), -1};
  PlanOptions force;
  force.selected = {false, false, true, false};
  force.force = true;
  options.strict = true;
  behaviour["c"] = [](FakeAttempt& attempt) { write_all_outputs(attempt, "luck"); };
  RunSummary summary = run(force);
  BOOST_TEST(summary.conflicts == 0u);
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST(summary.executed == 1u);
  BOOST_TEST(content(c) != before);
  BOOST_TEST(store->read(key)->outputs.at(0).content == content(c));
  BOOST_TEST(fs::read_symlink(link).string() != shown);
  open();
  BOOST_TEST(content(c) != before);
  // The earlier record is in the trash.
  std::size_t kept = 0;
  for (const auto& entry : fs::recursive_directory_iterator(store->root() / "trash"))
    kept += entry.path().filename().string().rfind(key.key, 0) == 0;
  BOOST_TEST(kept == 1u);
  behaviour.clear();
  BOOST_TEST(run().executed == 1u);  // d, which reads c
  BOOST_TEST(run().executed == 0u);
  // The same again is no replacement.
  summary = run(force);
  BOOST_TEST(content(c) == before);
  summary = run(force);
  BOOST_TEST(summary.exit_code == kRunDone);
  kept = 0;
  for (const auto& entry : fs::recursive_directory_iterator(store->root() / "trash"))
    kept += entry.path().filename().string().rfind(key.key, 0) == 0;
  BOOST_TEST(kept == 2u);
}

BOOST_FIXTURE_TEST_CASE(a_damaged_input_is_made_again_by_its_producer, Diamond) {
  options.check_inputs = false;  // the stage finds it
  run();
  const auto key = *store->hint(task(a).plan_key);
  const fs::path object = store->object_path(store->find({key, -1})->outputs.at(0).object);
  const auto size = fs::file_size(object);
  fs::permissions(object, fs::perms::owner_write, fs::perm_options::add);
  {
    std::fstream(object, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(static_cast<std::streamoff>(size / 2))
        .put('\xff')
        .put('\xfe');
  }
  task(b).config.edit()["salt"] = "new";
  int times = 0;
  behaviour["b"] = [&](FakeAttempt& attempt) {
    if (++times == 1)
      fail_with(attempt, 3);
    else
      write_all_outputs(attempt);
  };
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"b", "a", "b", "d"}));
  BOOST_TEST(store->damaged(store->find({key, -1})->outputs.at(0)).empty());
}

/// The snapshot at 10 is damaged, the one at 20 gone, and a new reader of the first has to run.
struct DamagedTrunk : Trunk {
  std::string key;
  DamagedTrunk() {
    run();
    key = *store->hint(task(trunk).plan_key);
    const fs::path object = store->object_path(store->find({key, 10})->outputs.at(0).object);
    const auto size = fs::file_size(object);
    fs::permissions(object, fs::perms::owner_write, fs::perm_options::add);
    std::ofstream(object, std::ios::binary) << std::string(size, 'x');
    BOOST_REQUIRE(store->forget({key, 20}));
    task(early).config.edit()["salt"] = "new";
  }
  void check_snapshots() const {
    for (const std::int64_t step : {10, 20})
      BOOST_TEST(store->damaged(store->find({key, step})->outputs.at(0)).empty());
  }
};

BOOST_FIXTURE_TEST_CASE(a_snapshot_found_damaged_before_its_trunk_starts_is_made_with_the_others, DamagedTrunk) {
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"trunk", "early"}));
  check_snapshots();
}

BOOST_FIXTURE_TEST_CASE(a_snapshot_found_damaged_while_its_trunk_makes_another_is_made_after_it, DamagedTrunk) {
  options.check_inputs = false;  // its reader finds it
  int times = 0;
  behaviour["early"] = [&](FakeAttempt& attempt) {
    if (++times == 1)
      fail_with(attempt, 3);
    else
      write_all_outputs(attempt);
  };
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"trunk", "early", "trunk", "early"}));
  check_snapshots();
}

BOOST_FIXTURE_TEST_CASE(a_stage_that_blames_whole_inputs_fails, Diamond) {
  behaviour["b"] = [](FakeAttempt& attempt) { fail_with(attempt, 3); };
  const RunSummary summary = run();
  BOOST_TEST(summary.failed == 1u);
  BOOST_TEST((summary.failures.at(0).outcome == Outcome::kInput));
}

BOOST_FIXTURE_TEST_CASE(the_first_interrupt_lets_stages_save_and_the_run_goes_on_later, Trunk) {
  int polls = 0;
  const auto stop = [&] { return ++polls > 15 ? 1 : 0; };
  behaviour["trunk"] = [](FakeAttempt& attempt) {
    fs::create_directories(attempt.folder / "checkpoints");
    std::ofstream(attempt.folder / "checkpoints" / "state") << "1";
    attempt.stays = true;
  };
  const RunSummary summary = run({}, stop);
  BOOST_TEST(summary.exit_code == kRunIncomplete);
  BOOST_TEST(summary.interrupted == 1u);
  BOOST_TEST((runner->signalled == std::vector<int>{SIGTERM}));
  BOOST_TEST(read_run(*store, summary.run_id).state == "interrupted");
  std::string resumed_from;
  behaviour["trunk"] = [&](FakeAttempt& attempt) {
    resumed_from = attempt.task.at("resume").is_null() ? "" : attempt.task.at("resume").get<std::string>();
    write_all_outputs(attempt);
  };
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST(fs::path(resumed_from).filename().string() == "a01");
  options.resume = false;
}

/// A trunk that never ends by itself and hears no signal but SIGKILL.
struct DeafTrunk : Trunk {
  struct Deaf : test::FakeRunner {
    using FakeRunner::FakeRunner;
    void signal(std::uint64_t ticket, int signal) override {
      if (signal == SIGKILL) FakeRunner::signal(ticket, signal);
    }
  };
  struct Silent : RunListener {
    void on_event(const RunEvent&, const RunState&) override {}
  };
  RunSummary run_until(const std::function<int()>& stop_level) {
    open();
    Deaf deaf([](FakeAttempt& attempt) {
      attempt.stays = attempt.config().value("name", "") == "trunk";
      if (!attempt.stays) write_all_outputs(attempt);
    });
    Silent silent;
    return pipeline::run(graph, plan(), *store, deaf, silent, options, stop_level);
  }
  int polls = 0;
};

BOOST_FIXTURE_TEST_CASE(the_second_interrupt_kills_and_ends_with_130, DeafTrunk) {
  BOOST_TEST(run_until([&] { return std::min(2, ++polls / 30); }).exit_code == kRunInterrupted);
}

BOOST_FIXTURE_TEST_CASE(a_stage_that_does_not_stop_in_time_is_killed, DeafTrunk) {
  options.grace_s = 5;
  const RunSummary summary = run_until([&] { return ++polls > 13 ? 1 : 0; });
  BOOST_TEST(summary.exit_code == kRunIncomplete);
  BOOST_TEST(summary.wall_s >= 5.0);
}

BOOST_FIXTURE_TEST_CASE(a_demand_above_the_machine_is_refused_before_the_start, Diamond) {
  task(c).resources.name = "big";
  task(c).resources.cpus = 64;
  std::string text;
  try {
    run();
  } catch (const support::ConfigError& error) {
    text = error.what();
  }
  BOOST_TEST(text.find("'c' cannot run here: it asks for 64 cpus in resources 'big' and there are 4 here") !=
             std::string::npos);
  BOOST_TEST(text.find("--set resources.big.cpus=4") != std::string::npos);
  BOOST_TEST(store->runs().empty());
  // Another process makes it.
  options.only.assign(graph.tasks.size(), true);
  options.only[c] = false;
  BOOST_CHECK_NO_THROW(run());
}

BOOST_FIXTURE_TEST_CASE(unhashed_workers_take_the_cpus_of_the_slot, SmallRun) {
  support::Field workers;
  workers.name = "workers";
  workers.type = support::FieldType::kInteger;
  workers.options.hashed = false;
  workers.automatic = true;
  stage->fields.push_back(workers);
  const auto t = add("t");
  task(t).config.edit()["workers"] = nullptr;
  task(t).resources.cpus = 3;
  Json seen;
  behaviour["t"] = [&](FakeAttempt& attempt) {
    seen = attempt.config().at("workers");
    write_all_outputs(attempt);
  };
  run();
  BOOST_TEST(seen == 3);
}

BOOST_FIXTURE_TEST_CASE(work_folders_keep_logs_and_lose_the_rest_after_a_success, Diamond) {
  behaviour["a"] = [](FakeAttempt& attempt) {
    fs::create_directories(attempt.folder / "checkpoints");
    std::ofstream(attempt.folder / "checkpoints" / "state") << "1";
    write_all_outputs(attempt);
  };
  run();
  const fs::path attempt = store->attempts(task(a).plan_key).at(0);
  BOOST_TEST(fs::exists(attempt / "stage.log"));
  BOOST_TEST(fs::exists(attempt / "task.json"));
  BOOST_TEST(!fs::exists(attempt / "checkpoints"));
  BOOST_TEST(!fs::exists(attempt / "out"));
}

BOOST_FIXTURE_TEST_CASE(tasks_with_one_plan_key_never_run_at_once, SmallRun) {
  add("twin");
  add("twin");
  task(1).id = "twin again";
  run();
  BOOST_TEST((runner->started == Names{"twin"}));
  BOOST_TEST(runner->most_at_once == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_full_disk_while_publishing_ends_with_4_and_leaves_no_record, Diamond) {
  std::optional<support::FaultHook> failure([](std::string_view step) {
    if (step == "write record") throw support::IoError("cannot write 'x': No space left on device");
  });
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunStore);
  BOOST_TEST(summary.store_error.find("No space left") != std::string::npos);
  BOOST_TEST(store->keys().empty());
  BOOST_TEST((runner->started == Names{"a"}));
  failure.reset();
  BOOST_TEST(run().exit_code == kRunDone);
}

/// Kills the whole process before the n-th change of the disk, for every n, and runs again each time.
BOOST_FIXTURE_TEST_CASE(a_kill_between_any_two_steps_of_publishing_recovers_to_the_same_contents, Diamond) {
  run();
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < 4; ++i) expected.push_back(content(i));
  bool finished = false;
  int kills = 0;
  for (int n = 1; !finished && n < 400; ++n) {
    fs::remove_all(folder / "store");
    const pid_t child = ::fork();
    if (child == 0) {
      int left = n;
      const support::FaultHook hook([&left](std::string_view) {
        if (--left == 0) ::_exit(99);
      });
      run();
      ::_exit(0);
    }
    finished = support::wait_for(child).code == 0;
    kills += !finished;
    const RunSummary again = run();
    BOOST_REQUIRE(again.exit_code == kRunDone);
    BOOST_TEST(again.conflicts == 0u);
    for (std::size_t i = 0; i < 4; ++i) BOOST_TEST(content(i) == expected[i]);
    open();
    BOOST_TEST(plan().nothing_to_do());
  }
  BOOST_TEST(finished);
  BOOST_TEST(kills > 30);
}

BOOST_FIXTURE_TEST_CASE(a_mistake_of_ours_lets_stages_save_and_keeps_the_summary, SmallRun) {
  const auto training = add("training");
  add("quick");
  behaviour["training"] = [](FakeAttempt& attempt) {
    attempt.messages.push_back({{"event", "checkpoint"}, {"step", 5}});
    attempt.stays = true;
  };
  bool thrown = false;
  const auto stop = [&] {
    if (runner->started.size() == 2 && runner->now() > 101 && !std::exchange(thrown, true))
      throw std::logic_error("an odd event");
    return 0;
  };
  BOOST_CHECK_THROW(run({}, stop), std::logic_error);
  BOOST_TEST((runner->signalled == std::vector<int>{SIGTERM}));
  const auto ids = store->runs();
  BOOST_REQUIRE(ids.size() == 1u);
  const Json summary = Json::parse(support::read_file(store->runs_folder() / ids[0] / "summary.json"));
  BOOST_TEST(summary.at("exit_code") == 70);
  BOOST_TEST(summary.at("mistake") == "an odd event");
  BOOST_TEST(summary.at("executed") == 1);
  const RunStatus status = read_run(*store, ids[0]);
  BOOST_TEST(status.tasks[training].phase == "interrupted");
  const auto attempts = store->attempts(graph.tasks[training].plan_key);
  BOOST_REQUIRE(attempts.size() == 1u);
  BOOST_TEST(Json::parse(support::read_file(attempts[0] / "exit.json")).at("class") == "checkpointed");
  BOOST_TEST(Leases::list(store->leases_folder()).empty());
}

/// Fails inside the loop when a stage has ended and nothing of it is published yet.
struct FailingListener : RunListener {
  void on_event(const RunEvent& event, const RunState&) override {
    if (event.name == "exit") throw std::logic_error("an odd end");
  }
};

BOOST_FIXTURE_TEST_CASE(a_mistake_at_the_end_of_a_stage_ends_the_run, SmallRun) {
  add("a");
  options.grace_s = 20;
  for (const int level : {0, 2}) {
    open();
    test::FakeRunner stages([](FakeAttempt& attempt) { write_all_outputs(attempt); });
    FailingListener listener;
    const StopFunction stop = [&] {
      if (stages.now() > 1000) throw std::runtime_error("it never ends");
      return stages.now() > 105 ? level : 0;
    };
    BOOST_CHECK_THROW(pipeline::run(graph, plan(), *store, stages, listener, options, stop), std::logic_error);
    BOOST_TEST(stages.now() < (level == 2 ? 106 : 135));
    BOOST_TEST(stages.now() > (level == 2 ? 105 : 130));
  }
}

BOOST_FIXTURE_TEST_CASE(an_attempt_that_another_user_closed_is_not_continued, SmallRun) {
  const auto a = add("a");
  add("b");
  plan();
  const fs::path before = store->new_attempt(task(a).plan_key);
  support::write_file_atomically(before / "owner.json", "{}", false);
  ::chmod(before.c_str(), 0);
  const auto go = [&] {
    const RunSummary summary = run();
    const bool told = std::any_of(events.begin(), events.end(), [&](const RunEvent& event) {
      return event.name == "warn" && event.detail.value("text", "").find(before.string()) != std::string::npos;
    });
    return summary.exit_code == 0 && summary.executed == 2 && told ? 7 : 1;
  };
  BOOST_TEST(test::as_plain_user(folder.path(), go, {before}) == 7);
  ::chmod(before.c_str(), 0755);
}

BOOST_FIXTURE_TEST_CASE(a_task_whose_work_folder_is_closed_fails_alone, SmallRun) {
  const auto a = add("a");
  add("b");
  plan();
  const fs::path closed = store->new_attempt(task(a).plan_key).parent_path();
  for (const int mode : {0, 0555}) {
    ::chmod(closed.c_str(), static_cast<mode_t>(mode));
    const auto go = [&] {
      const RunSummary summary = run({{}, true});
      const bool named = summary.failures.size() == 1 && summary.failures[0].task == a &&
                         summary.failures[0].reason.find(closed.string()) != std::string::npos;
      return summary.exit_code == kRunFailed && summary.store_error.empty() && summary.executed == 1 && named ? 7 : 1;
    };
    BOOST_TEST(test::as_plain_user(folder.path(), go, {closed}) == 7, "mode " << mode);
  }
  ::chmod(closed.c_str(), 0755);
}

BOOST_FIXTURE_TEST_CASE(a_record_has_the_tokens_of_its_training, SmallRun) {
  stage->costs = {{"tokens", "salt * 10"}};
  const std::size_t a = add("a");
  add("b");
  task(a).config = Json{{"name", "a"}, {"salt", 7}};
  BOOST_TEST(run().executed == 2u);
  open();  // the records of the whole run
  for (const PastTask& past : store->past_tasks()) BOOST_TEST(past.tokens == (past.id == "a" ? 70.0 : 0.0), past.id);
  BOOST_TEST(store->past_tasks().size() == 2u);
}

BOOST_AUTO_TEST_CASE(commands_are_printed_so_that_a_shell_reads_them_back) {
  BOOST_TEST(shell_command({"pe-pipeline", "run", "a b.yml", "trunk[seed=42]"}) ==
             "pe-pipeline run 'a b.yml' 'trunk[seed=42]'");
  BOOST_TEST(shell_quoted("it's $(x)\n") == "'it'\\''s $(x)\n'");
  BOOST_TEST(shell_quoted("") == "''");
}

BOOST_AUTO_TEST_SUITE_END()
