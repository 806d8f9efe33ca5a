#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "cli/terminal.h"
#include "commands/chosen_report.h"
#include "commands/commands.h"
#include "commands/display.h"
#include "commands/session.h"
#include "commands/stop_signals.h"
#include "commands/timeline.h"
#include "pipeline/orchestrator.h"
#include "report/text_escape.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/json_fields.h"
#include "support/json_text.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::Store;
using pipeline::StoreReader;
using support::cat;

/// Of each report what it found, as it says itself, and where its page is.
void print_reports(const std::vector<std::string>& reports) {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  for (const std::string& report : reports) {
    for (const std::string& said : pipeline::result_lines(report)) {
      const std::string line = cli::harmless(said);
      print(terminal ? cli::wrapped(line, cli::terminal_size(STDOUT_FILENO).columns, 2, 2) : cat("  ", line, "\n"));
    }
    print(cat("report: ", short_path(pipeline::front_page(report)), "\n"));
  }
}

/// FILE of the command line. The name of a pipeline that comes with the program, such as quickstart, means the file of
/// that name in this folder.
struct FileToRun {
  std::string path;
  fs::path shipped;  ///< to be copied to `path` first; empty: `path` is there
};
FileToRun file_to_run(const cli::CommandLine& line) {
  const std::string word = pipeline_file_of(line);
  if (word.find_first_of("./") != std::string::npos || fs::exists(word)) return {word, {}};
  const fs::path shipped = pipeline::shipped_folder() / "pipelines" / (word + ".yml"), own = word + ".yml";
  if (fs::exists(own)) return {own.string(), {}};
  if (!shipped.is_absolute() || !fs::is_regular_file(shipped)) return {word, {}};
  return {own.string(), shipped};
}

std::string pipeline_file_to_run(const cli::CommandLine& line) {
  const FileToRun file = file_to_run(line);
  if (!file.shipped.empty()) {
    support::write_file_atomically(file.path, support::read_file(file.shipped), false);
    say(cat("pe-pipeline: copied ", file.path, " from the installation\n"));
  }
  return file.path;
}

/// `relinked`: the names in out/ and reports/ that showed another plan until now.
void print_nothing_to_do(const cli::CommandLine& line, const std::string& name, std::size_t tasks,
                         const std::vector<std::string>& reports, const std::string& relinked, double seconds) {
  if (line.progress == "json") {
    pipeline::RunSummary summary;
    summary.reused = tasks;
    summary.reports = reports;
    summary.wall_s = seconds;
    Json end = pipeline::to_json(pipeline::Graph{}, summary);
    end["event"] = "end";
    end["schema_version"] = 1;
    end["time"] = end["ended"];
    end["run"] = nullptr;
    end["pipeline"] = name;
    end["relinked"] = relinked;
    print(support::json_text(end) + "\n");
    return;
  }
  print(cat(name, ": nothing to do, ", tasks == 1 ? "its 1 task is" : cat("all ", counted(tasks, "task"), " are"),
            " in the store (", fmt::format("{:.2f}", seconds), " s)\n"));
  if (!relinked.empty()) print(cat("relinked for this plan: ", relinked, "\n"));
  print_reports(reports);
}

void print_summary(const cli::CommandLine& line, const pipeline::Graph& graph, const pipeline::RunSummary& summary,
                   std::size_t left_out) {
  if (line.progress == "json") return;
  const cli::Style style = out_style(line);
  std::vector<std::string> parts = {cat(summary.executed, " made"), cat(summary.reused, " reused")};
  if (summary.failed) parts.push_back(style.bad(cat(summary.failed, " failed")));
  if (summary.blocked) parts.push_back(style.warn(cat(summary.blocked, " blocked")));
  std::size_t unfinished = 0;
  for (const auto phase : summary.phases) {
    unfinished += phase == pipeline::TaskPhase::kWaiting || phase == pipeline::TaskPhase::kReady ||
                  phase == pipeline::TaskPhase::kInterrupted;
  }
  if (unfinished) parts.push_back(style.warn(cat(unfinished, " unfinished")));
  if (left_out) parts.push_back(style.warn(cat(left_out, " left out")));
  if (summary.conflicts) parts.push_back(style.warn(counted(summary.conflicts, "conflict")));
  print(cat(graph.name, ": ", support::join(parts, ", "), " in ", support::short_duration(summary.wall_s), "  (run ",
            summary.run_id, ")\n"));
  if (!summary.store_error.empty()) print(cat("store: ", summary.store_error, "\n"));
  if (!summary.relinked.empty()) print(cat("relinked: ", summary.relinked, "\n"));
  if (unfinished && summary.exit_code != pipeline::kRunStore) print("the same command continues from here\n");
  print_reports(summary.reports);
}

