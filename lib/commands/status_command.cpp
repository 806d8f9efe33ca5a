#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "cli/terminal.h"
#include "commands/commands.h"
#include "commands/display_text.h"
#include "commands/log_text.h"
#include "commands/run_choice.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/json_text.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::RunStatus;
using pipeline::TaskStatus;
using support::cat;
using support::ConfigError;
using support::quote;

constexpr std::size_t kMostLogInJson = 64u << 20;

std::string lasted(const TaskStatus& task) {
  return task.started > 0 && task.ended > task.started ? support::short_duration(task.ended - task.started) : "";
}

/// "running  12 done  3 running  40 waiting".
std::string counts_text(const RunStatus& status) {
  std::map<std::string, std::size_t> counts;
  for (const TaskStatus& task : status.tasks) ++counts[task.phase];
  std::string out = status.state;
  for (const auto& [phase, count] : counts) out += cat("  ", count, " ", phase);
  return out;
}

/// Why tasks wait, a line a reason: "queued   mid[n=1] and 59 more  Priority".
std::string reasons_text(const RunStatus& status, const cli::Style& style) {
  constexpr std::size_t kMost = 20;
  struct Group {
    const TaskStatus* first;
    std::size_t more = 0;
  };
  std::vector<std::pair<std::string, std::string>> order;  // phase, reason
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const TaskStatus& task : status.tasks) {
    const bool waits = task.phase == "waiting" || task.phase == "queued";
    if (!waits || task.reason.empty()) continue;
    const auto [at, fresh] = groups.try_emplace({task.phase, task.reason}, Group{&task});
    if (fresh)
      order.push_back(at->first);
    else
      ++at->second.more;
  }
  std::string out;
  for (std::size_t k = 0; k < std::min(order.size(), kMost); ++k) {
    const Group& group = groups.at(order[k]);
    out += cat("  ", style.warn(order[k].first), "  ", group.first->id,
               group.more > 0 ? cat(" and ", group.more, " more") : "", "  ", cli::harmless(order[k].second), "\n");
    const bool ended = order[k].first == "waiting" && !group.first->log.empty();
    if (ended) out += cat("      log ", group.first->log, "\n");
  }
  if (order.size() > kMost) out += cat("  and ", counted(order.size() - kMost, "other reason"), "\n");
  return out;
}

/// The run as people read it, most important first: a window may show the beginning only.
std::string status_text(const RunStatus& status, bool only_failed, const cli::Style& style) {
  std::string out;
  std::size_t known = 0;
  std::map<std::string, std::size_t> counts;
  std::map<std::string, std::map<std::string, std::size_t>> by_stage;
  std::vector<std::string> stages;
  for (const TaskStatus& task : status.tasks) {
    ++counts[task.phase];
    if (!by_stage.count(task.stage)) stages.push_back(task.stage);
    ++by_stage[task.stage][task.phase];
    known += task.known_only && task.phase == "reused";
  }
  const std::string state = status.state == "done"                               ? style.good("done")
                            : status.state == "failed" || status.state == "died" ? style.bad(status.state)
                                                                                 : style.warn(status.state);
  out += cat(style.bold(status.pipeline), "  run ", status.run_id, "  ", state,
             !status.cluster.empty()     ? " (jobs of Slurm)"
             : status.state == "running" ? cat(" (process ", status.pid, " on ", status.host, ")")
                                         : "",
             "  began ", support::utc_text(status.started),
             status.ended > 0 ? cat(", took ", support::short_duration(status.ended - status.started)) : "", "\n");
  if (!only_failed) {
    std::vector<std::vector<std::string>> rows;
    for (const std::string& stage : stages) {
      std::string text;
      for (const auto& [phase, count] : by_stage[stage]) text += cat(text.empty() ? "" : "  ", count, " ", phase);
      rows.push_back({"  " + stage, text});
    }
    out += table(rows);
    if (known > 0)
      out += cat("  ", counted(known, "result"), " known and not here: nothing needed their checkpoints or data\n");
  }
  if (!only_failed) out += reasons_text(status, style);
  for (const char* phase : {"running", "lost", "failed", "interrupted", "blocked"}) {
    const bool trouble = std::string_view(phase) == "failed" || std::string_view(phase) == "blocked";
    if (only_failed && !trouble) continue;
    std::size_t shown = 0;
    for (const TaskStatus& task : status.tasks) {
      if (task.phase != phase) continue;
      if (++shown > 20 && !only_failed) {
        out += cat("  ", phase, "  and ", counts[phase] - 20, " more\n");
        break;
      }
      std::string text = cat("  ", trouble ? style.bad(phase) : style.warn(phase), "  ", task.id);
      const std::string progress = render_progress(task.progress);
      if (!progress.empty()) text += "  " + cli::harmless(progress);
      if (!task.reason.empty()) text += "  " + cli::harmless(task.reason);
      if (const std::string time = lasted(task); !time.empty()) text += "  " + time;
      if ((trouble || task.phase == "lost") && !task.log.empty()) text += cat("\n      log ", task.log);
      out += text + "\n";
    }
  }
  if (!status.trouble.empty()) out += cat("the queue is not known: ", cli::harmless(status.trouble), "\n");
  if (status.state == "died")
    out += "the process of this run ended without recording it; the same `run` command continues from here\n";
  if (status.damaged_lines) out += cat(counted(status.damaged_lines, "damaged journal line"), " left out\n");
  return out;
}

