#include <unistd.h>

#include <map>
#include <string>
#include <utility>

#include "cli/terminal.h"
#include "commands/commands.h"
#include "commands/planned.h"
#include "commands/run_choice.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::commands {

using pipeline::Against;
using pipeline::Explanation;
using pipeline::Graph;
using pipeline::PastTask;
using pipeline::PlannedTask;
using pipeline::Task;
using pipeline::TaskState;
using support::cat;
using support::ConfigError;
using support::quote;

namespace {

const support::Place kFlag{"--against", 0, 0, "", 1};

PastTask past_of(const pipeline::Record& record) {
  const Json& occasion = record.occasion;
  return pipeline::make_past_task(record.key, record.stage, record.task,
                                  occasion.is_object() ? occasion.value("ended", std::string()) : "", record.preimage);
}

std::string git(const fs::path& folder, std::vector<std::string> arguments, const std::string& what) {
  arguments.insert(arguments.begin(), {"git", "-C", folder.string()});
  const auto answer = support::capture(arguments);
  if (answer.status.code != 0) {
    std::string why(support::trim(answer.err));
    throw ConfigError(cat("git knows no ", what), kFlag, why.substr(0, why.find('\n')));
  }
  return std::string(support::trim(answer.out));
}

/// The graph of a pipeline file. With a revision, git's copies of it and of the configs next to it are read in a folder
/// of the same shape. Files that configs name are always today's files: git does not hold them.
Graph graph_of_file(const cli::CommandLine& line, const fs::path& store, const std::string& file,
                    const std::string& revision) {
  cli::CommandLine plain = line;
  plain.set.clear();  // the earlier side is the file without changes by flags
  plain.axis.clear();
  if (revision.empty()) return load(plain, file, store).graph;
  if (!support::find_program("git")) throw ConfigError("FILE@REV needs git, which is not on the PATH", kFlag);
  const fs::path absolute = fs::absolute(file).lexically_normal();
  const fs::path root = pipeline::find_root(absolute);
  const fs::path top = git(root, {"rev-parse", "--show-toplevel"}, cat("repository at ", quote(root.string())));
  const std::string commit =
      git(top, {"rev-parse", "--verify", "--quiet", revision + "^{commit}"}, cat("revision ", quote(revision)));
  const std::string name = absolute.lexically_relative(top).string();
  const std::string folder = root.lexically_relative(top).string();
  const auto scratch = support::ScratchFolder::temporary("pe-against");
  const fs::path archive = scratch.path() / "then.tar";
  std::vector<std::string> wanted{name};
  const std::string configs = folder == "." ? "configs" : folder + "/configs";
  const std::string listed = git(top, {"ls-tree", "-d", "--name-only", commit, configs}, configs);
  if (!listed.empty()) wanted.push_back(configs);
  std::vector<std::string> command{"archive", "--format=tar", "-o", archive.string(), commit, "--"};
  command.insert(command.end(), wanted.begin(), wanted.end());
  git(top, command, cat(quote(name), " in ", revision));
  const auto unpacked = support::capture({"tar", "-xf", archive.string(), "-C", scratch.path().string()});
  if (unpacked.status.code != 0) throw support::IoError(cat("tar: ", support::trim(unpacked.err)));
  pipeline::StageCatalog catalog = stage_catalog();
  pipeline::ExpandOptions options = expand_options(plain);
  Graph graph = pipeline::expand(pipeline::read_pipeline_file(scratch.path() / name), catalog, options);
  const std::string then = (scratch.path() / folder).lexically_normal().string();
  for (Task& task : graph.tasks) {
    for (auto& external : task.externals) {
      for (std::string& path : external.paths) {
        if (path.rfind(then, 0) == 0)
          path = (root / fs::path(path).lexically_relative(then)).lexically_normal().string();
      }
    }
  }
  pipeline::StampMemo memo = pipeline::StampMemo::of_inputs(store);
  pipeline::hash_externals(graph, memo);
  return graph;
}

Against against_graph(const Graph& before, const Graph& now, const std::vector<std::size_t>& tasks) {
  std::map<std::string, const Task*> by_id;
  for (const Task& task : before.tasks) by_id[task.id] = &task;
  Against against;
  for (const std::size_t i : tasks) {
    const auto found = by_id.find(now.tasks[i].id);
    if (found == by_id.end()) continue;
    against[i] = pipeline::make_past_task({}, found->second->stage->name, found->second->id, "",
                                          pipeline::task_preimage(before, *found->second, {}));
  }
  return against;
}

/// The earlier side of each of `tasks`: in a run (its id, or the beginning of it), a result (the beginning of its key)
/// or a pipeline file. FILE@REV is a pipeline file at a revision of git, and @REV the same file. Tasks that it lacks
/// are left out.
/// @throws ConfigError when none of these exists, with the newest runs.
Against find_against(const cli::CommandLine& line, const PlannedPipeline& planned,
                     const std::vector<std::size_t>& tasks) {
  const std::string& text = line.against;
  const Graph& graph = planned.loaded.graph;
  const pipeline::Store& store = planned.store;
  const auto at = text.rfind('@');
  const std::string file = text.substr(0, at);
  const bool names_file = !file.empty() && fs::is_regular_file(file);
  if (at != std::string::npos && at + 1 < text.size() && (file.empty() || names_file)) {
    return against_graph(
        graph_of_file(line, store.root(), file.empty() ? pipeline_file_of(line) : file, text.substr(at + 1)), graph,
        tasks);
  }
  if (at == std::string::npos && names_file)
    return against_graph(graph_of_file(line, store.root(), file, ""), graph, tasks);

  const auto run = run_called(store, text, "--against");
  Against against;
  if (run) {
    std::map<std::string, std::string> keys;
    for (const auto& task : pipeline::read_run(store, *run).tasks) keys[task.id] = task.task_key;
    for (const std::size_t i : tasks) {
      const auto found = keys.find(graph.tasks[i].id);
      if (found == keys.end() || found->second.empty()) continue;
      std::optional<pipeline::Record> record = store.read({found->second, -1}, true);
      const auto steps = record ? std::vector<std::int64_t>() : store.steps(found->second);
      if (!record && !steps.empty()) record = store.read({found->second, steps.back()}, true);
      if (!record) continue;
      PastTask past = past_of(*record);
      struct OwnedTexts {
        std::string run;
        std::shared_ptr<const void> rest;
      };
      auto named = std::make_shared<OwnedTexts>(OwnedTexts{*run, past.owner});
      past.run = named->run;
      past.owner = std::move(named);
      against[i] = std::move(past);
    }
    if (against.empty()) throw ConfigError(cat("run ", *run, " has a result of none of these tasks"), kFlag);
    return against;
  }
  const auto keys = text.size() >= 4 ? store.matching(text) : std::vector<pipeline::ResultKey>();
  for (const pipeline::ResultKey& key : keys) {
    const auto record = store.read(key, true);
    if (!record) continue;
    for (const std::size_t i : tasks) {
      if (graph.tasks[i].stage->name == record->stage) against[i] = past_of(*record);
    }
  }
  if (!against.empty()) return against;
  if (!keys.empty())
    throw ConfigError(cat("result ", keys[0].short_name(), " is of another stage than these tasks"), kFlag);
  const std::vector<std::string> runs = store.runs();
  std::vector<std::string> newest(runs.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(runs.size(), 3)),
                                  runs.end());
  throw ConfigError(
      cat("no run, result or pipeline file ", quote(text)), kFlag,
      newest.empty() ? "the store has no runs" : cat("the newest runs are ", support::join(newest, ", ")));
}

