#include "commands/run_choice.h"

#include <algorithm>
#include <vector>

#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"
#include "support/json_fields.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {

using support::cat;
using support::ConfigError;
using support::quote;

namespace {

void say_left_out(const std::string& run, const support::ArtifactError& error) {
  say(cat("pe-pipeline: warning: run ", run, " is left out: ", error.diagnostics().front().message, "\n"));
}

/// The pipeline of a run, as its plan names it. Nothing when the plan is damaged, which is said.
std::optional<std::string> pipeline_of(const pipeline::Store& store, const std::string& run) {
  try {
    const Json plan = pipeline::read_plan(store.runs_folder() / run, [](const Json&) {});
    return support::text_in(plan, "pipeline");
  } catch (const support::ArtifactError& error) {
    say_left_out(run, error);
    return std::nullopt;
  }
}

/// The pipeline of the newest run of this file, by its path; nothing when no run is of it.
std::optional<std::string> pipeline_that_ran(const pipeline::Store& store, const std::string& file) {
  const std::vector<std::string> runs = store.runs();
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    try {
      const Json plan = pipeline::read_plan(store.runs_folder() / *run, [](const Json&) {});
      std::error_code error;  // of a file that is gone
      const fs::path ran = fs::path(support::text_in(plan, "root")) / support::text_in(plan, "file");
      if (fs::equivalent(ran, file, error)) return support::text_in(plan, "pipeline");
    } catch (const support::ArtifactError&) {
      continue;  // a damaged plan has a warning of `pipeline_of`
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> run_called(const pipeline::Store& store, const std::string& word, const std::string& flag) {
  constexpr std::size_t kShortest = 4;
  std::vector<std::string> found;
  for (const std::string& run : store.runs(pipeline::ClosedRuns::kIncluded)) {
    if (run == word) return run;
    if (word.size() >= kShortest && run.rfind(word, 0) == 0) found.push_back(run);
  }
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return found.front();
  const std::size_t more = found.size() - std::min<std::size_t>(found.size(), 5);
  std::vector<std::string> newest(found.begin() + static_cast<std::ptrdiff_t>(more), found.end());
  throw ConfigError(cat(quote(word), " matches ", found.size(), " runs"), {flag, 0, 0, "", 1},
                    cat("give more of it: ", support::join(newest, ", "), more > 0 ? ", …" : ""));
}

std::string pipeline_in(const pipeline::Store& store, const std::string& file) {
  if (file.empty()) return "";
  try {
    return pipeline::read_pipeline_file(file).name;
  } catch (const ConfigError& error) {
    const auto name = pipeline_that_ran(store, file);
    if (!name) throw;
    const support::Diagnostic& first = error.diagnostics().front();
    say(cat("pe-pipeline: warning: ", first.place.str(), ": ", first.message, "; it ran as ", quote(*name), "\n"));
    return *name;
  }
}

std::string newest_run(const pipeline::Store& store, const std::vector<std::string>& runs, const std::string& file,
                       const std::string& kind) {
  if (file.empty()) return runs.back();
  const std::string name = pipeline_in(store, file);
  std::string other;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    const auto owner = pipeline_of(store, *run);
    if (owner == name) return *run;
    if (owner && other.empty()) other = cat("; ", quote(*owner), " has ", *run);
  }
  throw ConfigError(cat("pipeline ", quote(name), " has no ", kind, other), {file, 0, 0, "", 1});
}

std::string pick_run(const pipeline::Store& store, const std::string& wanted, const std::string& file,
                     const std::string& flag) {
  const std::vector<std::string> runs = store.runs();
  if (runs.empty()) require_store(store.root());
  if (runs.empty())
    throw ConfigError(cat("the store ", quote(store.root().string()), " has no runs"), {},
                      "name another with --store, or run a pipeline first");
  if (wanted.empty() || wanted == "latest") return newest_run(store, runs, file, "run");
  if (const auto run = run_called(store, wanted, flag)) return *run;
  const std::string near = support::did_you_mean(wanted, runs);
  throw ConfigError(cat("there is no run ", quote(wanted)), {flag, 0, 0, "", 1},
                    near.empty() ? cat("the newest is ", runs.back(), "; `list runs` shows all") : near);
}

std::string take_run(const pipeline::Store& store, const cli::CommandLine& line) {
  const std::size_t room = line.run.empty() ? 1 : 0;
  if (line.words.size() > room) {
    throw ConfigError(cat("unexpected word ", quote(line.words[room])), {"pe-pipeline " + line.verb, 0, 0, "", 1},
                      "one run at a time, or a pipeline file (ending in .yml) and a run");
  }
  const bool by_word = line.run.empty() && !line.words.empty();
  return pick_run(store, by_word ? line.words.front() : line.run, line.file,
                  by_word ? "pe-pipeline " + line.verb : "--run");
}

std::optional<std::string> take_first_run(const pipeline::Store& store, cli::CommandLine& line) {
  if (!line.run.empty()) return pick_run(store, line.run, line.file);
  if (line.words.empty()) return std::nullopt;
  const auto run = run_called(store, line.words.front(), "pe-pipeline " + line.verb);
  if (run) line.words.erase(line.words.begin());
  return run;
}

std::set<std::string> selected_keys(const pipeline::RunStatus& status, const std::vector<std::string>& words,
                                    const std::string& verb) {
  std::set<std::string> keys, known;
  for (const std::string& word : words) {
    bool found = false;
    for (const auto& task : status.tasks) {
      const auto name = pipeline::parse_task_id(task.id);
      if (word != task.id && !(name && pipeline::matches(*name, word))) continue;
      keys.insert(task.plan_key);
      found = true;
    }
    if (found) continue;
    for (const auto& task : status.tasks) known.insert(word.find('[') == std::string::npos ? task.stage : task.id);
    throw ConfigError(cat("run ", status.run_id, " has no task ", quote(word)), {"pe-pipeline " + verb, 0, 0, "", 1},
                      support::suggestion(word, {known.begin(), known.end()}));
  }
  return keys;
}

std::optional<pipeline::RunStatus> read_or_say(const pipeline::Store& store, const std::string& run) {
  try {
    return pipeline::read_run(store, run);
  } catch (const support::ArtifactError& error) {
    say_left_out(run, error);
    return std::nullopt;
  }
}

}  // namespace pe::commands