/// The page of how it went. It can be written again at any time, so a run does not fail for it.
void tell_timeline(const cli::CommandLine& line, const Store& store, const std::string& run_id) {
  try {
    const fs::path page = write_timeline(pipeline::read_timeline(store, run_id));
    if (line.progress != "json") print(cat("timeline: ", short_path(page), "\n"));
  } catch (const support::Error& error) {
    say(cat("pe-pipeline: warning: no timeline: ", error.diagnostics().front().message, "\n"));
  }
}

/// Results that one machine made and that came here the same way.
struct Origin {
  std::size_t results = 0;
  std::set<std::string> runs;
};

/// "on vm, imported from 'results.tar.zst'"; empty for a result of this store without a host.
std::string place_of(const pipeline::Record& record) {
  const auto text = [](const Json& json, const char* name) { return support::text_in(json, name); };
  std::vector<std::string> parts;
  const Json& occasion = record.occasion;
  if (const std::string host = text(occasion, "host"); !host.empty()) parts.push_back(cat("on ", host));
  const auto imported = occasion.find("imported");
  const std::string copied = text(occasion, "kept_at");
  if (imported != occasion.end())
    parts.push_back(cat("imported from ", support::quote(text(*imported, "file"))));
  else if (!copied.empty())
    parts.push_back(cat("copied from ", support::quote(copied)));
  return support::join(parts, ", ");
}

/// Fills the page's place for it: the number of results of each origin.
void tell_page(const fs::path& page, const std::map<std::string, Origin>& origins) {
  constexpr std::string_view kPlace = "<!--origins-->";
  std::string text = support::read_file(page);
  const std::size_t from = text.find(kPlace), end = text.find('\n', from);
  if (from == std::string::npos || end == std::string::npos) return;
  std::vector<std::string> parts;
  for (const auto& [place, origin] : origins)
    parts.push_back(cat(counted(origin.results, "result"), " of ", counted(origin.runs.size(), "run"),
                        place.empty() ? "" : " ", place));
  const std::string told = cat(kPlace, "<p class=\"setting\">Origin: ", report::escape_html(support::join(parts, ". ")),
                               ". <a href=\"origins.csv\">All</a></p>");
  if (text.compare(from, end - from, told) == 0) return;
  text.replace(from, end - from, told);
  support::write_file_atomically(page, text, false);
}

/// With a report whose results are not all here: where each was made, and by which file it came. The report in the
/// store is the same on every machine.
void tell_origins(const Store& store, const pipeline::Graph& graph, const pipeline::Plan& plan,
                  const std::vector<std::string>& reports) {
  if (reports.empty() || plan.count_known() == 0) return;
  const auto cell = [](std::string text) {
    for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '"');
    return cat('"', text, '"');
  };
  std::string rows = "task,key,origin\n";
  std::map<std::string, Origin> origins;  // by place
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const pipeline::PlannedTask& task = plan.tasks[i];
    if (task.state != pipeline::TaskState::kReuse) continue;
    const auto add = [&](std::int64_t step, const std::string& label) {
      const auto record = store.read({task.task_key, step});
      if (!record) return;
      const std::string origin = origin_of(*record);
      rows += cat(cell(graph.tasks[i].id + label), ",", record->key.short_name(), ",", cell(origin), "\n");
      Origin& at = origins[place_of(*record)];
      ++at.results;
      at.runs.insert(support::text_in(record->occasion, "run"));
    };
    if (task.snapshots.empty()) add(-1, "");
    for (const auto& snapshot : task.snapshots) {
      if (snapshot.result) add(snapshot.step, "@" + snapshot.label);
    }
  }
  try {
    for (const std::string& report : reports) {
      support::write_file_atomically(fs::path(report) / "origins.csv", rows, false);
      tell_page(fs::path(report) / "report.html", origins);
    }
  } catch (const support::IoError& error) {
    say(cat("pe-pipeline: warning: the origins of results are not in the report: ", error.diagnostics().front().message,
            "\n"));
  }
}

