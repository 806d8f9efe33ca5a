#include <algorithm>
#include <map>
#include <set>

#include "commands/commands.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"
#include "support/process.h"
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
  std::map<pipeline::TaskState, std::size_t> states;  ///< with --cached

  std::size_t count(pipeline::TaskState state) const {
    const auto found = states.find(state);
    return found == states.end() ? 0 : found->second;
  }
  std::size_t reused() const { return count(pipeline::TaskState::kReuse); }
};

/// How a box looks that holds tasks of these states: the worst of them decides. Never by colour alone: the label
/// counts.
struct Look {
  const char* name;
  const char* fill;
  const char* line;
};

Look look_of(const Box& box) {
  using pipeline::TaskState;
  if (box.count(TaskState::kInputMissing)) return {"input_missing", "#f8d0cc", "#b3261e"};
  if (box.count(TaskState::kBlocked)) return {"blocked", "#f0e0d0", "#8a5a00"};
  if (box.reused() == box.tasks) return {"reuse", "#cfeedd", "#00734f"};
  if (box.reused() > 0) return {"partly_reuse", "#eef2cf", "#6a7000"};
  if (box.count(TaskState::kLikelyReuse) == box.tasks) return {"likely_reuse", "#dcecf8", "#0b5c91"};
  return {"run", "#ffffff", "#444444"};
}

/// "12 tasks, 4 reuse, 8 run".
std::string counts_of(const Box& box) {
  std::string out;
  if (box.tasks > 1) out = counted(box.tasks, "task");
  for (const auto& [state, count] : box.states) {
    const std::string_view name = pipeline::state_name(state);
    out += cat(out.empty() ? "" : ", ", box.tasks > 1 ? cat(count, " ") : "", name);
  }
  return out;
}

/// Through Graphviz. Large graphs are drawn with straight lines, or dot would take minutes.
std::string svg_of(const std::string& dot, std::size_t boxes) {
  if (!support::find_program("dot")) {
    throw support::ConfigError("there is no 'dot' on the PATH to draw SVG with", {"--format svg", 0, 0, "", 1},
                               "install Graphviz (apt-get install graphviz), or take --format mermaid or dot");
  }
  constexpr std::size_t kMostBoxes = 2000;
  if (boxes > kMostBoxes) {
    throw support::ConfigError(cat(support::with_commas(static_cast<std::int64_t>(boxes)),
                                   " boxes are more than dot can lay out or anybody can read"),
                               {"--format svg", 0, 0, "", 1},
                               "draw tasks together with --collapse AXIS (all: the stages), or select a part");
  }
  std::vector<std::string> command = {"dot", "-Tsvg"};
  if (boxes > 200) command.insert(command.end(), {"-Gsplines=line", "-Gnslimit=2", "-Gnslimit1=2", "-Gmclimit=0.2"});
  const support::CapturedOutput drawn = support::capture(command, dot);
  if (drawn.status.code != 0 || drawn.out.empty())
    throw support::IoError(cat("dot ended with ", drawn.status.code, ": ", support::trim(drawn.err)));
  return drawn.out;
}

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

std::string dot_of(const std::string& name, const std::vector<Box>& boxes, const std::set<Arrow>& arrows, bool cached) {
  std::string out = cat("digraph \"", escaped(name, false), "\" {\n  rankdir=LR;\n  tooltip=\"", escaped(name, false),
                        "\";\n  node [shape=box, style=\"filled,rounded\", fillcolor=\"#ffffff\", color=\"#444444\", "
                        "fontname=\"DejaVu Sans,Helvetica,sans-serif\", fontsize=10];\n  edge [color=\"#777777\", "
                        "fontname=\"DejaVu Sans,Helvetica,sans-serif\", fontsize=8, arrowsize=0.7];\n");
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const std::string counts = counts_of(boxes[i]);
    out += cat("  n", i, " [label=\"", escaped(boxes[i].name, false),
               counts.empty() ? "" : cat("\\n", escaped(counts, false)), "\"");
    if (cached) {
      const Look look = look_of(boxes[i]);
      out += cat(", fillcolor=\"", look.fill, "\", color=\"", look.line, "\"");
    }
    out += "];\n";
  }
  for (const Arrow& arrow : arrows) {
    out += cat("  n", arrow.from, " -> n", arrow.to,
               arrow.label.empty() ? "" : cat(" [label=\"", escaped(arrow.label, false), "\"]"), ";\n");
  }
  return out + "}\n";
}

