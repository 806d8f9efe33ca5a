#include "pipeline/file/selection.h"

#include <algorithm>
#include <set>

#include "support/error.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::ConfigError;
using support::quote;

namespace {

struct Selector {
  bool ancestors = false;
  bool descendants = false;
  TaskName name;  // a pattern
};

support::Place place_of(const std::string& text) {
  support::Place place;
  place.file = cat("selection ", quote(text));
  return place;
}

Selector parse(const std::string& text) {
  Selector selector;
  std::string_view rest = support::trim(text);
  if (!rest.empty() && rest.front() == '+') {
    selector.ancestors = true;
    rest.remove_prefix(1);
  }
  if (!rest.empty() && rest.back() == '+') {
    selector.descendants = true;
    rest.remove_suffix(1);
  }
  const auto fail = [&](const std::string& what) -> Selector {
    throw ConfigError(what, place_of(text), "such as trunk, 'trunk[encoding=rope,seed=*]', +report or trunk+");
  };
  if (rest.empty()) return fail("an empty selection");
  std::string why;
  auto name = parse_task_id(rest, &why);
  if (!name) return fail(why);
  selector.name = *std::move(name);
  if (selector.name.label.empty()) selector.name.label = "*";  // `[axis=label]` alone means any stage
  return selector;
}

/// Reports the existing names that are nearest to the selector.
[[noreturn]] void nothing_matches(const Graph& graph, const Selector& selector, const std::string& text) {
  const auto& stages = graph.stage_labels;
  std::string message = "nothing matches";
  std::string hint;
  const auto choose = [](const std::string& word, const std::vector<std::string>& words) {
    std::string found = support::suggestion(word, words);
    return found.empty() ? cat("there are ", support::join(words, ", ")) : found;
  };
  if (selector.name.label != "*" && std::find(stages.begin(), stages.end(), selector.name.label) == stages.end()) {
    message = cat("no stage ", quote(selector.name.label));
    hint = choose(selector.name.label, stages);
  } else {
    for (const auto& [axis, label] : selector.name.axes) {
      std::set<std::string> axes;
      std::vector<std::string> known;
      for (const Task& task : graph.tasks) {
        if (selector.name.label != "*" && task.label != selector.name.label) continue;
        for (const auto& [name, value] : task.axes) {
          axes.insert(name);
          if (name == axis && std::find(known.begin(), known.end(), value) == known.end()) known.push_back(value);
        }
      }
      const std::string where = selector.name.label == "*" ? "the pipeline" : cat("stage ", quote(selector.name.label));
      if (!axes.count(axis)) {
        message = cat(where, " has no axis ", quote(axis));
        hint = axes.empty() ? "it has one instance" : choose(axis, {axes.begin(), axes.end()});
      } else if (label != "*" && std::find(known.begin(), known.end(), label) == known.end()) {
        message = cat("axis ", quote(axis), " of ", where, " has no label ", quote(label));
        hint = choose(label, known);
      }
      if (!hint.empty()) break;
    }
    if (hint.empty()) {
      std::vector<std::string> some;
      for (const Task& task : graph.tasks) {
        if (selector.name.label != "*" && task.label != selector.name.label) continue;
        if (some.size() == 5) {
          some.push_back("…");
          break;
        }
        some.push_back(task.id);
      }
      hint = some.empty() ? "the stage has no instance" : cat("there are ", support::join(some, ", "));
    }
  }
  throw ConfigError(message, place_of(text), hint);
}

}  // namespace

bool matches(const TaskName& task, const std::string& selector) {
  return fits(parse(selector).name, task.label, task.axes);
}

std::vector<bool> select(const Graph& graph, const std::vector<std::string>& selectors) {
  if (selectors.empty()) return std::vector<bool>(graph.tasks.size(), true);
  std::vector<bool> selected(graph.tasks.size());
  for (const std::string& text : selectors) {
    const Selector selector = parse(text);
    std::vector<bool> own(graph.tasks.size());
    bool any = false;
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      own[i] = fits(selector.name, graph.tasks[i].label, graph.tasks[i].axes);
      any = any || own[i];
    }
    if (!any) nothing_matches(graph, selector, text);
    std::vector<bool> up = own, down = own;
    if (selector.ancestors) {
      for (std::size_t i = graph.tasks.size(); i-- > 0;) {
        if (!up[i]) continue;
        for (const Edge& edge : graph.tasks[i].inputs) up[edge.producer] = true;
      }
    }
    if (selector.descendants) {
      for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
        for (const Edge& edge : graph.tasks[i].inputs) down[i] = down[i] || down[edge.producer];
      }
    }
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) selected[i] = selected[i] || up[i] || down[i];
  }
  return selected;
}

}  // namespace pe::pipeline
