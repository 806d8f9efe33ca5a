#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/terminal.h"
#include "commands/commands.h"
#include "commands/planned.h"
#include "commands/session.h"
#include "pipeline/file/pipeline_file.h"
#include "pipeline/file/selection.h"
#include "pipeline/plan/cost.h"
#include "pipeline/plan/estimate.h"
#include "pipeline/plan/explain.h"
#include "pipeline/run/exit_code.h"
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
    if (planned.same_as) continue;   // one run serves both
    if (const auto own = pipeline::training_tokens(graph, graph.tasks[i], planned)) {
      tokens.count += *own;
      ++tokens.trainings;
    }
  }
  return tokens;
}

std::string percent(double share) { return fmt::format("{:.0f} %", share * 100); }

/// "trunk > decay > evaluate".
std::string chain_text(const Graph& graph, const pipeline::Estimate& cost) {
  std::vector<std::string> labels;
  for (const std::size_t i : cost.chain) {
    if (labels.empty() || labels.back() != graph.tasks[i].label) labels.push_back(graph.tasks[i].label);
  }
  return support::join(labels, " > ");
}

/// "1.7 budgets a trunk, 3.8 without sharing": empty where nothing is shared.
std::string sharing_text(const pipeline::Sharing& sharing) {
  if (sharing.budget_tokens <= 0 || sharing.alone_tokens <= sharing.shared_tokens) return "";
  return fmt::format("{:.1f} budgets, {:.1f} without sharing ({} of the tokens saved, on {})",
                     sharing.shared_tokens / sharing.budget_tokens, sharing.alone_tokens / sharing.budget_tokens,
                     percent(1 - sharing.shared_tokens / sharing.alone_tokens), counted(sharing.trunks, "trajectory"));
}

std::string cost_text(const Graph& graph, const Plan& plan, const pipeline::Estimate& cost,
                      const pipeline::Capacity& capacity) {
  std::vector<std::string> parts;
  const std::string error = cost.compared ? cat(" (+-", percent(cost.error), ")") : "";
  if (cost.known == 0) {
    parts.push_back("unknown: no such task ran here");
  } else {
    const std::string slots = cost.gpu_s > 0 ? counted(capacity.gpus.size(), "GPU") : counted(static_cast<std::size_t>(capacity.cpus), "CPU");
    if (cost.gpu_s > 0) parts.push_back(fmt::format("GPU hours {:.3g}{}", cost.gpu_s / 3600, error));
    else parts.push_back(cat("task time ", support::short_duration(cost.task_s), error));
    parts.push_back(cat("wall ", support::short_duration(cost.wall_s), " on ", slots));
    if (cost.bytes >= 1) parts.push_back(cat("disk +", support::short_bytes(cost.bytes)));
    if (cost.chain.size() > 1) {
      parts.push_back(cat("longest chain ", chain_text(graph, cost), " ", support::short_duration(cost.chain_s)));
    }
  }
  std::string text = support::join(parts, "   ");
  if (cost.known && cost.unknown) text += cat("; excludes ", counted(cost.unknown, "task"), " without history");
  if (const std::size_t likely = plan.count(TaskState::kLikelyReuse)) {
    text += cat("; plus ", counted(likely, "task"), " if their inputs change");
  }
  return text;
}

/// What asks for more than there is: told while planning, an error when running.
std::vector<std::pair<std::string, std::size_t>> impossible_demands(const Graph& graph, const Plan& plan,
                                                                    const pipeline::Capacity& capacity) {
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (plan.tasks[i].state != TaskState::kRun && plan.tasks[i].state != TaskState::kLikelyReuse) continue;
    const std::string why = pipeline::impossible(graph.tasks[i].resources, capacity);
    if (!why.empty()) ++seen[cat(graph.tasks[i].label, ": ", why)];
  }
  return {seen.begin(), seen.end()};
}

}  // namespace