std::string mermaid_of(const std::vector<Box>& boxes, const std::set<Arrow>& arrows, bool cached) {
  std::string out = "flowchart LR\n";
  std::map<std::string, Look> used;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const std::string counts = counts_of(boxes[i]);
    out += cat("  n", i, "[\"", escaped(boxes[i].name, true), counts.empty() ? "" : cat("<br>", escaped(counts, true)),
               "\"]");
    if (cached) {
      const Look look = look_of(boxes[i]);
      used.emplace(look.name, look);
      out += cat(":::", look.name);
    }
    out += "\n";
  }
  for (const Arrow& arrow : arrows) {
    out += cat("  n", arrow.from, " -->", arrow.label.empty() ? "" : cat("|\"", escaped(arrow.label, true), "\"|"),
               " n", arrow.to, "\n");
  }
  for (const auto& [name, look] : used)
    out += cat("  classDef ", name, " fill:", look.fill, ",stroke:", look.line, ",color:#111\n");
  return out;
}

Json graph_json(const std::string& name, const std::vector<Box>& boxes, const std::set<Arrow>& arrows, bool cached) {
  Json nodes = Json::array(), edges = Json::array();
  for (const Box& box : boxes) {
    Json node{{"name", box.name}, {"stage", box.stage}, {"tasks", box.tasks}};
    if (cached) {
      node["cached"] = box.reused();
      node["states"] = Json::object();
      for (const auto& [state, count] : box.states) node["states"][std::string(pipeline::state_name(state))] = count;
    }
    nodes.push_back(std::move(node));
  }
  for (const Arrow& arrow : arrows) {
    Json edge{{"from", boxes[arrow.from].name}, {"to", boxes[arrow.to].name}};
    if (!arrow.label.empty()) edge["snapshot"] = arrow.label;
    edges.push_back(std::move(edge));
  }
  return {{"schema", "pe-graph/1"}, {"schema_version", 1}, {"pipeline", name}, {"nodes", nodes}, {"edges", edges}};
}

}  // namespace

int graph_command(const cli::CommandLine& line) {
  const std::string file = pipeline_file_of(line);
  const fs::path store_folder = store_path(line, pipeline::find_root(file));
  const ExpandedPipeline loaded = load(line, file, store_folder);
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
  pipeline::Plan plan;
  if (line.cached) {
    const pipeline::Store store = open_for_reading(store_folder);
    plan = pipeline::make_plan(graph, pipeline::StoreReader(store));
  }
  std::vector<Box> boxes;
  std::map<std::string, std::size_t> index;
  std::vector<std::size_t> box_of(graph.tasks.size(), 0);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!selected[i]) continue;
    const std::string name = box_name(graph.tasks[i], line.collapse);
    const auto [at, fresh] = index.try_emplace(name, boxes.size());
    if (fresh) boxes.push_back({name, graph.tasks[i].label, 0, {}});
    box_of[i] = at->second;
    ++boxes[at->second].tasks;
    if (line.cached) ++boxes[at->second].states[plan.tasks[i].state];
  }
  std::set<Arrow> arrows;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!selected[i]) continue;
    for (const auto& edge : graph.tasks[i].inputs) {
      if (selected[edge.producer]) arrows.insert({box_of[edge.producer], box_of[i], edge.snapshot});
    }
  }
  if (line.format == "json") {
    print_json(graph_json(graph.name, boxes, arrows, line.cached));
    return pipeline::kRunDone;
  }
  const std::string out = line.format == "mermaid" ? mermaid_of(boxes, arrows, line.cached)
                                                   : dot_of(graph.name, boxes, arrows, line.cached);
  print(line.format == "svg" ? svg_of(out, boxes.size()) : out);
  return pipeline::kRunDone;
}

}  // namespace pe::commands
