#include "pipeline/store/lease.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <fstream>
#include <set>

#include "support/error.h"
#include "support/fault_point.h"
#include "support/files.h"
#include "support/process.h"
#include "support/temp_folder.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
namespace fs = std::filesystem;

namespace {

const std::string kKey(64, 'a');

struct Folder {
  test::TempFolder folder;
  fs::path leases = folder / "leases";
  double clock = 1000;

  LeaseOptions on(const std::string& host = this_host().host, const std::string& boot = this_host().boot) {
    LeaseOptions options;
    options.where.host = host;
    options.where.boot = boot;
    options.now = [this] { return clock; };
    options.run = "run of " + host;
    options.pipeline = "grid";
    return options;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(leases)) found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }
  /// A process of this host acquires the key and is killed.
  void acquire_and_die(const std::string& key = kKey) {
    const pid_t child = ::fork();
    if (child == 0) {
      Leases theirs(leases, on());
      ::_exit(theirs.acquire(key).acquired ? 0 : 1);  // without a destructor
    }
    BOOST_REQUIRE(support::wait_for(child).code == 0);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(lease)

BOOST_FIXTURE_TEST_CASE(one_owner_at_a_time_and_a_released_lease_is_free_at_once, Folder) {
  Leases a(leases, on()), b(leases, on("elsewhere", "other"));
  BOOST_TEST(a.acquire(kKey).acquired);
  BOOST_TEST(a.acquire(kKey).acquired);  // it has it already
  const auto refused = b.acquire(kKey);
  BOOST_TEST(!refused.acquired);
  BOOST_TEST(refused.holder->pid == ::getpid());
  BOOST_TEST(refused.holder->run == a.acquire(kKey).holder.value_or(*refused.holder).run);
  BOOST_TEST(refused.holder->describe().find("running 'grid'") != std::string::npos);
  BOOST_TEST((names() == std::vector<std::string>{kKey}));
  a.release(kKey);
  BOOST_TEST(names().empty());
  BOOST_TEST(b.acquire(kKey).acquired);
}

BOOST_FIXTURE_TEST_CASE(a_dead_owner_on_this_host_blocks_nobody_for_any_time, Folder) {
  acquire_and_die();
  Leases b(leases, on());
  const auto answer = b.acquire(kKey);
  BOOST_TEST(answer.acquired);
  BOOST_TEST(answer.broken.has_value());
  BOOST_TEST(answer.why == "its process is gone");
  BOOST_TEST((names() == std::vector<std::string>{kKey}));
}

BOOST_AUTO_TEST_CASE(a_process_is_alive_gone_or_another_one) {
  const auto self = static_cast<std::int64_t>(::getpid());
  BOOST_TEST((process_life(self, process_start(self)) == ProcessLife::kAlive));
  BOOST_TEST((process_life(self, 0) == ProcessLife::kAlive));
  BOOST_TEST((process_life(self, process_start(self) + 1) == ProcessLife::kGone));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t ended{};
  BOOST_REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);
  BOOST_TEST((process_life(child, 0) == ProcessLife::kGone));  // a zombie
  support::wait_for(child);
  BOOST_TEST((process_life(child, 0) == ProcessLife::kGone));
}

BOOST_FIXTURE_TEST_CASE(an_owner_whom_proc_hides_is_judged_by_its_heartbeats, Folder) {
  Leases theirs(leases, on());
  BOOST_REQUIRE(theirs.acquire(kKey).acquired);
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(leases, fs::perms::all);
  constexpr int kCannot = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    // Another user, in a separate mount space whose /proc hides this process.
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("proc", "/proc", "proc", 0, "hidepid=2") != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0)
      ::_exit(kCannot);
    const auto parent = static_cast<std::int64_t>(::getppid());
    int wrong = process_life(parent, 1) == ProcessLife::kHidden ? 0 : 1;
    Leases ours(leases, on());
    if (ours.acquire(kKey).acquired) wrong |= 2;
    if (!ours.sweep().empty()) wrong |= 4;
    clock += 121;  // without a heartbeat
    if (!ours.acquire(kKey).acquired) wrong |= 8;
    ::_exit(wrong);
  }
  const int code = support::wait_for(child).code;
  if (code == kCannot) {
    BOOST_TEST_MESSAGE("left out: this user may not mount a /proc");
    return;
  }
  BOOST_TEST(code == 0);
}

