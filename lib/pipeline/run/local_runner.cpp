#include "pipeline/run/local_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "pipeline/run/orphans.h"
#include "pipeline/run/stage_event.h"
#include "support/bound_child.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/kernel_file.h"
#include "support/parse_json.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::pipeline {

using support::Descriptor;
using support::throw_errno;

namespace {

constexpr std::size_t kOneTurn = 64 * 1024;  // bytes that are read of a stage before others are heard
constexpr std::size_t kLastTurn = 1u << 20;  // of one that has ended: as much as a pipe holds

/// Reads a small file of the kernel.
std::string small_file(const std::string& path) { return support::read_kernel_file(path, 16384); }

/// How many processes the kernel has killed for memory. It counts this process's control group and the groups below it,
/// where the kernel does, else the whole machine, including kills of other programs. -1 when the kernel has no count.
std::int64_t oom_kills() {
  static const std::string groups = small_file("/proc/self/cgroup");
  const std::int64_t own = oom_kills_of(groups, "/sys/fs/cgroup");
  return own >= 0 ? own : oom_kills_in(small_file("/proc/vmstat"));
}

/// The same, at most a second old: the kernel takes long to count all entries of that file.
std::int64_t recent_oom_kills() {
  static std::int64_t count = -1;
  static double when_s = -10;
  const double now_s = support::steady_s();
  if (now_s - when_s > 1) {
    count = oom_kills();
    when_s = now_s;
  }
  return count;
}

/// Kills every process that still holds the other end of a pipe of ours: a stage may have put it into a separate
/// session, out of reach of its group.
void end_holders_of(const Descriptor& pipe) {
  struct stat status {};
  if (::fstat(pipe.get(), &status) != 0) return;
  const std::string held = support::cat("pipe:[", status.st_ino, "]");
  const std::string own = std::to_string(::getpid());
  std::error_code unread;  // where /proc cannot be read, nothing is found
  for (const std::string& pid : support::list_folder("/proc", unread)) {
    if (pid == own || !std::all_of(pid.begin(), pid.end(), [](char c) { return c >= '0' && c <= '9'; })) continue;
    const std::filesystem::path descriptors = std::filesystem::path("/proc") / pid / "fd";
    for (const std::string& name : support::list_folder(descriptors, unread)) {
      std::error_code error;
      if (std::filesystem::read_symlink(descriptors / name, error) != held || error) continue;
      ::kill(static_cast<pid_t>(std::atol(pid.c_str())), SIGKILL);
      break;
    }
  }
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

std::int64_t oom_kills_in(std::string_view counters) {
  for (const std::string& line : support::split(counters, '\n')) {
    if (line.rfind("oom_kill ", 0) == 0) return std::atoll(line.c_str() + 9);
  }
  return -1;
}

std::int64_t oom_kills_of(std::string_view groups, const std::string& mount) {
  for (const std::string& line : support::split(groups, '\n')) {
    // "0::/path" of the unified hierarchy, "5:memory:/path" of the first one.
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    std::int64_t kills = -1;
    if (controllers.empty())
      kills = oom_kills_in(small_file(mount + path + "/memory.events"));
    else if ((',' + controllers + ',').find(",memory,") != std::string::npos)
      kills = oom_kills_in(small_file(mount + "/memory" + path + "/memory.oom_control"));
    if (kills >= 0) return kills;
  }
  return -1;
}

struct LocalRunner::State {
  struct Child {
    pid_t pid = 0;
    Descriptor pidfd;
    Descriptor events;
    std::string line;  // what came without its newline yet
    bool overlong = false;
    double started_s = 0;
    std::int64_t oom_kills_before = -1;
    bool ended = false;
  };
  Descriptor epoll;
  Descriptor woken;  // an eventfd, ticket 0
  std::map<std::uint64_t, Child> children;
  std::size_t most_children = std::numeric_limits<std::size_t>::max();  // for which there are descriptors
  int when_we_end = SIGTERM;
  Orphans orphans;
  double tended_s = 0;

  void watch(int fd, std::uint64_t ticket, bool is_exit) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = ticket << 1 | (is_exit ? 1 : 0);
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) throw_errno("watch", "a stage");
  }

  /// Whether orphans of stages that have ended are left.
  bool tend_orphans() {
    tended_s = support::steady_s();
    return orphans.tend(
        [&](std::uint64_t ticket) {
          const auto found = children.find(ticket);
          return found != children.end() && !found->second.ended;
        },
        [&](pid_t pid) {
          return std::any_of(children.begin(), children.end(),
                             [&](const auto& one) { return one.second.pid == pid && !one.second.ended; });
        });
  }

  /// Ends processes that a stage left behind: the children of each are reparented only when it is dead.
  void end_leftovers(Child& child) {
    child.ended = true;
    constexpr int kMost = 20;
    for (int tries = 0; tries < kMost; ++tries) {
      if (!tend_orphans() && ::kill(-child.pid, 0) != 0) return;
      ::usleep(1000);
    }
  }