/// Where a result comes from that is reused, or that is known and not here.
std::string origin_text(const PlannedPipeline& planned, const PlannedTask& task) {
  if (task.state != TaskState::kReuse && task.reason_kind != pipeline::ReasonKind::kBytesWanted) return "";
  const std::int64_t step = task.snapshots.empty() ? -1 : task.snapshots.back().step;
  const auto record = planned.store.read({task.task_key, step});
  return record ? origin_of(*record) : "";
}

Json explanation_json(const PlannedPipeline& planned, const Explanation& explanation) {
  const Graph& graph = planned.loaded.graph;
  Json json = task_json(graph, planned.plan, explanation.task);
  json["causes"] = Json::array();
  for (const auto& cause : explanation.causes) {
    json["causes"].push_back({{"what", cause.what},
                              {"before", cause.before},
                              {"after", cause.after},
                              {"text", cause.str()},
                              {"place", place_text(cause.place)}});
  }
  json["against"] = explanation.against;
  json["against_id"] = explanation.against_id;
  json["against_run"] = explanation.against_run;
  json["origin"] = origin_text(planned, planned.plan.tasks[explanation.task]);
  json["follows"] = Json::array();
  for (const std::size_t producer : explanation.follows) json["follows"].push_back(graph.tasks[producer].id);
  return json;
}

