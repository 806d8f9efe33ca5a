#include "pipeline/store/attempt.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "pipeline/store/digits.h"
#include "pipeline/store/host.h"
#include "pipeline/store/whole_write.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/json.h"
#include "support/json_fields.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;

namespace {

// The log of a training is small, and all that is left to draw it again.
constexpr std::array<std::string_view, 5> kKept = {"task.json", "owner.json", "exit.json", "stage.log",
                                                   "metrics.jsonl"};

bool is_ours(const std::string& name) {
  return std::find(kKept.begin(), kKept.end(), name) != kKept.end() || name == "inputs" || name == "out";
}

/// The newest change of a regular file of the stage's own below `folder`; 0 when there is none. @throws IoError
std::int64_t newest_file(const fs::path& folder, bool top) {
  std::int64_t newest = 0;
  for (const std::string& name : support::list_folder(folder)) {
    if ((top && is_ours(name)) || name.find(".tmp") != std::string::npos) continue;
    const fs::path path = folder / name;
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
      if (errno == ENOENT) continue;  // just renamed
      support::throw_errno("look at", path.string());
    }
    if (S_ISDIR(status.st_mode))
      newest = std::max(newest, newest_file(path, false));
    else if (S_ISREG(status.st_mode))
      newest = std::max<std::int64_t>(newest, status.st_mtim.tv_sec * 1000000000LL + status.st_mtim.tv_nsec);
  }
  return newest;
}

}  // namespace

void write_owner(const fs::path& attempt, const std::string& run, std::int64_t pid, std::uint64_t start,
                 double spent_s) {
  if (pid == 0) return;
  const Json json{{"host", host_name()}, {"boot", this_host().boot}, {"pids", this_host().pids}, {"run", run},
                  {"pid", pid},          {"process_start", start},   {"spent_s", spent_s}};
  write_new_file(attempt / "owner.json", support::json_text(json) + "\n", false);
}

Json read_of_attempt(const fs::path& attempt, const char* name) try {
  const fs::path path = attempt / name;
  return support::is_there(path) ? support::parse_json(support::read_file(path, 65536)) : Json();
} catch (const support::ArtifactError&) {
  return {};
} catch (const support::IoError& error) {
  if (!is_denied(error)) throw;
  return {};
}

std::vector<fs::path> attempts_below(const fs::path& work) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  for (const std::string& name : support::list_folder(work)) {
    if (name.size() >= 8 || name[0] != 'a') continue;
    if (const auto number = number_in_name(std::string_view(name).substr(1))) found.emplace_back(*number, work / name);
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

fs::path make_attempt(const fs::path& work, int* number) {
  int next = 1;
  if (::mkdir(work.c_str(), 0777) != 0) {
    support::make_folders(work);
    const auto before = attempts_below(work);
    if (!before.empty()) next = std::stoi(before.back().filename().string().substr(1)) + 1;
  }
  for (;; ++next) {
    char name[16];
    std::snprintf(name, sizeof name, "a%02d", next);
    const fs::path path = work / name;
    if (::mkdir(path.c_str(), 0777) == 0) {
      if (number) *number = next;
      return path;
    }
    if (errno != EEXIST) support::throw_errno("create folder", path.string(), true);
  }
}

double seconds_spent(const fs::path& attempt) {
  const auto number = [](const Json& json, const char* name) {
    return json.is_object() && json.contains(name) && json[name].is_number() ? json[name].get<double>() : 0.0;
  };
  if (const Json exit = read_of_attempt(attempt, "exit.json"); exit.is_object())
    return std::max(number(exit, "spent_s"), number(exit, "wall_s"));
  struct stat status {};
  if (::stat((attempt / "task.json").c_str(), &status) != 0) return 0;
  const std::int64_t began = status.st_mtim.tv_sec * 1000000000LL + status.st_mtim.tv_nsec;
  const std::int64_t newest = newest_file(attempt, true);
  return number(read_of_attempt(attempt, "owner.json"), "spent_s") +
         (newest > began ? static_cast<double>(newest - began) * 1e-9 : 0.0);
}

bool is_denied(const support::IoError& error) {
  return error.system_error() == EACCES || error.system_error() == EPERM;
}

namespace {

std::optional<Orphan> orphan_in(const fs::path& attempt) {
  const fs::path path = attempt / "owner.json";
  if (support::is_there(attempt / "exit.json") || !support::is_there(path)) return std::nullopt;
  const Json json = support::parse_json(support::read_file(path, 65536));
  if (support::text_in(json, "host") != host_name() || support::text_in(json, "boot") != this_host().boot)
    return std::nullopt;
  if (support::field_or(json, "pids", this_host().pids) != this_host().pids)
    return std::nullopt;  // another container's number
  const std::int64_t pid = support::field_or(json, "pid", std::int64_t{0});
  const std::uint64_t start = support::field_or(json, "process_start", std::uint64_t{0});
  const ProcessLife life = start == 0 ? ProcessLife::kGone : process_life(pid, start);
  if (life == ProcessLife::kGone) return std::nullopt;
  return Orphan{pid, attempt, life == ProcessLife::kAlive};
}

}  // namespace

std::optional<Orphan> find_orphan(const std::vector<fs::path>& attempts) {
  for (const fs::path& attempt : attempts) {
    try {
      if (auto orphan = orphan_in(attempt)) return orphan;
    } catch (const support::IoError& error) {
      if (!is_denied(error)) throw;
    }
  }
  return std::nullopt;
}

void end_orphan(const Orphan& orphan) {
  const auto pid = static_cast<pid_t>(orphan.pid);
  if (::kill(-pid, SIGKILL) == 0 || ::kill(pid, SIGKILL) == 0 || errno == ESRCH) return;
  const int error = errno;
  struct stat status {};
  const bool known = ::stat(support::cat("/proc/", pid).c_str(), &status) == 0;
  throw support::IoError(support::cat("process ", pid, " of an earlier run still works in '", orphan.folder.string(),
                                      "' and cannot be ended: ", std::strerror(error),
                                      known ? support::cat("; it belongs to user ", status.st_uid) : std::string()));
}

std::optional<fs::path> find_resumable(const std::vector<fs::path>& attempts, std::vector<fs::path>* closed) {
  std::optional<fs::path> best;
  // Temporary files of a killed attempt next to its checkpoints are newer than the checkpoints of the attempt before,
  // and worth nothing.
  std::pair<std::int64_t, std::int64_t> newest{0, 0};  // of checkpoints, of anything
  for (const fs::path& attempt : attempts) {
    try {
      const std::pair time{newest_file(attempt / "checkpoints", false), newest_file(attempt, true)};
      if (time.second == 0 || time < newest) continue;
      newest = time;
      best = attempt;
    } catch (const support::IoError& error) {
      if (!is_denied(error)) throw;
      if (closed) closed->push_back(attempt);
    }
  }
  return best;
}

bool is_kept_of_attempt(const std::string& name) { return std::find(kKept.begin(), kKept.end(), name) != kKept.end(); }

void strip_attempt(const fs::path& attempt, bool keep_own_files) {
  for (const std::string& name : support::list_folder(attempt)) {
    if (!is_kept_of_attempt(name) && (is_ours(name) || !keep_own_files)) support::remove_tree(attempt / name);
  }
}

}  // namespace pe::pipeline