Json status_json(const RunStatus& status, bool only_failed) {
  Json json = to_json(status);
  if (only_failed) {
    Json kept = Json::array();
    for (Json& task : json["tasks"]) {
      if (task["phase"] == "failed" || task["phase"] == "blocked") kept.push_back(std::move(task));
    }
    json["tasks"] = std::move(kept);
  }
  return json;
}

/// Leases of this host's processes that are gone: their tasks seem to be in progress, but are not.
int show_stale(const pipeline::Store& store, const cli::CommandLine& line) {
  Json json{{"schema", "pe-stale/1"}, {"schema_version", 1}, {"leases", Json::array()}};
  std::vector<std::vector<std::string>> rows;
  std::map<std::string, std::map<std::string, std::string>> tasks;  // of each run: plan key → id
  const auto task_of = [&](const std::string& run, const std::string& plan_key) -> std::string {
    const auto [known, fresh] = tasks.try_emplace(run);
    if (fresh && fs::exists(store.runs_folder() / run / "plan.json")) {
      for (const TaskStatus& task : pipeline::read_run(store, run).tasks) known->second[task.plan_key] = task.id;
    }
    const auto found = known->second.find(plan_key);
    return found == known->second.end() ? "" : found->second;
  };
  for (const auto& [plan_key, owner] : pipeline::Leases::list(store.leases_folder())) {
    if (!owner || !pipeline::Leases::owner_is_gone(*owner, pipeline::this_host())) continue;
    const std::string task = owner->run.empty() ? "" : task_of(owner->run, plan_key);
    json["leases"].push_back({{"task", task},
                              {"plan_key", plan_key},
                              {"run", owner->run},
                              {"host", owner->where.host},
                              {"pid", owner->pid},
                              {"started", owner->started}});
    rows.push_back({task.empty() ? plan_key.substr(0, 12) : cli::harmless(task), owner->run, owner->describe()});
  }
  if (line.json)
    print_json(json);
  else
    print(rows.empty() ? "no stale leases\n" : table(rows) + "the next run of these tasks breaks them immediately\n");
  return pipeline::kRunDone;
}

/// The run, and of a submission what Slurm says of its jobs.
RunStatus look_at(const pipeline::Store& store, const std::string& run) {
  RunStatus status = pipeline::read_run(store, run);
  pipeline::Slurm slurm;
  if (!status.cluster.empty()) pipeline::add_jobs(status, store, slurm);
  return status;
}

bool goes_on(const RunStatus& status) {
  return status.state == "running" || status.state == "queued" || status.state == "unknown";
}

std::atomic<bool> left{false};

