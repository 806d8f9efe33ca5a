#include "commands/run_choice.h"

#include <algorithm>
#include <vector>

#include "commands/session.h"
#include "support/error.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {

using support::cat;
using support::ConfigError;
using support::quote;

std::optional<std::string> run_called(const pipeline::Store& store, const std::string& word, const std::string& flag) {
  constexpr std::size_t kShortest = 4;
  std::vector<std::string> found;
  for (const std::string& run : store.runs()) {
    if (run == word) return run;
    if (word.size() >= kShortest && run.rfind(word, 0) == 0) found.push_back(run);
  }
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return found.front();
  const std::size_t more = found.size() - std::min<std::size_t>(found.size(), 5);
  std::vector<std::string> newest(found.begin() + static_cast<std::ptrdiff_t>(more), found.end());
  throw ConfigError(cat(quote(word), " matches ", found.size(), " runs"), {flag, 0, 0, "", 1},
                    cat("give more of it: ", support::join(newest, ", "), more > 0 ? ", …" : ""));
}

std::string pick_run(const pipeline::Store& store, const std::string& wanted) {
  const std::vector<std::string> runs = store.runs();
  if (runs.empty())
    throw ConfigError(cat("the store ", quote(store.root().string()), " has no runs"), {},
                      "name another with --store, or run a pipeline first");
  if (wanted.empty() || wanted == "latest") return runs.back();
  if (const auto run = run_called(store, wanted, "--run")) return *run;
  const std::string near = support::suggestion(wanted, runs);
  throw ConfigError(cat("there is no run ", quote(wanted)), {"--run", 0, 0, "", 1},
                    near.empty() ? cat("the newest is ", runs.back(), "; `list runs` shows all") : near);
}

std::string take_run(const pipeline::Store& store, const cli::CommandLine& line) {
  const std::size_t room = line.run.empty() ? 1 : 0;
  if (line.words.size() > room) {
    throw ConfigError(cat("unexpected word ", quote(line.words[room])), {"pe-pipeline " + line.verb, 0, 0, "", 1},
                      "one run at a time, or a pipeline file (ending in .yml) and a run");
  }
  return pick_run(store, line.run.empty() && !line.words.empty() ? line.words.front() : line.run);
}

std::optional<pipeline::RunStatus> read_or_say(const pipeline::Store& store, const std::string& run) {
  try {
    return pipeline::read_run(store, run);
  } catch (const support::ArtifactError& error) {
    say(cat("pe-pipeline: warning: run ", run, " is left out: ", error.diagnostics().front().message, "\n"));
    return std::nullopt;
  }
}

}  // namespace pe::commands
