// Two runs in one store: which makes a task, which waits for it, and the fate of an owner that falls behind.
#include <signal.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include "pipeline/run/run.h"
#include "pipeline/run/run_fixture.h"
#include "pipeline/store/lease.h"
#include "support/error.h"
#include "support/process.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using pe::test::FakeAttempt;
using pe::test::SmallRun;
using pe::test::write_all_outputs;
namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

struct Two : SmallRun {
  std::size_t a = add("a"), b = add("b", {a});

  /// A process on another host, whose clock is ours.
  std::unique_ptr<Leases> other(const std::string& host = "elsewhere") {
    LeaseOptions lease;
    lease.where.host = host;
    lease.where.boot = "b";
    lease.pipeline = "theirs";
    lease.now = [this] { return runner ? runner->now() : 100.0; };
    return std::make_unique<Leases>(folder / "store" / "leases", lease);
  }
  const RunEvent* find_event(const std::string& name) const {
    for (const auto& event : events) {
      if (event.name == name) return &event;
    }
    return nullptr;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(run_sharing)

BOOST_FIXTURE_TEST_CASE(a_task_that_another_run_works_on_is_waited_for_and_then_found, Two) {
  // The result of the other run: taken from a run here, and put into the store when its time comes.
  run();
  const std::string first = content(a);
  const auto key = store->hint(task(a).plan_key).value();
  const Record made = *store->read({key, -1});
  fs::remove_all(folder / "store" / "tasks");
  auto theirs = other();
  BOOST_TEST(theirs->acquire(task(a).plan_key).acquired);
  const RunSummary summary = run({}, [&] {
    theirs->send_heartbeats();
    if (theirs && runner->now() > 400 && theirs->held() > 0) {
      Store(folder / "store", {.durable = false}).commit(made);
      theirs->release(task(a).plan_key);
    }
    return 0;
  });
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"b"}));
  BOOST_TEST(summary.reused == 1u);
  BOOST_TEST(runner->now() > 400);
  BOOST_TEST(content(a) == first);
  const RunEvent* wait = find_event("wait");
  BOOST_REQUIRE(wait);
  BOOST_TEST(wait->detail.at("owner").get<std::string>().find("on elsewhere, running 'theirs'") != std::string::npos);
}

// Another pipeline whose first stages differ and come to the same inputs: its plan key is another, its key is this one.
BOOST_FIXTURE_TEST_CASE(equal_work_under_another_plan_key_is_waited_for, Two) {
  run();
  const auto key = store->hint(task(a).plan_key).value();
  const Record made = *store->read({key, -1});
  fs::remove_all(folder / "store" / "tasks");
  auto theirs = other();
  BOOST_TEST(theirs->acquire(key).acquired);
  const RunSummary summary = run({}, [&] {
    theirs->send_heartbeats();
    if (runner->now() > 400 && theirs->held() > 0) {
      Store(folder / "store", {.durable = false}).commit(made);
      theirs->release(key);
    }
    return 0;
  });
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"b"}));
  BOOST_TEST(find_event("wait") != nullptr);
  BOOST_TEST(Leases::list(store->leases_folder()).empty());
}

BOOST_FIXTURE_TEST_CASE(between_an_attempt_and_the_next_a_task_stays_with_its_run, Two) {
  int attempts = 0, held = 0, looked = 0;
  behaviour["a"] = [&](FakeAttempt& attempt) {
    if (++attempts == 1)
      attempt.code = 69;  // a service does not answer: tried again after a while
    else
      write_all_outputs(attempt);
  };
  auto theirs = other();
  const RunSummary summary = run({}, [&] {
    if (attempts == 1 && find_event("retry")) {
      ++looked;
      const auto answer = theirs->acquire(task(a).plan_key);
      held += !answer.acquired;
      if (answer.acquired) theirs->release(task(a).plan_key);
    }
    return 0;
  });
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST(attempts == 2);
  BOOST_TEST(looked > 0);
  BOOST_TEST(held == looked);
  BOOST_TEST(Leases::list(folder / "store" / "leases").empty());

  // A task that has failed for good is anyone's.
  behaviour["b"] = [](FakeAttempt& attempt) { attempt.code = 2; };
  task(b).config.edit()["salt"] = "new";
  run();
  BOOST_TEST(find_event("fail"));
  BOOST_TEST(Leases::list(folder / "store" / "leases").empty());
}

BOOST_FIXTURE_TEST_CASE(told_not_to_wait_it_leaves_the_task_and_ends_with_3, Two) {
  plan();
  auto theirs = other();
  BOOST_TEST(theirs->acquire(task(a).plan_key).acquired);
  options.wait_lease = false;
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunIncomplete);
  BOOST_TEST(runner->started.empty());
  BOOST_TEST(theirs->holds(task(a).plan_key));
}

BOOST_FIXTURE_TEST_CASE(a_silent_owner_elsewhere_is_taken_over_after_120_s, Two) {
  plan();
  auto theirs = other();
  BOOST_TEST(theirs->acquire(task(a).plan_key).acquired);
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST(summary.executed == 2u);
  // Two tasks of a second each, on a clock that began at 100.
  BOOST_TEST(runner->now() > 220);
  BOOST_TEST(runner->now() < 228);
}

BOOST_FIXTURE_TEST_CASE(an_owner_of_this_host_that_is_dead_is_taken_over_at_once, Two) {
  plan();
  const pid_t child = ::fork();
  if (child == 0) {
    Leases theirs(folder / "store" / "leases", {});
    ::_exit(theirs.acquire(task(a).plan_key).acquired ? 0 : 1);
  }
  BOOST_TEST(support::wait_for(child).code == 0);
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST(runner->now() < 103);
  BOOST_TEST(find_event("note")->detail.at("text").get<std::string>().find("broke the lease of process " +
                                                                           std::to_string(child)) == 0u);
}

