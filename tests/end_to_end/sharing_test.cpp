// Several runs of one pipeline in one store at the same time: every task is made once, and all end alike.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <fstream>

#include "end_to_end/durable.h"
#include "end_to_end/project.h"
#include "pipeline/expand/expand.h"
#include "pipeline/file/pipeline_file.h"
#include "pipeline/plan/externals.h"
#include "pipeline/plan/key.h"
#include "pipeline/plan/plan.h"
#include "pipeline/run/local_runner.h"
#include "pipeline/run/run.h"
#include "support/text.h"

using namespace pe;        // NOLINT
using namespace pe::test;  // NOLINT

namespace {

/// Tasks of some length, so that runs meet.
std::string grid(int seeds, double step_s) {
  std::string labels;
  for (int i = 0; i < seeds; ++i) labels += (i ? ", " : "") + std::to_string(i + 20);
  return "schema: pe-pipeline/1\nname: toy\naxes:\n  seed: [" + labels +
         "]\nstages:\n  data:\n    run: pe-toy\n  part:\n    run: pe-toy\n    over: [seed]\n    needs: {init: data}\n"
         "    config: {set: {value: $(seed), tokens: 10, step_s: " +
         std::to_string(step_s) + "}}\n  report:\n    run: pe-toy-report\n    gather: {in: part}\n";
}

/// How often each key was started and published for the first time, over all journals of a store.
struct Work {
  std::map<std::string, int> starts;
  int conflicts = 0, waits = 0;
  explicit Work(const Project& project) {
    for (const auto& run : fs::directory_iterator(project.root() / "store" / "runs")) {
      for (const Json& event : pipeline::read_journal(run.path())) {
        const std::string name = event.value("event", "");
        if (name == "start") ++starts[event.value("key", "")];
        conflicts += name == "conflict";
        waits += name == "wait";
      }
    }
  }
};

struct Silent : pipeline::RunListener {
  void on_event(const pipeline::RunEvent&, const pipeline::RunState&) override {}
};

/// A run in a separate process that takes itself for another host. Its exit code is the run's.
pid_t run_on_host(const Project& project, const std::string& host, double heartbeat_s, double expiry_s) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  int code = 99;
  try {
    pipeline::StageCatalog catalog({fs::path(PE_TOY_FOLDER)});
    pipeline::Graph graph = pipeline::expand(pipeline::read_pipeline_file(project.file()), catalog, {});
    pipeline::StampMemo memo = pipeline::StampMemo::of_inputs(project.root() / "store");
    pipeline::hash_externals(graph, memo);
    pipeline::compute_plan_keys(graph);
    pipeline::Store store(project.root() / "store", {});
    pipeline::RunOptions options;
    options.capacity = pipeline::detect_capacity();
    options.check_configs = false;
    options.publish_threads = 2;
    options.lease.where.host = host;
    options.lease.where.boot = host;
    options.lease.heartbeat_s = heartbeat_s;
    options.lease.expiry_s = expiry_s;
    pipeline::LocalRunner runner;
    Silent silent;
    const auto summary =
        pipeline::run(graph, pipeline::make_plan(graph, pipeline::StoreReader(store)), store, runner, silent, options);
    code = summary.exit_code;
    if (!summary.store_error.empty()) std::printf("%s: %s\n", host.c_str(), summary.store_error.c_str());
    for (const auto& failure : summary.failures) {
      std::printf("%s: %s: %s\n%s\n", host.c_str(), graph.tasks[failure.task].id.c_str(), failure.reason.c_str(),
                  support::join(failure.tail, "\n").c_str());
    }
  } catch (const std::exception& error) {
    std::printf("%s: %s\n", host.c_str(), error.what());
  }
  std::fflush(stdout);
  ::_exit(code);
}

void wait_until(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) ::usleep(5000);
}

bool somebody_works(const Project& project) {
  for (const auto& [key, owner] : pipeline::Leases::list(project.root() / "store" / "leases")) {
    if (owner && owner->stage_pid > 0) return true;
  }
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sharing)

