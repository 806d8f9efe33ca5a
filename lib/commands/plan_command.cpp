#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cli/terminal.h"
#include "commands/commands.h"
#include "commands/plan_costs.h"
#include "commands/planned.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::Graph;
using pipeline::Plan;
using pipeline::PlannedTask;
using pipeline::TaskState;
using support::cat;

constexpr std::size_t kMostGroups = 40;

/// Tokens to train on, in all tasks that would run or are blocked.
struct Tokens {
  double count = 0;
  std::size_t trainings = 0;
};

Tokens tokens_of(const Graph& graph, const Plan& plan) {
  Tokens tokens;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const PlannedTask& planned = plan.tasks[i];
    if (planned.state != TaskState::kRun && planned.state != TaskState::kBlocked) continue;
    if (planned.same_as) continue;  // one run serves both
    if (const auto own = pipeline::training_tokens(graph, graph.tasks[i], planned)) {
      tokens.count += *own;
      ++tokens.trainings;
    }
  }
  return tokens;
}

std::string percent(double share) { return fmt::format("{:.0f} %", share * 100); }

/// "1.7 budgets a trunk, 3.8 without sharing": empty where nothing is shared.
std::string sharing_text(const pipeline::Sharing& sharing) {
  if (sharing.budget_tokens <= 0 || sharing.alone_tokens <= sharing.shared_tokens) return "";
  return fmt::format("{:.1f} budgets, {:.1f} without sharing ({} of the tokens saved, on {})",
                     sharing.shared_tokens / sharing.budget_tokens, sharing.alone_tokens / sharing.budget_tokens,
                     percent(1 - sharing.shared_tokens / sharing.alone_tokens), counted(sharing.trunks, "trajectory"));
}

/// Demands beyond the machine's capacity, with counts of tasks: shown while planning, an error when running.
std::vector<std::pair<std::string, std::size_t>> impossible_demands(const Graph& graph, const Plan& plan,
                                                                    const pipeline::Capacity& capacity) {
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (plan.tasks[i].state != TaskState::kRun && plan.tasks[i].state != TaskState::kLikelyReuse) continue;
    const std::string why = pipeline::impossible(graph.tasks[i].resources, capacity);
    if (!why.empty()) ++seen[cat(graph.tasks[i].label, ": ", why)];
  }
  std::vector<std::pair<std::string, std::size_t>> demands(seen.begin(), seen.end());
  std::stable_sort(demands.begin(), demands.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return demands;
}

}  // namespace

PlannedPipeline make_planned(const cli::CommandLine& line, const std::vector<std::string>& selectors) {
  const std::string file = pipeline_file_of(line);
  const fs::path store_folder = store_path(line, pipeline::find_root(file));
  pipeline::Store store = open_for_reading(store_folder);
  print_warnings(store);
  ExpandedPipeline loaded = load(line, file, store_folder);
  warn_of_idle_axes(loaded.graph);
  pipeline::PlanOptions options;
  options.selected = pipeline::select(loaded.graph, selectors);
  options.force = line.force;
  options.make_inputs = makes_inputs(line);
  if (!options.make_inputs) use_what_is_there(loaded.graph, store, options.selected);
  Plan plan = pipeline::make_plan(loaded.graph, pipeline::StoreReader(store), options);
  return {std::move(loaded), std::move(store), std::move(plan)};
}

std::string place_text(const support::Place& place) {
  if (place.file.rfind("--", 0) == 0) return place.file;  // a flag has no lines
  return place.line > 0 ? cat(place.file, ":", place.line) : place.file;
}