BOOST_FIXTURE_TEST_CASE(a_machine_that_started_again_lost_all_its_owners, Folder) {
  Leases before(leases, on(this_host().host, "an earlier boot"));
  BOOST_TEST(before.acquire(kKey).acquired);
  Leases after(leases, on());
  BOOST_TEST(after.acquire(kKey).acquired);
  BOOST_TEST(before.holds(kKey) == false);
}

BOOST_FIXTURE_TEST_CASE(an_owner_in_another_container_of_this_machine_is_not_judged_by_its_number, Folder) {
  auto options = on();
  options.where.pids = "pid:[1]";
  Leases theirs(leases, options);
  BOOST_TEST(theirs.acquire(kKey).acquired);
  Leases ours(leases, on());
  BOOST_TEST(!ours.acquire(kKey).acquired);
}

BOOST_FIXTURE_TEST_CASE(an_owner_elsewhere_is_stale_after_120_s_without_a_sign, Folder) {
  Leases theirs(leases, on("elsewhere", "b"));
  BOOST_TEST(theirs.acquire(kKey).acquired);
  Leases ours(leases, on());
  for (double waited = 0; waited < 120; waited += 1) {
    BOOST_REQUIRE(!ours.acquire(kKey).acquired);
    clock += 1;
  }
  const auto answer = ours.acquire(kKey);
  BOOST_TEST(answer.acquired);
  BOOST_TEST(answer.broken->where.host == "elsewhere");
  BOOST_TEST(answer.why.find("it gave no sign for 2") == 0u);
  // The owner that was only slow finds out at its next heartbeat, and does not take ours away.
  clock += 30;
  BOOST_TEST((theirs.send_heartbeats() == std::vector<std::string>{kKey}));
  theirs.release(kKey);
  BOOST_TEST(ours.holds(kKey));
}

BOOST_FIXTURE_TEST_CASE(heartbeats_keep_an_owner_elsewhere_alive_whatever_the_clocks_say, Folder) {
  Leases theirs(leases, on("elsewhere", "b"));
  BOOST_TEST(theirs.acquire(kKey).acquired);
  Leases ours(leases, on());
  for (int i = 0; i < 100; ++i) {
    clock += 29;
    // Its file claims to be from another age; that is never looked at.
    const timespec times[2] = {{1000, 0}, {1000, 0}};
    BOOST_REQUIRE(::utimensat(AT_FDCWD, (leases / kKey).c_str(), times, 0) == 0);
    BOOST_REQUIRE(theirs.send_heartbeats().empty());
    BOOST_REQUIRE(!ours.acquire(kKey).acquired);
  }
  BOOST_TEST(std::stoll(support::read_file(leases / kKey).substr(0, 16)) >= 49);  // its number
}

BOOST_FIXTURE_TEST_CASE(a_job_that_has_ended_holds_nothing, Folder) {
  ::setenv("SLURM_JOB_ID", "77", 1);
  Leases theirs(leases, on("node1", "b"));
  ::unsetenv("SLURM_JOB_ID");
  BOOST_TEST(theirs.acquire(kKey).acquired);
  auto options = on();
  bool ended = false;
  options.job_ended = [&](const LeaseOwner& owner) { return ended && owner.slurm_job == "77"; };
  Leases ours(leases, options);
  BOOST_TEST(!ours.acquire(kKey).acquired);
  ended = true;
  BOOST_TEST(ours.acquire(kKey).why == "its job has ended");
}

