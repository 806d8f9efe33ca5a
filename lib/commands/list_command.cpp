#include <unistd.h>

#include <algorithm>

#include "cli/terminal.h"
#include "commands/commands.h"
#include "commands/encodings_command.h"
#include "commands/run_choice.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/config.h"
#include "support/error.h"
#include "support/files.h"
#include "support/process.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::Graph;
using pipeline::Store;
using support::cat;
using support::ConfigError;
using support::quote;

Json header(const char* schema) { return {{"schema", schema}, {"schema_version", 1}}; }

int list_programs(const cli::CommandLine& line) {
  pipeline::StageCatalog catalog = stage_catalog();
  Json json = header("pe-list-stages/1");
  json["stages"] = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : stage_programs()) {
    try {
      const auto stage = catalog.find(name, fs::current_path(), {});
      rows.push_back({name, cat("version ", stage->version), stage->summary});
      json["stages"].push_back({{"program", name},
                                {"version", stage->version},
                                {"summary", stage->summary},
                                {"inputs", stage->input_names()},
                                {"outputs", stage->output_names()}});
    } catch (const ConfigError&) {
      // A program of another kind, such as a test's.
    }
  }
  if (line.json)
    print_json(json);
  else
    print(rows.empty() ? "no stage programs next to pe-pipeline\n" : table(rows));
  return pipeline::kRunDone;
}

/// A store that is not there has nothing, too; the answer says so, since its name may be misspelt.
std::string nothing_in(const Store& store, const std::string& what) {
  if (support::is_there(store.root() / "VERSION")) return cat("no ", what, "\n");
  return cat("no ", what, ": there is no store at ", support::quote(store.root().string()), "\n");
}

int list_runs(cli::CommandLine line) {
  const Store store = open_for_reading(store_path_for(line));
  if (!line.words.empty())
    throw ConfigError(cat("list runs takes no ", quote(line.words.front())), {"pe-pipeline list runs", 0, 0, "", 1},
                      "at most a pipeline file (ending in .yml)");
  const std::string wanted = pipeline_in(store, line.file);
  Json json = header("pe-list-runs/1");
  json["runs"] = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const std::string& run : store.runs()) {
    const auto read = read_or_say(store, run);
    if (!read || (!wanted.empty() && read->pipeline != wanted)) continue;
    pipeline::RunStatus status = *read;
    // Slurm is not asked for each of them; `status` does that.
    if (!status.cluster.empty() && status.state == "running") status.state = "submitted";
    json["runs"].push_back({{"run", run},
                            {"pipeline", status.pipeline},
                            {"state", status.state},
                            {"exit_code", status.exit_code},
                            {"started", status.started},
                            {"ended", status.ended},
                            {"tasks", status.tasks.size()}});
    rows.push_back({run, status.pipeline, status.state, counted(status.tasks.size(), "task"),
                    status.ended > 0 ? support::short_duration(status.ended - status.started) : ""});
  }
  if (line.json)
    print_json(json);
  else
    print(rows.empty() ? nothing_in(store, "runs") : table(rows));
  return pipeline::kRunDone;
}

/// Every record of the store.
int list_records(cli::CommandLine line, const fs::path& store_folder) {
  const Store store = open_for_reading(store_folder);
  Json json = header("pe-list-artifacts/1");
  json["artifacts"] = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const auto& key : store.keys()) {
    const auto record = store.read(key, true);
    if (!record) continue;  // a warning names it
    for (const auto& output : record->outputs) {
      json["artifacts"].push_back({{"task", record->task},
                                   {"key", key.key},
                                   {"step", key.step},
                                   {"role", output.role},
                                   {"kind", output.kind},
                                   {"content", output.content},
                                   {"object", output.object},
                                   {"bytes", output.bytes},
                                   {"status", status_name(record->status)},
                                   {"known", output.absent && !store.has_object(output.object)},
                                   {"path", store.object_path(output.object).string()}});
      rows.push_back({key.short_name(), cat(record->task, ".", output.role), output.kind,
                      support::short_bytes(static_cast<double>(output.bytes)), output.content.substr(0, 12),
                      output.absent && !store.has_object(output.object) ? "known, not here" : ""});
    }
  }
  print_warnings(store);
  if (line.json)
    print_json(json);
  else
    print(rows.empty() ? nothing_in(store, "artifacts") : table(rows));
  return pipeline::kRunDone;
}