Json task_json(const Graph& graph, const Plan& plan, std::size_t i) {
  const PlannedTask& planned = plan.tasks[i];
  const pipeline::Task& task = graph.tasks[i];
  Json json{{"id", task.id},
            {"stage", task.label},
            {"state", state_name(planned.state)},
            {"reason", planned.reason},
            {"plan_key", task.plan_key},
            {"task_key", planned.task_key},
            {"key_is_exact", planned.key_is_exact},
            {"selected", planned.selected},
            {"known_only", planned.any_known()}};
  if (!planned.snapshots.empty()) {
    json["snapshots"] = Json::array();
    for (const auto& snapshot : planned.snapshots) {
      json["snapshots"].push_back({{"label", snapshot.label},
                                   {"step", snapshot.step},
                                   {"needed", snapshot.needed},
                                   {"present", snapshot.present},
                                   {"known", snapshot.known}});
    }
  }
  return json;
}

namespace {

using Demands = std::vector<std::pair<std::string, std::size_t>>;

/// All that is said of a plan.
struct PlanReport {
  const PlannedPipeline& planned;
  pipeline::StoreReader reader;
  pipeline::Capacity capacity;
  std::optional<pipeline::DeviceTable> table;
  Demands demands;
  std::vector<pipeline::CauseGroup> groups;
  Tokens tokens;
  pipeline::Estimate cost;
  pipeline::Sharing sharing;
  bool work = false;

