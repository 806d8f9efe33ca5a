#include <algorithm>
#include <map>
#include <set>

#include "commands/commands.h"
#include "commands/session.h"
#include "pipeline/cost.h"
#include "pipeline/exit_code.h"
#include "pipeline/explain.h"
#include "pipeline/pipeline_file.h"
#include "pipeline/selection.h"
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

std::string place_text(const support::Place& place) {
  if (place.file.rfind("--", 0) == 0) return place.file;  // a flag has no lines
  return place.line > 0 ? cat(place.file, ":", place.line) : place.file;
}

/// What the planned tasks took before, by stage: mean seconds, if the store knows.
struct Cost {
  double known_s = 0;
  std::size_t known = 0;
  std::size_t unknown = 0;
  double tokens = 0;  ///< to train on, in all tasks that would run or are blocked
  std::size_t trainings = 0;
};

Cost cost_of(const Graph& graph, const Plan& plan) {
  std::map<std::string, std::pair<double, std::size_t>> by_label;
  std::map<std::string, std::size_t> to_run;
  double by_training = 0;
  std::size_t trainings = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const pipeline::Task& task = graph.tasks[i];
    const PlannedTask& planned = plan.tasks[i];
    if (planned.state == TaskState::kRun) ++to_run[task.label];
    if (planned.state == TaskState::kRun || planned.state == TaskState::kBlocked) {
      if (const auto tokens = pipeline::training_tokens(task, planned)) {
        by_training += *tokens;
        ++trainings;
      }
    }
    double wall = planned.result ? planned.result->wall_s : 0;
    for (const auto& snapshot : planned.snapshots) wall = std::max(wall, snapshot.result ? snapshot.result->wall_s : 0);
    if (wall <= 0) continue;
    by_label[task.label].first += wall;
    ++by_label[task.label].second;
  }
  Cost cost;
  cost.tokens = by_training;
  cost.trainings = trainings;
  for (const auto& [label, count] : to_run) {
    const auto found = by_label.find(label);
    if (found == by_label.end()) {
      cost.unknown += count;
    } else {
      cost.known += count;
      cost.known_s += found->second.first / static_cast<double>(found->second.second) * static_cast<double>(count);
    }
  }
  return cost;
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
            {"selected", planned.selected}};
  if (!planned.snapshots.empty()) {
    json["snapshots"] = Json::array();
    for (const auto& snapshot : planned.snapshots) {
      json["snapshots"].push_back({{"label", snapshot.label},
                                   {"step", snapshot.step},
                                   {"needed", snapshot.needed},
                                   {"present", snapshot.present}});
    }
  }
  return json;
}

struct Planned {
  Loaded loaded;
  pipeline::Store store;
  Plan plan;
};

Planned make(const cli::CommandLine& line, const std::vector<std::string>& selectors) {
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

}  // namespace

