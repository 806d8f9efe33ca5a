#include "pipeline/run/publish_threads.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "artifact/collection.h"
#include "pipeline/run/run.h"
#include "support/as_plain_user.h"
#include "support/fake_runner.h"
#include "support/fault_point.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/temp_folder.h"
#include "support/text.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
namespace fs = std::filesystem;

namespace {

/// A store on a disk that takes its time to sync, and jobs for it.
struct SlowSync {
  static constexpr int kJobs = 12;
  test::TempFolder folder;
  std::mutex mutex;
  std::condition_variable changed;
  int syncing = 0, most = 0;
  int wanted = 1;  ///< a sync lasts until as many have been seen side by side, or a second has passed

  const support::FaultHook hook{[this](std::string_view step) {
    if (step != "sync object") return;
    std::unique_lock lock(mutex);
    most = std::max(most, ++syncing);
    changed.notify_all();
    changed.wait_for(lock, std::chrono::seconds(1), [this] { return most >= wanted; });
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    lock.lock();
    --syncing;
  }};

  fs::path output(int number, bool collection) const {
    const fs::path path = folder / support::cat("out", number);
    if (!collection) {
      test::write_fake_output(path, support::cat("state ", number));
      return path;
    }
    artifact::CollectionWriter writer(path, artifact::Kind::kReport, {});
    support::write_file_atomically(writer.add("report.md"), support::cat("text ", number), false);
    writer.finish(false);
    return path;
  }

  /// Publishes them all; the answers.
  std::vector<PublishAnswer> publish(bool collections) {
    Store store(folder / "store");
    std::vector<PublishAnswer> answers;
    PublishThreads publisher(store, kPublishThreads, {});
    for (int i = 0; i < kJobs; ++i) {
      PublishJob job;
      job.ticket = static_cast<std::uint64_t>(i);
      const std::string name = support::cat(collections ? "report " : "file ", i);
      job.record.key = {support::sha256_hex(name), -1};
      job.record.plan_key = support::sha256_hex("plan " + name);
      job.record.stage = "fake";
      job.record.task = name;
      job.record.preimage = Json::object();
      job.record.config = Json::object();
      job.recipe.config = job.recipe.inputs = Json::object();
      job.outputs.push_back(
          {"out", collections ? artifact::Kind::kReport : artifact::Kind::kMetrics, false, output(i, collections)});
      publisher.submit(std::move(job));
    }
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (answers.size() < kJobs && std::chrono::steady_clock::now() < patience) {
      for (PublishAnswer& answer : publisher.collect_published()) answers.push_back(std::move(answer));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return answers;
  }

  void check(const std::vector<PublishAnswer>& answers) {
    BOOST_TEST(answers.size() == static_cast<std::size_t>(kJobs));
    const Store store(folder / "store", {.durable = false});
    for (const PublishAnswer& answer : answers) {
      BOOST_TEST(answer.damaged + answer.changed + answer.failed == "");
      const auto result = store.find(answer.job.record.key);
      BOOST_TEST((result && store.complete(*result)));
    }
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(publisher)

BOOST_FIXTURE_TEST_CASE(small_outputs_are_synced_side_by_side, SlowSync) {
  wanted = 3;
  check(publish(false));
  BOOST_TEST(most >= 3);
  BOOST_TEST(most <= kPublishThreads);
}

BOOST_FIXTURE_TEST_CASE(two_large_outputs_at_most_are_hashed_at_once, SlowSync) {
  wanted = 2;
  check(publish(true));
  BOOST_TEST(most == 2);
}

BOOST_FIXTURE_TEST_CASE(without_threads_all_is_done_at_once, SlowSync) {
  Store store(folder / "store");
  PublishThreads publisher(store, 0, {});
  PublishJob job;
  job.outputs.push_back({"out", artifact::Kind::kMetrics, false, folder / "nothing"});
  publisher.submit(std::move(job));
  const auto answers = publisher.collect_published();
  BOOST_REQUIRE(answers.size() == 1u);
  BOOST_TEST(answers[0].damaged.find("output 'out' is missing") != std::string::npos);
}

/// The answer to a job with one output, done within `submit`.
PublishAnswer publish_at_once(const fs::path& root, const fs::path& output, int threads) {
  Store store(root, {.durable = false});
  PublishThreads publisher(store, threads, {});
  PublishJob job;
  job.record.key = {support::sha256_hex("at once"), -1};
  job.record.plan_key = support::sha256_hex("plan");
  job.record.stage = job.record.task = "fake";
  job.record.preimage = job.record.config = job.recipe.config = job.recipe.inputs = Json::object();
  job.outputs.push_back({"out", artifact::Kind::kMetrics, false, output});
  publisher.submit(std::move(job));
  auto answers = publisher.collect_published();
  return answers.empty() ? PublishAnswer() : std::move(answers.front());
}

BOOST_AUTO_TEST_CASE(an_output_that_is_closed_to_this_user_fails_its_task_alone) {
  const test::TempFolder folder;
  test::write_fake_output(folder / "out", "x");
  ::chmod((folder / "out").c_str(), 0);
  fs::create_directories(folder / "report/data");
  support::write_file_atomically(folder / "report/data/a.txt", "x", false);
  ::chmod((folder / "report/data/a.txt").c_str(), 0);
  fs::create_symlink("loop", folder / "loop");
  const auto publish = [&] {
    for (const char* name : {"out", "report", "loop"}) {
      const PublishAnswer answer = publish_at_once(folder / "store", folder / name, 0);
      if (!answer.failed.empty() || answer.damaged.find("output 'out' cannot be read") != 0) return 1;
    }
    return 7;
  };
  const std::vector<fs::path> others{folder / "out", folder / "report/data/a.txt"};
  BOOST_TEST(test::as_plain_user(folder.path(), publish, others) == 7);
}

BOOST_AUTO_TEST_CASE(links_that_lead_back_up_are_not_followed) {
  const test::TempFolder folder;
  fs::create_directories(folder / "report/data");
  for (const char* name : {"a", "b", "c"}) fs::create_directory_symlink("..", folder / "report/data" / name);
  const PublishAnswer answer = publish_at_once(folder / "store", folder / "report", 0);
  BOOST_TEST(!answer.damaged.empty());
  BOOST_TEST(answer.damaged.find("Too many levels") == std::string::npos, answer.damaged);
}

BOOST_AUTO_TEST_CASE(where_no_thread_can_begin_the_work_is_done_all_the_same) {
  const test::TempFolder folder;
  test::write_fake_output(folder / "out", "x");
  const auto publish = [&] {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0) return 2;
    const PublishAnswer answer = publish_at_once(folder / "store", folder / "out", kPublishThreads);
    sigset_t blocked;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    const bool good = answer.job.record.outputs.size() == 1 && answer.damaged.empty() && answer.failed.empty();
    return good && ::sigismember(&blocked, SIGINT) == 0 ? 7 : 1;
  };
  BOOST_TEST(test::as_plain_user(folder.path(), publish) == 7);
}

BOOST_AUTO_TEST_SUITE_END()
