#include "stage/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "support/error.h"
#include "support/files.h"
#include "support/process.h"
#include "support/progress.h"
#include "support/ranks.h"
#include "support/text.h"

namespace pe::stage {
namespace {

using support::cat;
using support::ConfigError;
using Clock = std::chrono::steady_clock;

// Paths of the launcher's own descriptors: mpirun passes none of them on.
constexpr const char* kEvents = "PE_RANK_EVENTS";
constexpr const char* kStatus = "PE_RANK_STATUS";
// Set under srun: ranks on other machines must not open those paths, which there lead nowhere, or to another process.
constexpr const char* kOnlyFirst = "PE_RANK_ONLY_FIRST";

bool agreed(int code) {
  return code == support::kExitDone || code == support::kExitCheckpointed || code == support::kExitDiverged;
}

/// Environment of ranks without variables that an outer mpirun, srun or torchrun set for this process.
/// @param for_srun  Keeps variables that name the job, so that srun knows whose step it starts.
std::vector<std::string> rank_environment(const std::vector<std::string>& add, bool for_srun = false) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry), name = text.substr(0, text.find('='));
    const auto begins = [&](std::string_view with) { return name.substr(0, with.size()) == with; };
    const bool ours = name == "RANK" || name == "WORLD_SIZE" || name == "LOCAL_RANK" || name == "MASTER_ADDR" ||
                      name == "MASTER_PORT" || name == kEvents || name == kStatus || name == kOnlyFirst;
    const bool of_job = for_srun && begins("SLURM_") && !begins("SLURM_STEP") && !begins("SLURM_CPUS_PER_TASK") &&
                        !begins("SLURM_NTASKS") && !begins("SLURM_TASKS_PER_NODE");
    const bool theirs = (begins("SLURM_") && !of_job) || begins("PMI") || begins("PRTE_") || begins("ORTE_") ||
                        (begins("OMPI_") && !begins("OMPI_MCA_") && !begins("OMPI_ALLOW_"));
    if (!ours && !theirs) environment.emplace_back(text);
  }
  for (const std::string& entry : add) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    const bool set = name.rfind("OMPI_MCA_", 0) == 0 && std::getenv(name.substr(0, name.size() - 1).c_str()) != nullptr;
    if (!set) environment.push_back(entry);  // the user's own word for mpirun goes before ours
  }
  return environment;
}

/// Uses fork and exec, since a child that dies with this process must request that itself.
/// @param group Starts a separate process group. For mpirun, a signal to its group is an order to abort within a
/// second.
pid_t start(const std::vector<std::string>& arguments, const std::vector<std::string>& environment, bool group,
            int death) {
  const auto program = support::find_program(arguments.front());
  if (!program) {
    errno = ENOENT;
    support::throw_errno("start", arguments.front());
  }
  const std::vector<char*> words = support::pointers(arguments), variables = support::pointers(environment);
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid < 0) support::throw_errno("start", program->string());
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, death);
  if (::getppid() != parent) ::_exit(128 + death);
  if (group) ::setpgid(0, 0);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGPIPE, SIGCHLD}) ::signal(signal, SIG_DFL);
  ::execve(program->c_str(), words.data(), variables.data());
  ::_exit(127);
}

struct Rank {
  std::int64_t rank = 0;
  int code = 0;
};

/// Ranks' reports of their ends: "<rank> <code>\n".
class Statuses {
 public:
  Statuses() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) support::throw_errno("make a pipe for", "ranks");
    read_ = support::Descriptor(ends[0]);
    write_ = support::Descriptor(ends[1]);
  }
  std::string path() const { return cat("/proc/", ::getpid(), "/fd/", write_.get()); }
  const std::vector<Rank>& all() {
    char buffer[4096];
    for (ssize_t count; (count = ::read(read_.get(), buffer, sizeof buffer)) > 0;)
      text_.append(buffer, static_cast<std::size_t>(count));
    for (std::size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      long rank = 0;
      int code = 0;
      if (std::sscanf(text_.c_str(), "%ld %d", &rank, &code) == 2) found_.push_back({rank, code});
    }
    return found_;
  }

 private:
  support::Descriptor read_, write_;
  std::string text_;
  std::vector<Rank> found_;
};

std::string end_of(int code) {
  if (code <= 128) return cat("ended with exit code ", code);
  const char* name = ::strsignal(code - 128);
  return cat("was killed by signal ", code - 128, " (", name == nullptr ? "unknown" : name, ")");
}

