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
  std::string label;                                            ///< or "*"
  std::vector<std::pair<std::string, std::vector<std::string>>> axes;   ///< axis → labels, "*" for any
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
  const std::size_t bracket = rest.find('[');
  selector.label = std::string(rest.substr(0, bracket));
  if (selector.label.empty()) selector.label = std::string(1, '*');   // `[axis=label]` alone means any stage
  const auto fail = [&](const std::string& what) -> Selector {
    throw ConfigError(what, place_of(text), "such as trunk, 'trunk[encoding=rope,seed=*]', +report or trunk+");
  };
  if (rest.empty()) return fail("an empty selection");
  if (bracket != std::string_view::npos) {
    if (rest.back() != ']') return fail("']' is missing at the end");
    const std::string_view inside = rest.substr(bracket + 1, rest.size() - bracket - 2);
    for (const std::string& part : support::split(inside, ',')) {
      const std::size_t equals = part.find('=');
      if (equals == std::string::npos) return fail(cat(quote(part), " is no axis=label"));
      const std::string axis(support::trim(std::string_view(part).substr(0, equals)));
      const std::string label(support::trim(std::string_view(part).substr(equals + 1)));
      if (axis.empty() || label.empty()) return fail(cat(quote(part), " is no axis=label"));
      auto it = std::find_if(selector.axes.begin(), selector.axes.end(), [&](const auto& e) { return e.first == axis; });
      if (it == selector.axes.end()) it = selector.axes.insert(it, {axis, {}});
      it->second.push_back(label);
    }
  }
  return selector;
}

bool fits(const Task& task, const Selector& selector) {
  if (selector.label != "*" && selector.label != task.label) return false;
  for (const auto& [axis, labels] : selector.axes) {
    const auto it = std::find_if(task.axes.begin(), task.axes.end(),
                                 [&name = axis](const auto& own) { return own.first == name; });
    if (it == task.axes.end()) return false;
    const bool any = std::any_of(labels.begin(), labels.end(),
                                 [&](const std::string& label) { return label == "*" || label == it->second; });
    if (!any) return false;
  }
  return true;
}

/// What there is, nearest to what was asked for.
[[noreturn]] void nothing_matches(const Graph& graph, const Selector& selector, const std::string& text) {
  const auto& stages = graph.stage_labels;
  std::string message = "nothing matches";
  std::string hint;
  const auto choose = [](const std::string& word, const std::vector<std::string>& words) {
    std::string found = support::suggestion(word, words);
    return found.empty() ? cat("there are ", support::join(words, ", ")) : found;
  };
  if (selector.label != "*" && std::find(stages.begin(), stages.end(), selector.label) == stages.end()) {
    message = cat("no stage ", quote(selector.label));
    hint = choose(selector.label, stages);
  } else {
    for (const auto& [axis, labels] : selector.axes) {
      std::set<std::string> axes;
      std::vector<std::string> known;
      for (const Task& task : graph.tasks) {
        if (selector.label != "*" && task.label != selector.label) continue;
        for (const auto& [name, label] : task.axes) {
          axes.insert(name);
          if (name == axis && std::find(known.begin(), known.end(), label) == known.end()) known.push_back(label);
        }
      }
      const std::string where = selector.label == "*" ? "the pipeline" : cat("stage ", quote(selector.label));
      if (!axes.count(axis)) {
        message = cat(where, " has no axis ", quote(axis));
        hint = axes.empty() ? "it has one instance" : choose(axis, {axes.begin(), axes.end()});
        break;
      }
      for (const std::string& label : labels) {
        if (label == "*" || std::find(known.begin(), known.end(), label) != known.end()) continue;
        message = cat("axis ", quote(axis), " of ", where, " has no label ", quote(label));
        hint = choose(label, known);
      }
      if (!hint.empty()) break;
    }
    if (hint.empty()) {
      std::vector<std::string> some;
      for (const Task& task : graph.tasks) {
        if (selector.label != "*" && task.label != selector.label) continue;
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

bool matches(const Task& task, const std::string& selector) { return fits(task, parse(selector)); }

std::vector<bool> select(const Graph& graph, const std::vector<std::string>& selectors) {
  if (selectors.empty()) return std::vector<bool>(graph.tasks.size(), true);
  std::vector<bool> selected(graph.tasks.size());
  for (const std::string& text : selectors) {
    const Selector selector = parse(text);
    std::vector<bool> own(graph.tasks.size());
    bool any = false;
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      own[i] = fits(graph.tasks[i], selector);
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
