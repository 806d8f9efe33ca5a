#include "pipeline/run/publish_threads.h"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "artifact/finish_collection.h"
#include "pipeline/plan/externals.h"
#include "pipeline/store/attempt.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

constexpr std::int64_t kSmallBytes = 4 << 20;  // a few milliseconds of hashing
constexpr int kLargeAtOnce = 2;                // each keeps a CPU busy, or the disk
constexpr int kReadAtOnce = 1;                 // reading inputs may take minutes
constexpr int kUnsynced = 2;                   // threads where nothing is synced: none of them waits for the disk

bool is_small(const std::vector<StageOutput>& outputs) {
  std::int64_t bytes = 0;
  for (const StageOutput& output : outputs) {
    struct stat status {};
    if (::stat(output.path.c_str(), &status) != 0) continue;
    if (S_ISDIR(status.st_mode)) return false;
    bytes += status.st_size;
  }
  return bytes <= kSmallBytes;
}

/// @throws IoError when this user may not read a file or folder, or one of those in it
void open_for_reading(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) support::throw_errno("read", path.string());
  if (S_ISREG(status.st_mode)) support::open_regular(path);
  if (!S_ISDIR(status.st_mode)) return;
  for (const std::string& name : support::list_folder(path)) {
    if (!fs::is_symlink(path / name)) open_for_reading(path / name);  // a link may lead back up
  }
}

/// Before the store sees an output. An output that is missing, or that its stage left closed, fails its task alone.
void prepare(const StageOutput& output, const artifact::Recipe& recipe) {
  try {
    if (!support::is_there(output.path)) {
      throw support::ArtifactError(
          support::cat("output ", support::quote(output.role), " is missing: ", output.path.string()));
    }
    open_for_reading(output.path);
    // A stage that does not link our library only fills the folder of a report.
    if (output.kind == artifact::Kind::kReport) artifact::finish_collection(output.path, output.kind, recipe);
  } catch (const support::IoError& error) {
    if (!is_denied(error) && error.system_error() != ELOOP) throw;
    throw support::ArtifactError(
        support::cat("output ", support::quote(output.role), " cannot be read: ", error.diagnostics().front().message));
  }
}

}  // namespace

PublishThreads::PublishThreads(Store& store, int threads, std::function<void()> wake)
    : store_(store),
      wake_(std::move(wake)),
      most_threads_(static_cast<std::size_t>(store.durable() ? threads : std::min(threads, kUnsynced))) {}