/// One line that says whose end it was, and the code for all. `rank` below 0: mpirun has named it above.
int judge(std::int64_t rank, std::int64_t count, int code, bool asked_to_stop) {
  const bool by_our_signal = code == 128 + SIGTERM || code == 128 + SIGUSR1 || code == 128 + SIGINT;
  if (asked_to_stop && by_our_signal) return support::kExitInterrupted;  // it had not come to listen yet
  // Why a rank ended by itself, it has said.
  std::fprintf(stderr, "%s %s, and the other%s ended%s\n",
               rank < 0 ? cat("one of ", count, " ranks").c_str() : cat("rank ", rank, " of ", count).c_str(),
               end_of(code).c_str(), count == 2 ? " was" : "s were",
               code > 128 ? "; the same command resumes from the newest checkpoint" : "");
  return code;
}

/// mpirun or srun with all ranks below it, up to their end.
int run_launcher(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                 const RankLaunch& launch, Statuses& statuses) {
  const pid_t pid = start(words, environment, /*group=*/true, SIGTERM);
  bool asked = false;
  double pause_s = 1;
  Clock::time_point next;
  int status = 0;
  for (pid_t ended; (ended = ::waitpid(pid, &status, WNOHANG)) != pid;) {
    if (ended < 0 && errno != EINTR) support::throw_errno("wait for", words.front());
    if (support::stop_requested() && (!asked || Clock::now() > next)) {
      // mpirun passes it to every rank, whereas TERM would make it kill them; during their start it passes it to none.
      ::kill(pid, SIGUSR1);
      asked = true;
      next = Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(pause_s * 1000));
      pause_s *= 2;
    }
    ::poll(nullptr, 0, 20);
  }
  const support::ExitStatus end = support::decode_status(status);
  for (const Rank& rank : statuses.all()) {
    if (!agreed(rank.code)) return judge(rank.rank, launch.count, rank.code, asked);
  }
  if (end.code != 0) return judge(-1, launch.count, end.code, asked);
  for (const Rank& rank : statuses.all()) {
    if (rank.rank == 0) return rank.code;
  }
  return judge(0, launch.count, support::kExitFailed, asked);
}