  const Graph& graph() const { return planned.loaded.graph; }
  const Plan& plan() const { return planned.plan; }
  const pipeline::DeviceTable* device() const { return table ? &*table : nullptr; }
};

Json cost_json(const PlanReport& told) {
  const pipeline::Estimate& cost = told.cost;
  std::vector<std::string> chain;
  for (const std::size_t i : cost.chain) chain.push_back(told.graph().tasks[i].id);
  Json epochs = Json::array();
  for (const Epochs& one : epochs_of(told.graph(), told.plan(), told.planned.store)) {
    epochs.push_back(
        {{"stage", one.label}, {"tokens", one.tokens}, {"data_tokens", one.data ? Json(*one.data) : Json()}});
  }
  Json json{{"seconds", cost.task_s},
            {"gpu_seconds", cost.gpu_s},
            {"wall_seconds", cost.wall_s},
            {"bytes", cost.bytes},
            {"checkpoint_bytes", cost.checkpoint_bytes},
            {"tasks_of_unknown_bytes", cost.bytes_unknown},
            {"longest_chain_seconds", cost.chain_s},
            {"longest_chain", chain},
            {"past_error", cost.compared ? Json(cost.error) : Json()},
            {"past_tasks_compared", cost.compared},
            {"tasks_with_history", cost.known},
            {"tasks_without_history", cost.unknown},
            {"sources", cost.sources},
            {"unknown", cost.unknown_why},
            {"tasks_of_other_encodings", cost.other_encodings},
            {"seconds_of_other_encodings", cost.other_encodings_s},
            {"epochs", std::move(epochs)},
            {"training_tokens", told.tokens.count},
            {"trainings", told.tokens.trainings}};
  if (told.table) {
    json["device"] = told.table->device;
    json["memory"] = Json::array();
    for (const MemoryNeed& need : memory_of(told.graph(), told.plan(), *told.table)) {
      json["memory"].push_back({{"parameters", need.parameters},
                                {"tasks", need.tasks},
                                {"gib", need.measured ? Json(need.measured->memory_gib) : Json()}});
    }
  }
  return json;
}

void print_plan_json(const PlanReport& told) {
  const Graph& graph = told.graph();
  const Plan& plan = told.plan();
  Json tasks = Json::array(), causes = Json::array(), counts = Json::object(), too_much = Json::array();
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    ++counts.emplace(std::string(state_name(plan.tasks[i].state)), 0).first->get_ref<std::int64_t&>();
    if (plan.tasks[i].state != TaskState::kNotNeeded) tasks.push_back(task_json(graph, plan, i));
  }
  for (const auto& group : told.groups) {
    Json ids = Json::array();
    for (const std::size_t i : group.tasks) ids.push_back(graph.tasks[i].id);
    std::vector<std::string> texts, places;
    for (const auto& cause : group.causes) {
      texts.push_back(cause.str());
      const std::string place = place_text(cause.place);
      if (!place.empty() && std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
    }
    causes.push_back({{"stage", group.stage},
                      {"cause", support::join(texts, "; ")},
                      {"place", support::join(places, "; ")},
                      {"tasks", std::move(ids)}});
  }
  for (const auto& [why, count] : told.demands) too_much.push_back({{"why", why}, {"tasks", count}});
  Json json{{"schema", "pe-plan/1"},
            {"schema_version", 1},
            {"pipeline", graph.name},
            {"counts", std::move(counts)},
            {"known_only", plan.count_known()},
            {"left_out", plan.count_left_out()},
            {"dropped", graph.dropped},
            {"excluded", graph.excluded},
            {"causes", std::move(causes)},
            {"tasks", std::move(tasks)},
            {"too_large_for_this_machine", std::move(too_much)},
            {"capacity", pipeline::describe(told.capacity)}};
  json["cost"] = cost_json(told);
  json["sharing"] = {{"trajectories", told.sharing.trunks},
                     {"budget_tokens", told.sharing.budget_tokens},
                     {"shared_tokens", told.sharing.shared_tokens},
                     {"alone_tokens", told.sharing.alone_tokens}};
  print_json(json);
}

void print_head(const PlanReport& told, const cli::Style& style) {
  const Graph& graph = told.graph();
  std::size_t needed = 0;
  for (const PlannedTask& task : told.plan().tasks) needed += task.state != TaskState::kNotNeeded;
  std::string head = cat(style.bold(graph.name), "  ", counted(needed, "task"));
  const auto add = [&](TaskState state, const std::string& text) {
    if (const std::size_t count = told.plan().count(state))
      head += cat("  ", support::with_commas(static_cast<std::int64_t>(count)), " ", text);
  };
  const std::size_t known = told.plan().count_known();
  add(TaskState::kReuse, cat(style.good("reuse"), known > 0 ? cat(" (", known, " known, not here)") : ""));
  add(TaskState::kRun, "run");
  add(TaskState::kLikelyReuse, "likely-reuse (inputs must reproduce)");
  add(TaskState::kInputMissing, style.bad("input missing"));
  add(TaskState::kBlocked, style.warn("blocked"));
  std::vector<std::string> out;
  if (graph.excluded) out.push_back(cat(counted(graph.excluded, "cell"), " excluded"));
  if (const std::size_t left = told.plan().count_left_out()) out.push_back(cat(counted(left, "task"), " left out"));
  if (graph.dropped) out.push_back(cat(counted(graph.dropped, "cell"), " dropped with their parent"));
  if (!out.empty()) head += cat("  (", support::join(out, ", "), ")");
  print(head + "\n");
}

/// Rows whose first columns line up; the last is one of several texts, each on a separate line. On a terminal a line
/// stays a line.
void print_reasons(const std::vector<std::vector<std::string>>& rows,
                   const std::vector<std::vector<std::string>>& reasons) {
  const int columns = ::isatty(STDOUT_FILENO) == 1 ? cli::terminal_size(STDOUT_FILENO).columns : 0;
  const std::vector<std::string> begins = support::split(table(rows), '\n');
  std::size_t width = 0;
  for (const std::string& begin : begins) width = std::max(width, support::display_width(begin));
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    std::string begin = begins[i];
    for (const std::string& reason : reasons[i]) {
      const std::string line =
          cat(begin, std::string(width + 2 - support::display_width(begin), ' '), cli::harmless(reason));
      print((columns > 0 ? cli::fit(line, columns) : line) + "\n");
      begin.clear();
    }
  }
}

/// --why: every task with its reasons.
void print_tasks(const PlanReport& told) {
  const Graph& graph = told.graph();
  const Plan& plan = told.plan();
  std::vector<std::size_t> running;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (plan.tasks[i].state == TaskState::kRun) running.push_back(i);
  }
  const auto explanations = pipeline::explain_all(graph, plan, told.reader, running);
  std::size_t next = 0;
  std::vector<std::vector<std::string>> rows, reasons;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const PlannedTask& task = plan.tasks[i];
    if (task.state == TaskState::kNotNeeded) continue;
    std::vector<std::string> causes;
    if (task.state == TaskState::kRun) {
      for (const auto& cause : explanations[next++].causes) causes.push_back(cause.str());
    }
    if (causes.empty()) causes.push_back(task.reason);
    rows.push_back({cat("  ", state_name(task.state)), graph.tasks[i].id});
    reasons.push_back(std::move(causes));
  }
  print_reasons(rows, reasons);
}

