// Trainings in two real processes over MPI: their results, how they end, and a pipeline that asks for them.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "artifact/checkpoint.h"
#include "artifact/content_digest.h"
#include "artifact/metrics.h"
#include "project.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/text.h"

namespace fs = std::filesystem;
using namespace pe::test;  // NOLINT
using pe::support::capture;
using pe::support::CapturedOutput;

namespace {

struct HasMpi {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    const bool plugin = fs::exists(build_root() / "lib/mpi/pe-mpi.so"),
               mpirun = pe::support::find_program("mpirun").has_value();
    boost::test_tools::assertion_result result(plugin && mpirun);
    result.message() << (plugin ? "mpirun was not found" : "this build has no MPI plug-in");
    return result;
  }
};

struct HasSlurm {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(false);
    if (!pe::support::find_program("srun")) {
      result.message() << "srun was not found";
      return result;
    }
    const CapturedOutput tried = capture({"srun", "--mpi=pmix", "--immediate=10", "-n", "2", "true"});
    if (tried.status.code == 0) return true;
    result.message() << "srun --mpi=pmix starts no two tasks here: " << tried.err;
    return result;
  }
};

std::string program(const std::string& name) { return (build_root() / "stages" / name).string(); }

class Data {
 public:
  Data() {
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
             {"pe-fetch", "--set", "source=generated", "--set", "generated.words=20k", "--output",
              "raw=" + (folder_ / "raw").string()},
             {"pe-tokenize", "--set", "tokenizer=bpe", "--set", "vocabulary=512", "--input",
              "raw=" + (folder_ / "raw").string(), "--output", "data=" + path()}}) {
      std::vector<std::string> command = words;
      command.front() = program(words.front());
      command.insert(command.end(), {"--work", (folder_ / words.front()).string(), "--progress", "none"});
      const CapturedOutput made = capture(command);
      BOOST_REQUIRE_MESSAGE(made.status.code == 0, made.err);
    }
  }
  std::string path() const { return (folder_ / "data").string(); }

 private:
  TempFolder folder_;
};

const Data& data() {
  static const Data made;
  return made;
}