int plan_command(const cli::CommandLine& line) {
  const Planned planned = make(line, selectors_of(line));
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
  const Cost cost = cost_of(graph, plan);

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
              {"dropped", graph.dropped},
              {"causes", std::move(causes)},
              {"tasks", std::move(tasks)},
              {"too_large_for_this_machine", std::move(too_much)},
              {"capacity", pipeline::describe(capacity)}};
    json["cost"] = {{"seconds", cost.known_s},
                    {"tasks_with_history", cost.known},
                    {"tasks_without_history", cost.unknown},
                    {"training_tokens", cost.tokens},
                    {"trainings", cost.trainings}};
    print_json(json);
    return code;
  }

  const cli::Style style = out_style(line);
  std::string head = cat(style.bold(graph.name), "  ", counted(needed, "task"));
  const auto add = [&](TaskState state, const std::string& text) {
    if (const std::size_t count = plan.count(state))
      head += cat("  ", support::with_commas(static_cast<std::int64_t>(count)), " ", text);
  };
  add(TaskState::kReuse, style.good("reuse"));
  add(TaskState::kRun, "run");
  add(TaskState::kLikelyReuse, "likely-reuse (inputs must reproduce)");
  add(TaskState::kInputMissing, style.bad("input missing"));
  add(TaskState::kBlocked, style.warn("blocked"));
  if (graph.dropped) head += cat("  (", counted(graph.dropped, "cell"), " dropped with their parent)");
  print(head + "\n");

  if (line.why) {
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      const PlannedTask& task = plan.tasks[i];
      if (task.state == TaskState::kNotNeeded) continue;
      std::string reason = task.reason;
      if (task.state == TaskState::kRun) {
        const auto explanation = pipeline::explain(graph, plan, reader, i);
        std::vector<std::string> causes;
        for (const auto& cause : explanation.causes) causes.push_back(cause.str());
        if (!causes.empty()) reason = support::join(causes, "; ");
      }
      rows.push_back({cat("  ", state_name(task.state)), graph.tasks[i].id, reason});
    }
    print(table(rows));
  } else {
    std::vector<std::vector<std::string>> rows;
    for (std::size_t g = 0; g < groups.size() && g < kMostGroups; ++g) {
      const auto& group = groups[g];
      const std::string state(state_name(plan.tasks[group.tasks.front()].state));
      const std::string name = group.tasks.size() == 1 ? graph.tasks[group.tasks.front()].id : cat(group.stage, "[*]");
      rows.push_back({cat("  ", state), std::to_string(group.tasks.size()), name, group.text, place_text(group.place)});
    }
    print(table(rows));
    if (groups.size() > kMostGroups)
      print(cat("  and ", counted(groups.size() - kMostGroups, "more cause"), "; --why lists every task\n"));
  }
  if (cost.trainings > 0)
    print(cat("tokens ", support::short_count(cost.tokens), " to train on, in ", counted(cost.trainings, "training"),
              "\n"));
  if (!work) {
    print("nothing to do\n");
  } else if (cost.known > 0) {
    print(cat(
        "cost   about ", support::short_duration(cost.known_s), " of task time, from what ",
        counted(cost.known, "such task"), " took before",
        cost.unknown ? cat("; ", counted(cost.unknown, "task"), " of stages that never ran here are not in it") : "",
        "\n"));
  }
  for (const auto& [why, count] : demands)
    print(cat(style.warn("too large here"), "  ", counted(count, "task"), " of ", why, "\n"));
  return code;
}

int explain_command(const cli::CommandLine& line) {
  const std::vector<std::string> selectors = selectors_of(line);
  const Planned planned = make(line, selectors);
  const Graph& graph = planned.loaded.graph;
  const pipeline::StoreReader reader(planned.store);
  const std::vector<bool> selected = pipeline::select(graph, selectors);
  const cli::Style style = out_style(line);
  const std::size_t most = line.all || line.json ? graph.tasks.size() : 20;
  std::size_t shown = 0, left = 0;
  Json answers = Json::array();
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!selected[i]) continue;
    if (shown == most) {
      ++left;
      continue;
    }
    ++shown;
    const PlannedTask& task = planned.plan.tasks[i];
    const auto explanation = pipeline::explain(graph, planned.plan, reader, i);
    if (line.json) {
      Json json = task_json(graph, planned.plan, i);
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
      json["follows"] = Json::array();
      for (const std::size_t producer : explanation.follows) json["follows"].push_back(graph.tasks[producer].id);
      answers.push_back(std::move(json));
      continue;
    }
    std::string out = cat(style.bold(graph.tasks[i].id), "  ", state_name(task.state), ": ", task.reason, "\n");
    if (!task.task_key.empty())
      out += cat("  key      ", task.task_key.substr(0, 12),
                 task.key_is_exact ? "" : " (if its inputs come out as before)", "\n");
    if (!explanation.against_id.empty()) {
      out += cat("  against  ", explanation.against.substr(0, 12), "  ", explanation.against_id, "\n");
    }
    for (const auto& cause : explanation.causes) {
      if (task.state == TaskState::kReuse) break;  // said above
      out += cat("  cause    ", cause.str(), cause.place.file.empty() ? "" : "  " + style.dim(place_text(cause.place)),
                 "\n");
    }
    std::size_t followed = 0;
    for (const std::size_t producer : explanation.follows) {
      if (++followed > 5) {
        out += cat("  follows  and ", explanation.follows.size() - 5, " more\n");
        break;
      }
      out += cat("  follows  ", graph.tasks[producer].id, "\n");
    }
    print(out);
  }
  if (line.json)
    print_json(
        {{"schema", "pe-explain/1"}, {"schema_version", 1}, {"pipeline", graph.name}, {"tasks", std::move(answers)}});
  else if (left)
    print(cat("and ", counted(left, "more task"), "; --all shows them\n"));
  return pipeline::kRunDone;
}

}  // namespace pe::commands
