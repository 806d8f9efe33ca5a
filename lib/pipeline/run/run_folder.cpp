#include "pipeline/run/run_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <random>

#include "pipeline/store/lease.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/json_fields.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

/// Milliseconds since 1970 that the name of a run begins with; 0 when it is no such name.
std::int64_t milliseconds_of(const std::string& run) {
  std::tm parts{};
  const char* end = ::strptime(run.c_str(), "%Y%m%d-%H%M%S-", &parts);
  const auto rest = end ? support::parse_integer(std::string(end).substr(0, 3)) : std::nullopt;
  return rest && *rest >= 0 ? static_cast<std::int64_t>(::timegm(&parts)) * 1000 + *rest : 0;
}

}  // namespace

std::string new_run_id(const std::string& newest) {
  // Runs are distinguished and sorted by their ids: down to the millisecond, since toys take less than a second.
  auto now = static_cast<std::int64_t>(support::unix_time() * 1000);
  constexpr std::int64_t kLast = 253'402'300'799'000;  // of the year 9999, after which names no longer sort
  if (const std::int64_t before = milliseconds_of(newest); before > now && before < kLast) now = before + 1;
  const auto whole = static_cast<std::time_t>(now / 1000);
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &parts);
  std::random_device device;  // distinguishes two runs of one millisecond
  char tail[16];
  std::snprintf(tail, sizeof tail, "-%03d%02x", static_cast<int>(now % 1000), device() & 0xffu);
  return std::string(text) + tail;
}

namespace {

/// Makes the folder of a new run, which no other has: of two of one millisecond and chance one takes the next id.
std::string make_run_folder(const Store& store) {
  const std::filesystem::path runs = store.runs_folder();
  support::make_folders(runs);
  const std::vector<std::string> before = store.runs(ClosedRuns::kIncluded);
  const std::string newest = before.empty() ? "" : before.back();
  for (int tries = 0;; ++tries) {
    std::string id = new_run_id(newest);
    if (::mkdir((runs / id).c_str(), 0777) == 0) return id;
    if (errno != EEXIST || tries == 1000) support::throw_errno("create folder", (runs / id).string(), true);
  }
}

Json task_json(const Graph& graph, const Plan& plan, std::size_t i) {
  const PlannedTask& planned = plan.tasks[i];
  const Task& task = graph.tasks[i];
  Json json{{"id", task.id},
            {"stage", task.label},
            {"plan_key", task.plan_key},
            {"task_key", planned.task_key},
            {"state", state_name(planned.state)},
            {"reason", planned.reason}};
  if (planned.reason_kind == ReasonKind::kKnown) json["known_only"] = true;
  if (planned.state != TaskState::kReuse) {
    Json needs = Json::array();
    for (const Edge& edge : task.inputs) needs.push_back(producer_id(graph, edge));
    json["needs"] = std::move(needs);
  }
  return json;
}

/// `head` with the tasks.
std::string plan_text(Json head, const Graph& graph, const Plan& plan) {
  Json tasks = Json::array();
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (plan.tasks[i].state != TaskState::kNotNeeded) tasks.push_back(task_json(graph, plan, i));
  }
  head["tasks"] = std::move(tasks);
  return support::json_text(head) + "\n";
}

}  // namespace

Json read_plan(const std::filesystem::path& run_folder, const std::function<void(const Json&)>& take) {
  const std::string path = (run_folder / "plan.json").string();
  std::string member;  // of the plan, which is being read
  const Json plan =
      support::parse_json(support::read_file(path), {}, [&](int depth, Json::parse_event_t event, Json& parsed) {
        if (event == Json::parse_event_t::key && depth == 1) member = parsed.get<std::string>();
        if (event != Json::parse_event_t::object_end || depth != 2 || member != "tasks") return true;
        take(parsed);
        return false;
      });
  if (support::text_in(plan, "schema") != "pe-run/1" || !plan.contains("tasks") || !plan["tasks"].is_array())
    throw support::ArtifactError(cat("'", path, "' is not a plan of a run (pe-run/1)"));
  return plan;
}