void print_groups(const PlanReport& told) {
  std::vector<std::vector<std::string>> rows, reasons;
  for (std::size_t g = 0; g < told.groups.size() && g < kMostGroups; ++g) {
    const auto& group = told.groups[g];
    const std::string state(state_name(told.plan().tasks[group.tasks.front()].state));
    const std::string name =
        group.tasks.size() == 1 ? told.graph().tasks[group.tasks.front()].id : cat(group.stage, "[*]");
    rows.push_back({cat("  ", state), std::to_string(group.tasks.size()), name});
    std::vector<std::string> texts;
    for (const auto& cause : group.causes) {
      const std::string place = place_text(cause.place);
      texts.push_back(cause.str() + (place.empty() ? "" : "  " + place));
    }
    reasons.push_back(std::move(texts));
  }
  print_reasons(rows, reasons);
  if (told.groups.size() > kMostGroups)
    print(cat("  and ", counted(told.groups.size() - kMostGroups, "more cause"), "; --why lists every task\n"));
}

/// One line, whatever the kinds of demands: --json has them all.
void print_too_large(const Demands& demands, const cli::Style& style) {
  if (demands.empty()) return;
  std::size_t tasks = 0;
  for (const auto& [why, count] : demands) tasks += count;
  print(cat(style.warn("too large here"), "  ", counted(tasks, "task"), "; ", demands.front().first,
            demands.size() > 1 ? cat("; --json has ", counted(demands.size() - 1, "more such demand")) : "", "\n"));
}

}  // namespace

int plan_command(const cli::CommandLine& line) {
  const PlannedPipeline planned = make_planned(line, selectors_of(line));
  PlanReport told{planned, pipeline::StoreReader(planned.store), capacity_of(line), {}, {}, {}, {}, {}, {}, false};
  const Graph& graph = told.graph();
  const Plan& plan = told.plan();
  told.work = !plan.nothing_to_do();
  if (!line.device.empty()) {
    told.table = pipeline::read_device_table(line.device);
    told.capacity = capacity_on_device(std::move(told.capacity), line.gpus.has_value(), graph);
  }
  const int code = line.exit_code && plan.count(TaskState::kRun) > 0 ? pipeline::kRunHasWork : pipeline::kRunDone;
  check_pools(line, graph);
  told.demands = impossible_demands(graph, plan, told.capacity);
  if (!line.why || line.json) told.groups = pipeline::group_causes(graph, plan, told.reader);
  told.tokens = tokens_of(graph, plan);
  if (told.work) pipeline::check_some_configs(graph, plan, planned.store.root());
  if (told.work) told.cost = pipeline::estimate(graph, plan, told.reader, told.capacity, told.device());
  told.sharing = pipeline::sharing(graph, plan);
  if (line.json) {
    print_plan_json(told);
    return code;
  }
  const cli::Style style = out_style(line);
  print_head(told, style);
  if (line.why)
    print_tasks(told);
  else
    print_groups(told);
  if (told.tokens.trainings > 0) {
    print(cat("tokens   ", support::short_count(told.tokens.count), " to train on, in ",
              counted(told.tokens.trainings, "training"), "\n"));
  }
  if (const std::string text = sharing_text(told.sharing); !text.empty()) print(cat("sharing  ", text, "\n"));
  print(told.work ? cost_lines(graph, plan, planned.store, told.cost, told.capacity, told.device())
                  : "nothing to do\n");
  print_too_large(told.demands, style);
  return code;
}

}  // namespace pe::commands
