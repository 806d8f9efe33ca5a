#include "cli/tool_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/layout.h"
#include "cli/print.h"
#include "cli/terminal.h"
#include "support/error.h"
#include "support/program.h"
#include "support/suggest.h"
#include "support/text.h"
#include "support/version.h"

namespace pe::cli {

using support::cat;
using support::ConfigError;

const std::string& ToolValues::text(const std::string& flag) const { return values_.at(flag).front(); }

std::int64_t ToolValues::integer(const std::string& flag, std::int64_t least, std::int64_t most) const {
  const auto value = support::parse_integer(text(flag), support::Suffixes::kNone);
  if (!value || *value < least || *value > most) {
    throw ConfigError(
        cat(flag, " must be a whole number from ", least, " to ", most, ", found ", support::quote(text(flag))));
  }
  return *value;
}

namespace {

std::string help(const ToolText& text, int columns) {
  std::string out = cat("usage: ", text.program, text.verbs.empty() ? "" : cat(" ", support::join(text.verbs, "|")),
                        " [flags]\n\n", wrapped(text.summary, columns, 0), "\nFlags:\n");
  for (const ToolFlag& flag : text.flags) {
    std::string meaning = flag.help;
    if (!flag.choices.empty()) meaning += cat(": ", support::join(flag.choices, ", "));
    if (!flag.fallback.empty()) meaning += cat(" (default ", flag.fallback, ")");
    if (flag.plain) meaning += cat("; the name ", flag.name, " may be left out");
    out += entry(flag_label(flag.name, flag.type), meaning, 30, columns);
  }
  out += entry(flag_label("-h,--help", ""), "Show this", 30, columns);
  out += entry(flag_label("--version", ""), "Show the version", 30, columns);
  if (!text.epilogue.empty()) {
    std::string paragraph = text.epilogue;
    std::replace(paragraph.begin(), paragraph.end(), '\n', ' ');
    out += "\n" + wrapped(paragraph, columns, 0);
  }
  if (!text.examples.empty()) out += "\nExamples:\n";
  for (const std::string& example : text.examples) out += cat("  ", example, "\n");
  if (!text.exits.empty()) out += "\nExit codes:\n" + wrapped(text.exits, columns, 2);
  return out;
}

void check_values(const ToolFlag& flag, const std::vector<std::string>& given) {
  if (given.empty() && flag.required) {
    throw ConfigError(cat(flag.name, " is missing"), {}, cat("add ", flag.plain ? "" : flag.name + " ", flag.type));
  }
  if (given.size() > 1 && !flag.many) {
    throw ConfigError(cat(flag.name, " is given ", given.size(), " times"), {});
  }
  for (const std::string& value : given) {
    if (flag.choices.empty() || std::find(flag.choices.begin(), flag.choices.end(), value) != flag.choices.end())
      continue;
    throw ConfigError(
        cat(flag.name, " must be one of ", support::join(flag.choices, ", "), ", found ", support::quote(value)), {},
        support::did_you_mean(value, flag.choices));
  }
}

void check_verb(const std::vector<std::string>& words, const std::vector<std::string>& verbs) {
  if (words.size() != 1) {
    throw ConfigError(words.empty() ? "do what?" : "expected one verb", {}, cat("one of ", support::join(verbs, ", ")));
  }
  if (std::find(verbs.begin(), verbs.end(), words.front()) == verbs.end()) {
    throw ConfigError(cat("unknown verb ", support::quote(words.front())), {},
                      support::suggestion(words.front(), verbs));
  }
}

}  // namespace

std::optional<int> parse_tool_flags(int argc, char** argv, const ToolText& text, ToolValues& values) {
  CLI::App app;
  app.set_help_flag("-h,--help");
  bool version = false;
  app.add_flag("--version", version);
  std::vector<std::string> names = {"--help", "--version"};
  std::map<std::string, bool> switches;
  std::vector<std::string> words;
  if (!text.verbs.empty()) {  // before the flags, whose values may follow it as words
    CLI::Option* verb = app.add_option("verb", words);
    if (std::any_of(text.flags.begin(), text.flags.end(), [](const ToolFlag& flag) { return flag.plain; }))
      verb->expected(1)->allow_extra_args(false);
  }
  for (const ToolFlag& flag : text.flags) {
    names.push_back(flag.name);
    if (flag.type.empty()) {
      app.add_flag(flag.name, switches[flag.name]);
      continue;
    }
    // CLI11 would say "is required" itself, before the flag that was misspelt; we ask afterwards.
    const std::string names_of_it = flag.plain ? cat(flag.name, ",", flag.name.substr(2)) : flag.name;
    app.add_option(names_of_it, values.values_[flag.name])->allow_extra_args(false);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print(help(text, std::clamp(terminal_size(1).columns, 40, 100)));
    return 0;
  } catch (const CLI::ExtrasError&) {
    const std::vector<std::string> unknown = app.remaining();
    const std::string word = unknown.empty() ? "" : unknown.front();
    throw ConfigError(cat("unknown argument ", support::quote(word)), {},
                      support::suggestion(word.substr(0, word.find('=')), names));
  } catch (const CLI::ParseError& error) {
    throw ConfigError(error.what(), {}, cat("see ", text.program, " --help"));
  }
  if (version) {
    print(cat(text.program, " ", support::version_and_build(PE_VERSION), "\n"));
    return 0;
  }
  for (const ToolFlag& flag : text.flags) {
    std::vector<std::string>& given = values.values_[flag.name];
    if (flag.type.empty()) {
      if (switches[flag.name]) given = {"true"};
      continue;
    }
    if (given.empty() && !flag.fallback.empty() && !flag.required) given = {flag.fallback};
    check_values(flag, given);
  }
  if (!text.verbs.empty()) {
    check_verb(words, text.verbs);
    values.verb_ = words.front();
  }
  return std::nullopt;
}

}  // namespace pe::cli