RunFolder::RunFolder(const Store& store, const Graph& graph, const Plan& plan, const RunOptions& options)
    : run_id_(options.run_id.empty() ? make_run_folder(store) : options.run_id),
      path_(store.runs_folder() / run_id_),
      joined_(options.join) {
  support::make_folders(path_);
  if (joined_) {
    journal_ = Journal(path_);
    return;
  }
  const Json json{{"schema", "pe-run/1"},
                  {"run", run_id_},
                  {"pipeline", graph.name},
                  {"title", graph.title},
                  {"file", graph.file},
                  {"root", graph.root},
                  {"variant", graph.variant},
                  {"whole", options.whole},
                  {"host", host_name()},
                  {"pid", ::getpid()},
                  {"process_start", process_start(::getpid())},
                  {"machine", this_host().machine},
                  {"boot", this_host().boot},
                  {"pids", this_host().pids},
                  {"started", support::unix_time()},
                  {"command", options.command},
                  {"capacity", describe(options.capacity)}};
  support::write_file_atomically(path_ / "plan.json", plan_text(json, graph, plan), store.durable());
  if (store.durable()) support::sync_path(store.runs_folder());  // `gc` drops results that no run names
  journal_ = Journal(path_);
}

bool RunFolder::add(const Graph& graph, const RunEvent& event) {
  Json line{{"event", event.name}};
  if (event.task >= 0) {
    line["task"] = graph.tasks[static_cast<std::size_t>(event.task)].id;
    line["attempt"] = event.attempt;
  }
  for (const auto& [key, value] : event.detail.items()) {
    if (!line.contains(key) && key != "seq" && key != "time" && key != "crc") line[key] = value;
  }
  return journal_.append(std::move(line));
}

Json to_json(const Graph& graph, const RunState& state) {
  Json counts = Json::object();
  for (const auto& [phase, count] : state.counts) {
    if (count != 0) counts[std::string(phase_name(phase))] = count;
  }
  Json running = Json::array();
  for (const RunningTask& task : state.running) {
    running.push_back({{"task", graph.tasks[task.task].id},
                       {"phase", phase_name(state.phases[task.task])},
                       {"attempt", task.attempt},
                       {"seconds", state.now_s - task.started_s},
                       {"progress", task.progress}});
  }
  Json json{{"schema", "pe-progress/1"},   {"run", state.run_id},           {"time", support::unix_time()},
            {"counts", std::move(counts)}, {"running", std::move(running)}, {"stopping", state.stopping}};
  if (state.eta_s >= 0) json["eta_s"] = state.eta_s;
  for (const auto& [task, owner] : state.elsewhere)
    json["elsewhere"].push_back({{"task", graph.tasks[task].id}, {"owner", owner}});
  return json;
}

void RunFolder::write_progress(const RunState& state) {
  if (joined_) return;
  try {
    support::write_file_atomically(path_ / "progress.json", support::json_text(to_json(*state.graph, state)) + "\n",
                                   false);
  } catch (const support::IoError&) {
    // Tells how far things are, decides nothing; the run must not end for it.
  }
}

Json to_json(const Graph& graph, const RunSummary& summary) {
  Json failures = Json::array();
  for (const TaskFailure& failure : summary.failures) {
    failures.push_back({{"task", graph.tasks[failure.task].id},
                        {"class", outcome_name(failure.outcome)},
                        {"reason", failure.reason},
                        {"log", failure.log},
                        {"rerun", shell_command(failure.rerun)}});
  }
  Json json{{"schema", "pe-run-summary/1"},   {"run", summary.run_id},
            {"exit_code", summary.exit_code}, {"executed", summary.executed},
            {"reused", summary.reused},       {"failed", summary.failed},
            {"blocked", summary.blocked},     {"interrupted", summary.interrupted},
            {"conflicts", summary.conflicts}, {"wall_s", summary.wall_s},
            {"ended", support::unix_time()},  {"failures", std::move(failures)},
            {"reports", summary.reports}};
  if (!summary.store_error.empty()) json["store_error"] = summary.store_error;
  if (!summary.mistake.empty()) json["mistake"] = summary.mistake;
  return json;
}

void RunFolder::write_summary(const Graph& graph, const RunSummary& summary) {
  if (joined_) return;
  support::write_file_atomically(path_ / "summary.json", support::json_text(to_json(graph, summary), 1) + "\n", false);
}

}  // namespace pe::pipeline
