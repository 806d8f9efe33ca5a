#include "support/parallel_chunks.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace pe::support {

void parallel_chunks(std::size_t count, std::size_t part,
                     const std::function<void(std::size_t begin, std::size_t end)>& work) {
  constexpr std::size_t kMostThreads = 8;  // beyond them the kernel's own locks are waited for
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto take = [&] {
    for (std::size_t begin = next.fetch_add(part); begin < count; begin = next.fetch_add(part)) {
      try {
        work(begin, std::min(count, begin + part));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> helpers;
  const std::size_t most = std::min<std::size_t>(std::thread::hardware_concurrency(), kMostThreads);
  try {
    for (std::size_t i = 1; i < most && i * part < count; ++i) helpers.emplace_back(take);
  } catch (const std::system_error&) {
    // The system allows no further thread: the running threads do the work.
  }
  take();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace pe::support
