#include <algorithm>
#include <utility>

#include "cli/terminal.h"
#include "commands/against.h"
#include "commands/commands.h"
#include "commands/planned.h"
#include "pipeline/orchestrator.h"
#include "support/text.h"

namespace pe::commands {

using pipeline::Graph;
using pipeline::PlannedTask;
using pipeline::TaskState;
using support::cat;

namespace {

using pipeline::Explanation;

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
  pipeline::Against against;
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
