/// @file
/// Publishes outputs without holding up the loop: what is large or must be synced is hashed, linked and recorded by
/// threads of its own, what is small at once. The caller collects the answers and updates the index itself, so that
/// only files are touched beside it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
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
  std::vector<Produced> outputs;
  const Task* task = nullptr;  ///< whose external inputs must be what they were when its key was made
};

struct PublishAnswer {
  PublishJob job;       ///< with the record's outputs
  Published published;  ///< when all texts are empty
  std::string damaged;  ///< an output that is no whole artifact, or another's
  std::string changed;  ///< a file that the config names is not what the key says: nothing was published
  std::string failed;   ///< the store could not be written
};

class Publisher {
 public:
  /// `threads` 0 publishes within `submit`. `wake` is called on a thread whenever there is an answer to collect.
  Publisher(Store& store, int threads, std::function<void()> wake);
  /// Waits for what is under way and drops what is not begun.
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  void submit(PublishJob job);
  std::vector<PublishAnswer> collect();

 private:
  bool is_small(const PublishJob& job) const;
  PublishAnswer work(PublishJob job) const;
  void serve();

  Store& store_;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<PublishJob> jobs_;
  std::vector<PublishAnswer> answers_;
  std::vector<std::thread> threads_;
  int wanted_ = 0;
  bool over_ = false;
};

}  // namespace pe::pipeline