PublishThreads::~PublishThreads() {
  stop_verifying_ = true;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    small_.clear();
    large_.clear();
    to_verify_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool PublishThreads::at_once(const std::vector<OutputRecord>& outputs) const {
  if (most_threads_ == 0) return true;
  if (store_.durable()) return false;
  std::uint64_t bytes = 0;
  for (const OutputRecord& output : outputs) bytes += output.bytes;
  return bytes <= static_cast<std::uint64_t>(kSmallBytes);
}

/// Whether all objects are still there. From now on they are young.
bool PublishThreads::is_young(const OutputRecord& output) const {
  bool there = store_.make_young(output.object);
  for (const std::string& member : output.members) there = store_.make_young(member) && there;
  return there;
}

PublishAnswer PublishThreads::work(PublishJob job) const {
  PublishAnswer answer;
  try {
    // Hours may have passed since the files were hashed for the key, and the stage has read them only now.
    if (job.task) answer.changed = changed_external(*job.task);
    if (!answer.changed.empty()) {
      answer.job = std::move(job);
      return answer;
    }
    constexpr double kLong = 60;  // seconds; much less than the least patience of `gc`
    const double began = support::unix_time();
    for (const StageOutput& output : job.outputs) {
      prepare(output, job.recipe);
      job.record.outputs.push_back(store_.publish_output(output, &job.recipe));
    }
    // A `gc` drops old objects that no record names, and the record comes next. The first objects may be old by now.
    for (std::size_t i = 0; i < job.outputs.size() && support::unix_time() - began > kLong; ++i) {
      if (!is_young(job.record.outputs[i])) job.record.outputs[i] = store_.publish_output(job.outputs[i], &job.recipe);
    }
    answer.published = store_.commit(job.record, job.standing);
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

VerifyAnswer PublishThreads::work(VerifyJob job) const {
  VerifyAnswer answer;
  const auto go_on = [&](std::uint64_t bytes) {
    job.bytes_read->fetch_add(bytes, std::memory_order_relaxed);
    return !stop_verifying_;
  };
  for (const OutputRecord& output : job.outputs) {
    if (stop_verifying_) break;
    try {
      const auto damaged = store_.damaged(output, job.again ? Reread::kAll : Reread::kUnknown, go_on);
      answer.damaged.insert(answer.damaged.end(), damaged.begin(), damaged.end());
    } catch (const support::IoError& error) {
      answer.failed = error.diagnostics().front().message;
    }
  }
  answer.given_up = stop_verifying_;
  if (answer.given_up) answer.damaged.clear();
  answer.job = std::move(job);
  return answer;
}

/// One more thread where the idle ones do not suffice. False when there is none at all to do the work.
bool PublishThreads::begin_thread() {
  if (threads_.size() >= most_threads_ || idle_ >= small_.size() + large_.size() + to_verify_.size())
    return !threads_.empty();
  // Signals are for the main thread alone, which sleeps where they must wake it.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    threads_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {
    // The user has as many processes as are allowed (ulimit -u): the present threads do it, or the caller.
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return !threads_.empty();
}

template <typename Job, typename Answer>
void PublishThreads::do_next(std::deque<Job>& from, std::vector<Answer>& to, std::unique_lock<std::mutex>& lock) {
  Job job = std::move(from.front());
  from.pop_front();
  lock.unlock();
  Answer answer = work(std::move(job));
  lock.lock();
  to.push_back(std::move(answer));
}

void PublishThreads::submit(PublishJob job) {
  const bool reads_files = job.task && !job.task->externals.empty();
  std::deque<PublishJob>& queue = is_small(job.outputs) && !reads_files ? small_ : large_;
  std::unique_lock lock(mutex_);
  queue.push_back(std::move(job));
  if (begin_thread())
    changed_.notify_one();
  else
    do_next(queue, published_, lock);
}

void PublishThreads::submit(VerifyJob job) {
  if (at_once(job.outputs)) {
    VerifyAnswer answer = work(std::move(job));
    const std::lock_guard lock(mutex_);
    verified_.push_back(std::move(answer));
    return;
  }
  std::unique_lock lock(mutex_);
  to_verify_.push_back(std::move(job));
  if (begin_thread())
    changed_.notify_one();
  else
    do_next(to_verify_, verified_, lock);
}

bool PublishThreads::may_publish_large() const { return !large_.empty() && publishing_large_ < kLargeAtOnce; }

bool PublishThreads::may_verify() const { return !to_verify_.empty() && verifying_ < kReadAtOnce; }

void PublishThreads::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return over_ || !small_.empty() || may_publish_large() || may_verify(); });
    --idle_;
    if (over_) return;
    if (!small_.empty()) {
      do_next(small_, published_, lock);
    } else if (may_publish_large()) {
      ++publishing_large_;
      do_next(large_, published_, lock);
      --publishing_large_;
      changed_.notify_one();  // others may have waited for that
    } else {
      ++verifying_;
      do_next(to_verify_, verified_, lock);
      --verifying_;
      changed_.notify_one();
    }
    if (wake_) wake_();
  }
}

std::vector<PublishAnswer> PublishThreads::collect_published() {
  const std::lock_guard lock(mutex_);
  return std::exchange(published_, {});
}

std::vector<VerifyAnswer> PublishThreads::collect_verified() {
  const std::lock_guard lock(mutex_);
  return std::exchange(verified_, {});
}

}  // namespace pe::pipeline
