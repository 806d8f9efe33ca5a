#include "cli/manual.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "cli/command_table.h"
#include "cli/stage_flags.h"
#include "support/text.h"
#include "support/version.h"

namespace pe::cli {

namespace {

using support::cat;

/// Text that troff shows unchanged. A minus that people may copy is no hyphen.
std::string escaped(const std::string& text) {
  std::string out;
  bool fresh = true;
  for (const char c : text) {
    if (fresh && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\'')
      out += "\\(aq";
    else if (c == '^')
      out += "\\(ha";
    else if (c == '~')
      out += "\\(ti";
    else if (c == '`')
      out += "\\(ga";
    else
      out += c;
    fresh = c == '\n';
  }
  return out;
}

/// One argument of a macro.
std::string argument(const std::string& text) {
  std::string out = "\"";
  for (const char c : escaped(text)) out += c == '"' ? "\\(dq" : std::string(1, c);
  return out + "\"";
}

std::string heading(const std::string& name, const std::string& date, const std::string& version) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  return cat(".TH ", argument(upper), " 1 \"", date, "\" ", argument("pe-pipeline " + version), " ",
             argument("pe-pipeline manual"), "\n");
}

std::string section(const std::string& title) { return cat(".SH ", title, "\n"); }

std::string paragraphs(const std::string& text) {
  std::string out;
  bool first = true;
  for (const std::string& part : support::split(text, '\n')) {
    if (part.empty()) continue;
    if (!first) out += ".PP\n";
    first = false;
    out += escaped(part) + "\n";
  }
  return out;
}

/// Unchanged lines.
std::string verbatim(const std::string& text) {
  return cat(".nf\n", escaped(text), text.empty() || text.back() != '\n' ? "\n" : "", ".fi\n");
}

/// "0 done; 1 a task failed." as a list, where every part begins with its number; else unchanged.
std::string exit_list(const std::string& text) {
  std::string out;
  std::string rest = text;
  if (!rest.empty() && rest.back() == '.') rest.pop_back();
  for (const std::string& part : support::split(rest, ';')) {
    const std::string trimmed(support::trim(part));
    const auto digits = trimmed.find_first_not_of("0123456789");
    if (digits == 0) return paragraphs(text);
    out += cat(
        ".TP\n.B ", trimmed.substr(0, digits), "\n",
        digits == std::string::npos ? "Done.\n" : escaped(std::string(support::trim(trimmed.substr(digits)))) + "\n");
  }
  return out;
}

std::string flag_entry(const std::string& names, const std::string& value, const std::string& help, bool repeats) {
  std::string label;
  for (const std::string& name : support::split(names, ',')) {
    label += cat(label.empty() ? "" : ", ", "\\fB", escaped(name), "\\fR");
  }
  if (!value.empty()) label += cat(" \\fI", escaped(value), "\\fR");
  return cat(".TP\n", label, "\n", escaped(help), repeats ? "; may be repeated" : "", ".\n");
}

std::string title_of(const std::string& name, const std::string& summary) {
  std::string lower = summary;
  if (lower.size() > 1 && std::islower(static_cast<unsigned char>(lower[1])))
    lower[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(lower[0])));
  while (!lower.empty() && lower.back() == '.') lower.pop_back();
  std::replace(lower.begin(), lower.end(), '\n', ' ');
  return cat(section("NAME"), escaped(name), " \\- ", escaped(lower), "\n");
}

std::string see_also(const std::vector<std::string>& names) {
  std::string out = section("SEE ALSO");
  for (std::size_t i = 0; i < names.size(); ++i) {
    out += cat(".BR ", escaped(names[i]), " (1)", i + 1 < names.size() ? "," : "", "\n");
  }
  return out;
}

}  // namespace

std::string manual_name(const std::string& command) {
  return command.empty() ? "pe-pipeline" : "pe-pipeline-" + command;
}

std::string command_manual(const CommandTable& table, const std::string& name, const std::string& version,
                           const std::string& date) {
  const Command* command = name.empty() ? nullptr : find_command(table, name);
  std::string out = heading(manual_name(name), date, version);
  if (!command) {
    out += title_of("pe-pipeline", "make what a pipeline file describes and the store does not have yet");
    out += section("SYNOPSIS") + ".B pe\\-pipeline\n.I COMMAND\n[\\fIARGUMENTS\\fR]\n";
    out += section("DESCRIPTION") + paragraphs(kSummary);
    out += section("COMMANDS");
    for (const Command& each : table) {
      out += cat(".TP\n.BR ", escaped(manual_name(each.name)), " (1)\n", escaped(each.summary), ".\n");
    }
    out += section("EXIT STATUS") + exit_list(kExitCodes);
    out += section("ENVIRONMENT") + paragraphs(kEnvironment);
    out += section("EXAMPLES") +
           verbatim("pe-pipeline run pipelines/quickstart.yml\npe-pipeline plan pipelines/fineweb_grid.yml\n");
    std::vector<std::string> others;
    for (const Command& each : table) others.push_back(manual_name(each.name));
    return out + see_also(others);
  }
  out += title_of(manual_name(name), command->summary);
  out += section("SYNOPSIS") + cat(".B pe\\-pipeline ", escaped(name), "\n", escaped(command->usage), "\n");
  out += section("DESCRIPTION") + paragraphs(command->text.empty() ? command->summary + "." : command->text);
  if (!command->flags.empty()) {
    out += section("OPTIONS");
    for (const Flag& flag : command->flags) out += flag_entry(flag.names, flag.value, flag.help, flag.repeats);
    out += flag_entry("-h,--help", "", "Show the command's help", false);
  }
  if (!command->exits.empty()) out += section("EXIT STATUS") + exit_list(command->exits);
  if (!command->examples.empty()) {
    out += section("EXAMPLES");
    std::string lines;
    for (const auto& [example, meaning] : command->examples) {
      lines += example + (meaning.empty() ? "" : "   # " + meaning) + "\n";
    }
    out += verbatim(lines);
  }
  return out + see_also({"pe-pipeline"});
}

