#include <algorithm>
#include <map>
#include <set>

#include "commands/commands.h"
#include "commands/session.h"
#include "pipeline/exit_code.h"
#include "pipeline/pipeline_file.h"
#include "pipeline/selection.h"
#include "support/error.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using support::cat;

/// One box: a task, or several that differ in collapsed axes alone.
struct Box {
  std::string name;
  std::string stage;
  std::size_t tasks = 0;
  std::size_t cached = 0;
};

struct Arrow {
  std::size_t from, to;
  std::string label;
  bool operator<(const Arrow& other) const {
    return std::tie(from, to, label) < std::tie(other.from, other.to, other.label);
  }
};

std::string box_name(const pipeline::Task& task, const std::vector<std::string>& collapse) {
  const bool all = std::find(collapse.begin(), collapse.end(), "all") != collapse.end();
  std::string inside;
  if (!all) {
    for (const auto& [axis, label] : task.axes) {
      const bool gone = std::find(collapse.begin(), collapse.end(), axis) != collapse.end();
      inside += cat(inside.empty() ? "" : ",", axis, "=", gone ? "*" : label);
    }
  }
  return inside.empty() ? task.label : cat(task.label, "[", inside, "]");
}

/// A text inside double quotes, for DOT and Mermaid.
std::string escaped(const std::string& text, bool mermaid) {
  std::string out;
  for (const char c : text) {
    if (c == '"')
      out += mermaid ? "#quot;" : "\\\"";
    else if (c == '\\' && !mermaid)
      out += "\\\\";
    else if (c == '\n')
      out += ' ';
    else
      out += c;
  }
  return out;
}

}  // namespace

int graph_command(const cli::CommandLine& line) {
  const std::string file = pipeline_file_of(line);
  const fs::path store_folder = store_path(line, pipeline::find_root(file));
  const Loaded loaded = load(line, file, store_folder);
  const pipeline::Graph& graph = loaded.graph;
  std::set<std::string> axes;
  for (const auto& task : graph.tasks) {
    for (const auto& [axis, label] : task.axes) axes.insert(axis);
  }
  for (const std::string& axis : line.collapse) {
    if (axis != "all" && !axes.count(axis)) {
      throw support::ConfigError(cat("no task has an axis ", support::quote(axis)), {"--collapse", 0, 0, "", 1},
                                 support::suggestion(axis, {axes.begin(), axes.end()}));
    }
  }
  const std::vector<bool> selected = pipeline::select(graph, selectors_of(line));
  std::vector<bool> cached(graph.tasks.size(), false);
  if (line.cached) {
    const pipeline::Store store = open_for_reading(store_folder);
    const pipeline::Plan plan = pipeline::make_plan(graph, pipeline::StoreReader(store));
    for (std::size_t i = 0; i < cached.size(); ++i) cached[i] = plan.tasks[i].state == pipeline::TaskState::kReuse;
  }
  std::vector<Box> boxes;
  std::map<std::string, std::size_t> index;
  std::vector<std::size_t> box_of(graph.tasks.size(), 0);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!selected[i]) continue;
    const std::string name = box_name(graph.tasks[i], line.collapse);
    const auto [at, fresh] = index.try_emplace(name, boxes.size());
    if (fresh) boxes.push_back({name, graph.tasks[i].label, 0, 0});
    box_of[i] = at->second;
    ++boxes[at->second].tasks;
    boxes[at->second].cached += cached[i];
  }
  std::set<Arrow> arrows;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!selected[i]) continue;
    for (const auto& edge : graph.tasks[i].inputs) {
      if (selected[edge.producer]) arrows.insert({box_of[edge.producer], box_of[i], edge.snapshot});
    }
  }

  if (line.format == "json") {
    Json nodes = Json::array(), edges = Json::array();
    for (const Box& box : boxes) {
      Json node{{"name", box.name}, {"stage", box.stage}, {"tasks", box.tasks}};
      if (line.cached) node["cached"] = box.cached;
      nodes.push_back(std::move(node));
    }
    for (const Arrow& arrow : arrows) {
      Json edge{{"from", boxes[arrow.from].name}, {"to", boxes[arrow.to].name}};
      if (!arrow.label.empty()) edge["snapshot"] = arrow.label;
      edges.push_back(std::move(edge));
    }
    print_json({{"schema", "pe-graph/1"},
                {"schema_version", 1},
                {"pipeline", graph.name},
                {"nodes", nodes},
                {"edges", edges}});
    return pipeline::kRunDone;
  }
  const bool mermaid = line.format == "mermaid";
  const auto label = [&](const Box& box) {
    std::string text = box.name;
    if (box.tasks > 1) text += cat(mermaid ? " ×" : " x", box.tasks);
    return escaped(text, mermaid);
  };
  std::string out = mermaid
                        ? "flowchart LR\n"
                        : cat("digraph \"", escaped(graph.name, false), "\" {\n  rankdir=LR;\n  node [shape=box];\n");
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const bool there = line.cached && boxes[i].cached == boxes[i].tasks;
    if (mermaid)
      out += cat("  n", i, "[\"", label(boxes[i]), "\"]", there ? ":::cached" : "", "\n");
    else
      out += cat("  n", i, " [label=\"", label(boxes[i]), "\"", there ? ", style=filled, fillcolor=palegreen" : "",
                 "];\n");
  }
  for (const Arrow& arrow : arrows) {
    if (mermaid) {
      out += cat("  n", arrow.from, " -->", arrow.label.empty() ? "" : cat("|\"", escaped(arrow.label, true), "\"|"),
                 " n", arrow.to, "\n");
    } else {
      out += cat("  n", arrow.from, " -> n", arrow.to,
                 arrow.label.empty() ? "" : cat(" [label=\"", escaped(arrow.label, false), "\"]"), ";\n");
    }
  }
  if (mermaid && line.cached) out += "  classDef cached fill:#d5f5d5\n";
  if (!mermaid) out += "}\n";
  print(out);
  return pipeline::kRunDone;
}

}  // namespace pe::commands