BOOST_FIXTURE_TEST_CASE(a_stopped_owner_keeps_its_lease_on_its_own_host, Folder) {
  const pid_t child = ::fork();
  if (child == 0) {
    Leases theirs(leases, on());
    if (!theirs.acquire(kKey).acquired) ::_exit(1);
    ::raise(SIGSTOP);
    ::_exit(theirs.holds(kKey) ? 0 : 2);
  }
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  Leases ours(leases, on());
  BOOST_TEST(!ours.acquire(kKey).acquired);
  clock += 60;
  BOOST_TEST(!ours.acquire(kKey).acquired);
  ::kill(child, SIGCONT);
  BOOST_TEST(support::wait_for(child).code == 0);
  BOOST_TEST(ours.acquire(kKey).acquired);
}

BOOST_FIXTURE_TEST_CASE(a_damaged_lease_is_an_owner_that_gives_no_sign, Folder) {
  const std::string whole = [&] {
    Leases theirs(leases, on("elsewhere", "b"));
    BOOST_TEST(theirs.acquire(kKey).acquired);
    return support::read_file(leases / kKey);
  }();
  BOOST_TEST(parse_lease(whole).has_value());
  for (std::size_t cut = 0; cut < whole.size() - 1; ++cut) BOOST_TEST(!parse_lease(whole.substr(0, cut)));
  for (const std::string& bytes :
       {std::string(), std::string("\0\0\0", 3), std::string(3000, 'x'), whole.substr(0, 60)}) {
    std::ofstream(leases / kKey, std::ios::binary) << bytes;
    Leases ours(leases, on());
    const auto refused = ours.acquire(kKey);
    BOOST_TEST(!refused.acquired);
    BOOST_TEST(!refused.holder.has_value());
    clock += 121;
    BOOST_TEST(ours.acquire(kKey).acquired);
  }
}

BOOST_FIXTURE_TEST_CASE(of_many_that_want_it_at_once_one_gets_it, Folder) {
  for (int round = 0; round < 20; ++round) {
    const std::string key = std::string(63, 'b') + static_cast<char>('a' + round);
    // A stale one first, so that they race to break it too.
    acquire_and_die(key);
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        Leases own(leases, on());
        if (!own.acquire(key).acquired) ::_exit(0);
        // The holder of the lease holds this too; a process that finds it there is a second holder.
        const fs::path alone = folder / "alone";
        const int fd = ::open(alone.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (fd < 0) ::_exit(9);
        ::usleep(20000);
        const bool held = own.holds(key);
        ::unlink(alone.c_str());
        own.release(key);  // a later one may win after it, never together with it
        ::_exit(held ? 7 : 8);
      }
      children.push_back(child);
    }
    int winners = 0;
    for (const pid_t child : children) {
      const int code = support::wait_for(child).code;
      BOOST_TEST((code == 0 || code == 7), "round " << round << ": " << code);
      winners += code == 7;
    }
    BOOST_TEST(winners >= 1);
    Leases last(leases, on());
    BOOST_TEST(last.acquire(key).acquired);
  }
}

BOOST_FIXTURE_TEST_CASE(a_stale_lease_that_may_not_be_broken_is_an_error_that_names_it, Folder) {
  acquire_and_die();
  fs::permissions(folder.path(), fs::perms::owner_all | fs::perms::others_exec | fs::perms::group_exec);
  ::chmod(leases.c_str(), 0555);
  const pid_t child = ::fork();
  if (child == 0) {
    // Root may rename anything, so it changes to user 65534.
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(3);
    Leases theirs(leases, on());
    try {
      theirs.acquire(kKey);
      ::_exit(1);
    } catch (const support::IoError& error) {
      const std::string text = error.what();
      const bool told = text.find(kKey) != std::string::npos && text.find("Permission denied") != std::string::npos &&
                        text.find("its process is gone") != std::string::npos;
      ::_exit(told ? 7 : 2);
    }
  }
  BOOST_TEST(support::wait_for(child).code == 7);
  ::chmod(leases.c_str(), 0755);
  BOOST_TEST(Leases(leases, on()).acquire(kKey).acquired);
}

