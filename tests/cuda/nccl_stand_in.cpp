#include "nccl_stand_in.h"

#include <nccl.h>

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda/exchange.h"

namespace pe::stand_in {

// ---- Streams --------------------------------------------------------------------------------------------------------

struct Stream {
  std::mutex mutex;
  std::condition_variable news;
  std::deque<std::function<void()>> work;
  bool busy = false, closing = false;
  std::thread thread{[this] { run(); }};

  ~Stream() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    news.notify_all();
    thread.join();
  }
  void push(std::function<void()> what) {
    {
      const std::lock_guard lock(mutex);
      work.push_back(std::move(what));
    }
    news.notify_all();
  }
  bool idle() {
    const std::lock_guard lock(mutex);
    return work.empty() && !busy;
  }

 private:
  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      news.wait(lock, [this] { return closing || !work.empty(); });
      if (work.empty()) return;
      const std::function<void()> next = std::move(work.front());
      work.pop_front();
      busy = true;
      lock.unlock();
      next();
      lock.lock();
      busy = false;
    }
  }
};

struct Event {
  std::shared_future<void> reached;
};

const char* cudaGetErrorString(cudaError_t) { return "an error of the stand-in"; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new Stream;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return stream->idle() ? cudaSuccess : cudaErrorNotReady; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new Event;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
/// The null stream is the calling thread, whose work is done.
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto reached = std::make_shared<std::promise<void>>();
  event->reached = reached->get_future().share();
  if (stream == nullptr)
    reached->set_value();
  else
    stream->push([reached] { reached->set_value(); });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (stream != nullptr) stream->push([reached = event->reached] { reached.wait(); });
  return cudaSuccess;
}

// ---- NCCL -----------------------------------------------------------------------------------------------------------

namespace {

using Bytes = std::vector<char>;

/// The ranks of one id.
struct Group {
  explicit Group(int count) : ranks(count) {}
  struct Round {
    std::vector<Bytes> given;
    int came = 0, left = 0;
  };
  const int ranks;
  std::mutex mutex;
  std::condition_variable news;
  int joined = 0;
  bool aborted = false, gone = false;  ///< by a rank; `gone` cuts off only the exchanges that wait for it
  std::map<std::uint64_t, Round> rounds;
};

std::mutex groups_mutex;
std::map<std::string, std::shared_ptr<Group>> groups;

}  // namespace

struct ncclComm {
  std::shared_ptr<Group> group;
  int rank = 0;
  std::uint64_t next = 0;  ///< exchange
  int pending = 0;         ///< answers that are ncclInProgress
};

namespace {

ncclResult_t in_progress(ncclComm_t of) {
  of->pending = 2;
  return ncclInProgress;
}

/// Gives bytes to the others and takes the result, when the stream comes to it.
ncclResult_t exchange(ncclComm_t of, cudaStream_t stream, const void* from, void* to, std::size_t size,
                      const std::function<void(const std::vector<Bytes>&, void*)>& combine) {
  stream->push([group = of->group, rank = of->rank, number = of->next++, from, to, size, combine] {
    std::unique_lock lock(group->mutex);
    Group::Round& round = group->rounds[number];
    round.given.resize(static_cast<std::size_t>(group->ranks));
    Bytes& own = round.given[static_cast<std::size_t>(rank)];
    own.resize(size);
    std::memcpy(own.data(), from, size);
    ++round.came;
    group->news.notify_all();
    group->news.wait(lock, [&] { return round.came == group->ranks || group->aborted || group->gone; });
    if (round.came < group->ranks) return;
    combine(round.given, to);
    if (++round.left == group->ranks) group->rounds.erase(number);
  });
  return in_progress(of);
}

template <typename T>
void add_up(const std::vector<Bytes>& given, void* to) {
  auto* sums = static_cast<T*>(to);
  const std::size_t count = given[0].size() / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) {
    T sum = 0;
    for (std::size_t rank = 0; rank < given.size(); ++rank) {
      T value;
      std::memcpy(&value, &given[rank][i * sizeof(T)], sizeof(T));
      sum = rank == 0 ? value : sum + value;
    }
    sums[i] = sum;
  }
}

void leave(ncclComm_t of, bool Group::*how) {
  {
    const std::lock_guard lock(of->group->mutex);
    *of->group.*how = true;
  }
  of->group->news.notify_all();
  delete of;
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclRemoteError ? "remote process exited or there was a network error" : "another error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::uint64_t made = 0;
  const std::lock_guard lock(groups_mutex);
  *id = {};
  ++made;
  std::memcpy(id->internal, &made, sizeof made);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0 || rank < 0 || rank >= ranks) return ncclInvalidUsage;
  const std::lock_guard lock(groups_mutex);
  std::shared_ptr<Group>& group = groups[std::string(id.internal, sizeof id.internal)];
  if (!group) group = std::make_shared<Group>(ranks);
  *made = new ncclComm{group, rank};
  const std::lock_guard inner(group->mutex);
  ++group->joined;
  return in_progress(*made);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t of, ncclResult_t* result) {
  const std::lock_guard lock(of->group->mutex);
  if (of->group->aborted)
    *result = ncclRemoteError;
  else if (of->group->joined < of->group->ranks || of->pending > 0)
    *result = ncclInProgress;
  else
    *result = ncclSuccess;
  if (of->pending > 0) --of->pending;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t of) { return in_progress(of); }
ncclResult_t ncclCommDestroy(ncclComm_t of) {
  leave(of, &Group::gone);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t of) {
  leave(of, &Group::aborted);
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t of, cudaStream_t stream) {
  if (type == ncclDouble) return exchange(of, stream, from, to, count * sizeof(double), add_up<double>);
  return type == ncclFloat ? exchange(of, stream, from, to, count * sizeof(float), add_up<float>) : ncclInvalidUsage;
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root, ncclComm_t of,
                           cudaStream_t stream) {
  if (type != ncclChar) return ncclInvalidUsage;
  return exchange(of, stream, from, to, count, [root](const std::vector<Bytes>& given, void* result) {
    const Bytes& roots = given[static_cast<std::size_t>(root)];
    std::memcpy(result, roots.data(), roots.size());
  });
}

}  // namespace pe::stand_in

namespace pe::test {

const PeCudaTable& nccl_stand_in() {
  static const PeCudaTable table = [] {
    PeCudaTable made{};
    made.current_stream = [](int) -> void* { return nullptr; };
    cuda::fill_nccl(made);
    return made;
  }();
  return table;
}

}  // namespace pe::test