std::string stage_manual(const StagePage& page, const std::string& date) {
  std::string out = heading(page.program, date, page.version);
  out += title_of(page.program, page.summary);
  out +=
      section("SYNOPSIS") + cat(".B ", escaped(page.program),
                                "\n[\\fB\\-\\-config\\fR \\fIFILE\\fR] [\\fB\\-\\-set\\fR \\fIKEY=VALUE\\fR] "
                                "[\\fB\\-\\-input\\fR \\fIROLE=PATH\\fR] [\\fB\\-\\-output\\fR \\fIROLE=PATH\\fR]\n");
  out += section("DESCRIPTION") + paragraphs(page.summary + (page.summary.back() == '.' ? "" : "."));
  out += ".PP\nA stage of pe\\-pipeline; run alone it writes the same bytes as within a pipeline.\n";
  const auto roles = [&](const char* title, const std::vector<StagePage::Entry>& entries) {
    if (entries.empty()) return;
    out += section(title);
    for (const auto& entry : entries) out += cat(".TP\n.B ", escaped(entry.name), "\n", escaped(entry.text), "\n");
  };
  roles("INPUTS", page.inputs);
  roles("OUTPUTS", page.outputs);
  out += section("OPTIONS");
  for (const StageFlag& flag : stage_flags()) out += flag_entry(flag.names, flag.value, flag.help, flag.repeats);
  out += flag_entry("-h,--help", "", "Show help", false) + flag_entry("--version", "", "Show the version", false);
  if (!page.fields.empty()) out += section("\"CONFIG FIELDS\"") + verbatim(page.fields);
  out += section("EXIT STATUS") + exit_list(kStageExitCodes);
  return out + see_also({"pe-pipeline", "pe-pipeline-run"});
}

namespace {

/// The text that troff shows for the output of `escaped`.
std::string unescaped(std::string text) {
  for (const auto& [sequence, shown] : {std::pair{"\\fB", ""},
                                        {"\\fI", ""},
                                        {"\\fR", ""},
                                        {"\\&", ""},
                                        {"\\-", "-"},
                                        {"\\(aq", "'"},
                                        {"\\(ha", "^"},
                                        {"\\(ti", "~"},
                                        {"\\(ga", "`"},
                                        {"\\(dq", "\""},
                                        {"\\e", "\\"}}) {
    const std::string what = sequence;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + std::strlen(shown)))
      text.replace(at, what.size(), shown);
  }
  return text;
}

}  // namespace

std::string plain_manual(const std::string& page) {
  std::string out;
  bool tagged = false;  // the next line is the term of a list
  std::string indent = "    ";
  for (const std::string& line : support::split(page, '\n')) {
    if (line.starts_with(".TH ") || line == ".nf" || line == ".fi" || line.empty()) continue;
    if (line.starts_with(".SH ")) {
      std::string title = line.substr(4);
      title.erase(std::remove(title.begin(), title.end(), '"'), title.end());
      out += cat(out.empty() ? "" : "\n", title, "\n");
      indent = "    ";
    } else if (line == ".PP") {
      out += "\n";
    } else if (line == ".TP") {
      tagged = true;
    } else {
      std::string text = line;
      for (const char* macro : {".BR ", ".B ", ".I "}) {
        if (text.starts_with(macro)) text.erase(0, std::strlen(macro));
      }
      out += cat(tagged ? "    " : indent, unescaped(text), "\n");
      if (tagged) indent = "        ";
      tagged = false;
    }
  }
  return out;
}

std::string tool_manual(const ToolText& tool, const std::string& date) {
  std::string out = heading(tool.program, date, PE_VERSION);
  out += title_of(tool.program, tool.summary);
  out += section("SYNOPSIS") + cat(".B ", escaped(tool.program), "\n");
  if (!tool.verbs.empty()) out += escaped(support::join(tool.verbs, "|")) + "\n";
  for (const ToolFlag& flag : tool.flags) {
    const std::string name = cat("\\fB", escaped(flag.name), "\\fR");
    const std::string shown =
        cat(flag.plain ? cat("[", name, "]") : name, flag.type.empty() ? "" : cat(" \\fI", escaped(flag.type), "\\fR"));
    out += flag.required ? shown + "\n" : cat("[", shown, "]\n");
  }
  out += section("DESCRIPTION") + paragraphs(tool.summary) +
         (tool.epilogue.empty() ? "" : ".PP\n" + paragraphs(tool.epilogue));
  out += section("OPTIONS");
  for (const ToolFlag& flag : tool.flags) {
    std::string help = flag.help;
    if (!flag.choices.empty()) help += cat(": ", support::join(flag.choices, ", "));
    if (!flag.fallback.empty()) help += cat(" (default ", flag.fallback, ")");
    out += flag_entry(flag.name, flag.type, help, false);
  }
  out += flag_entry("-h,--help", "", "Show help", false) + flag_entry("--version", "", "Show the version", false);
  if (!tool.exits.empty()) out += section("EXIT STATUS") + exit_list(tool.exits);
  if (!tool.examples.empty()) out += section("EXAMPLES") + verbatim(support::join(tool.examples, "\n") + "\n");
  return out + see_also({"pe-pipeline"});
}

}  // namespace pe::cli
