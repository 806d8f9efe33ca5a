#include "support/process.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "support/bound_child.h"
#include "support/capture_within.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/program.h"
#include "support/text.h"

namespace pe::support {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

namespace {

/// The data of a child between vfork and exec. It shares our memory until then, so it must allocate nothing.
struct ChildPlan {
  const char* program = nullptr;
  char* const* arguments = nullptr;
  char* const* environment = nullptr;
  const char* directory = nullptr;
  const std::vector<std::pair<int, int>>* descriptors = nullptr;  ///< {ours, theirs}; ours are above all of theirs
  int highest = 2;                                                ///< of theirs; those above are closed
  bool opens_null = false, new_group = false;
  int signal_when_we_end = 0;
  pid_t parent = 0;
  volatile int error = 0;  ///< errno of the step that failed, written by the child
};

[[noreturn]] void fail_child(ChildPlan& plan) {
  plan.error = errno;
  ::_exit(127);
}

/// Not inline: the child would write into the stack frame that our side still uses.
[[noreturn, gnu::noinline]] void become(ChildPlan& plan) {
  if (plan.signal_when_we_end > 0) {
    if (::prctl(PR_SET_PDEATHSIG, plan.signal_when_we_end) != 0) fail_child(plan);
    if (::getppid() != plan.parent) ::_exit(128 + plan.signal_when_we_end);  // it has ended already
  }
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &usual, nullptr);  // some cannot be set
  if (plan.new_group && ::setpgid(0, 0) != 0) fail_child(plan);
  if (plan.directory && ::chdir(plan.directory) != 0) fail_child(plan);
  for (const auto& [ours, theirs] : *plan.descriptors) {
    if (::dup2(ours, theirs) < 0) fail_child(plan);
  }
  ::closefrom(plan.highest + 1);
  if (plan.opens_null) {  // last, since this process may have used all descriptors that it may have
    ::close(0);
    if (::open("/dev/null", O_RDONLY) != 0) fail_child(plan);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(plan.program, plan.arguments, plan.environment);
  fail_child(plan);
}

/// vfork, since a fork copies the tables of all our memory. All signals are blocked meanwhile: no handler of ours runs
/// in the child. Returns -1, with errno set, when there is no child or it could not become the program.
pid_t start_child(ChildPlan& plan) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::vfork();
  if (pid == 0) become(plan);
  const int error = pid < 0 ? errno : plan.error;
  if (pid > 0 && error != 0) ::waitpid(pid, nullptr, 0);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return error != 0 ? -1 : pid;
}

}  // namespace

pid_t spawn(const SpawnOptions& options) { return spawn_bound(options, 0); }

pid_t spawn_bound(const SpawnOptions& options, int signal) {
  const std::string& program = options.arguments.at(0);
  const auto found = find_program(program);
  if (!found) {
    errno = ENOENT;
    throw_errno("start", program);
  }
  // A number wanted in the child may be another descriptor here, so all go through copies with higher numbers.
  std::vector<std::pair<int, int>> wanted = options.descriptors;
  if (options.stdin_fd >= 0) wanted.emplace_back(options.stdin_fd, 0);
  if (options.stdout_fd >= 0) wanted.emplace_back(options.stdout_fd, 1);
  if (options.stderr_fd >= 0) wanted.emplace_back(options.stderr_fd, 2);
  ChildPlan plan;
  for (const auto& [ours, theirs] : wanted) plan.highest = std::max(plan.highest, theirs);
  std::vector<Descriptor> copies;
  for (auto& [ours, theirs] : wanted) {
    Descriptor copy(::fcntl(ours, F_DUPFD_CLOEXEC, plan.highest + 1));
    if (!copy) {
      if (errno == EINVAL) errno = EMFILE;  // the limit is below the number
      throw_errno("start", program);
    }
    ours = copy.get();
    copies.push_back(std::move(copy));
  }
  const std::vector<char*> arguments = pointers(options.arguments);
  std::vector<char*> environment;
  if (options.environment) environment = pointers(*options.environment);
  plan.program = found->c_str();
  plan.arguments = arguments.data();
  plan.environment = options.environment ? environment.data() : environ;
  plan.directory = options.directory.empty() ? nullptr : options.directory.c_str();
  plan.descriptors = &wanted;
  plan.opens_null = options.stdin_fd < 0;
  plan.new_group = options.new_group;
  plan.signal_when_we_end = signal;
  plan.parent = ::getpid();
  const pid_t pid = start_child(plan);
  if (pid < 0) throw_errno("start", found->string());
  return pid;
}

ExitStatus decode_status(int status) {
  if (WIFSIGNALED(status)) return {128 + WTERMSIG(status), WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

ExitStatus wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) throw_errno("wait for", "process " + std::to_string(pid));
  }
  return decode_status(status);
}