BOOST_AUTO_TEST_CASE(two_to_eight_runs_at_once_make_every_task_once_and_all_end_well) {
  const std::string text = grid(6, 0.004);
  const Project alone(text);
  BOOST_REQUIRE(alone.call("run").code == 0);
  const auto expected = alone.contents();
  for (const auto& [count, durable] : {std::pair{2, true}, {3, false}, {5, true}, {8, false}}) {
    const Project project(text);
    std::vector<pid_t> runs;
    for (int i = 0; i < count; ++i) runs.push_back(start_run(project, durable));
    for (const pid_t pid : runs) {
      const auto status = support::wait_for(pid);
      BOOST_TEST(status.code == 0, count << " runs:\n" << support::read_file(project.root() / "run.out"));
    }
    BOOST_TEST((project.contents() == expected));
    const Work work(project);
    BOOST_TEST(work.conflicts == 0);
    BOOST_TEST(work.starts.size() == expected.size());
    for (const auto& [key, starts] : work.starts) BOOST_TEST(starts == 1, key << " was started " << starts << " times");
    BOOST_TEST(fs::is_empty(project.root() / "store" / "leases"));
    CHECK_HAS(project.call("run").out, "nothing to do");
  }
}

BOOST_AUTO_TEST_CASE(runs_on_other_hosts_share_the_work_too) {
  const std::string text = grid(6, 0.004);
  const Project alone(text);
  BOOST_REQUIRE(alone.call("run").code == 0);
  const Project project(text);
  std::vector<pid_t> runs;
  for (int i = 0; i < 4; ++i) runs.push_back(run_on_host(project, "host" + std::to_string(i), 30, 120));
  for (const pid_t pid : runs) BOOST_TEST(support::wait_for(pid).code == 0);
  BOOST_TEST((project.contents() == alone.contents()));
  for (const auto& [key, starts] : Work(project).starts) BOOST_TEST(starts == 1, key << " " << starts);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_killed_on_another_host_is_taken_over_when_its_leases_expire) {
  const Project project(grid(2, 0.02));
  const pid_t first = run_on_host(project, "far", 0.1, 1.0);
  wait_until([&] { return somebody_works(project); });
  ::kill(first, SIGKILL);
  support::wait_for(first);
  const auto began = std::chrono::steady_clock::now();
  const pid_t second = run_on_host(project, "near", 0.1, 1.0);
  BOOST_TEST(support::wait_for(second).code == 0);
  const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  BOOST_TEST(waited > 0.9);
  BOOST_TEST(waited < 30.0);
  BOOST_TEST(project.contents().size() == 4u);
}

BOOST_AUTO_TEST_CASE(a_run_that_was_paused_past_expiry_goes_on_without_harm) {
  const std::string text = grid(3, 0.02);
  const Project alone(text);
  BOOST_REQUIRE(alone.call("run").code == 0);
  const Project project(text);
  const pid_t paused = run_on_host(project, "slow", 0.1, 0.6);
  wait_until([&] { return somebody_works(project); });
  ::kill(paused, SIGSTOP);
  const pid_t other = run_on_host(project, "quick", 0.1, 0.6);
  BOOST_TEST(support::wait_for(other).code == 0);
  BOOST_TEST((project.contents() == alone.contents()));
  ::kill(paused, SIGCONT);
  BOOST_TEST(support::wait_for(paused).code == 0);
  BOOST_TEST((project.contents() == alone.contents()));
  BOOST_TEST(Work(project).conflicts == 0);
}

/// Whether this user may become others, as a test of several users must.
struct CanBecomeOthers {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    const auto tried = support::capture(
        {"setpriv", "--reuid=20001", "--regid=20001", "--groups=20100", Project::program(), "--version"});
    boost::test_tools::assertion_result can(tried.status.code == 0);
    can.message() << "needs setpriv, the right to become another user, and a build that others may run";
    return can;
  }
};

