// The same config and data give the same bytes every time, in two threads and with other work running. Each encoding is
// trained and evaluated again and again, each time in a separate process. PE_TEST_ROUNDS says how often (soak: a
// thousand times).
#include <ATen/Parallel.h>
#include <signal.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "artifact/content_digest.h"
#include "encodings/registry.h"
#include "evaluated_run.h"
#include "model/compute.h"
#include "support/process.h"

using namespace pe;
using namespace pe::test;
namespace fs = std::filesystem;

namespace {

int rounds() {
  const char* text = std::getenv("PE_TEST_ROUNDS");
  return text ? std::atoi(text) : 2;
}

/// One training and one evaluation. @return the digests of all that they made
std::string train_and_evaluate(const Json& encoding, const fs::path& folder, const fs::path& data) {
  model::set_threads(2);
  training::TrainConfig config = small_config();
  config.model.width = 64;
  config.model.heads = 4;
  config.model.encoding.json = encoding;
  config.train.length = 64;
  config.train.tokens = 3 * 4 * 64;
  config.train.validate_every = 0;
  config.train.warmup_steps = 1;
  config.compute.threads = 2;
  artifact::Workspace training = workspace_in(folder, data);
  training::train(config, training);
  evaluate_perplexity(folder, data, "scores.h5", model::Precision::kFp32);
  std::string digests;
  for (const char* name : {"model.h5", "metrics.h5", "scores.h5"})
    digests += artifact::content_digest(folder / name) + "\n";
  return digests;
}

/// The same in a process that this one forks. @return its finding, or its error
std::string in_a_process(const Json& encoding, const fs::path& folder, const fs::path& data) {
  support::make_folders(folder);
  const pid_t child = ::fork();
  if (child == 0) {
    std::string found;
    try {
      found = train_and_evaluate(encoding, folder, data);
    } catch (const std::exception& error) {
      found = std::string("error: ") + error.what();
    }
    support::write_file_atomically(folder / "digests", found, false);
    ::_exit(0);
  }
  if (const auto end = support::wait_for(child); end.code != 0) return "error: exit code " + std::to_string(end.code);
  std::string found = support::read_file(folder / "digests");
  fs::remove_all(folder);
  return found;
}

/// A fork takes only the calling thread along, so no thread may have been started to compute with. Arrow's allocator
/// keeps a thread, and makes it again after a fork.
std::string threads_that_a_fork_loses() {
  std::string found;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::getpid())) continue;
    const std::string name = support::read_file(task.path() / "comm");
    if (name.rfind("jemalloc_bg_thd", 0) != 0) found += name;
  }
  return found;
}

}  // namespace

// Not with others in one process: it runs where it is named (--run_test=repetition).
BOOST_AUTO_TEST_SUITE(repetition, *boost::unit_test::disabled())

BOOST_AUTO_TEST_CASE(each_encoding_gives_one_set_of_bytes) {
  const std::string lost = threads_that_a_fork_loses();
  BOOST_REQUIRE_MESSAGE(lost.empty(), "threads were started before, which forked processes lose:\n" << lost);
  const TempFolder folder;
  const fs::path data = write_letters(folder / "data");
  const pid_t busy = ::fork();
  if (busy == 0) {
    for (volatile bool on = true; on;) {
    }
  }
  for (const encodings::EncodingEntry& entry : encodings::encodings()) {
    if (entry.name == "distance_map" || entry.name == "coupled") continue;  // trains none; reads tasks, not letters
    std::set<std::string> found;
    for (int round = 0; round < rounds(); ++round) found.insert(in_a_process(entry.name, folder / "run", data));
    BOOST_TEST(found.size() == 1U,
               entry.name << " gave " << found.size() << " sets of bytes in " << rounds() << " runs");
    for (const std::string& one : found) BOOST_TEST(one.rfind("error", 0) != 0, entry.name << ": " << one);
  }
  ::kill(busy, SIGKILL);
  support::wait_for(busy);
}

BOOST_AUTO_TEST_SUITE_END()