CapturedOutput capture(const std::vector<std::string>& arguments, const std::string& input, std::size_t limit,
                       const std::filesystem::path& directory) {
  return capture_within(arguments, {.timeout_s = 0, .input = input, .limit = limit, .directory = directory});
}

namespace {

std::atomic<pid_t> taken_along{0};

extern "C" void end_group_and_self(int signal) {
  if (const pid_t group = taken_along.load(); group > 0) ::kill(-group, SIGKILL);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

/// While it lives, a signal that ends this process ends a group of its children first: a terminal's Ctrl-C does not
/// reach them. A signal that already has a handler keeps it.
class EndsWithUs {
 public:
  explicit EndsWithUs(pid_t group) {
    pid_t none = 0;
    if (group <= 0 || !taken_along.compare_exchange_strong(none, group)) return;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction now {
      }, end{};
      end.sa_handler = end_group_and_self;
      if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
      if (::sigaction(signal, &end, nullptr) == 0) taken_.push_back(signal);
    }
    holds_ = true;
  }
  ~EndsWithUs() {
    if (!holds_) return;
    for (const int signal : taken_) ::signal(signal, SIG_DFL);
    taken_along = 0;
  }
  EndsWithUs(const EndsWithUs&) = delete;

 private:
  std::vector<int> taken_;
  bool holds_ = false;
};

}  // namespace

namespace {

/// The standard streams of a child, and our ends of them.
struct Pipes {
  Descriptor in_read, in_write, out_read, out_write, err_read, err_write;

  explicit Pipes(const std::string& program) {
    int in[2], out[2], err[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) {
      throw_errno("make a pipe for", program);
    }
    in_read = Descriptor(in[0]), in_write = Descriptor(in[1]);
    out_read = Descriptor(out[0]), out_write = Descriptor(out[1]);
    err_read = Descriptor(err[0]), err_write = Descriptor(err[1]);
  }

  void close_ends_of_child() {
    in_read.close();
    out_write.close();
    err_write.close();
  }
};

/// Feeds a child its input and keeps its outputs, within limits.
class Exchange {
 public:
  Exchange(const CaptureLimits& limits, Pipes& pipes) : limits_(limits), pipes_(pipes) {}

  /// Until the child closes both outputs, or a limit is reached.
  void run() {
    ::fcntl(pipes_.in_write.get(), F_SETFL, O_NONBLOCK);
    if (limits_.input.empty()) pipes_.in_write.close();
    while (pipes_.out_read || pipes_.err_read) {
      const int wait_ms = left_ms();
      if (wait_ms == 0) break;
      pollfd polled[3] = {
          {pipes_.out_read.get(), POLLIN, 0}, {pipes_.err_read.get(), POLLIN, 0}, {pipes_.in_write.get(), POLLOUT, 0}};
      if (::poll(polled, 3, wait_ms) < 0 && errno != EINTR) break;
      drain(pipes_.out_read, polled[0].revents, result_.out);
      drain(pipes_.err_read, polled[1].revents, result_.err);
      feed(polled[2].revents);
    }
    pipes_.in_write.close();
  }

  /// Waits for the end of the child, and kills its group when a limit is reached.
  TimedCapture finish(pid_t pid) {
    if (limits_.timeout_s <= 0) {
      result_.status = wait_for(pid);
      return std::move(result_);
    }
    // It may have closed its streams and continue.
    int status = 0;
    pid_t ended = 0;
    while ((ended = ::waitpid(pid, &status, WNOHANG)) == 0 && left_ms() > 0)
      ::poll(nullptr, 0, std::min(left_ms(), 10));
    if (ended < 0) throw_errno("wait for", "process " + std::to_string(pid));
    if (ended == 0) {
      result_.timed_out = !result_.stopped && !result_.overlong;
      ::kill(-pid, SIGKILL);
      result_.status = wait_for(pid);
    } else {
      result_.status = decode_status(status);
    }
    return std::move(result_);
  }

 private:
  /// Milliseconds that may pass before the next look; -1: any number.
  int left_ms() {
    if (limits_.timeout_s <= 0) return -1;
    if (limits_.stop && !result_.stopped) result_.stopped = limits_.stop();
    if (result_.stopped || result_.overlong) return 0;
    const std::chrono::duration<double, std::milli> left = deadline_ - std::chrono::steady_clock::now();
    return static_cast<int>(std::clamp(std::ceil(left.count()), 0.0, limits_.stop ? 100.0 : 1e9));
  }

  void drain(Descriptor& fd, short events, std::string& into) {
    if (!fd || !(events & (POLLIN | POLLHUP | POLLERR))) return;
    char buffer[65536];
    const ssize_t count = ::read(fd.get(), buffer, sizeof buffer);
    if (count <= 0) {
      fd.close();
      return;
    }
    const std::size_t kept = std::min(static_cast<std::size_t>(count), limits_.limit - into.size());
    into.append(buffer, kept);
    result_.overlong = result_.overlong || kept < static_cast<std::size_t>(count);
  }