  /// Reads what is there, at most about `most` bytes. Complete lines become messages.
  void drain(std::uint64_t ticket, Child& child, std::size_t most, std::vector<RunnerEvent>& out) {
    char buffer[kOneTurn];
    for (std::size_t done = 0; child.events && done < most;) {
      const ssize_t count = ::read(child.events.get(), buffer, std::min(sizeof buffer, most - done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        child.events.close();
        return;
      }
      done += static_cast<std::size_t>(count);
      std::string_view rest(buffer, static_cast<std::size_t>(count));
      while (!rest.empty()) {
        const auto end = rest.find('\n');
        if (!child.overlong) child.line.append(rest.substr(0, end));
        if (child.line.size() > kLongestStageEvent) {
          child.overlong = true;
          child.line.clear();
        }
        if (end == std::string_view::npos) break;
        rest.remove_prefix(end + 1);
        take_line(ticket, child, out);
      }
    }
  }

  static void take_line(std::uint64_t ticket, Child& child, std::vector<RunnerEvent>& out) {
    RunnerEvent event;
    event.ticket = ticket;
    if (child.overlong) {
      event.message = {{"event", "warn"}, {"text", "an event of more than 64 KiB was left out"}};
    } else if (auto message = parse_stage_event(child.line)) {
      event.message = *std::move(message);
    }
    child.overlong = false;
    child.line.clear();
    if (event.message.is_object()) out.push_back(std::move(event));
  }
};

std::optional<std::uint64_t> raise_open_files() {
  constexpr rlim_t kWanted = 16384;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return std::nullopt;
  const rlim_t most = files.rlim_max == RLIM_INFINITY ? kWanted : std::min(kWanted, files.rlim_max);
  if (files.rlim_cur != RLIM_INFINITY && files.rlim_cur < most) {
    files.rlim_cur = most;
    if (::setrlimit(RLIMIT_NOFILE, &files) != 0) ::getrlimit(RLIMIT_NOFILE, &files);
  }
  return files.rlim_cur == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(files.rlim_cur);
}

LocalRunner::LocalRunner(int when_we_end) : state_(std::make_unique<State>()) {
  state_->when_we_end = when_we_end;
  // A stage takes five descriptors of ours while it runs: its pipe, its process, two leases and a GPU.
  constexpr std::uint64_t kEach = 5, kOthers = 96;
  if (const auto files = raise_open_files())
    state_->most_children = std::max<std::uint64_t>(1, (std::max(*files, kOthers) - kOthers) / kEach);
  state_->epoll = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!state_->epoll) throw_errno("make", "an epoll descriptor");
  state_->woken = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state_->woken) throw_errno("make", "an event descriptor");
  state_->watch(state_->woken.get(), 0, false);
}

LocalRunner::~LocalRunner() {
  for (auto& [ticket, child] : state_->children) {
    ::kill(-child.pid, SIGKILL);
    int status = 0;
    while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
    }
    state_->end_leftovers(child);
  }
}

void LocalRunner::wake() {
  const std::uint64_t one = 1;
  if (::write(state_->woken.get(), &one, sizeof one) < 0) return;  // full: it wakes anyway
}

double LocalRunner::now() const { return support::steady_s(); }

std::int64_t LocalRunner::pid(std::uint64_t ticket) const {
  const auto found = state_->children.find(ticket);
  return found == state_->children.end() ? 0 : found->second.pid;
}

void LocalRunner::start(const Launch& launch) {
  if (state_->children.size() >= state_->most_children) {
    errno = EMFILE;
    throw_errno("start", launch.arguments.at(0));
  }
  Descriptor log(::open(launch.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!log) throw_errno("create", launch.log.string(), true);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("make a pipe for", launch.arguments.at(0));
  State::Child child;
  child.events = Descriptor(ends[0]);
  Descriptor theirs(ends[1]);
  ::fcntl(child.events.get(), F_SETFL, O_NONBLOCK);

  support::SpawnOptions options;
  options.arguments = launch.arguments;
  options.environment = launch.environment;
  options.environment->push_back(state_->orphans.mark(launch.ticket));
  options.directory = launch.directory;
  options.stdout_fd = log.get();
  options.stderr_fd = log.get();
  options.descriptors = {{theirs.get(), Launch::kEventsDescriptor}};
  options.new_group = true;  // a terminal's Ctrl-C is ours; we decide what stages hear
  child.oom_kills_before = recent_oom_kills();
  child.started_s = support::steady_s();
  child.pid = support::spawn_bound(options, state_->when_we_end);
  // By number: the header of glibc 2.36 has no C++ linkage for pidfd_open.
  child.pidfd = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0)));
  if (!child.pidfd) {
    const int error = errno;
    ::kill(-child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    errno = error;
    throw_errno("watch", launch.arguments.at(0));
  }
  ::fcntl(child.pidfd.get(), F_SETFD, FD_CLOEXEC);
  state_->watch(child.events.get(), launch.ticket, false);
  state_->watch(child.pidfd.get(), launch.ticket, true);
  state_->children.emplace(launch.ticket, std::move(child));
}

