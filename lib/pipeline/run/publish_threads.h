/// @file
/// Reads and publishes without blocking the loop: separate threads hash, sync, link and record outputs, and read inputs
/// through. In a store that syncs nothing, small inputs are read by the caller. The caller collects the answers and
/// updates the index itself, so that the threads touch only files.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "artifact/workspace.h"
#include "pipeline/file/graph.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

struct PublishJob {
  std::uint64_t ticket = 0;  ///< of the attempt
  int snapshot = -1;         ///< index into Task::snapshots, or -1
  Record record;             ///< all but its outputs
  artifact::Recipe recipe;   ///< for the manifest of a report that its stage left without one
  std::vector<StageOutput> outputs;
  Standing standing = Standing::kStays;  ///< of the record that the key has already
  const Task* task = nullptr;            ///< whose external inputs must be what they were when its key was made
};

struct PublishAnswer {
  PublishJob job;           ///< With the record's outputs.
  PublishResult published;  ///< Valid when all texts are empty.
  std::string damaged;      ///< An output that is no whole artifact, another's, or closed to this user.
  std::string changed;      ///< A file in the config differs from the key: nothing was published.
  std::string failed;       ///< the store could not be written
};

/// Artifacts to read through before a task starts, or after it blamed them.
struct VerifyJob {
  std::size_t task = 0;
  std::uint64_t ticket = 0;  ///< of the attempt that blamed them, or 0
  std::uint64_t number = 0;  ///< distinguishes the jobs of one task
  bool again = false;        ///< also what was read or published before
  std::vector<OutputRecord> outputs;
  std::shared_ptr<std::atomic<std::uint64_t>> bytes_read = std::make_shared<std::atomic<std::uint64_t>>(0);
};

struct VerifyAnswer {
  VerifyJob job;
  std::vector<std::string> damaged;  ///< digests of objects that are missing or not what their names say
  bool given_up = false;             ///< after `stop_verifying`; `damaged` is then empty
  std::string failed;                ///< why one could not be read, which says nothing of its bytes
};

class PublishThreads {
 public:
  /// Begins up to `threads` as there is work for them; 0 does everything within `submit`. Two of them at most hash
  /// large outputs, and one reads inputs. `wake` is called on a thread whenever there is an answer to collect.
  PublishThreads(Store& store, int threads, std::function<void()> wake);
  /// Waits for running publications, stops running reads, and drops waiting jobs.
  ~PublishThreads();
  PublishThreads(const PublishThreads&) = delete;
  PublishThreads& operator=(const PublishThreads&) = delete;

  void submit(PublishJob job);
  void submit(VerifyJob job);
  std::vector<PublishAnswer> collect_published();
  std::vector<VerifyAnswer> collect_verified();
  /// Gives up reading, within a block or two: the run is being stopped.
  void stop_verifying() { stop_verifying_ = true; }

 private:
  bool begin_thread();
  bool at_once(const std::vector<OutputRecord>& outputs) const;
  bool is_young(const OutputRecord& output) const;
  PublishAnswer work(PublishJob job) const;
  VerifyAnswer work(VerifyJob job) const;
  bool may_publish_large() const;
  bool may_verify() const;
  void serve();
  template <typename Job, typename Answer>
  void do_next(std::deque<Job>& from, std::vector<Answer>& to, std::unique_lock<std::mutex>& lock);

  Store& store_;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<PublishJob> small_;  // what is left to do
  std::deque<PublishJob> large_;
  std::deque<VerifyJob> to_verify_;
  std::vector<PublishAnswer> published_;
  std::vector<VerifyAnswer> verified_;
  std::vector<std::thread> threads_;
  std::size_t most_threads_ = 0;
  std::size_t idle_ = 0;  // of the threads
  int publishing_large_ = 0;
  int verifying_ = 0;  // threads that read now
  bool over_ = false;
  std::atomic<bool> stop_verifying_{false};
};

}  // namespace pe::pipeline
