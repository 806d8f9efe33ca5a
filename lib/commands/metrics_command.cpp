// pe-pipeline metrics: where the curves of a run are, and the Python module that sends them to a tracker.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "commands/commands.h"
#include "commands/run_choice.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/environment.h"
#include "support/error.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using support::cat;
using support::ConfigError;
using support::quote;

/// The metrics artifact of a finished training, the newest snapshot's of a trajectory; empty when its bytes are not
/// here.
fs::path metrics_artifact(const pipeline::Store& store, const std::string& key) {
  if (key.empty()) return {};
  const std::vector<std::int64_t> steps = store.steps(key);
  const auto result = store.find({key, steps.empty() ? -1 : steps.back()});
  if (!result) return {};
  for (const pipeline::OutputRecord& output : result->outputs) {
    if (output.kind == "metrics" && store.has_object(output.object)) return store.object_path(output.object);
  }
  return {};
}

Json sources(const pipeline::Store& store, const pipeline::RunStatus& status, const std::vector<std::string>& words) {
  const std::set<std::string> keys = selected_keys(status, words, "metrics");
  Json tasks = Json::array();
  for (const pipeline::TaskStatus& task : status.tasks) {
    if (!keys.empty() && keys.count(task.plan_key) == 0) continue;
    Json source{{"id", task.id}, {"stage", task.stage}, {"phase", task.phase}, {"task_key", task.task_key}};
    source["work"] = store.work_folder(task.plan_key).string();
    if (const fs::path artifact = metrics_artifact(store, task.task_key); !artifact.empty())
      source["artifact"] = artifact.string();
    tasks.push_back(std::move(source));
  }
  return {{"schema", "pe-metrics/1"},    {"schema_version", 1},   {"run", status.run_id},
          {"pipeline", status.pipeline}, {"state", status.state}, {"tasks", std::move(tasks)}};
}

/// The folder that holds the Python module: tools/ of the clone or of an installation, site-packages of a wheel.
fs::path module_folder() {
  for (const fs::path& folder :
       {pipeline::shipped_folder() / "tools", support::own_executable().parent_path() / "../.."}) {
    std::error_code error;
    if (fs::is_regular_file(folder / "pe_pipeline/metrics.py", error)) return folder.lexically_normal();
  }
  throw ConfigError("the Python module pe_pipeline that comes with pe-pipeline is not next to it",
                    {"pe-pipeline metrics", 0, 0, "", 1}, "install it whole (`meson install`), or use its clone");
}

/// Replaces this process by the module, which asks for `--json` itself, as often as it needs to.
[[noreturn]] void become_python(const pipeline::Store& store, const std::string& run, const cli::CommandLine& line) {
  const std::string chosen = support::variable("PE_PYTHON"), python = chosen.empty() ? "python3" : chosen;
  const auto program = support::find_program(python);
  if (!program) {
    throw ConfigError(cat("the program ", quote(python), " is not on the PATH: metrics are sent by Python"),
                      {"pe-pipeline metrics", 0, 0, "", 1}, "install Python 3, or name it in PE_PYTHON");
  }
  const std::string before = support::variable("PYTHONPATH");
  const std::string path = module_folder().string() + (before.empty() ? "" : ":" + before);
  ::setenv("PYTHONPATH", path.c_str(), 1);
  std::vector<std::string> words{program->string(),
                                 "-m",
                                 "pe_pipeline.metrics",
                                 "--program",
                                 support::own_executable().string(),
                                 "--store",
                                 store.root().string(),
                                 "--run",
                                 run,
                                 "--to",
                                 line.to};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("--out", line.out);
  add("--project", line.project);
  if (line.follow) words.insert(words.end(), {"--follow", "--every", support::shortest(line.every_s)});
  words.push_back("--");
  words.insert(words.end(), line.words.begin(), line.words.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  support::throw_errno("start", program->string());
}

}  // namespace

int metrics_command(const cli::CommandLine& given) {
  cli::CommandLine line = given;
  const pipeline::Store store = open_for_reading(store_path_for(line));
  const auto named = take_first_run(store, line);
  const std::string run = named ? *named : pick_run(store, "", line.file);
  pipeline::RunStatus status = pipeline::read_run(store, run);
  pipeline::Slurm slurm;
  if (!status.cluster.empty()) pipeline::add_jobs(status, store, slurm);
  const Json found = sources(store, status, line.words);
  if (!line.json) become_python(store, run, line);
  print_json(found);
  return pipeline::kRunDone;
}

}  // namespace pe::commands