int list_stages(const cli::CommandLine& line, const Graph& graph, const std::vector<bool>& selected) {
  Json json = header("pe-list-stages/1");
  json["stages"] = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const std::string& label : graph.stage_labels) {
    std::size_t count = 0;
    const pipeline::Task* first = nullptr;
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      if (graph.tasks[i].label != label || !selected[i]) continue;
      ++count;
      if (!first) first = &graph.tasks[i];
    }
    if (!first) continue;
    std::vector<std::string> axes;
    for (const auto& [axis, value] : first->axes) axes.push_back(axis);
    json["stages"].push_back({{"stage", label},
                              {"program", first->stage->program},
                              {"version", first->stage->version},
                              {"tasks", count},
                              {"axes", axes}});
    rows.push_back({label, first->stage->program, counted(count, "task"),
                    axes.empty() ? "" : cat("over ", support::join(axes, ", "))});
  }
  if (line.json)
    print_json(json);
  else
    print(table(rows));
  return pipeline::kRunDone;
}

int list_tasks(const cli::CommandLine& line, const Store& store, const Graph& graph, const std::vector<bool>& selected,
               const pipeline::Plan& plan) {
  Json json = header("pe-list-tasks/1");
  json["tasks"] = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!selected[i]) continue;
    const pipeline::Task& task = graph.tasks[i];
    const pipeline::PlannedTask& planned = plan.tasks[i];
    json["tasks"].push_back({{"id", task.id},
                             {"stage", task.label},
                             {"state", state_name(planned.state)},
                             {"known_only", planned.any_known()},
                             {"plan_key", task.plan_key},
                             {"task_key", planned.task_key},
                             {"work", store.work_folder(task.plan_key).string()},
                             {"axes", task.axes}});
    rows.push_back({task.id, std::string(state_name(planned.state)), planned.task_key.substr(0, 12),
                    planned.any_known() ? "known, not here" : ""});
  }
  if (line.json)
    print_json(json);
  else
    print(rows.empty() ? "no tasks\n" : table(rows));
  return pipeline::kRunDone;
}

/// The results that the selected tasks have now.
int list_artifacts(const cli::CommandLine& line, const Graph& graph, const std::vector<bool>& selected,
                   const pipeline::Plan& plan, const Store& store) {
  Json json = header("pe-list-artifacts/1");
  json["artifacts"] = Json::array();
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& id, const pipeline::PlannedTask& planned, const auto& part,
                       const std::string& snapshot, std::int64_t step) {
    if (!part.result) return;
    const bool gone = !part.present && !part.known;
    for (const auto& output : part.result->outputs) {
      json["artifacts"].push_back({{"task", id},
                                   {"snapshot", snapshot},
                                   {"key", planned.task_key},
                                   {"step", step},
                                   {"role", output.role},
                                   {"kind", output.kind},
                                   {"content", output.content},
                                   {"object", output.object},
                                   {"bytes", output.bytes},
                                   {"present", !gone && !output.absent},
                                   {"known", output.absent},
                                   {"status", status_name(part.result->status)},
                                   {"path", store.object_path(output.object).string()}});
      rows.push_back({cat(id, snapshot.empty() ? "" : "@" + snapshot, ".", output.role), output.kind,
                      support::short_bytes(static_cast<double>(output.bytes)), output.content.substr(0, 12),
                      output.absent ? "known, not here"
                      : gone        ? "object gone"
                                    : ""});
    }
  };
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!selected[i]) continue;
    const pipeline::PlannedTask& planned = plan.tasks[i];
    add(graph.tasks[i].id, planned, planned, "", -1);
    for (const auto& snapshot : planned.snapshots)
      add(graph.tasks[i].id, planned, snapshot, snapshot.label, snapshot.step);
  }
  if (line.json)
    print_json(json);
  else
    print(rows.empty() ? nothing_in(store, "artifacts") : table(rows));
  return pipeline::kRunDone;
}

}  // namespace