  void feed(short events) {
    if (!pipes_.in_write || !(events & (POLLOUT | POLLERR | POLLHUP))) return;
    const std::string& input = limits_.input;
    const ssize_t count = ::write(pipes_.in_write.get(), input.data() + written_, input.size() - written_);
    if (count > 0) written_ += static_cast<std::size_t>(count);
    if ((count < 0 && errno != EAGAIN) || written_ == input.size()) pipes_.in_write.close();
  }

  const CaptureLimits& limits_;
  Pipes& pipes_;
  TimedCapture result_;
  std::size_t written_ = 0;
  const std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>> deadline_ =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(limits_.timeout_s);
};

}  // namespace

TimedCapture capture_within(const std::vector<std::string>& arguments, const CaptureLimits& limits) {
  Pipes pipes(arguments.at(0));
  SpawnOptions options;
  options.arguments = arguments;
  options.directory = limits.directory;
  options.environment = limits.environment;
  options.stdin_fd = pipes.in_read.get();
  options.stdout_fd = pipes.out_write.get();
  options.stderr_fd = pipes.err_write.get();
  options.new_group = limits.timeout_s > 0;
  const pid_t pid = spawn(options);
  const EndsWithUs ends_with_us(options.new_group ? pid : 0);
  pipes.close_ends_of_child();
  // A child that leaves without reading must not kill us; the process's handler is restored afterwards.
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);
  Exchange exchange(limits, pipes);
  exchange.run();
  ::sigaction(SIGPIPE, &before, nullptr);
  return exchange.finish(pid);
}

std::optional<std::filesystem::path> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return ::access(name.c_str(), X_OK) == 0 ? std::optional<std::filesystem::path>(name) : std::nullopt;
  }
  for (const std::filesystem::path& candidate : program_places(name)) {
    std::error_code error;
    if (::access(candidate.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(candidate, error)) return candidate;
  }
  return std::nullopt;
}

std::vector<std::filesystem::path> program_places(const std::string& name) {
  std::vector<std::filesystem::path> places;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path ? path : "/usr/local/bin:/usr/bin:/bin", ':'))
    places.push_back(std::filesystem::path(folder.empty() ? "." : folder) / name);
  return places;
}

std::filesystem::path own_executable() {
  std::error_code error;
  auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw IoError("cannot read /proc/self/exe: " + error.message());
  return without_deleted_mark(std::move(path));
}

std::filesystem::path without_deleted_mark(std::filesystem::path linked) {
  constexpr std::string_view kMark = " (deleted)";
  const std::string& text = linked.native();
  if (text.ends_with(kMark) && ::access(text.c_str(), F_OK) != 0) return text.substr(0, text.size() - kMark.size());
  return linked;
}

std::int64_t peak_memory() {
  std::int64_t kib = 0;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) kib = std::strtoll(line.c_str() + 6, nullptr, 10);
  }
  rusage children{};
  ::getrusage(RUSAGE_CHILDREN, &children);
  return std::max<std::int64_t>(kib, children.ru_maxrss) * 1024;
}

std::filesystem::path find_plugin(const std::string& folder, const std::string& name) {
  return plugin_for(own_executable().parent_path(), folder + "/" + name);
}

std::string elf_build_id(const std::filesystem::path& executable) {
  // A build id is among the first pages, whatever the file's size.
  Descriptor fd(::open(executable.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw_errno("read", executable.string());
  Elf64_Ehdr header{};
  if (::pread(fd.get(), &header, sizeof header, 0) != sizeof header ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) {
    return "";
  }
  for (unsigned i = 0; i < header.e_phnum && i < 256; ++i) {
    Elf64_Phdr segment{};
    const auto at = static_cast<off_t>(header.e_phoff + std::uint64_t{i} * header.e_phentsize);
    if (::pread(fd.get(), &segment, sizeof segment, at) != sizeof segment) return "";
    if (segment.p_type != PT_NOTE || segment.p_filesz > (1u << 16)) continue;
    std::string notes(segment.p_filesz, '\0');
    if (::pread(fd.get(), notes.data(), notes.size(), static_cast<off_t>(segment.p_offset)) !=
        static_cast<ssize_t>(notes.size())) {
      return "";
    }
    for (std::size_t from = 0; from + sizeof(Elf64_Nhdr) <= notes.size();) {
      Elf64_Nhdr note{};
      std::memcpy(&note, notes.data() + from, sizeof note);
      const std::size_t name = from + sizeof note;
      const std::size_t content = name + (std::size_t{note.n_namesz} + 3) / 4 * 4;
      const std::size_t next = content + (std::size_t{note.n_descsz} + 3) / 4 * 4;
      if (next > notes.size() || next <= from) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes.data() + name, "GNU", 4) == 0) {
        return to_hex(reinterpret_cast<const std::uint8_t*>(notes.data()) + content, note.n_descsz);
      }
      from = next;
    }
  }
  return "";
}

}  // namespace pe::support
