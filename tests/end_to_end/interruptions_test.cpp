// The real pe-train, killed and stopped at any moment, above all while it writes a checkpoint. The artifacts equal an
// undisturbed run's, and no file under a final name is ever half written. PE_TEST_KILLS says how often (soak:
// hundreds).
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "artifact/checkpoint.h"
#include "artifact/content_digest.h"
#include "support/files.h"
#include "support/process.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace fs = std::filesystem;
using pe::support::capture;
using pe::support::CapturedOutput;

namespace {

std::string program(const std::string& name) { return (pe::test::build_root() / "stages" / name).string(); }

/// Token shards for all cases, made once.
class Data {
 public:
  Data() {
    const CapturedOutput fetched =
        capture({program("pe-fetch"), "--set", "source=generated", "--set", "generated.words=20k", "--output",
                 "raw=" + (folder_ / "raw").string(), "--work", (folder_ / "w1").string(), "--progress", "none"});
    BOOST_REQUIRE_MESSAGE(fetched.status.code == 0, fetched.err);
    const CapturedOutput made = capture({program("pe-tokenize"), "--set", "tokenizer=bpe", "--set", "vocabulary=512",
                                         "--input", "raw=" + (folder_ / "raw").string(), "--output", "data=" + path(),
                                         "--work", (folder_ / "w2").string(), "--progress", "none"});
    BOOST_REQUIRE_MESSAGE(made.status.code == 0, made.err);
  }
  std::string path() const { return (folder_ / "data").string(); }

 private:
  pe::test::TempFolder folder_;
};

const Data& data() {
  static const Data made;
  return made;
}

/// One training in a separate folder. 2 MB of state and a checkpoint after every step: the writer hardly ever rests.
class Training {
 public:
  explicit Training(const fs::path& folder) : folder_(folder) { fs::create_directories(folder); }
  fs::path checkpoints() const { return folder_ / "work" / "checkpoints"; }
  std::vector<std::string> command(const std::vector<std::string>& sets) const {
    std::vector<std::string> words{program("pe-train"),
                                   "--input",
                                   "data=" + data().path(),
                                   "--output",
                                   "model=" + (folder_ / "model.h5").string(),
                                   "--output",
                                   "metrics=" + (folder_ / "metrics.h5").string(),
                                   "--work",
                                   (folder_ / "work").string(),
                                   "--progress",
                                   "plain"};
    for (const char* set : {"model.width=64", "model.layers=2", "model.heads=4", "model.encoding=rope", "train.batch=4",
                            "train.length=32", "train.tokens=5120", "train.warmup_steps=5", "train.log_every=1",
                            "train.validate_every=8", "train.validate_windows=4", "compute.isa=portable"}) {
      words.insert(words.end(), {"--set", set});
    }
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    return words;
  }
  std::string digests() const {
    return pe::artifact::content_digest(folder_ / "model.h5") + " " +
           pe::artifact::content_digest(folder_ / "metrics.h5");
  }
  bool is_writing() const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(checkpoints(), ignored)) {
      if (entry.path().filename().string().find(".tmp.") != std::string::npos) return true;
    }
    return false;
  }
  /// Every checkpoint under a final name; each is whole.
  int verify() const {
    int count = 0;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(checkpoints(), ignored)) {
      if (entry.path().extension() != ".h5") continue;
      pe::artifact::CheckpointReader(entry.path()).verify();
      ++count;
    }
    return count;
  }

 private:
  fs::path folder_;
};

int kills_wanted() {
  const char* text = std::getenv("PE_TEST_KILLS");
  return text ? std::atoi(text) : 4;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(interruptions)

BOOST_AUTO_TEST_CASE(killed_while_it_writes_checkpoints_and_resumed_gives_the_same_bytes) {
  const pe::test::TempFolder folder;
  const Training whole(folder / "whole");
  const CapturedOutput undisturbed = capture(whole.command({}));
  BOOST_REQUIRE_MESSAGE(undisturbed.status.code == 0, undisturbed.err);
  const std::string expected = whole.digests();

  pe::support::Xoshiro random(20261122);
  int writing = 0, killed = 0, stopped = 0, runs = 0, finished = 0;
  const int wanted = kills_wanted();
  while (killed + stopped < wanted) {
    const Training training(folder / ("run" + std::to_string(runs++)));
    for (bool done = false; !done;) {
      pe::support::SpawnOptions options;
      options.arguments = training.command({"checkpoint.every=0", "checkpoint.keep=2"});
      const pe::support::Descriptor log(
          ::open((folder / "log").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
      options.stdout_fd = options.stderr_fd = log.get();
      const pid_t pid = pe::support::spawn(options);
      const bool kills = killed + stopped < wanted;
      const bool polite = random.below(4) == 0, aims = random.below(3) != 0;
      const auto begin = std::chrono::steady_clock::now();
      const auto patience = std::chrono::milliseconds(400 + random.below(900));
      int status = 0;
      bool ended = false, sent = false;
      while (!ended) {
        ended = ::waitpid(pid, &status, WNOHANG) == pid;
        if (ended || !kills || sent) {
          if (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(2));
          continue;
        }
        const bool late = std::chrono::steady_clock::now() - begin > patience;
        const bool now = aims ? late && training.is_writing() : late;
        if (!now) {
          std::this_thread::sleep_for(std::chrono::microseconds(aims && late ? 50 : 2000));
          continue;
        }
        ::kill(pid, polite ? SIGTERM : SIGKILL);
        sent = true;
        writing += aims && !polite;
      }
      const std::string text = pe::support::read_file(folder / "log");
      training.verify();
      if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM)) {
        ++killed;  // asked to stop before it listened is killed, too
      } else if (WIFEXITED(status) && WEXITSTATUS(status) == 75) {
        ++stopped;
      } else {
        BOOST_REQUIRE_MESSAGE(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status " << status << "\n" << text);
        done = true;
      }
      BOOST_TEST(text.find("cannot be used") == std::string::npos, text);
    }
    ++finished;
    BOOST_TEST(training.digests() == expected);
  }
  BOOST_TEST_MESSAGE(killed << " kills (" << writing << " aimed at a checkpoint being written), " << stopped
                            << " stops, " << finished << " runs, all with the bytes of the undisturbed one");
  BOOST_TEST(killed > 0);
}

BOOST_AUTO_TEST_SUITE_END()