/// Shows the run until it ends or the user leaves: in place on a terminal, elsewhere only changes.
void watch(const pipeline::Store& store, const std::string& run, const cli::CommandLine& line) {
  struct sigaction action {
  }, before_int{}, before_term{};
  action.sa_handler = [](int) { left = true; };
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &before_int);
  ::sigaction(SIGTERM, &action, &before_term);
  const bool draw = !line.json && cli::can_draw(1);
  const cli::Style style = out_style(line);
  RunStatus status;
  {
    cli::Panel panel(1);
    std::string last;
    while (!left) {
      status = look_at(store, run);
      if (!goes_on(status)) break;
      if (draw) {
        panel.show(support::split(status_text(status, line.failed, style), '\n'));
      } else {
        Json json = status_json(status, line.failed);
        const std::string text = line.json ? support::json_text(json) + "\n" : counts_text(status) + "\n";
        if (text != last) print(text);
        std::fflush(stdout);
        last = text;
      }
      // Controllers are shared by many: they are asked every ten seconds.
      const int pauses = status.cluster.empty() ? 10 : 100;
      for (int i = 0; i < pauses && !left; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  ::sigaction(SIGINT, &before_int, nullptr);
  ::sigaction(SIGTERM, &before_term, nullptr);
  if (left) return;
  if (line.json)
    print(support::json_text(status_json(status, line.failed)) + "\n");
  else
    print(status_text(status, line.failed, style));
}

}  // namespace

int status_command(const cli::CommandLine& given) {
  cli::CommandLine line = given;
  const pipeline::Store store = open_for_reading(store_path_for(line));
  if (line.stale && !line.words.empty())
    throw ConfigError(cat("--stale takes no selection, found ", support::quote(line.words.front())),
                      {"--stale", 0, 0, "", 1});
  if (line.stale) return show_stale(store, line);
  const std::string run = take_run(store, line);
  if (line.watch) {
    watch(store, run, line);
    return pipeline::kRunDone;
  }
  const RunStatus status = look_at(store, run);
  if (line.json)
    print_json(status_json(status, line.failed));
  else
    print(status_text(status, line.failed, out_style(line)));
  return pipeline::kRunDone;
}

namespace {

/// Logs of the selected tasks, from the newest run in which one of them has started.
struct FoundLogs {
  std::string pipeline;  ///< whose runs were read; empty for any
  std::string run;
  std::vector<TaskStatus> tasks;
  std::vector<std::pair<std::string, fs::path>> job_logs;  ///< of tasks that no stage was started for, by task
  std::vector<std::string> stages, ids;                    ///< of all runs that were read, for suggestions
  std::set<std::string> selecting;                         ///< words that name a task, with a log or without
  std::set<std::string> words;                             ///< words that name one of the logs
};

void look_into_run(const pipeline::Store& store, const RunStatus& status, const std::vector<std::string>& words,
                   FoundLogs& found) {
  std::optional<pipeline::Submission> submission;
  for (const TaskStatus& task : status.tasks) {
    const auto name = pipeline::parse_task_id(task.id);
    std::set<std::string> selecting;
    for (const std::string& word : words) {
      if (word == task.id || (name && pipeline::matches(*name, word))) selecting.insert(word);
    }
    const bool selected = !selecting.empty();
    found.selecting.insert(selecting.begin(), selecting.end());
    std::vector<std::string>&stages = found.stages, &ids = found.ids;
    if (std::find(stages.begin(), stages.end(), task.stage) == stages.end()) stages.push_back(task.stage);
    if (ids.size() < 1000 && std::find(ids.begin(), ids.end(), task.id) == ids.end()) ids.push_back(task.id);
    if (selected && !store.attempts(task.plan_key).empty()) {
      found.tasks.push_back(task);
      found.words.merge(selecting);
    } else if (selected && !status.cluster.empty()) {
      if (!submission) submission = pipeline::read_submission(store, status.run_id);
      const fs::path log = submission ? pipeline::job_log(store, *submission, task.plan_key) : fs::path();
      if (log.empty()) continue;
      found.job_logs.emplace_back(task.id, log);
      found.words.merge(selecting);
    }
  }
}

FoundLogs find_logs(const pipeline::Store& store, const cli::CommandLine& line) {
  std::vector<std::string> runs;
  if (!line.run.empty()) {
    runs = {pick_run(store, line.run, line.file)};
  } else {
    runs = store.runs();
    std::reverse(runs.begin(), runs.end());
    if (runs.empty()) pick_run(store, "", line.file);
  }
  FoundLogs found;
  found.pipeline = line.run.empty() ? pipeline_in(store, line.file) : "";
  for (const std::string& run : runs) {
    const std::optional<RunStatus> status = line.run.empty() ? read_or_say(store, run) : pipeline::read_run(store, run);
    if (!status || (!found.pipeline.empty() && status->pipeline != found.pipeline)) continue;
    look_into_run(store, *status, line.words, found);
    found.run = run;
    if (!found.tasks.empty() || !found.job_logs.empty()) break;
  }
  if (found.run.empty()) pick_run(store, "", line.file);  // no run is of that pipeline: it says so
  return found;
}

[[noreturn]] void throw_no_log(const std::string& word, const FoundLogs& found) {
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::string label = word.substr(0, word.find('['));
  const bool exists = has(found.stages, label);
  throw ConfigError(cat("no run", found.pipeline.empty() ? "" : " of pipeline " + quote(found.pipeline),
                        " has a log of ", quote(word)),
                    {},
                    exists && has(found.ids, word)
                        ? std::string("it has not started; `pe-pipeline status` says why")
                        : support::suggestion(exists ? word : label, exists ? found.ids : found.stages));
}

/// A terminal gets no control characters of a stage.
void print_log(std::string_view piece) {
  print(::isatty(1) == 1 ? cli::harmless(std::string(piece)) : std::string(piece));
}

void print_job_logs(const FoundLogs& found, const cli::CommandLine& line) {
  std::set<fs::path> printed;  // a pack has one
  for (const auto& [task, log] : found.job_logs) {
    if (!printed.insert(log).second) continue;
    std::error_code error;
    const bool empty = fs::file_size(log, error) == 0 && !error;
    print(cat(out_style(line).bold(cat("== job ", log.filename().string())),
              empty ? "  has printed nothing; `pe-pipeline status` says how it ended" : "", "\n"));
    read_log(log, line.tail, print_log);
  }
}

/// The folder of the last attempt, of the one that --attempt names, or with --run of the last one in that run.
fs::path attempt_folder(const pipeline::Store& store, const TaskStatus& task, const cli::CommandLine& line) {
  const auto attempts = store.attempts(task.plan_key);
  if (!line.attempt) {
    const auto of_run = line.run.empty() || task.log.empty()
                            ? attempts.end()
                            : std::find(attempts.begin(), attempts.end(), (store.root() / task.log).parent_path());
    return of_run == attempts.end() ? attempts.back() : *of_run;
  }
  const auto chosen = std::find_if(attempts.begin(), attempts.end(), [&](const fs::path& path) {
    return std::stoll(path.filename().string().substr(1)) == *line.attempt;
  });
  if (chosen == attempts.end()) {
    throw ConfigError(cat(quote(task.id), " has no attempt ", *line.attempt), {"--attempt", 0, 0, "", 1},
                      cat("it has ", counted(attempts.size(), "attempt")));
  }
  return *chosen;
}

/// Prints the log of an attempt from byte `at` on as the stage writes it, then the logs of later attempts, until the
/// run ends.
void follow_log(const pipeline::Store& store, const TaskStatus& task, const std::string& run, fs::path folder,
                std::uint64_t at) {
  while (true) {
    std::fflush(stdout);
    // Both are read before the log, so its last lines are printed.
    const bool ended = pipeline::read_run(store, run).state != "running";
    const auto attempts = store.attempts(task.plan_key);
    at = read_log_from(folder / "stage.log", at, print_log);
    const auto here = std::find(attempts.begin(), attempts.end(), folder);
    if (here != attempts.end() && here + 1 != attempts.end()) {
      folder = *(here + 1);
      at = 0;
      print(cat("== attempt ", folder.filename().string(), "\n"));
      continue;
    }
    if (ended) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

}  // namespace

int logs_command(const cli::CommandLine& given) {
  cli::CommandLine line = given;
  const pipeline::Store store = open_for_reading(store_path_for(line));
  if (line.words.empty())
    throw ConfigError("no task is selected", {"pe-pipeline logs", 0, 0, "", 1},
                      "as in: pe-pipeline logs 'trunk[seed=42]'");
  const FoundLogs found = find_logs(store, line);
  for (const std::string& word : line.words) {
    if (found.words.contains(word)) continue;
    if (found.words.empty() || !found.selecting.contains(word)) throw_no_log(word, found);
    say(cat("pe-pipeline: warning: ", quote(word), " has no log yet\n"));
  }
  const bool several = found.tasks.size() > 1;
  if (line.follow && several)
    throw ConfigError("--follow shows one log; the selection names several", {"--follow", 0, 0, "", 1});
  if (line.follow && line.json)
    throw ConfigError("--follow prints text, so --json has no effect", {"--follow", 0, 0, "", 1});
  std::vector<fs::path> folders;  // before anything is printed
  for (const TaskStatus& task : found.tasks) folders.push_back(attempt_folder(store, task, line));
  Json answers = Json::array();
  std::uint64_t printed = 0;  // bytes of the last log
  for (std::size_t i = 0; i < found.tasks.size(); ++i) {
    const TaskStatus& task = found.tasks[i];
    const fs::path& folder = folders[i];
    const fs::path log = folder / "stage.log";
    if (line.json) {
      answers.push_back({{"task", task.id},
                         {"attempt", folder.filename().string()},
                         {"path", log.string()},
                         {"text", log_text(log, line.tail, kMostLogInJson)}});
      continue;
    }
    if (several) print(cat(out_style(line).bold(cat("== ", task.id, " ", folder.filename().string())), "\n"));
    char last = '\n';
    printed = read_log(log, line.tail, [&](std::string_view piece) {
      print_log(piece);
      last = piece.back();
    });
    if (several && last != '\n') print("\n");
  }
  for (const auto& [task, log] : found.job_logs) {
    if (line.json)
      answers.push_back({{"task", task},
                         {"attempt", nullptr},
                         {"path", log.string()},
                         {"text", log_text(log, line.tail, kMostLogInJson)}});
  }
  if (line.json) {
    print_json({{"schema", "pe-logs/1"}, {"schema_version", 1}, {"run", found.run}, {"logs", std::move(answers)}});
    return pipeline::kRunDone;
  }
  print_job_logs(found, line);
  if (!line.follow || found.tasks.empty()) return pipeline::kRunDone;
  follow_log(store, found.tasks.front(), found.run, folders.front(), printed);
  return pipeline::kRunDone;
}

}  // namespace pe::commands