BOOST_AUTO_TEST_CASE(two_users_of_one_group_share_a_store_and_repair_what_the_other_made,
                     *boost::unit_test::precondition(CanBecomeOthers())) {
  const Project alone(grid(3, 0.01)), project(grid(3, 0.01));
  BOOST_REQUIRE(alone.call("run").code == 0);
  // The folder above is a temporary one that only its owner may enter.
  for (fs::path up = project.root().parent_path(); up != fs::temp_directory_path() && up.has_relative_path();
       up = up.parent_path()) {
    fs::permissions(up, fs::perms::others_exec | fs::perms::others_read, fs::perm_options::add);
  }
  const auto give_to_group = [](const fs::path& path) {
    BOOST_REQUIRE(::chown(path.c_str(), 0, 20100) == 0);
    if (fs::is_directory(path)) BOOST_REQUIRE(::chmod(path.c_str(), 02775) == 0);
  };
  fs::create_directories(project.root() / "store");
  give_to_group(project.root());
  for (const auto& entry : fs::recursive_directory_iterator(project.root())) give_to_group(entry.path());
  const auto as = [&](int user, const std::string& verb, const std::vector<std::string>& rest = {}) {
    const std::string id = std::to_string(user);
    std::vector<std::string> words = {"setpriv",         "--reuid=" + id, "--regid=" + id,    "--groups=20100",
                                      "--inh-caps=-all", "env",           "HOME=/nonexistent"};
    const auto call = project.command(verb, rest);
    words.insert(words.end(), call.begin(), call.end());
    return words;
  };
  // Both concurrently, under the usual umask, then each again.
  const mode_t before = ::umask(022);
  support::SpawnOptions first;
  first.arguments = as(20001, "run");
  first.directory = project.root();
  const support::Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  first.stdout_fd = first.stderr_fd = nowhere.get();
  const pid_t running = support::spawn(first);
  const Answer second = project.call_words(as(20002, "run"));
  BOOST_TEST(support::wait_for(running).code == 0);
  BOOST_TEST(second.code == 0, second.err);
  BOOST_TEST((project.contents() == alone.contents()));
  BOOST_TEST(Work(project).conflicts == 0);
  std::map<uid_t, int> owners;
  for (const auto& entry : fs::recursive_directory_iterator(project.root() / "store/tasks")) {
    struct stat status {};
    if (entry.is_regular_file() && ::stat(entry.path().c_str(), &status) == 0) ++owners[status.st_uid];
  }
  BOOST_TEST(owners.count(0) == 0u);
  for (const int user : {20001, 20002}) CHECK_HAS(project.call_words(as(user, "run")).out, "nothing to do");

  // A result that one made and the disk damaged is found, removed and made again by the other.
  const auto keys = project.store().keys();
  const auto record = project.store().read(keys.front());
  const fs::path object = project.store().object_path(record->outputs.at(0).object);
  const auto size = fs::file_size(object);
  struct stat status {};
  BOOST_REQUIRE(::stat(object.c_str(), &status) == 0);
  std::ofstream(object, std::ios::binary) << std::string(size, 'x');  // only root can write here
  const int other = status.st_uid == 20001 ? 20002 : 20001;
  const Answer repaired = project.call_words(as(other, "verify", {"--repair"}));
  CHECK_HAS(repaired.out + repaired.err, "damaged");
  const Answer again = project.call_words(as(other, "run"));
  ::umask(before);
  BOOST_TEST(again.code == 0, again.err);
  BOOST_TEST((project.contents() == alone.contents()));
}

BOOST_AUTO_TEST_CASE(a_plan_leaves_the_caches_of_a_group_writable_for_the_group) {
  const Project project("schema: pe-pipeline/1\nname: toy\nstages:\n  t: {run: ./pe-toy}\n");
  fs::copy_file(fs::path(PE_TOY_FOLDER) / "pe-toy", project.root() / "pe-toy");  // without its description: it is asked
  const fs::path store = project.root() / "store";
  fs::create_directories(store);
  BOOST_REQUIRE(::chmod(store.c_str(), 02775) == 0);
  const mode_t before = ::umask(022);
  const Answer answer = project.call("plan");
  ::umask(before);
  BOOST_REQUIRE_MESSAGE(answer.code == 0, answer.err);
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(store)) {
    struct stat status {};
    BOOST_REQUIRE(::lstat(entry.path().c_str(), &status) == 0);
    BOOST_TEST((status.st_mode & 0060) == 0060u, entry.path());
    files += S_ISREG(status.st_mode);
  }
  BOOST_TEST(files > 0u);
}

BOOST_AUTO_TEST_CASE(a_store_of_a_group_stays_writable_for_the_group) {
  const Project project(grid(2, 0));
  const fs::path store = project.root() / "store";
  fs::create_directories(store);
  BOOST_REQUIRE(::chmod(store.c_str(), 02775) == 0);
  const mode_t before = ::umask(022);
  const Answer answer = project.call("run");
  ::umask(before);
  BOOST_REQUIRE_MESSAGE(answer.code == 0, answer.err);
  for (const auto& entry : fs::recursive_directory_iterator(store)) {
    struct stat status {};
    if (::lstat(entry.path().c_str(), &status) != 0 || S_ISLNK(status.st_mode)) continue;
    if (S_ISDIR(status.st_mode))
      BOOST_TEST((status.st_mode & 02070) == 02070u, entry.path());
    else if (entry.path().string().find("/objects/") == std::string::npos)
      BOOST_TEST((status.st_mode & 0060) == 0060u, entry.path());
  }
}

BOOST_AUTO_TEST_SUITE_END()
