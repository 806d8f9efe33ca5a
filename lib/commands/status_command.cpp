#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <thread>

#include "cli/terminal.h"
#include "commands/commands.h"
#include "commands/display.h"
#include "commands/session.h"
#include "pipeline/exit_code.h"
#include "pipeline/selection.h"
#include "pipeline/status.h"
#include "support/error.h"
#include "support/files.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::RunStatus;
using pipeline::TaskStatus;
using support::cat;
using support::ConfigError;
using support::quote;

std::string pick_run(const pipeline::Store& store, const std::string& wanted) {
  const std::vector<std::string> runs = store.runs();
  if (runs.empty())
    throw ConfigError(cat("the store ", quote(store.root().string()), " has no runs"), {},
                      "name another with --store, or run a pipeline first");
  if (wanted.empty() || wanted == "latest") return runs.back();
  std::vector<std::string> found;
  for (const std::string& run : runs) {
    if (run.rfind(wanted, 0) == 0) found.push_back(run);
  }
  if (found.size() == 1) return found.front();
  if (found.empty())
    throw ConfigError(cat("there is no run ", quote(wanted)), {"--run", 0, 0, "", 1},
                      support::suggestion(wanted, runs));
  throw ConfigError(cat(quote(wanted), " begins the names of ", found.size(), " runs"), {"--run", 0, 0, "", 1},
                    "give more of it");
}

/// A task as selections see it, from its id: "trunk[encoding=rope,seed=42]".
pipeline::Task from_id(const std::string& id) {
  pipeline::Task task;
  task.id = id;
  const auto open = id.find('[');
  task.label = id.substr(0, open);
  if (open == std::string::npos) return task;
  for (const std::string& part : support::split(id.substr(open + 1, id.size() - open - 2), ',')) {
    const auto equals = part.find('=');
    if (equals != std::string::npos) task.axes.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return task;
}

std::string lasted(const TaskStatus& task) {
  return task.started > 0 && task.ended > task.started ? support::short_duration(task.ended - task.started) : "";
}

/// The last `count` lines; all when absent.
std::string tail_of(const std::string& text, std::optional<std::int64_t> count) {
  if (!count) return text;
  std::size_t at = text.size();
  std::int64_t seen = 0;
  while (at > 0) {
    if (text[at - 1] == '\n' && at != text.size() && ++seen == *count) break;
    --at;
  }
  return *count == 0 ? "" : text.substr(at);
}

}  // namespace

int status_command(const cli::CommandLine& given) {
  cli::CommandLine line = given;
  const pipeline::Store store = open_for_reading(store_path_for(line));
  if (!line.words.empty() && line.run.empty()) {
    line.run = line.words.front();
    line.words.erase(line.words.begin());
  }
  if (!line.words.empty())
    throw ConfigError(cat("unexpected word ", quote(line.words.front())), {"pe-pipeline status", 0, 0, "", 1});
  const RunStatus status = pipeline::read_run(store, pick_run(store, line.run));
  if (line.json) {
    Json json = to_json(status);
    if (line.failed) {
      Json kept = Json::array();
      for (Json& task : json["tasks"]) {
        if (task["phase"] == "failed" || task["phase"] == "blocked") kept.push_back(std::move(task));
      }
      json["tasks"] = std::move(kept);
    }
    print_json(json);
    return pipeline::kRunDone;
  }
  const cli::Style style = out_style(line);
  std::map<std::string, std::size_t> counts;
  std::map<std::string, std::map<std::string, std::size_t>> by_stage;
  std::vector<std::string> stages;
  for (const TaskStatus& task : status.tasks) {
    ++counts[task.phase];
    if (!by_stage.count(task.stage)) stages.push_back(task.stage);
    ++by_stage[task.stage][task.phase];
  }
  const std::string state = status.state == "done"                               ? style.good("done")
                            : status.state == "failed" || status.state == "died" ? style.bad(status.state)
                                                                                 : style.warn(status.state);
  print(cat(style.bold(status.pipeline), "  run ", status.run_id, "  ", state,
            status.state == "running" ? cat(" (process ", status.pid, " on ", status.host, ")") : "", "  began ",
            pipeline::utc_text(status.started),
            status.ended > 0 ? cat(", took ", support::short_duration(status.ended - status.started)) : "", "\n"));
  if (!line.failed) {
    std::vector<std::vector<std::string>> rows;
    for (const std::string& stage : stages) {
      std::string text;
      for (const auto& [phase, count] : by_stage[stage]) text += cat(text.empty() ? "" : "  ", count, " ", phase);
      rows.push_back({"  " + stage, text});
    }
    print(table(rows));
  }
  for (const char* phase : {"running", "lost", "failed", "interrupted", "blocked"}) {
    const bool trouble = std::string_view(phase) == "failed" || std::string_view(phase) == "blocked";
    if (line.failed && !trouble) continue;
    std::size_t shown = 0;
    for (const TaskStatus& task : status.tasks) {
      if (task.phase != phase) continue;
      if (++shown > 20 && !line.failed) {
        print(cat("  ", phase, "  and ", counts[phase] - 20, " more\n"));
        break;
      }
      std::string text = cat("  ", trouble ? style.bad(phase) : style.warn(phase), "  ", task.id);
      const std::string progress = render_progress(task.progress);
      if (!progress.empty()) text += "  " + cli::harmless(progress);
      if (!task.reason.empty()) text += "  " + cli::harmless(task.reason);
      if (const std::string time = lasted(task); !time.empty()) text += "  " + time;
      if (trouble && !task.log.empty()) text += cat("\n      log ", task.log);
      print(text + "\n");
    }
  }
  if (status.state == "died")
    print("the process of this run is gone without a word; the same `run` command goes on from here\n");
  if (status.damaged_lines) print(cat(counted(status.damaged_lines, "damaged journal line"), " left out\n"));
  return pipeline::kRunDone;
}