int list_command(const cli::CommandLine& given) {
  cli::CommandLine line = given;
  static const std::vector<std::string> kinds = {"stages", "tasks", "artifacts", "runs", "encodings"};
  if (line.words.empty())
    throw ConfigError("list what?", {"pe-pipeline list", 0, 0, "", 1}, cat("one of ", support::join(kinds, ", ")));
  const std::string kind = line.words.front();
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    throw ConfigError(cat("cannot list ", quote(kind)), {"pe-pipeline list", 0, 0, "", 1},
                      support::suggestion(kind, kinds));
  }
  line.words.erase(line.words.begin());
  line.verb = cat("list ", kind);
  const bool of_file = kind != "runs" && kind != "encodings" && (kind == "tasks" || !line.words.empty());
  const bool may_have_file = kind == "stages" || kind == "artifacts";
  if (!of_file) refuse_reading_flags(line, may_have_file ? hint_to_name_a_file(line) : "list tasks FILE takes it");
  if (!line.store.empty() && (kind == "encodings" || (kind == "stages" && !of_file)))
    throw ConfigError(cat("'pe-pipeline ", line.verb, "' takes no --store"), {"--store", 0, 0, "", 1},
                      "it reads no store");
  if (kind == "runs") return list_runs(line);
  if (kind == "encodings") {
    if (!line.words.empty()) {
      throw ConfigError(cat("list encodings takes no ", quote(line.words.front())), {"pe-pipeline list", 0, 0, "", 1},
                        cat("pe-pipeline show encoding ", line.words.front()));
    }
    return list_encodings(line);
  }
  if (kind == "stages" && !of_file) return list_programs(line);
  if (kind == "artifacts" && !of_file) {
    cli::CommandLine named = line;
    return list_records(line, store_path_for(named));
  }

  const std::string file = pipeline_file_of(line);
  const fs::path store_folder = store_path(line, pipeline::find_root(file));
  const ExpandedPipeline loaded = load(line, file, store_folder);
  const Graph& graph = loaded.graph;
  const std::vector<bool> selected = pipeline::select(graph, selectors_of(line));
  if (kind == "stages") return list_stages(line, graph, selected);
  const Store store = open_for_reading(store_folder);
  print_warnings(store);
  const pipeline::Plan plan = pipeline::make_plan(graph, pipeline::StoreReader(store));
  return kind == "tasks" ? list_tasks(line, store, graph, selected, plan)
                         : list_artifacts(line, graph, selected, plan, store);
}

namespace {

/// Where a value came from: "configs/train.yml:14", "--set model.train.seed", "auto: this machine", "default".
std::string origin_text(const pipeline::Task& task, const std::string& path, const Json& value,
                        const support::Origins& origins) {
  // A value may stand under a longer or shorter name than the leaf: the nearest that is known counts.
  std::string name = path;
  auto found = origins.find(name);
  while (found == origins.end() && name.rfind('.') != std::string::npos) {
    name.erase(name.rfind('.'));
    found = origins.find(name);
  }
  if (found != origins.end()) {
    const support::Place& place = found->second;
    return place.line > 0 && place.file.rfind("--", 0) != 0 ? cat(place.file, ":", place.line) : place.file;
  }
  const support::Field* field = support::find_field(task.stage->fields, path);
  if (!field || field->default_value == value) return "default";
  return path.starts_with("compute.") ? "auto: this machine, or the stage's resources" : "the pipeline file";
}

bool is_default(const pipeline::Task& task, const std::string& path, const Json& value) {
  return support::find_field(task.stage->fields, path)->default_value == value;
}

/// The config without values that are defaults.
Json changed_part(const pipeline::Task& task) {
  Json changed = Json::object();
  for (const std::string& path : support::field_paths(task.stage->fields)) {
    const Json* value = pipeline::find_value(*task.config, path);
    if (!value || is_default(task, path, *value)) continue;
    Json* at = &changed;
    for (const std::string& name : support::split(path, '.')) at = &(*at)[name];
    *at = *value;
  }
  return changed;
}

}  // namespace

