#include "pipeline/run/run.h"

#include <algorithm>
#include <cctype>

#include "pipeline/run/execution.h"

namespace pe::pipeline {

std::string shell_quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '/' || c == '.' || c == '_' || c == '-' || c == '=' || c == ':' || c == ',' ||
           c == '+' || c == '@' || c == '%';
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

std::string shell_command(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + shell_quoted(word);
  return out;
}

RunSummary run(const Graph& graph, const Plan& plan, Store& store, Runner& runner, RunListener& listener,
               const RunOptions& options, const StopFunction& stop) {
  return Execution(graph, plan, store, runner, listener, options, stop).run();
}

}  // namespace pe::pipeline
