#include <algorithm>

#include "cli/command_line.h"
#include "cli/command_table.h"
#include "cli/layout.h"
#include "support/text.h"

namespace pe::cli {

using support::cat;

std::vector<UsagePlace> usage_places(const std::string& usage) {
  std::vector<UsagePlace> out;
  int depth = 0;
  for (std::string word : support::split(usage, ' ')) {
    UsagePlace place;
    while (!word.empty() && word.front() == '[') {
      ++depth;
      word.erase(0, 1);
    }
    place.optional = depth > 0;
    while (!word.empty() && word.back() == ']') {
      --depth;
      word.pop_back();
    }
    if (word.size() > 3 && word.compare(word.size() - 3, 3, "...") == 0) {
      place.repeats = true;
      word.resize(word.size() - 3);
    }
    if (word.empty() || word == "flags" || word.front() == '-') continue;
    place.kind = word;
    out.push_back(std::move(place));
  }
  return out;
}

std::string help_text(const CommandTable& table, const std::string& name, int columns) {
  columns = std::clamp(columns, 40, 100);
  const Command* command = find_command(table, name);
  std::string out;
  if (!command) {
    out += "usage: pe-pipeline COMMAND [ARGS]\n\n";
    out += wrapped(kSummary, columns, 0) + "\n";
    for (const Command& each : table) out += entry("  " + each.name, each.summary, 14, columns);
    out += "\n" + entry("  --version", "Show the version", 14, columns);
    out +=
        "\nExamples:\n  pe-pipeline run pipelines/quickstart.yml\n  pe-pipeline plan pipelines/fineweb_grid.yml\n"
        "  pe-pipeline help run\n";
    out += "\nExit codes:\n" + wrapped(kExitCodes, columns, 2) + "\nEnvironment:\n" + wrapped(kEnvironment, columns, 2);
    return out;
  }
  out += cat("usage: pe-pipeline ", command->name, " ", command->usage, "\n\n", command->summary, ".\n");
  if (!command->text.empty()) out += "\n" + wrapped(command->text, columns, 0);
  if (!command->flags.empty()) out += "\nFlags:\n";
  for (const Flag& flag : command->flags) {
    out +=
        entry(flag_label(flag.names, flag.value), flag.help + (flag.repeats ? "; may be repeated" : ""), 30, columns);
  }
  if (!command->flags.empty()) out += entry("  -h, --help", "Show this", 30, columns);
  if (!command->examples.empty()) out += "\nExamples:\n";
  for (const auto& [example, meaning] : command->examples) {
    out += "  " + example + (meaning.empty() ? "" : "   # " + meaning) + "\n";
  }
  if (!command->exits.empty()) out += "\nExit codes:\n" + wrapped(command->exits, columns, 2);
  return out;
}

}  // namespace pe::cli