BOOST_FIXTURE_TEST_CASE(an_owner_whose_lease_was_broken_publishes_if_the_key_is_still_free, Two) {
  behaviour["a"] = [](FakeAttempt& attempt) {
    write_all_outputs(attempt);
    attempt.seconds = 500;
  };
  auto theirs = other();
  const RunSummary summary = run({}, [&] {
    // It takes our lease away, as after a pause of ours, but never gets to publish.
    if (runner->now() > 200 && theirs->held() == 0 && runner->now() < 300) {
      fs::remove(folder / "store" / "leases" / task(a).plan_key);
      theirs->acquire(task(a).plan_key);
    }
    return 0;
  });
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"a", "b"}));
  BOOST_TEST(runner->signalled.empty());
  BOOST_TEST(theirs->holds(task(a).plan_key));  // not ours to remove
  BOOST_TEST(find_event("warn") != nullptr);
}

BOOST_FIXTURE_TEST_CASE(an_owner_whose_lease_was_broken_stops_when_the_other_was_first, Two) {
  run();
  const Record made = *store->read({store->hint(task(a).plan_key).value(), -1});
  fs::remove_all(folder / "store" / "tasks");
  behaviour["a"] = [](FakeAttempt& attempt) { attempt.seconds = 5000; };
  auto theirs = other();
  const RunSummary summary = run({}, [&] {
    if (runner->now() > 200 && theirs->held() == 0 && runner->now() < 300) {
      fs::remove(folder / "store" / "leases" / task(a).plan_key);
      theirs->acquire(task(a).plan_key);
    }
    if (runner->now() > 400 && theirs->held() > 0) {
      Store(folder / "store", {.durable = false}).commit(made);
      theirs->release(task(a).plan_key);
    }
    return 0;
  });
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST((runner->started == Names{"a", "b"}));
  BOOST_TEST((runner->signalled == std::vector<int>{SIGTERM}));
  BOOST_TEST(runner->now() < 600);
  BOOST_TEST(summary.conflicts == 0u);
}

BOOST_FIXTURE_TEST_CASE(every_lease_is_given_back_at_the_end_however_tasks_end, Two) {
  behaviour["b"] = [](FakeAttempt& attempt) { attempt.code = 70; };
  BOOST_TEST(run().exit_code == kRunFailed);
  BOOST_TEST(fs::is_empty(folder / "store" / "leases"));
  behaviour.clear();
  run();
  BOOST_TEST(fs::is_empty(folder / "store" / "leases"));
}

BOOST_FIXTURE_TEST_CASE(a_task_that_outlives_its_time_is_asked_to_stop_then_killed_and_its_class_says_so, Two) {
  task(a).resources.time_s = 50;
  options.grace_s = 10;
  behaviour["a"] = [](FakeAttempt& attempt) { attempt.stays = true; };
  code_on_term = 143;
  RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunFailed);
  BOOST_TEST((runner->signalled == std::vector<int>{SIGTERM}));
  BOOST_TEST((summary.failures.at(0).outcome == Outcome::kTimeLimit));
  BOOST_TEST(summary.failures.at(0).reason.find("ran longer than 50") == 0u);
  BOOST_TEST((runner->now() > 149 && runner->now() < 153));
}

BOOST_FIXTURE_TEST_CASE(a_task_that_saves_at_its_time_limit_goes_on_in_a_next_attempt, Two) {
  task(a).resources.time_s = 50;
  int attempts = 0;
  behaviour["a"] = [&](FakeAttempt& attempt) {
    if (++attempts < 3) {
      attempt.stays = true;
      attempt.messages.push_back({{"event", "checkpoint"}, {"step", attempts}});
    } else {
      write_all_outputs(attempt);
    }
  };
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST(attempts == 3);
}

BOOST_FIXTURE_TEST_CASE(out_of_memory_is_tried_with_more_up_to_all_there_is_and_then_says_so, Two) {
  task(a).retry.edit().max = 2;
  task(a).resources.mem_bytes = 30LL << 30;
  options.capacity.mem_bytes = 64LL << 30;
  behaviour["a"] = [](FakeAttempt& attempt) {
    attempt.signal = SIGKILL;
    attempt.out_of_memory = true;
  };
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunFailed);
  BOOST_TEST(runner->started.size() == 3u);  // 30, 45 and 64 GiB
  BOOST_TEST(summary.failures.at(0).reason.find("it had all the memory there is, 64") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(large_outputs_published_on_threads_give_the_same_records, Two) {
  run();
  const Names expected = {content(a), content(b)};
  fs::remove_all(folder / "store");
  options.publish_threads = 2;
  // Synced, so that nothing counts as small.
  open();
  SmallRun::store.reset();
  StoreOptions durable;
  Store durable_store(folder / "store", durable);
  test::FakeRunner fake([](FakeAttempt& attempt) { write_all_outputs(attempt); });
  struct Silent : RunListener {
    void on_event(const RunEvent&, const RunState&) override {}
  } silent;
  compute_plan_keys(graph);
  const Plan plan_now = make_plan(graph, StoreReader(durable_store));
  const RunSummary summary = pipeline::run(graph, plan_now, durable_store, fake, silent, options);
  BOOST_TEST(summary.exit_code == kRunDone);
  open();
  BOOST_TEST((Names{content(a), content(b)} == expected));
}

BOOST_AUTO_TEST_SUITE_END()