int logs_command(const cli::CommandLine& given) {
  cli::CommandLine line = given;
  const pipeline::Store store = open_for_reading(store_path_for(line));
  if (line.words.empty())
    throw ConfigError("no task is selected", {"pe-pipeline logs", 0, 0, "", 1},
                      "as in: pe-pipeline logs 'trunk[seed=42]'");

  // The newest run in which a selected task has started, unless one is named.
  std::vector<std::string> runs;
  if (!line.run.empty())
    runs = {pick_run(store, line.run)};
  else {
    runs = store.runs();
    std::reverse(runs.begin(), runs.end());
    if (runs.empty()) pick_run(store, "");
  }
  std::vector<TaskStatus> found;
  std::vector<std::string> known;
  std::string run_id;
  for (const std::string& run : runs) {
    const RunStatus status = pipeline::read_run(store, run);
    for (const TaskStatus& task : status.tasks) {
      const pipeline::Task seen = from_id(task.id);
      const bool selected = std::any_of(line.words.begin(), line.words.end(), [&](const std::string& word) {
        return word == task.id || pipeline::matches(seen, word);
      });
      if (std::find(known.begin(), known.end(), task.stage) == known.end()) known.push_back(task.stage);
      if (selected && !store.attempts(task.plan_key).empty()) found.push_back(task);
    }
    run_id = run;
    if (!found.empty()) break;
  }
  if (found.empty()) {
    const std::string& word = line.words.front();
    throw ConfigError(cat("no run has a log of ", quote(word)), {},
                      support::suggestion(word.substr(0, word.find('[')), known));
  }
  Json answers = Json::array();
  for (const TaskStatus& task : found) {
    const auto attempts = store.attempts(task.plan_key);
    fs::path folder = attempts.back();
    if (line.attempt) {
      const auto chosen = std::find_if(attempts.begin(), attempts.end(), [&](const fs::path& path) {
        return std::stoll(path.filename().string().substr(1)) == *line.attempt;
      });
      if (chosen == attempts.end()) {
        throw ConfigError(cat(quote(task.id), " has no attempt ", *line.attempt), {"--attempt", 0, 0, "", 1},
                          cat("it has ", counted(attempts.size(), "attempt")));
      }
      folder = *chosen;
    }
    const fs::path log = folder / "stage.log";
    const std::string text = fs::exists(log) ? tail_of(support::read_file(log), line.tail) : "";
    if (line.json) {
      answers.push_back(
          {{"task", task.id}, {"attempt", folder.filename().string()}, {"path", log.string()}, {"text", text}});
      continue;
    }
    if (found.size() > 1) print(cat(out_style(line).bold(cat("== ", task.id, " ", folder.filename().string())), "\n"));
    print(::isatty(1) == 1 ? cli::harmless(text) : text);
    if (found.size() > 1 && !text.empty() && text.back() != '\n') print("\n");
  }
  if (line.json) {
    print_json({{"schema", "pe-logs/1"}, {"schema_version", 1}, {"run", run_id}, {"logs", std::move(answers)}});
    return pipeline::kRunDone;
  }
  if (!line.follow) return pipeline::kRunDone;
  if (found.size() > 1)
    throw ConfigError("--follow shows one log; the selection names several", {"--follow", 0, 0, "", 1});
  fs::path folder = store.attempts(found.front().plan_key).back();
  std::ifstream file(folder / "stage.log", std::ios::binary);
  file.seekg(0, std::ios::end);
  while (true) {
    std::fflush(stdout);
    std::string more((std::istreambuf_iterator<char>(file)), {});
    if (!more.empty()) print(::isatty(1) == 1 ? cli::harmless(more) : more);
    file.clear();
    const auto newest = store.attempts(found.front().plan_key);
    if (more.empty() && !newest.empty() && newest.back() != folder) {
      folder = newest.back();
      print(cat("== attempt ", folder.filename().string(), "\n"));
      file = std::ifstream(folder / "stage.log", std::ios::binary);
      continue;
    }
    if (more.empty() && pipeline::read_run(store, run_id).state != "running") break;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return pipeline::kRunDone;
}

}  // namespace pe::commands
