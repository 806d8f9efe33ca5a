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

void check_configs(const Graph& graph, const Plan& plan, double patience_s) {
  std::map<std::string, std::vector<std::size_t>> by_executable;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (will_run(plan, i) && !graph.tasks[i].stage->executable.empty()) {
      by_executable[graph.tasks[i].stage->executable].push_back(i);
    }
  }
  for (const auto& [executable, tasks] : by_executable) {
    std::string lines;
    for (const std::size_t i : tasks) lines += graph.tasks[i].config->dump() + "\n";
    const double limit_s = patience_s + kCheckSecondsEach * static_cast<double>(tasks.size());
    const auto captured = support::capture_within({executable, "--check"}, {.timeout_s = limit_s, .input = lines});
    if (captured.timed_out) {
      throw support::ConfigError(cat(quote(executable), " did not answer --check within ",
                                     support::short_duration(limit_s)),
                                 {}, "a stage reads configs from standard input, one a line, until it ends");
    }
    if (captured.status.code == 0) continue;
    // One answer a config, in order: {"ok": true} or {"ok": false, "errors": ["…"]}. Equal ones are told once.
    std::vector<support::Diagnostic> diagnostics;
    std::map<std::string, std::pair<std::size_t, std::size_t>> refused;  // message → (first task, how many)
    std::size_t at = 0;
    for (const std::string& line : support::split(captured.out, '\n')) {
      const Json answer = support::parse_json(line, support::kForeignJson);
      if (!answer.is_object() || at >= tasks.size()) continue;
      const std::size_t task = tasks[at++];
      if (!answer.contains("errors") || !answer["errors"].is_array()) continue;
      for (const Json& error : answer["errors"]) {
        ++refused.try_emplace(error.is_string() ? error.get<std::string>() : error.dump(), task, 0)
              .first->second.second;
      }
    }
    for (const auto& [message, where] : refused) {
      diagnostics.push_back(
          {cat(graph.tasks[where.first].id, where.second > 1 ? cat(" and ", where.second - 1, " more") : std::string(),
               ": ", message),
           place_named_in(message, graph.origins_of(graph.tasks[where.first]))});
    }
    if (diagnostics.empty()) {
      const std::string text(support::trim(captured.err.empty() ? captured.out : captured.err));
      diagnostics.push_back({cat(std::filesystem::path(executable).filename().string(), " refuses a config (exit code ",
                                 captured.status.code, "):\n", text)});
    }
    throw support::ConfigError(std::move(diagnostics));
  }
}

}  // namespace pe::pipeline