/// So that `gc` counts a run with nothing to do. The results are there whether it can be noted or not.
void note_use(const Store& store, const pipeline::Graph& graph, const pipeline::Plan& plan,
              const std::vector<std::string>& selectors) {
  try {
    pipeline::note_use(store.root(), graph, plan, selectors);
  } catch (const support::IoError& error) {
    say(cat("pe-pipeline: warning: `gc` will not know of this run: ", error.diagnostics().front().message, "\n"));
  }
}

/// Everything before the selection, for the command that runs one task alone.
std::vector<std::string> command_prefix(const cli::CommandLine& line) {
  std::vector<std::string> words = {line.given.at(0), "run", line.words.at(0)};
  for (const std::string& set : line.set) words.insert(words.end(), {"--set", set});
  for (const std::string& axis : line.axis) words.insert(words.end(), {"--axis", axis});
  if (!line.scale.empty()) words.insert(words.end(), {"--scale", line.scale});
  if (!line.store.empty()) words.insert(words.end(), {"--store", line.store});
  if (!line.make_inputs) words.push_back("--from-store");
  if (line.jobs) words.insert(words.end(), {"-j", std::to_string(*line.jobs)});
  if (line.mem_bytes) words.insert(words.end(), {"--mem", std::to_string(*line.mem_bytes)});
  if (line.gpus) words.insert(words.end(), {"--gpus", line.gpus->empty() ? "none" : *line.gpus});
  for (const std::string& pool : line.pools) words.insert(words.end(), {"--pool", pool});
  return words;
}

bool narrows(const cli::CommandLine& line, const std::string& axis) {
  return std::any_of(line.axis.begin(), line.axis.end(),
                     [&](const std::string& text) { return text.starts_with(axis + "="); });
}

/// Runs a pipeline with the axes of the command line. `reports`: folders of the reports of its plan.
int run_once(const cli::CommandLine& line, std::vector<std::string>& reports);

/// The state of a study that adds seeds, by its report. @throws ArtifactError without one
Json look_of(const std::vector<std::string>& reports, const pipeline::Sequential& sequential) {
  for (const std::string& folder : reports) {
    const Json look = report_json(folder).value_or(Json::object()).value("sequential", Json::object());
    if (look.is_object() && look.value("claim", "") == sequential.claim) return look;
  }
  throw support::ArtifactError(cat("'sequential': no report of the pipeline judges claim ",
                                   support::quote(sequential.claim), "; it needs a stage pe-report and 'claims'"));
}

/// The value of --axis that keeps the first labels.
std::string first_labels(const pipeline::Sequential& sequential, const std::vector<std::string>& labels,
                         std::size_t count) {
  return cat(sequential.axis, "=",
             support::join({labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(count)}, ","));
}

