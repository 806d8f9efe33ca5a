#include "cli/tool_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/print.h"
#include "support/error.h"
#include "support/program.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::cli {

using support::cat;
using support::ConfigError;

const std::string& ToolValues::text(const std::string& flag) const { return values_.at(flag).front(); }

std::int64_t ToolValues::integer(const std::string& flag, std::int64_t least, std::int64_t most) const {
  const auto value = support::parse_integer(text(flag), support::Suffixes::kNone);
  if (!value || *value < least || *value > most) {
    throw ConfigError(cat("expected a whole number from ", least, " to ", most, ", found ", support::quote(text(flag))),
                      {flag, 0, 0, "", 1});
  }
  return *value;
}

namespace {

std::string footer_of(const ToolText& text) {
  std::string footer = "\n";
  for (const std::string& example : text.examples) footer += cat("  ", example, "\n");
  footer += text.epilogue;
  if (!text.exits.empty()) footer += cat("Exit codes: ", text.exits, "\n");
  return footer;
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
    throw ConfigError(cat("expected one of ", support::join(flag.choices, ", "), ", found ", support::quote(value)),
                      {flag.name, 0, 0, "", 1}, support::suggestion(value, flag.choices));
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
  CLI::App app{text.summary, text.program};
  app.set_help_flag("-h,--help", "Show this and end");
  bool version = false;
  app.add_flag("--version", version, "Show the version and end");
  std::vector<std::string> names = {"--help", "--version"};
  std::map<std::string, bool> switches;
  std::vector<std::string> words;
  if (!text.verbs.empty()) {  // before the flags, whose values may follow it as words
    CLI::Option* verb = app.add_option("verb", words, support::join(text.verbs, ", "))->type_name("");
    if (std::any_of(text.flags.begin(), text.flags.end(), [](const ToolFlag& flag) { return flag.plain; }))
      verb->expected(1)->allow_extra_args(false);
  }
  for (const ToolFlag& flag : text.flags) {
    names.push_back(flag.name);
    if (flag.type.empty()) {
      app.add_flag(flag.name, switches[flag.name], flag.help);
      continue;
    }
    std::string help = flag.help;
    if (!flag.fallback.empty()) help += cat(" [default: ", flag.fallback, "]");
    // CLI11 would say "is required" itself, before the flag that was misspelt; we ask afterwards.
    const std::string names_of_it = flag.plain ? cat(flag.name, ",", flag.name.substr(2)) : flag.name;
    app.add_option(names_of_it, values.values_[flag.name], help)->type_name(flag.type)->allow_extra_args(false);
  }
  app.footer(footer_of(text));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print(app.help());
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
    print(cat(text.program, " ", support::version_and_build(text.version), "\n"));
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