Planned make_planned(const cli::CommandLine& line, const std::vector<std::string>& selectors) {
  const std::string file = pipeline_file_of(line);
  const fs::path store_folder = store_path(line, pipeline::find_root(file));
  pipeline::Store store = open_for_reading(store_folder);
  print_warnings(store);
  Loaded loaded = load(line, file, store_folder);
  pipeline::PlanOptions options;
  options.selected = pipeline::select(loaded.graph, selectors);
  options.force = line.force;
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

int plan_command(const cli::CommandLine& line) {
  const Planned planned = make_planned(line, selectors_of(line));
  const Graph& graph = planned.loaded.graph;
  const Plan& plan = planned.plan;
  const pipeline::StoreReader reader(planned.store);
  std::size_t needed = 0;
  for (const PlannedTask& task : plan.tasks) needed += task.state != TaskState::kNotNeeded;
  const bool work = !plan.nothing_to_do();
  const int code = line.exit_code && work ? pipeline::kRunHasWork : pipeline::kRunDone;
  const pipeline::Capacity capacity = capacity_of(line);
  check_pools(line, graph);
  const auto demands = impossible_demands(graph, plan, capacity);
  const auto groups =
      line.why && !line.json ? std::vector<pipeline::CauseGroup>() : pipeline::group_causes(graph, plan, reader);
  const Tokens tokens = tokens_of(graph, plan);
  const pipeline::Estimate cost = work ? pipeline::estimate(graph, plan, reader, capacity) : pipeline::Estimate();
  const pipeline::Sharing sharing = pipeline::sharing(graph, plan);

  if (line.json) {
    Json tasks = Json::array(), causes = Json::array(), counts = Json::object(), too_much = Json::array();
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      ++counts.emplace(std::string(state_name(plan.tasks[i].state)), 0).first->get_ref<std::int64_t&>();
      if (plan.tasks[i].state != TaskState::kNotNeeded) tasks.push_back(task_json(graph, plan, i));
    }
    for (const auto& group : groups) {
      Json ids = Json::array();
      for (const std::size_t i : group.tasks) ids.push_back(graph.tasks[i].id);
      causes.push_back({{"stage", group.stage},
                        {"cause", group.text},
                        {"place", place_text(group.place)},
                        {"tasks", std::move(ids)}});
    }
    for (const auto& [why, count] : demands) too_much.push_back({{"why", why}, {"tasks", count}});
    Json json{{"schema", "pe-plan/1"},
              {"schema_version", 1},
              {"pipeline", graph.name},
              {"counts", std::move(counts)},
              {"known_only", plan.count_known()},
              {"dropped", graph.dropped},
              {"causes", std::move(causes)},
              {"tasks", std::move(tasks)},
              {"too_large_for_this_machine", std::move(too_much)},
              {"capacity", pipeline::describe(capacity)}};
    std::vector<std::string> chain;
    for (const std::size_t i : cost.chain) chain.push_back(graph.tasks[i].id);
    json["cost"] = {{"seconds", cost.task_s},
                    {"gpu_seconds", cost.gpu_s},
                    {"wall_seconds", cost.wall_s},
                    {"bytes", cost.bytes},
                    {"longest_chain_seconds", cost.chain_s},
                    {"longest_chain", chain},
                    {"past_error", cost.compared ? Json(cost.error) : Json()},
                    {"past_tasks_compared", cost.compared},
                    {"tasks_with_history", cost.known},
                    {"tasks_without_history", cost.unknown},
                    {"training_tokens", tokens.count},
                    {"trainings", tokens.trainings}};
    json["sharing"] = {{"trajectories", sharing.trunks},
                       {"budget_tokens", sharing.budget_tokens},
                       {"shared_tokens", sharing.shared_tokens},
                       {"alone_tokens", sharing.alone_tokens}};
    print_json(json);
    return code;
  }

  const cli::Style style = out_style(line);
  std::string head = cat(style.bold(graph.name), "  ", counted(needed, "task"));
  const auto add = [&](TaskState state, const std::string& text) {
    if (const std::size_t count = plan.count(state))
      head += cat("  ", support::with_commas(static_cast<std::int64_t>(count)), " ", text);
  };
  const std::size_t known = plan.count_known();
  add(TaskState::kReuse, cat(style.good("reuse"), known > 0 ? cat(" (", known, " known, not here)") : ""));
  add(TaskState::kRun, "run");
  add(TaskState::kLikelyReuse, "likely-reuse (inputs must reproduce)");
  add(TaskState::kInputMissing, style.bad("input missing"));
  add(TaskState::kBlocked, style.warn("blocked"));
  if (graph.dropped) head += cat("  (", counted(graph.dropped, "cell"), " dropped with their parent)");
  print(head + "\n");

  if (line.why) {
    std::vector<std::size_t> running;
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      if (plan.tasks[i].state == TaskState::kRun) running.push_back(i);
    }
    const auto explanations = pipeline::explain_all(graph, plan, reader, running);
    std::size_t next = 0;
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      const PlannedTask& task = plan.tasks[i];
      if (task.state == TaskState::kNotNeeded) continue;
      std::string reason = task.reason;
      if (task.state == TaskState::kRun) {
        std::vector<std::string> causes;
        for (const auto& cause : explanations[next++].causes) causes.push_back(cause.str());
        if (!causes.empty()) reason = support::join(causes, "; ");
      }
      rows.push_back({cat("  ", state_name(task.state)), graph.tasks[i].id, cli::harmless(reason)});
    }
    print(table(rows));
  } else {
    std::vector<std::vector<std::string>> rows;
    for (std::size_t g = 0; g < groups.size() && g < kMostGroups; ++g) {
      const auto& group = groups[g];
      const std::string state(state_name(plan.tasks[group.tasks.front()].state));
      const std::string name = group.tasks.size() == 1 ? graph.tasks[group.tasks.front()].id : cat(group.stage, "[*]");
      rows.push_back({cat("  ", state), std::to_string(group.tasks.size()), name, cli::harmless(group.text), cli::harmless(place_text(group.place))});
    }
    print(table(rows));
    if (groups.size() > kMostGroups)
      print(cat("  and ", counted(groups.size() - kMostGroups, "more cause"), "; --why lists every task\n"));
  }
  if (tokens.trainings > 0) {
    print(cat("tokens   ", support::short_count(tokens.count), " to train on, in ", counted(tokens.trainings, "training"),
              "\n"));
  }
  if (const std::string text = sharing_text(sharing); !text.empty()) print(cat("sharing  ", text, "\n"));
  if (work) print(cat("cost     ", cost_text(graph, plan, cost, capacity), "\n"));
  else print("nothing to do\n");
  for (const auto& [why, count] : demands)
    print(cat(style.warn("too large here"), "  ", counted(count, "task"), " of ", why, "\n"));
  return code;
}

}  // namespace pe::commands
