#include "pipeline/run/publisher.h"

#include <signal.h>
#include <sys/stat.h>

#include <exception>
#include <utility>

#include "artifact/finish_collection.h"
#include "pipeline/plan/externals.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

constexpr std::int64_t kSmallBytes = 4 << 20;  // a few milliseconds of hashing

}  // namespace

Publisher::Publisher(Store& store, int threads, std::function<void()> wake)
    : store_(store), wake_(std::move(wake)), wanted_(threads) {}

Publisher::~Publisher() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

/// Handing a small file over costs more than publishing it. Syncing waits for the disk whatever the size.
bool Publisher::is_small(const PublishJob& job) const {
  if (store_.durable() || (job.task && !job.task->externals.empty())) return false;
  std::int64_t bytes = 0;
  for (const Produced& output : job.outputs) {
    struct stat status {};
    if (::stat(output.path.c_str(), &status) != 0) continue;
    if (S_ISDIR(status.st_mode)) return false;
    bytes += status.st_size;
  }
  return bytes <= kSmallBytes;
}

PublishAnswer Publisher::work(PublishJob job) const {
  PublishAnswer answer;
  try {
    // Hours may have passed since the files were hashed for the key, and the stage has read them only now.
    if (job.task) answer.changed = changed_external(*job.task);
    if (!answer.changed.empty()) {
      answer.job = std::move(job);
      return answer;
    }
    for (const Produced& output : job.outputs) {
      struct stat status {};
      if (::stat(output.path.c_str(), &status) != 0) {
        throw support::ArtifactError(
            support::cat("output ", support::quote(output.role), " is missing: ", output.path.string()));
      }
      // A stage that does not link our library only fills the folder of a report.
      if (output.kind == artifact::Kind::kReport) artifact::finish_collection(output.path, output.kind, job.recipe);
      job.record.outputs.push_back(store_.publish_output(output, &job.recipe));
    }
    answer.published = store_.place_record(job.record);
  } catch (const support::ArtifactError& error) {
    answer.damaged = error.diagnostics().front().message;
  } catch (const support::Error& error) {
    answer.failed = error.diagnostics().front().message;
  } catch (const std::exception& error) {
    answer.failed = error.what();
  }
  answer.job = std::move(job);
  return answer;
}

void Publisher::submit(PublishJob job) {
  if (wanted_ == 0 || is_small(job)) {
    PublishAnswer answer = work(std::move(job));
    const std::lock_guard lock(mutex_);
    answers_.push_back(std::move(answer));
    return;
  }
  if (threads_.empty()) {
    // Signals are for the main thread alone, which sleeps where they must wake it.
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; i < wanted_; ++i) threads_.emplace_back([this] { serve(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void Publisher::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return over_ || !jobs_.empty(); });
    if (over_) return;
    PublishJob job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    PublishAnswer answer = work(std::move(job));
    lock.lock();
    answers_.push_back(std::move(answer));
    if (wake_) wake_();
  }
}

std::vector<PublishAnswer> Publisher::collect() {
  const std::lock_guard lock(mutex_);
  return std::exchange(answers_, {});
}

}  // namespace pe::pipeline