/// `asked` for a comparison with an earlier run.
std::string explanation_text(const PlannedPipeline& planned, const Explanation& explanation, bool asked,
                             const cli::Style& style) {
  const Graph& graph = planned.loaded.graph;
  const PlannedTask& task = planned.plan.tasks[explanation.task];
  std::string out = cat(style.bold(graph.tasks[explanation.task].id), "  ", state_name(task.state), ": ",
                        cli::harmless(task.reason), "\n");
  if (!task.task_key.empty())
    out += cat("  key      ", task.task_key.substr(0, 12), task.key_is_exact ? "" : " (if its inputs stay the same)",
               "\n");
  if (const std::string from = origin_text(planned, task); !from.empty())
    out += cat("  origin   ", cli::harmless(from), "\n");
  if (!explanation.against_id.empty()) {
    out +=
        cat("  against  ", explanation.against.substr(0, 12), explanation.against.empty() ? "" : "  ",
            explanation.against_id, explanation.against_run.empty() ? "" : "  of run " + explanation.against_run, "\n");
  }
  for (const auto& cause : explanation.causes) {
    if (task.state == TaskState::kReuse && !asked) break;  // said above
    out += cat("  cause    ", cli::harmless(cause.str()),
               cause.place.file.empty() ? "" : "  " + style.dim(place_text(cause.place)), "\n");
  }
  std::size_t followed = 0;
  for (const std::size_t producer : explanation.follows) {
    if (++followed > 5) {
      out += cat("  follows  and ", explanation.follows.size() - 5, " more\n");
      break;
    }
    out += cat("  follows  ", graph.tasks[producer].id, "\n");
  }
  return out;
}

}  // namespace

int explain_command(const cli::CommandLine& line) {
  const std::vector<std::string> selectors = selectors_of(line);
  const PlannedPipeline planned = make_planned(line, selectors);
  const Graph& graph = planned.loaded.graph;
  const pipeline::StoreReader reader(planned.store);
  const std::vector<bool> selected = pipeline::select(graph, selectors);
  const cli::Style style = out_style(line);
  const std::size_t most = line.all || line.json ? graph.tasks.size() : 20;
  std::vector<std::size_t> tasks;
  std::size_t left = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!selected[i]) continue;
    if (tasks.size() == most)
      ++left;
    else
      tasks.push_back(i);
  }
  Against against;
  if (!line.against.empty()) against = find_against(line, planned, tasks);
  const bool asked = !line.against.empty();
  Json answers = Json::array();
  for (const auto& explanation : pipeline::explain_all(graph, planned.plan, reader, tasks, against)) {
    if (line.json)
      answers.push_back(explanation_json(planned, explanation));
    else
      print(explanation_text(planned, explanation, asked, style));
  }
  if (line.json)
    print_json(
        {{"schema", "pe-explain/1"}, {"schema_version", 1}, {"pipeline", graph.name}, {"tasks", std::move(answers)}});
  else if (left)
    print(cat("and ", counted(left, "more task"), "; --all shows them\n"));
  return pipeline::kRunDone;
}

}  // namespace pe::commands
