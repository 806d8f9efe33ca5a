#include "cli/terminal.h"
#include "commands/chosen.h"
#include "commands/commands.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::commands {

namespace {

/// The first word of each line in its colour; after the table was laid out, since colours take columns there.
std::string painted(const std::string& text, const cli::Style& style) {
  std::string out;
  for (const std::string& line : support::split(text, '\n')) {
    if (line.empty()) continue;
    const std::string word = line.substr(0, line.find(' '));
    const std::string shown = word == "good" || word == "fixed" ? style.good(word)
                              : word == "warning"               ? style.warn(word)
                              : word == "bad"                   ? style.bad(word)
                                                                : word;
    out += shown + line.substr(word.size()) + "\n";
  }
  return out;
}

}  // namespace

int doctor_command(const cli::CommandLine& line) {
  using Level = pipeline::Finding::Level;
  const Scope scope = scope_of(line, /*may_make=*/true);  // it reports a missing store
  if (!scope.words.empty())
    throw support::ConfigError(
        support::cat("'doctor' takes a pipeline file or nothing, found ", support::quote(scope.words.front())),
        {"pe-pipeline doctor", 0, 0, "", 1});
  const auto findings = pipeline::examine(scope.store, {line.fix});
  std::size_t bad = 0;
  Json json{
      {"schema", "pe-doctor/1"}, {"schema_version", 1}, {"store", scope.store.string()}, {"findings", Json::array()}};
  std::vector<std::vector<std::string>> rows;
  for (const auto& finding : findings) {
    if (finding.level == Level::kBad && !finding.fixed) ++bad;
    json["findings"].push_back({{"level", level_name(finding.level)},
                                {"topic", finding.topic},
                                {"text", finding.text},
                                {"advice", finding.advice},
                                {"fixed", finding.fixed}});
    rows.push_back(
        {finding.fixed ? "fixed" : std::string(level_name(finding.level)), finding.topic,
         cli::harmless(finding.advice.empty() || finding.fixed ? finding.text
                                                               : support::cat(finding.text, ": ", finding.advice))});
  }
  json["bad"] = bad;
  if (line.json)
    print_json(json);
  else
    print(painted(table(rows), out_style(line)));
  return bad > 0 ? pipeline::kRunStore : pipeline::kRunDone;
}

}  // namespace pe::commands