std::vector<RunnerEvent> LocalRunner::wait(double timeout_s) {
  std::vector<RunnerEvent> out;
  epoll_event ready[64];
  const int timeout_ms = timeout_s < 0 ? -1 : static_cast<int>(std::ceil(std::min(timeout_s, 3600.0) * 1000));
  const int count = ::epoll_wait(state_->epoll.get(), ready, 64, timeout_ms);
  if (count < 0) {
    if (errno == EINTR) return out;
    throw_errno("wait for", "stages");
  }
  for (int i = 0; i < count; ++i) {
    const std::uint64_t ticket = ready[i].data.u64 >> 1;
    if (ticket == 0) {
      std::uint64_t wakes = 0;
      if (::read(state_->woken.get(), &wakes, sizeof wakes) < 0) continue;
    }
    const auto found = state_->children.find(ticket);
    if (found == state_->children.end()) continue;
    State::Child& child = found->second;
    if ((ready[i].data.u64 & 1) == 0) {
      state_->drain(ticket, child, kOneTurn, out);
      continue;
    }
    // Remaining child processes must not continue to write into its folder. They are killed before the wait, since its
    // number is unique only until then.
    ::kill(-child.pid, SIGKILL);
    int status = 0;
    rusage usage{};
    const pid_t ended = ::wait4(child.pid, &status, WNOHANG, &usage);
    if (ended == 0) continue;
    if (ended < 0) status = 255 << 8;  // something else took its exit code, so it is not known to be well
    state_->end_leftovers(child);
    // Its last output is still in the pipe. A grandchild may hold the other end, so only available bytes are read.
    state_->drain(ticket, child, kLastTurn, out);
    constexpr int kToDie_ms = 20;  // the processes killed above
    pollfd end{child.events.get(), 0, 0};
    if (child.events && ::poll(&end, 1, kToDie_ms) == 0) end_holders_of(child.events);
    const support::ExitStatus decoded = support::decode_status(status);
    RunnerEvent event;
    event.ticket = ticket;
    event.kind = RunnerEvent::Kind::kExit;
    event.code = decoded.code;
    event.signal = decoded.signal;
    event.wall_s = support::steady_s() - child.started_s;
    event.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    event.peak_rss_bytes = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
    if (event.signal == SIGKILL || event.code == 128 + SIGKILL) {  // itself, or one of its ranks
      const std::int64_t after = oom_kills();
      event.out_of_memory = child.oom_kills_before >= 0 && after > child.oom_kills_before;
    }
    state_->children.erase(found);
    out.push_back(std::move(event));
  }
  constexpr double kBetweenLooks_s = 1;
  if (support::steady_s() - state_->tended_s > kBetweenLooks_s) state_->tend_orphans();
  return out;
}

void LocalRunner::signal(std::uint64_t ticket, int signal) {
  const auto found = state_->children.find(ticket);
  if (found == state_->children.end()) return;
  // Not yet waited for, so the number is still its own.
  if (::kill(-found->second.pid, signal) != 0) ::kill(found->second.pid, signal);
}

std::vector<std::string> stage_environment(const std::vector<std::string>& gpus, const std::string& stage,
                                           const std::vector<std::string>& names) {
  static constexpr std::string_view kNames[] = {
      "PATH",         "HOME",           "TMPDIR",         "LD_LIBRARY_PATH", "PYTHONPATH", "TZ",
      "KRB5CCNAME",   "http_proxy",     "https_proxy",    "ftp_proxy",       "all_proxy",  "no_proxy",
      "HTTP_PROXY",   "HTTPS_PROXY",    "FTP_PROXY",      "ALL_PROXY",       "NO_PROXY",   "SSL_CERT_FILE",
      "SSL_CERT_DIR", "CURL_CA_BUNDLE", "XDG_CACHE_HOME", "PE_DOWNLOADS"};
  static constexpr std::string_view kSecrets[] = {"HF_TOKEN", "HF_TOKEN_PATH"};
  static constexpr std::string_view kPrefixes[] = {"HF_", "SLURM_", "OMPI_", "PMI", "NCCL_", "UCX_", "FI_"};
  // Given below, whatever this process was started with.
  const auto ours = [](std::string_view name) {
    return name == "LANG" || name == "CUDA_VISIBLE_DEVICES" || name == "CUDA_DEVICE_ORDER";
  };
  std::vector<std::string> environment;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const bool known = std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
    const bool prefixed = std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                                      [&](std::string_view prefix) { return name.substr(0, prefix.size()) == prefix; });
    const bool secret = std::find(std::begin(kSecrets), std::end(kSecrets), name) != std::end(kSecrets);
    const bool named = std::find(names.begin(), names.end(), name) != names.end();
    if ((named || known || prefixed) && !ours(name) && (named || !secret || stage == "fetch"))
      environment.emplace_back(text);
  }
  environment.push_back("LANG=C.UTF-8");
  std::vector<std::string> here;  // "0@1" is one of another machine of the job
  for (const std::string& id : gpus) {
    if (id.find('@') == std::string::npos) here.push_back(id);
  }
  environment.push_back("CUDA_VISIBLE_DEVICES=" + support::join(here, ","));
  environment.push_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");  // CUDA's own order is the fastest first
  std::sort(environment.begin(), environment.end());
  return environment;
}

}  // namespace pe::pipeline
