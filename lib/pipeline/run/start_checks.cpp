#include "pipeline/run/start_checks.h"

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/capture_within.h"
#include "support/error.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

namespace {

constexpr double kCheckSecondsEach = 0.1;  // beside the patience, for each config

bool will_run(const Plan& plan, std::size_t i) {
  return plan.tasks[i].state == TaskState::kRun || plan.tasks[i].state == TaskState::kLikelyReuse;
}

}  // namespace

void refuse_impossible(const Graph& graph, const Plan& plan, const Capacity& capacity) {
  support::Diagnostics diagnostics;
  std::map<std::string, std::pair<std::string, std::size_t>> seen;  // message → (first id, count)
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!will_run(plan, i)) continue;
    const std::string why = impossible(graph.tasks[i].resources, capacity);
    if (why.empty()) continue;
    auto [at, fresh] = seen.try_emplace(graph.tasks[i].label + "\n" + why, graph.tasks[i].id, 0);
    ++at->second.second;
  }
  for (const auto& [key, value] : seen) {
    const auto& [id, count] = value;
    diagnostics.add(cat(quote(id), count > 1 ? cat(" and ", count - 1, " more") : std::string(),
                        " cannot run here: ", key.substr(key.find('\n') + 1)));
  }
  diagnostics.throw_if_any();
}

namespace {

/// Where the first field that a message names in quotes was set: of 'model.encoding' the line of that key or of one
/// below it.
support::Place place_named_in(const std::string& message, const support::Origins& origins) {
  for (std::size_t from = message.find('\''); from != std::string::npos; from = message.find('\'', from + 1)) {
    const std::size_t to = message.find('\'', from + 1);
    if (to == std::string::npos) break;
    const std::string name = message.substr(from + 1, to - from - 1);
    const auto found = origins.lower_bound(name);
    if (found == origins.end()) continue;
    if (found->first == name || found->first.rfind(name + ".", 0) == 0) return found->second;
  }
  return {};
}

}  // namespace

namespace {

/// The answers of a stage to its configs, in order, one a line: {"ok": true} or {"ok": false, "errors": ["…"]}.
class Answers {
 public:
  Answers(const Graph& graph, const std::vector<std::size_t>& tasks, const support::Captured& captured)
      : graph_(graph), tasks_(tasks) {
    for (const std::string& line : support::split(captured.out, '\n')) {
      const Json answer = support::parse_json(line, support::kForeignJson);
      if (!answer.is_object() || answered_ >= tasks.size()) continue;
      take(answer, tasks[answered_++]);
    }
  }

  /// The refusals, equal ones told once.
  std::vector<support::Diagnostic> refusals() const {
    std::vector<support::Diagnostic> diagnostics;
    for (const auto& [message, where] : refused_) {
      const std::string more = where.second > 1 ? cat(" and ", where.second - 1, " more") : std::string();
      diagnostics.push_back({cat(graph_.tasks[where.first].id, more, ": ", message),
                             place_named_in(message, graph_.origins_of(graph_.tasks[where.first])), {}, {}});
    }
    return diagnostics;
  }
  bool complete() const { return answered_ == tasks_.size(); }
  std::size_t answered() const { return answered_; }

 private:
  void take(const Json& answer, std::size_t task) {
    const auto ok = answer.find("ok"), errors = answer.find("errors");
    bool told = false;
    if (errors != answer.end() && errors->is_array()) {
      for (const Json& error : *errors) {
        refuse(error.is_string() ? error.get<std::string>() : "an error that is no text", task);
        told = true;
      }
    }
    if (!told && (ok == answer.end() || !ok->is_boolean() || !ok->get<bool>()))
      refuse("its config is refused, without a reason", task);
  }
  void refuse(const std::string& message, std::size_t task) {
    ++refused_.try_emplace(message, task, 0).first->second.second;
  }

  const Graph& graph_;
  const std::vector<std::size_t>& tasks_;
  std::map<std::string, std::pair<std::size_t, std::size_t>> refused_;  // message → (first task, how many)
  std::size_t answered_ = 0;
};

}  // namespace

void check_configs(const Graph& graph, const Plan& plan, double patience_s, const std::function<int()>& stop) {
  std::map<std::string, std::vector<std::size_t>> by_executable;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (will_run(plan, i) && !graph.tasks[i].stage->executable.empty()) {
      by_executable[graph.tasks[i].stage->executable].push_back(i);
    }
  }
  const auto asked_to_stop = [&] { return stop && stop() > 0; };
  for (const auto& [executable, tasks] : by_executable) {
    std::string lines;
    for (const std::size_t i : tasks) lines += graph.tasks[i].config->dump() + "\n";
    const double limit_s = patience_s + kCheckSecondsEach * static_cast<double>(tasks.size());
    const auto captured = support::capture_within({executable, "--check"},
                                                  {.timeout_s = limit_s, .input = lines, .stop = asked_to_stop});
    if (captured.stopped) return;
    if (captured.timed_out) {
      throw support::ConfigError(cat(quote(executable), " did not answer --check within ",
                                     support::short_duration(limit_s)),
                                 {}, "a stage reads configs from standard input, one a line, until it ends");
    }
    const Answers answers(graph, tasks, captured);
    auto diagnostics = answers.refusals();
    const std::string program = std::filesystem::path(executable).filename().string();
    if (diagnostics.empty() && captured.status.code != 0) {
      const std::string text(support::trim(captured.err.empty() ? captured.out : captured.err));
      diagnostics.push_back(
          {cat(program, " refuses a config (exit code ", captured.status.code, "):\n", text), {}, {}, {}});
    } else if (diagnostics.empty() && !answers.complete()) {
      diagnostics.push_back({cat(program, " answered ", answers.answered(), " of ", tasks.size(), " configs"), {},
                             R"(--check writes {"ok": true} or {"ok": false, "errors": ["…"]} for each, one a line)", {}});
    }
    if (!diagnostics.empty()) throw support::ConfigError(std::move(diagnostics));
  }
}

}  // namespace pe::pipeline