BOOST_FIXTURE_TEST_CASE(containers_of_one_host_name_never_open_the_same_claim, Folder) {
  auto first = on(), second = on();
  first.where.pids = "pid:[4026531836]";
  second.where.pids = "pid:[4026532201]";
  std::set<std::string> claims;
  const support::FaultHook note_claim([&](std::string_view step) {
    if (step != "link lease") return;
    for (const std::string& name : names()) {
      if (name.rfind(".claim.", 0) == 0) claims.insert(name);
    }
  });
  {
    Leases a(leases, first), b(leases, second);  // the same process number and count
    a.acquire(std::string(64, 'a'));
    b.acquire(std::string(64, 'b'));
  }
  BOOST_TEST(claims.size() == 2u);
  // A claim that is there already is left alone.
  const std::string taken = *claims.begin();
  std::ofstream(leases / taken) << "somebody's";
  Leases again(leases, first);
  BOOST_TEST(again.acquire(kKey).acquired);
  BOOST_TEST(support::read_file(leases / taken) == "somebody's");
}

BOOST_FIXTURE_TEST_CASE(a_kill_between_any_two_steps_leaves_a_key_that_can_be_leased_at_once, Folder) {
  bool finished = false;
  int kills = 0;
  for (int n = 1; !finished && n < 100; ++n) {
    acquire_and_die();
    const pid_t child = ::fork();
    if (child == 0) {
      int left = n;
      const support::FaultHook hook([&](std::string_view) {
        if (--left == 0) ::_exit(99);
      });
      Leases theirs(leases, on());
      if (!theirs.acquire(kKey).acquired) ::_exit(1);
      theirs.name_stage(kKey, ::getpid(), process_start(::getpid()));
      clock += 31;
      if (!theirs.send_heartbeats().empty()) ::_exit(2);
      theirs.release(kKey);
      ::_exit(0);
    }
    const int code = support::wait_for(child).code;
    BOOST_REQUIRE((code == 0 || code == 99));
    finished = code == 0;
    kills += !finished;
    Leases ours(leases, on());
    BOOST_TEST(ours.acquire(kKey).acquired, "after a kill before step " << n);
    ours.release(kKey);
    ours.sweep();
    BOOST_TEST(names().empty());
  }
  BOOST_TEST(finished);
  BOOST_TEST(kills >= 6);
}

BOOST_FIXTURE_TEST_CASE(a_lease_that_changed_hands_while_it_was_judged_goes_back, Folder) {
  acquire_and_die();
  Leases third(leases, on("third", "b"));
  // Between our look and our rename another breaker is faster.
  bool once = true;
  const support::FaultHook hook([&](std::string_view step) {
    if (step == "break lease" && once) {
      once = false;
      fs::remove(leases / kKey);
      BOOST_REQUIRE(third.acquire(kKey).acquired);
    }
  });
  Leases ours(leases, on());
  BOOST_TEST(!ours.acquire(kKey).acquired);
  BOOST_TEST(third.holds(kKey));
}

BOOST_FIXTURE_TEST_CASE(a_sweep_removes_what_the_dead_of_this_host_left_and_nothing_else, Folder) {
  Leases far(leases, on("elsewhere", "b")), near(leases, on());
  BOOST_TEST(far.acquire("far").acquired);
  BOOST_TEST(near.acquire("near").acquired);
  acquire_and_die("dead");
  near.sweep();
  BOOST_TEST((names() == std::vector<std::string>{"far", "near"}));
  BOOST_TEST(near.holds("near"));
}

BOOST_FIXTURE_TEST_CASE(the_stage_at_work_is_named, Folder) {
  Leases ours(leases, on());
  ours.acquire(kKey);
  ours.name_stage(kKey, ::getpid(), process_start(::getpid()));
  const auto all = Leases::list(leases);
  BOOST_TEST(all.size() == 1u);
  BOOST_TEST(all.at(kKey)->stage_pid == ::getpid());
  BOOST_TEST(all.at(kKey)->stage_start == process_start(::getpid()));
}

BOOST_AUTO_TEST_SUITE_END()