/// Runs with the first labels of an axis, and adds one until the claim is decided.
int run_looks(const cli::CommandLine& line, const pipeline::Sequential& sequential,
              const std::vector<std::string>& labels) {
  const std::size_t most = std::min(static_cast<std::size_t>(sequential.most), labels.size());
  cli::CommandLine narrowed = line;
  for (std::size_t count = std::min(static_cast<std::size_t>(sequential.from), most);; ++count) {
    narrowed.axis = line.axis;
    narrowed.axis.push_back(first_labels(sequential, labels, count));
    std::vector<std::string> reports;
    if (const int code = run_once(narrowed, reports); code != pipeline::kRunDone) return code;
    narrowed.force = false;
    Json look = look_of(reports, sequential);
    const bool decided = look.value("verdict", "") != "inconclusive", spent = count == most;
    if (line.progress == "json") {
      look["event"] = "look";
      look["schema_version"] = 1;
      look["next"] = decided || spent ? Json() : Json(labels[count]);
      print(look.dump() + "\n");
    } else {
      print(cat("look ", look.value("look", 0), " of ", look.value("looks", 0), ": claim ", sequential.claim, " is ",
                look.value("verdict", ""), " with ", count, " of at most ", most, " labels of ", sequential.axis,
                decided ? ""
                : spent ? "; all are used"
                        : cat("; adds ", labels[count]),
                "\n"));
    }
    if (decided || spent) return pipeline::kRunDone;
  }
}

/// The usual case: the same command again, and everything is there. It needs no YAML and no lock.
bool still_up_to_date(const cli::CommandLine& line, const std::string& file, const fs::path& root,
                      const fs::path& store_folder, std::vector<std::string>& reports) {
  const double started = support::steady_s();
  const pipeline::ExpandOptions options = expand_options(line);
  const auto memo = pipeline::UpToDateCache::find(store_folder, file, options);
  if (!memo) return false;
  const std::string name(memo->pipeline_name());
  if (!pipeline::view_stands(root, name, std::string(memo->view()), &reports)) return false;
  if (!memo->objects_stand()) {
    const Store store = open_for_reading(store_folder);
    if (!memo->everything_present(StoreReader(store))) return false;
    memo->renew();
  }
  pipeline::renew_use(store_folder, name, root, pipeline::variant_of(options));
  print_nothing_to_do(line, name, memo->task_count(), reports, "", support::steady_s() - started);
  return true;
}

/// Shows the results of a plan that is done.
void show_done(const cli::CommandLine& line, const pipeline::Graph& graph, const pipeline::Plan& plan,
               const Store& store, const fs::path& root, std::vector<std::string>& reports, double started) {
  const std::vector<std::string> selectors = selectors_of(line);
  const pipeline::ViewChange shown =
      pipeline::show_all(graph, plan, store, root, pipeline::new_run_id(), selectors.empty());
  for (const std::string& text : shown.odd) say(cat("pe-pipeline: warning: ", text, "\n"));
  reports = shown.reports;
  tell_origins(store, graph, plan, shown.reports);
  note_use(store, graph, plan, selectors);
  const std::size_t needed = plan.tasks.size() - plan.count(pipeline::TaskState::kNotNeeded);
  print_nothing_to_do(line, graph.name, needed, shown.reports, shown.relinked, support::steady_s() - started);
}

pipeline::RunOptions run_options_of(const cli::CommandLine& line, const pipeline::Capacity& capacity) {
  pipeline::RunOptions options;
  options.capacity = capacity;
  options.keep_going = !line.fail_fast;
  options.strict = line.strict;
  options.check_inputs = line.check_inputs;
  options.resume = line.resume == "auto";
  options.grace_s = line.grace_s;
  options.wait_lease = line.wait_lease == "always";
  options.publish_threads = pipeline::kPublishThreads;
  options.command = command_prefix(line);
  options.whole = selectors_of(line).empty();
  return options;
}