/// One training in a separate folder.
class Training {
 public:
  explicit Training(const fs::path& folder, std::int64_t steps = 120) : folder_(folder), steps_(steps) {
    fs::create_directories(folder);
  }
  std::vector<std::string> command(const std::vector<std::string>& sets,
                                   const std::vector<std::string>& before = {}) const {
    std::vector<std::string> words = before;
    words.insert(words.end(), {program("pe-train"), "--input", "data=" + data().path(), "--output",
                               "model=" + model().string(), "--output", "metrics=" + (folder_ / "metrics.h5").string(),
                               "--work", (folder_ / "work").string(), "--progress", "plain"});
    for (const std::string& set :
         {std::string("model.width=32"), std::string("model.layers=2"), std::string("model.heads=2"),
          std::string("model.encoding=rope"), std::string("model.dropout=0.1"), std::string("train.batch=4"),
          std::string("train.length=32"), "train.tokens=" + std::to_string(steps_ * 128),
          std::string("train.warmup_steps=5"), std::string("train.log_every=1"), std::string("train.validate_every=20"),
          std::string("train.validate_windows=4"), std::string("compute.isa=portable"),
          std::string("train.eps=1e-2")}) {
      words.insert(words.end(), {"--set", set});
    }
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    return words;
  }
  /// In the background, its output in `log()`.
  pid_t start(const std::vector<std::string>& sets, const std::vector<std::string>& before = {}) const {
    pe::support::SpawnOptions options;
    options.arguments = command(sets, before);
    const pe::support::Descriptor out(::open(log().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    options.stdout_fd = options.stderr_fd = out.get();
    options.new_group = true;
    return pe::support::spawn(options);
  }
  fs::path model() const { return folder_ / "model.h5"; }
  fs::path log() const { return folder_ / "log"; }
  fs::path folder() const { return folder_; }
  std::string text() const { return pe::support::read_file(log()); }
  std::string digests() const {
    return pe::artifact::content_digest(model()) + " " + pe::artifact::content_digest(folder_ / "metrics.h5");
  }
  std::vector<double> curve(const char* table, const char* column) const {
    return pe::artifact::read_metrics(folder_ / "metrics.h5").at(table).reals(column);
  }
  /// Steps of the checkpoints that are there; each is whole.
  std::vector<std::int64_t> checkpoints() const {
    std::vector<std::int64_t> steps;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_ / "work/checkpoints", ignored)) {
      if (entry.path().extension() != ".h5") continue;
      const pe::artifact::CheckpointReader checkpoint(entry.path());
      checkpoint.verify();
      steps.push_back(checkpoint.meta().step);
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  }
  /// The process of a rank of this training, or 0.
  pid_t rank(int number) const {
    const std::string wanted = "OMPI_COMM_WORLD_RANK=" + std::to_string(number);
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const auto pid = pe::support::parse_integer(entry.path().filename().string());
      if (!pid) continue;
      try {
        const std::string words = pe::support::read_file(entry.path() / "cmdline"),
                          variables = pe::support::read_file(entry.path() / "environ");
        if (words.find(folder_.string() + "/work") != std::string::npos && words.rfind("mpirun", 0) != 0 &&
            ('\0' + variables).find('\0' + wanted + '\0') != std::string::npos) {
          return static_cast<pid_t>(*pid);
        }
      } catch (const pe::support::IoError&) {  // it has ended meanwhile
      }
    }
    return 0;
  }
  /// Once it has written a checkpoint beyond `step`.
  bool reaches(std::int64_t step) const {
    for (int i = 0; i < 2000; ++i) {
      std::error_code ignored;
      for (const auto& entry : fs::directory_iterator(folder_ / "work/checkpoints", ignored)) {
        const auto found = pe::support::parse_integer(entry.path().stem().string().substr(5));
        if (entry.path().extension() == ".h5" && found && *found >= step) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

 private:
  fs::path folder_;
  std::int64_t steps_;
};

int wait_for_end(pid_t pid) { return pe::support::wait_for(pid).code; }

bool gone(const Training& training) {
  for (int i = 0; i < 400; ++i) {
    if (training.rank(0) == 0 && training.rank(1) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// Two ranks, undisturbed: the others are compared with them.
const Training& undisturbed() {
  static const TempFolder folder;
  static const Training training(folder / "whole");
  static const bool done = [] {
    const CapturedOutput run = capture(training.command({"compute.ranks=2"}));
    BOOST_REQUIRE_MESSAGE(run.status.code == 0, run.err);
    CHECK_HAS(run.err, "2 ranks, each with 2 of a step's 4 sequences");
    return true;
  }();
  BOOST_TEST(done);
  return training;
}

const std::vector<std::string> kTwo = {"compute.ranks=2"};
const std::vector<std::string> kEveryStep = {"compute.ranks=2", "checkpoint.every=0", "checkpoint.keep=3"};

}  // namespace

BOOST_AUTO_TEST_SUITE(ranks_end_to_end, *boost::unit_test::precondition(HasMpi{}))

BOOST_AUTO_TEST_CASE(two_ranks_see_the_samples_of_one_and_give_its_curves) {
  const TempFolder folder;
  const Training one(folder / "one");
  const CapturedOutput alone = capture(one.command({}));
  BOOST_REQUIRE_MESSAGE(alone.status.code == 0, alone.err);
  BOOST_TEST(alone.err.find("ranks") == std::string::npos, alone.err);
  // The same sums in another order: rounding of fp32 (2^-24) over the 128 tokens of a batch, which updates of at most
  // lr / eps in the gradients carry on. Dropout at the samples' own numbers; other samples or masks differ by percents.
  for (const auto& [table, column] : {std::pair("train", "loss"), {"train", "grad_norm"}, {"validation", "loss"}}) {
    const auto a = one.curve(table, column), b = undisturbed().curve(table, column);
    BOOST_TEST_REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      BOOST_TEST(std::abs(a[i] - b[i]) < 1e-4 * std::abs(a[i]), table << " " << column << " " << i);
  }
  const pe::artifact::CheckpointReader first(one.model()), second(undisturbed().model());
  BOOST_TEST(first.meta().next_sample == second.meta().next_sample);
  BOOST_TEST(first.meta().tokens_seen == second.meta().tokens_seen);
}

BOOST_AUTO_TEST_CASE(by_mpirun_it_gives_the_same_bytes) {
  const TempFolder folder;
  const Training training(folder / "run");
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  // compute.ranks is left open: as many as were started.
  const CapturedOutput run = capture(
      training.command({}, {"mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", "--mca", "plm", "isolated"}));
  BOOST_TEST(run.status.code == 0, run.err);
  BOOST_TEST(training.digests() == undisturbed().digests());
  const CapturedOutput three =
      capture(training.command(kTwo, {"mpirun", "-n", "3", "--oversubscribe", "--mca", "plm", "isolated"}));
  BOOST_TEST(three.status.code == 2);
  CHECK_HAS(three.err, "compute.ranks is 2, but 3 processes were started (OMPI_COMM_WORLD_SIZE)");
}

// As a batch script does: Slurm signals the job's steps before the end of its time, and the same step continues when it
// is queued again.
BOOST_AUTO_TEST_CASE(by_srun_it_gives_the_same_bytes_and_goes_on_after_its_signal,
                     *boost::unit_test::precondition(HasSlurm{})) {
  const TempFolder folder;
  const std::string job = "pe-ranks-" + std::to_string(::getpid());
  const std::vector<std::string> srun = {"srun", "--mpi=pmix", "-n", "2", "--kill-on-bad-exit=1", "--job-name", job};
  const Training whole(folder / "whole");
  const CapturedOutput run = capture(whole.command({}, srun));
  BOOST_TEST(run.status.code == 0, run.err);
  BOOST_TEST(whole.digests() == undisturbed().digests());

  const Training told(folder / "told");
  const pid_t pid = told.start(kEveryStep, srun);
  BOOST_TEST_REQUIRE(told.reaches(3));
  BOOST_TEST(capture({"scancel", "--signal=USR1", "--name", job}).status.code == 0);
  BOOST_TEST(wait_for_end(pid) == 75, told.text());
  const std::int64_t last = told.checkpoints().back();
  CHECK_HAS(told.text(), "stopped at step " + std::to_string(last));
  const CapturedOutput rest = capture(told.command(kTwo, srun));
  BOOST_TEST(rest.status.code == 0, rest.err);
  CHECK_HAS(rest.err, "resuming at step " + std::to_string(last));
  BOOST_TEST(told.digests() == undisturbed().digests());
}

BOOST_AUTO_TEST_CASE(stopped_by_a_signal_to_one_rank_and_resumed_gives_the_same_bytes) {
  const TempFolder folder;
  for (const int number : {-1, 1}) {  // the launcher, as pe-pipeline does; and rank 1 alone
    const Training training(folder / std::to_string(number + 1));
    const pid_t pid = training.start(kEveryStep);
    BOOST_TEST_REQUIRE(training.reaches(3));
    const pid_t told = number < 0 ? pid : training.rank(number);
    BOOST_TEST_REQUIRE(told > 0);
    ::kill(told, SIGTERM);
    const int code = wait_for_end(pid);
    const std::string text = training.text();
    BOOST_TEST(code == 75, text);
    const std::int64_t last = training.checkpoints().back();
    CHECK_HAS(text, "stopped at step " + std::to_string(last));
    const CapturedOutput rest = capture(training.command(kTwo));
    BOOST_TEST(rest.status.code == 0, rest.err);
    CHECK_HAS(rest.err, "resuming at step " + std::to_string(last));
    BOOST_TEST(training.digests() == undisturbed().digests());
  }
}

BOOST_AUTO_TEST_CASE(a_killed_rank_ends_the_others_soon_and_the_last_checkpoint_goes_on) {
  const TempFolder folder;
  for (const int number : {0, 1}) {
    const Training training(folder / std::to_string(number));
    const pid_t pid = training.start(kEveryStep);
    BOOST_TEST_REQUIRE(training.reaches(3));
    const pid_t victim = training.rank(number);
    BOOST_TEST_REQUIRE(victim > 0);
    ::kill(victim, SIGKILL);
    const double begin = pe::support::steady_s();
    BOOST_TEST(wait_for_end(pid) == 137, training.text());
    BOOST_TEST(pe::support::steady_s() - begin < 8);
    CHECK_HAS(
        training.text(),
        "one of 2 ranks was killed by signal 9 (Killed), and the other was ended; the same command resumes from the "
        "newest checkpoint");
    BOOST_TEST(gone(training));
    const auto steps = training.checkpoints();
    BOOST_TEST_REQUIRE(!steps.empty());
    BOOST_TEST(!fs::exists(training.model()));
    const CapturedOutput rest = capture(training.command(kTwo));
    BOOST_TEST(rest.status.code == 0, rest.err);
    CHECK_HAS(rest.err, "resuming at step ");
    BOOST_TEST(training.digests() == undisturbed().digests());
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_hangs_is_given_up_after_the_time_allowed) {
  const TempFolder folder;
  const Training training(folder / "run", 4000);
  const pid_t pid = training.start({"compute.ranks=2", "compute.rank_timeout=3", "checkpoint.every=0"});
  BOOST_TEST_REQUIRE(training.reaches(2));
  const pid_t victim = training.rank(1);
  BOOST_TEST_REQUIRE(victim > 0);
  ::kill(victim, SIGSTOP);
  const double begin = pe::support::steady_s();
  BOOST_TEST(wait_for_end(pid) == 69, training.text());
  BOOST_TEST(pe::support::steady_s() - begin < 15);
  CHECK_HAS(
      training.text(),
      "rank 0 of 2: the other ranks have not answered for 3 s (compute.rank_timeout); one may have died, or hang");
  BOOST_TEST(gone(training));
}

BOOST_AUTO_TEST_CASE(ranks_end_with_the_launcher) {
  const TempFolder folder;
  const Training training(folder / "run", 4000);
  const pid_t pid = training.start(kEveryStep);
  BOOST_TEST_REQUIRE(training.reaches(2));
  ::kill(-pid, SIGKILL);  // as pe-pipeline ends a stage that does not stop
  wait_for_end(pid);
  BOOST_TEST(gone(training));
}

// A user's environment, the marker of a prepared process among it, changes no byte; left-out variables are named.
BOOST_AUTO_TEST_CASE(an_environment_that_misleads_libraries_is_left_out_and_told) {
  const TempFolder folder;
  const Training plain(folder / "plain", 6), misled(folder / "misled", 6);
  const CapturedOutput first = capture(plain.command({}));
  BOOST_REQUIRE_MESSAGE(first.status.code == 0, first.err);
  BOOST_TEST(first.err.find("left out of the environment") == std::string::npos, first.err);
  const CapturedOutput second =
      capture(misled.command({}, {"env", "PE_COMPUTE_PREPARED=1", "OMP_NUM_THREADS=3", "MKL_CBWR=AVX2",
                                  "ATEN_CPU_CAPABILITY=avx2", "OMP_THREAD_LIMIT=1", "NCCL_DEBUG=WARN", "NCCL_PROTO=LL",
                                  "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2_Usable,-FMA_Usable"}));
  BOOST_REQUIRE_MESSAGE(second.status.code == 0, second.err);
  CHECK_HAS(second.err,
            "pe-train: left out of the environment, since it would change what libraries compute: "
            "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2_Usable,-FMA_Usable, NCCL_PROTO=LL, OMP_THREAD_LIMIT=1\n");
  BOOST_TEST(misled.digests() == plain.digests());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_told_once_before_the_first_step) {
  const TempFolder folder;
  const Training training(folder / "run");
  const CapturedOutput odd = capture(training.command({"compute.ranks=3"}));
  BOOST_TEST(odd.status.code == 2);
  CHECK_HAS(odd.err, "train.batch of 4 sequences does not divide among 3 ranks (compute.ranks); it does among 2");
  const CapturedOutput micro =
      capture(training.command({"compute.ranks=2", "train.batch=12", "compute.micro_batch=4"}));
  BOOST_TEST(micro.status.code == 2);
  CHECK_HAS(micro.err, "compute.micro_batch is 4, which does not divide a rank's 6 sequences of train.batch of 12");
  // Errors that only the ranks find are reported by rank 0 alone.
  const CapturedOutput missing =
      capture(training.command({"compute.ranks=2", "train.length=4000000", "train.warmup_steps=0"}));
  BOOST_TEST(missing.status.code == 3);
  const std::string said = "too few for one window";
  BOOST_TEST(missing.err.find(said) != std::string::npos, missing.err);
  BOOST_TEST(missing.err.find(said, missing.err.find(said) + 1) == std::string::npos, missing.err);
  // Made a rank by a program that did not start it through MPI.
  const CapturedOutput alone = capture(training.command({}, {"env", "RANK=0", "WORLD_SIZE=2"}));
  BOOST_TEST(alone.status.code == 2);
  CHECK_HAS(alone.err, "compute.ranks is 2, but MPI sees 1 process");
  CHECK_HAS(alone.err, "start them by mpirun -n 2, or srun --mpi=pmix -n 2");
  // A build without the plug-in: the program is alone, away from libraries that it finds by its own place.
  fs::copy_file(program("pe-train"), folder / "pe-train");
  std::vector<std::string> words = training.command(kTwo);
  words.front() = (folder / "pe-train").string();
  words.insert(words.begin(), {"env", "LD_LIBRARY_PATH=" PE_TORCH_LIBRARIES});
  const CapturedOutput plain = capture(words);
  BOOST_TEST(plain.status.code == 2);
  CHECK_HAS(plain.err, "compute.ranks is 2, but this build has no pe-mpi.so");
  CHECK_HAS(plain.err, "install libopenmpi-dev and openmpi-bin and build again (./bootstrap build), or set");
  const CapturedOutput evaluate =
      capture({program("pe-evaluate"), "--input", "model=" + undisturbed().model().string(), "--input",
               "data=" + data().path(), "--set", "compute.ranks=2", "--work", (folder / "w").string()});
  BOOST_TEST(evaluate.status.code == 2);
  CHECK_HAS(evaluate.err, "compute.ranks is 2, but pe-evaluate runs in one process");
}

BOOST_AUTO_TEST_CASE(a_pipeline_trains_in_two_ranks) {
  const Project project(R"(schema: pe-pipeline/1
name: two_ranks
stages:
  fetch:
    run: pe-fetch
    config: {set: {source: generated, generated.words: 20k}}
  tokenize:
    run: pe-tokenize
    needs: {raw: fetch}
    config: {set: {tokenizer: bpe, vocabulary: 512}}
  trunk:
    run: pe-train
    needs: {data: tokenize}
    config: {set: {model.width: 32, model.layers: 2, model.heads: 2, model.encoding: rope, train.batch: 4, train.length: 32,
                   train.tokens: 2048, train.warmup_steps: 2, train.decay_share: 0, train.validate_windows: 4, compute.ranks: 2}}
    snapshots: {half: 0.5, whole: 1}
  decay:
    run: pe-branch-decay
    needs: {data: tokenize, init: trunk@half}
    config: {set: {decay.horizon_tokens: 2048, decay.end: 1, decay.share: 0.5, decay.validate_windows: 4, compute.ranks: 2}}
)",
                        "two_ranks.yml");
  const Answer run = project.call("run");
  BOOST_TEST(run.code == 0, run.out << run.err);
  const auto made = project.contents();
  BOOST_TEST(made.size() == 5U);
  const Answer again = project.call("run");
  BOOST_TEST(again.code == 0);
  CHECK_HAS(again.out + again.err, "nothing to do");
  // Each was trained by two, of one thread each.
  const Answer shown = project.call("explain", {"trunk", "--json"});
  BOOST_TEST(shown.code == 0, shown.err);
  int trainings = 0;
  for (const auto& entry : fs::recursive_directory_iterator(project.root() / "store")) {
    if (entry.path().filename() != "stage.log") continue;
    const std::string text = pe::support::read_file(entry.path());
    if (text.find("2 ranks, each with 2 of a step's 4 sequences") != std::string::npos) ++trainings;
    BOOST_TEST(text.find("2 threads") == std::string::npos, text);
  }
  BOOST_TEST(trainings == 2);
  // By force, with another folder for each: the same bytes.
  const Answer forced = project.call("run", {"trunk", "--force", "--strict"});
  BOOST_TEST(forced.code == 0, forced.out << forced.err);
  BOOST_TEST((project.contents() == made));
}

BOOST_AUTO_TEST_SUITE_END()
