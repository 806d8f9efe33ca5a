#include "pipeline/store/host.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "support/boot_id.h"
#include "support/kernel_file.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::read_kernel_file;

std::string host_name() {
  char name[256] = "unknown";
  ::gethostname(name, sizeof name - 1);
  return name;
}

const std::string& gpu_name() {
  static const std::string name = [] {
    std::error_code error;
    const std::filesystem::path gpus = "/proc/driver/nvidia/gpus";
    for (std::filesystem::directory_iterator gpu(gpus, error), end; !error && gpu != end; gpu.increment(error)) {
      for (const std::string& line : support::split(read_kernel_file(gpu->path() / "information"), '\n')) {
        if (line.starts_with("Model:")) return std::string(support::trim(std::string_view(line).substr(6)));
      }
    }
    return std::string();
  }();
  return name;
}

const HostIdentity& this_host() {
  static const HostIdentity identity = [] {
    HostIdentity here;
    here.host = host_name();
    here.machine = support::trim(read_kernel_file("/etc/machine-id"));
    here.boot = support::boot_id();
    char target[128];
    const ssize_t count = ::readlink("/proc/self/ns/pid", target, sizeof target);
    if (count > 0) here.pids.assign(target, static_cast<std::size_t>(count));
    return here;
  }();
  return identity;
}

std::uint64_t process_start(std::int64_t pid) {
  if (pid <= 0) return 0;
  const std::string text = read_kernel_file(cat("/proc/", pid, "/stat"));
  // The name in parentheses may hold anything; what follows the last one is regular: field 3 is next, we want 22.
  const auto close = text.rfind(')');
  if (close == std::string::npos || close + 2 >= text.size()) return 0;
  std::string_view rest = std::string_view(text).substr(close + 2);
  if (rest[0] == 'Z' || rest[0] == 'X') return 0;
  for (int field = 3; field < 22; ++field) {
    const auto space = rest.find(' ');
    if (space == std::string_view::npos) return 0;
    rest.remove_prefix(space + 1);
  }
  std::uint64_t start = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), start);
  return start;
}

ProcessLife process_life(std::int64_t pid, std::uint64_t start) {
  if (pid <= 0) return ProcessLife::kGone;
  if (const std::uint64_t found = process_start(pid); found != 0)
    return start == 0 || found == start ? ProcessLife::kAlive : ProcessLife::kGone;
  // A readable file without a start time belongs to a zombie. Where /proc hides a process, the kernel still answers
  // kill.
  if (!read_kernel_file(cat("/proc/", pid, "/stat")).empty()) return ProcessLife::kGone;
  return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH ? ProcessLife::kGone : ProcessLife::kHidden;
}

}  // namespace pe::pipeline