int run_once(const cli::CommandLine& line, std::vector<std::string>& reports) {
  const double started = support::steady_s();
  const std::string file = pipeline_file_to_run(line);
  const std::vector<std::string> selectors = selectors_of(line);
  const fs::path root = pipeline::find_root(file);
  const fs::path store_folder = store_path(line, root);
  if (selectors.empty() && !line.force && line.pools.empty() &&
      still_up_to_date(line, file, root, store_folder, reports))
    return pipeline::kRunDone;

  // A pipeline file that is wrong should say so before anything is made, the store included.
  ExpandedPipeline loaded = load(line, file, store_folder);
  const pipeline::Graph& graph = loaded.graph;
  if (const auto& sequential = graph.sequential; sequential && selectors.empty() && !narrows(line, sequential->axis))
    return run_looks(line, *sequential, graph.axes.at(sequential->axis).get<std::vector<std::string>>());
  warn_of_idle_axes(graph);
  pipeline::PlanOptions plan_options;
  plan_options.selected = pipeline::select(graph, selectors);
  plan_options.force = line.force;
  plan_options.make_inputs = makes_inputs(line);
  const pipeline::Capacity capacity = capacity_of(line);
  check_pools(line, graph);
  pipeline::StoreOptions store_options;
  store_options.durable = line.durability != "off";
  Store store(store_folder, store_options);
  StoreReader reader(store);
  if (!plan_options.make_inputs) use_what_is_there(loaded.graph, store, plan_options.selected);
  const auto remember = [&](const pipeline::Plan& plan) {
    if (!selectors.empty()) return;
    pipeline::UpToDateCache::remember(store_folder, file, expand_options(line), graph, plan, *loaded.catalog,
                                      pipeline::view_id(graph, plan, store));
  };
  pipeline::Plan plan = pipeline::make_plan(graph, reader, plan_options);
  print_warnings(store);
  if (plan.nothing_to_do()) {
    show_done(line, graph, plan, store, root, reports, started);
    remember(plan);
    return pipeline::kRunDone;
  }

  pipeline::RunOptions run_options = run_options_of(line, capacity);
  run_options.expected_s = pipeline::estimate(graph, plan, reader, capacity).seconds;
  const auto display = make_display(line);
  pipeline::RunSummary summary;
  {
    StopSignals signals;
    pipeline::LocalRunner runner;
    summary = pipeline::run(graph, plan, store, runner, *display, run_options, StopSignals::level);
    display->finish();
  }
  print_warnings(store);
  tell_origins(store, graph, plan, summary.reports);
  const std::size_t left_out = plan.count_left_out();
  plan = {};
  if (summary.exit_code == pipeline::kRunDone) {
    plan_options.force = false;
    remember(pipeline::make_plan(graph, reader, plan_options));
  }
  print_summary(line, graph, summary, left_out);
  reports = summary.reports;
  // The rows of new records take as much memory again where there are very many tasks.
  loaded = {};
  store.refresh_cache();  // so that the next `plan` need not
  ::malloc_trim(0);
  tell_timeline(line, store, summary.run_id);
  return summary.exit_code;
}

}  // namespace

namespace {

/// The plan of the first look, or of the whole pipeline.
int plan_of_run(cli::CommandLine line) {
  if (line.progress == "json")
    throw ConfigError("--dry-run runs nothing, so --progress json has no effect", {"--progress", 0, 0, "", 1},
                      "pe-pipeline plan FILE --json has the plan");
  const FileToRun file = file_to_run(line);
  if (!file.shipped.empty()) {  // as if it had been copied
    line.store = store_path(line, fs::current_path()).string();
    line.words.front() = file.shipped.string();
  }
  const std::vector<std::string> selectors = selectors_of(line);
  if (const fs::path path = pipeline_file_of(line); selectors.empty() && fs::exists(path)) {
    const pipeline::PipelineFile read = pipeline::read_pipeline_file(path);
    if (read.sequential && !narrows(line, read.sequential->axis)) {
      const ExpandedPipeline loaded = load(line, path.string(), store_path(line, pipeline::find_root(path)));
      const auto labels = loaded.graph.axes.at(read.sequential->axis).get<std::vector<std::string>>();
      const std::size_t first = std::min(static_cast<std::size_t>(read.sequential->from), labels.size());
      line.axis.push_back(first_labels(*read.sequential, labels, first));
      say(cat("pe-pipeline: the first look, with ", first, " of ", labels.size(), " labels of ", read.sequential->axis,
              "; `pe-pipeline plan` shows all\n"));
    }
  }
  return plan_command(line);
}

}  // namespace

int run_command(const cli::CommandLine& line) {
  if (line.dry_run) return plan_of_run(line);
  std::vector<std::string> reports;
  return run_once(line, reports);
}

}  // namespace pe::commands