int run_mpi(const RankLaunch& launch) {
  if (!support::find_program("mpirun")) {
    throw ConfigError(cat("compute.ranks is ", launch.count, ", but mpirun was not found"), {},
                      "install openmpi-bin, or set compute.ranks: 1");
  }
  Statuses statuses;
  std::vector<std::string> words{"mpirun", "-n", std::to_string(launch.count), "--oversubscribe", "--bind-to", "none"};
  words.insert(words.end(), launch.arguments.begin(), launch.arguments.end());
  // One machine: no remote shell, memory between processes, and copies that a container allows.
  std::vector<std::string> add{"OMPI_MCA_plm=isolated", "OMPI_MCA_btl=self,vader", "OMPI_MCA_pml=ob1",
                               "OMPI_MCA_btl_vader_single_copy_mechanism=none", kStatus + ("=" + statuses.path())};
  if (launch.events_fd) add.push_back(cat(kEvents, "=/proc/", ::getpid(), "/fd/", *launch.events_fd));
  if (::geteuid() == 0) add.insert(add.end(), {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  return run_launcher(words, rank_environment(add), launch, statuses);
}

/// A number that Slurm gave this job; 0 outside of a job.
std::int64_t of_job(const char* name) {
  const char* text = std::getenv("SLURM_JOB_ID") == nullptr ? nullptr : std::getenv(name);
  return text == nullptr ? 0 : support::parse_integer(text).value_or(0);
}

/// One step of our job on all its machines. Rank 0 is on this one, the job's first, and so can write to our
/// descriptors.
int run_srun(const RankLaunch& launch, std::int64_t nodes) {
  if (launch.count % nodes != 0) {
    throw ConfigError(cat("compute.ranks is ", launch.count, ", which cannot be shared evenly among the ", nodes,
                          " machines of the job"),
                      {}, "choose gpus, or compute.ranks, as a multiple of slurm.nodes");
  }
  const std::int64_t each = launch.count / nodes;
  Statuses statuses;
  // All variables reach the ranks, whatever the job itself was given (--export=NIL).
  std::vector<std::string> words{"srun",
                                 cat("--nodes=", nodes),
                                 cat("--ntasks=", launch.count),
                                 cat("--ntasks-per-node=", each),
                                 "--distribution=block",
                                 "--kill-on-bad-exit=1",
                                 "--cpu-bind=none",
                                 "--overlap",
                                 "--export=ALL",
                                 launch.mpi ? "--mpi=pmix" : "--mpi=none"};
  if (const std::int64_t cpus = of_job("SLURM_CPUS_ON_NODE"); cpus > 0 && cpus < each) words.push_back("--overcommit");
  words.insert(words.end(), launch.arguments.begin(), launch.arguments.end());
  std::vector<std::string> add{cat(kOnlyFirst, "=1"), kStatus + ("=" + statuses.path())};
  if (launch.events_fd) add.push_back(cat(kEvents, "=/proc/", ::getpid(), "/fd/", *launch.events_fd));
  return run_launcher(words, rank_environment(add, /*for_srun=*/true), launch, statuses);
}

int run_plain(const RankLaunch& launch) {
  std::map<pid_t, std::int64_t> running;
  const std::string port = std::to_string(support::free_port());
  for (std::int64_t rank = 0; rank < launch.count; ++rank) {
    std::vector<std::string> add{cat("RANK=", rank),      cat("LOCAL_RANK=", rank), cat("WORLD_SIZE=", launch.count),
                                 "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port,    cat(kStatus, "=")};
    if (launch.events_fd) add.push_back(cat(kEvents, "=/proc/", ::getpid(), "/fd/", *launch.events_fd));
    running.emplace(start(launch.arguments, rank_environment(add), /*group=*/false, SIGKILL), rank);
  }
  const auto tell_all = [&](int signal) {
    for (const auto& [pid, rank] : running) ::kill(pid, signal);
  };
  bool asked = false, ending = false, killed = false;
  int first_code = 0, code_of_first_rank = 0;
  std::int64_t first_rank = -1;
  Clock::time_point since;
  while (!running.empty()) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (const auto found = running.find(pid); pid > 0 && found != running.end()) {
      const int code = support::decode_status(status).code;
      const std::int64_t rank = found->second;
      running.erase(found);
      if (rank == 0) code_of_first_rank = code;
      if (!agreed(code) && first_rank < 0) {
        first_rank = rank;
        first_code = code;
      }
      if (code != 0 && !ending) {
        ending = true;
        since = Clock::now();
        if (!agreed(code)) tell_all(SIGTERM);  // who agreed on an end is on the way out anyway
      }
      continue;
    }
    if (pid < 0 && errno != EINTR) support::throw_errno("wait for", "ranks");
    if (support::stop_requested() && !asked) {
      tell_all(SIGTERM);
      asked = true;
    }
    if (ending && !killed && std::chrono::duration<double>(Clock::now() - since).count() > launch.grace_s) {
      tell_all(SIGKILL);
      killed = true;
    }
    ::poll(nullptr, 0, 20);
  }
  return first_rank < 0 ? code_of_first_rank : judge(first_rank, launch.count, first_code, asked);
}

}  // namespace

int launch_ranks(const RankLaunch& launch) {
  support::install_stop_signals();
  if (launch.events_fd) support::stop_when_closed(*launch.events_fd);
  if (const std::int64_t nodes = of_job("SLURM_JOB_NUM_NODES"); nodes > 1) return run_srun(launch, nodes);
  return launch.mpi ? run_mpi(launch) : run_plain(launch);
}

std::optional<int> rank_events() {
  const char* path = std::getenv(kEvents);
  if (path == nullptr || *path == 0) return std::nullopt;
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) support::throw_errno("open", path);
  return fd;
}

int rank_exit(int code) {
  const char* path = std::getenv(kStatus);
  if (path == nullptr || *path == 0) return code;
  if (std::getenv(kOnlyFirst) != nullptr && !support::own_ranks().is_first()) return agreed(code) ? 0 : code;
  const support::Descriptor fd(::open(path, O_WRONLY | O_CLOEXEC));
  if (!fd) return code;
  const std::string line = cat(support::own_ranks().rank, " ", code, "\n");
  if (::write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) return code;
  return agreed(code) ? 0 : code;
}

void follow_launcher() {
  if (std::getenv(kStatus) == nullptr) return;
  // Under srun the parent is Slurm's own, which ends the step with its srun.
  if (std::getenv(kOnlyFirst) == nullptr) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  support::install_stop_signals();
}

}  // namespace pe::stage
