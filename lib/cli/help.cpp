#include <algorithm>

#include "cli/command_line.h"
#include "cli/command_table.h"
#include "support/text.h"

namespace pe::cli {

using support::cat;

namespace {

/// Text in lines of at most `columns`, each indented.
std::string wrapped(const std::string& text, int columns, int indent) {
  std::string out;
  for (const std::string& paragraph : support::split(text, '\n')) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    bool fresh = true;
    for (const std::string& word : support::split(paragraph, ' ')) {
      if (word.empty()) continue;
      if (!fresh && static_cast<int>(support::display_width(line) + 1 + support::display_width(word)) > columns) {
        out += line + "\n";
        line.assign(static_cast<std::size_t>(indent), ' ');
        fresh = true;
      }
      line += (fresh ? "" : " ") + word;
      fresh = false;
    }
    out += (fresh ? "" : line) + "\n";
  }
  return out;
}

/// `left` in a column of its own, `right` wrapped beside it.
std::string entry(const std::string& left, const std::string& right, int column, int columns) {
  std::string beside = wrapped(right, columns, column);
  if (static_cast<int>(support::display_width(left)) + 2 > column) return left + "\n" + beside;
  return left + std::string(static_cast<std::size_t>(column) - support::display_width(left), ' ') +
         beside.substr(static_cast<std::size_t>(column));
}

std::string flag_label(const Flag& flag) {
  std::string label = flag.names;
  const auto comma = label.find(',');
  if (comma != std::string::npos)
    label.insert(comma + 1, " ");
  else
    label = "    " + label;
  if (!flag.value.empty()) label += " " + flag.value;
  return "  " + label;
}

}  // namespace

std::string help_text(const std::string& name, int columns) {
  columns = std::clamp(columns, 40, 100);
  const Command* command = find_command(name);
  std::string out;
  if (!command) {
    out += "usage: pe-pipeline COMMAND [ARGS]\n\n";
    out += wrapped(kSummary, columns, 0) + "\n";
    for (const Command& each : commands()) out += entry("  " + each.name, each.summary, 12, columns);
    out += "\n" + entry("  --version", "Show the version", 12, columns);
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
    out += entry(flag_label(flag), flag.help + (flag.repeats ? "; may be repeated" : ""), 30, columns);
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
