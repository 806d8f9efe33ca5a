#include "pipeline/run/orphans.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <set>
#include <vector>

#include "pipeline/store/host.h"
#include "support/folders.h"
#include "support/kernel_file.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

using support::cat;
using support::read_kernel_file;

/// All processes whose parent is this one, whichever thread started them. Empty where the kernel does not say it.
std::set<pid_t> children_of_ours() {
  std::set<pid_t> children;
  std::error_code unread;
  for (const std::string& thread : support::list_folder("/proc/self/task", unread)) {
    for (const std::string& word :
         support::split(read_kernel_file(cat("/proc/self/task/", thread, "/children"), 1u << 20), ' ')) {
      pid_t pid = 0;
      std::from_chars(word.data(), word.data() + word.size(), pid);
      if (pid > 0) children.insert(pid);
    }
  }
  return children;
}

/// Whether a process has ended in the group of another one. Only orphans do: who is started here leads its group, or is
/// in ours.
bool ended_in_foreign_group(pid_t pid) {
  const std::string text = read_kernel_file(cat("/proc/", pid, "/stat"));
  const auto close = text.rfind(')');  // the name in parentheses may hold anything
  if (close == std::string::npos) return false;
  const std::vector<std::string> fields = support::split(text.substr(close + 1), ' ');  // "", state, parent, group
  if (fields.size() < 4 || (fields[1] != "Z" && fields[1] != "X")) return false;
  return fields[3] != cat(pid) && fields[3] != cat(::getpgrp());
}

/// The number behind `mark` in the environment of a process; 0 where it has none.
std::uint64_t ticket_of(pid_t pid, const std::string& mark) {
  constexpr std::size_t kMost = 2u << 20;  // as much as an environment may take
  const std::string environment = '\0' + read_kernel_file(cat("/proc/", pid, "/environ"), kMost);
  const auto at = environment.find('\0' + mark);
  if (at == std::string::npos) return 0;
  std::uint64_t ticket = 0;
  const char* begin = environment.data() + at + 1 + mark.size();
  std::from_chars(begin, environment.data() + environment.size(), ticket);
  return ticket;
}

}  // namespace

Orphans::Orphans() {
  static std::atomic<unsigned> count{0};
  mark_ = cat("PE_STAGE_OF=", ::getpid(), ".", process_start(::getpid()), ".", ++count, ".");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // where it is not known, there are none to be found
}

std::string Orphans::mark(std::uint64_t ticket) const { return cat(mark_, ticket); }

bool Orphans::tend(const std::function<bool(std::uint64_t ticket)>& is_running,
                   const std::function<bool(pid_t)>& is_stage) {
  bool left = false;
  const std::set<pid_t> children = children_of_ours();
  std::erase_if(known_, [&](const auto& one) { return children.count(one.first) == 0; });
  for (const pid_t pid : children) {
    if (is_stage(pid)) continue;
    auto known = known_.find(pid);
    if (known == known_.end()) {
      const std::uint64_t ticket = ticket_of(pid, mark_);
      if (ticket != 0)
        known = known_.emplace(pid, ticket).first;
      else if (!ended_in_foreign_group(pid))
        continue;
    }
    if (::waitpid(pid, nullptr, WNOHANG) == pid) {
      known_.erase(pid);
    } else if (known != known_.end() && !is_running(known->second)) {
      ::kill(pid, SIGKILL);
      left = true;
    }
  }
  return left;
}

}  // namespace pe::pipeline