int config_command(const cli::CommandLine& line) {
  const std::string file = pipeline_file_of(line);
  const ExpandedPipeline loaded = load(line, file, store_path(line, pipeline::find_root(file)));
  const Graph& graph = loaded.graph;
  const std::vector<bool> selected = pipeline::select(graph, selectors_of(line));
  const cli::Style style = out_style(line);
  const int columns = ::isatty(STDOUT_FILENO) == 1 ? cli::terminal_size(STDOUT_FILENO).columns : 0;
  Json json = header("pe-config/1");
  json["tasks"] = Json::array();
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!selected[i]) continue;
    const pipeline::Task& task = graph.tasks[i];
    const support::Origins origins = line.origin ? graph.origins_of(task) : support::Origins();
    if (line.json) {
      Json item{{"id", task.id}, {"config", line.changed ? changed_part(task) : *task.config}};
      if (line.origin) {
        item["origins"] = Json::object();
        for (const auto& [path, place] : origins)
          item["origins"][path] = place.line > 0 ? cat(place.file, ":", place.line) : place.file;
      }
      json["tasks"].push_back(std::move(item));
      continue;
    }
    std::string out = cat(style.bold(task.id), ":\n");
    for (const std::string& path : support::field_paths(task.stage->fields)) {
      const Json* value = pipeline::find_value(*task.config, path);
      if (!value) continue;
      const std::string from = line.origin ? origin_text(task, path, *value, origins) : "";
      if (line.changed && is_default(task, path, *value)) continue;
      const auto fitted = [&](const std::string& text) {
        return cat(columns > 0 ? cli::fit(text, columns) : text, "\n");
      };
      const std::string setting = cat("  ", path, ": ", support::display(*value)), comment = cat("  # ", from);
      const std::size_t width = support::display_width(setting) + support::display_width(comment);
      if (!line.origin)
        out += fitted(setting);
      else if (columns > 0 && width > static_cast<std::size_t>(columns))  // the origin gets the next line
        out += fitted(setting) + fitted("    " + comment);
      else
        out += fitted(setting + comment);
    }
    print(out);
  }
  if (line.json) print_json(json);
  return pipeline::kRunDone;
}

int forget_command(const cli::CommandLine& line) {
  const std::string file = pipeline_file_of(line);
  const std::vector<std::string> selectors = selectors_of(line);
  if (selectors.empty()) {
    throw ConfigError("forget which tasks?", {"pe-pipeline forget", 0, 0, "", 1},
                      "name them, or '*' for all of this pipeline");
  }
  const fs::path store_folder = store_path(line, pipeline::find_root(file));
  const ExpandedPipeline loaded = load(line, file, store_folder);
  const Graph& graph = loaded.graph;
  const std::vector<bool> selected = pipeline::select(graph, selectors);
  pipeline::StoreOptions options;
  options.create = !line.dry_run;
  options.durable = line.durability != "off";
  Store store(store_folder, options);
  const pipeline::Plan plan = pipeline::make_plan(graph, pipeline::StoreReader(store));
  pipeline::Leases leases(store.leases_folder(), {});
  if (!line.dry_run) {
    pipeline::raise_open_files();  // a lease of each task stays open
    // A run that makes one of these results now would publish it after the drop.
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      if (!selected[i] || plan.tasks[i].task_key.empty()) continue;
      auto answer = leases.acquire(graph.tasks[i].plan_key);
      // Another pipeline may lead to the same result.
      if (answer.acquired) answer = leases.acquire(plan.tasks[i].task_key);
      if (answer.acquired) continue;
      say(cat("pe-pipeline: ", quote(graph.tasks[i].id), " is being worked on by ",
              answer.holder ? answer.holder->describe() : "another run", "; stop it or wait for it first\n"));
      return pipeline::kRunStore;
    }
  }
  Json json = header("pe-forget/1");
  json["dropped"] = Json::array();
  std::string out;
  std::size_t count = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const pipeline::PlannedTask& task = plan.tasks[i];
    if (!selected[i] || task.task_key.empty()) continue;
    const auto drop = [&](const pipeline::ResultKey& key, const std::string& snapshot) {
      if (line.dry_run ? !store.find(key).has_value() : !store.forget(key)) return;
      ++count;
      json["dropped"].push_back(
          {{"task", graph.tasks[i].id}, {"snapshot", snapshot}, {"key", key.key}, {"step", key.step}});
      out += cat(line.dry_run ? "would drop  " : "dropped  ", key.short_name(), "  ", graph.tasks[i].id,
                 snapshot.empty() ? "" : "@" + snapshot, "\n");
    };
    if (task.snapshots.empty()) drop({task.task_key, -1}, "");
    for (const auto& snapshot : task.snapshots) drop({task.task_key, snapshot.step}, snapshot.label);
    // Nor may a training continue from files of earlier attempts: it would only end again immediately.
    if (!line.dry_run && graph.tasks[i].is_trajectory())
      support::remove_tree(store.work_folder(graph.tasks[i].plan_key));
  }
  if (line.json)
    print_json(json);
  else
    print(out + (count ? "" : "nothing to drop\n"));
  return pipeline::kRunDone;
}

}  // namespace pe::commands
