#include "cli/stage_flags.h"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "cli/field_help.h"
#include "cli/layout.h"
#include "cli/print.h"
#include "cli/terminal.h"
#include "support/error.h"
#include "support/program.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::cli {

using support::cat;
using support::ConfigError;
using support::quote;

namespace {

StageFlag text(std::string names, std::string value, std::string help, std::string StageFlags::*member) {
  return {std::move(names), std::move(value), std::move(help),
          [member](StageFlags& flags, const std::string& given) { flags.*member = given; }};
}

StageFlag list(std::string names, std::string value, std::string help, std::vector<std::string> StageFlags::*member) {
  return {std::move(names), std::move(value), std::move(help),
          [member](StageFlags& flags, const std::string& given) { (flags.*member).push_back(given); }, true};
}

StageFlag toggle(std::string names, std::string help, bool StageFlags::*member) {
  return {std::move(names), "", std::move(help),
          [member](StageFlags& flags, const std::string&) { flags.*member = true; }};
}

/// Lines that keep their indentation, cut at the width of the terminal.
std::string lines_of(const std::string& text, int columns) {
  std::string out;
  for (const std::string& line : support::split(text, '\n')) {
    if (support::trim(line).empty()) continue;
    const int indent = static_cast<int>(line.find_first_not_of(' '));
    out += wrapped(line.substr(static_cast<std::size_t>(indent)), columns, indent, 2);
  }
  return out;
}

/// Text that does not fit a screen is in `--help all`.
std::string short_epilogue(const StageText& text, int columns) {
  if (text.epilogue.empty()) return "";
  if (std::count(text.epilogue.begin(), text.epilogue.end(), '\n') <= 3) return "\n" + lines_of(text.epilogue, columns);
  std::string title = text.epilogue.substr(0, text.epilogue.find('\n'));
  if (!title.empty() && title.back() == ':') title.pop_back();
  return cat("\n", title, ": see --help all.\n");
}

constexpr const char* kUsualExitCodes = "0 done; 2 config; 3 inputs; 75 saved, run again; doc/failures.md has all.";

std::string help(const StageText& text, int columns) {
  std::string out = cat("usage: ", text.program, " [flags]\n\n", wrapped(text.summary, columns, 0), "\nFlags:\n");
  for (const StageFlag& flag : stage_flags()) {
    out +=
        entry(flag_label(flag.names, flag.value), flag.help + (flag.repeats ? "; may be repeated" : ""), 34, columns);
  }
  for (const auto& [name, meaning] : text.flags) out += entry(flag_label(name, ""), meaning, 34, columns);
  out += entry(flag_label("-h,--help", "[TOPIC]"), "Show this, or help on part of the config", 34, columns);
  out += entry(flag_label("--version", ""), "Show the version", 34, columns);
  out += cat("\n", lines_of(text.roles, columns), "\n",
             wrapped("Config fields (--help NAME explains one, --help all explains all):", columns, 0),
             field_outline(*text.schema, columns), short_epilogue(text, columns), "\nExit codes:\n",
             wrapped(kUsualExitCodes, columns, 2));
  return out;
}

}  // namespace

const char* const kStageExitCodes =
    "0 done; 2 flags or config; 3 an input is missing or corrupt; 69 a service does not answer; 70 an internal error; "
    "73 an output cannot be created; 74 reading or writing failed; 75 saved, run again; 76 diverged; 77 another "
    "version's task; 79 a GPU failed; 130 interrupted; 137 out of memory.";

const std::vector<StageFlag>& stage_flags() {
  static const std::vector<StageFlag> table = {
      text("--task", "FILE", "Run from a task file, as pe-pipeline does", &StageFlags::task),
      list("--config", "FILE", "Read config values from a YAML file; later files override earlier ones",
           &StageFlags::config_files),
      list("--set", "KEY=VALUE", "Set one config value, parsed as YAML; overrides all files", &StageFlags::sets),
      list("--input", "ROLE=PATH", "Where an input is", &StageFlags::inputs),
      list("--output", "ROLE=PATH", "Path (default ROLE[.h5])", &StageFlags::outputs),
      text("--work", "DIR", "Folder to resume in (default pe-NAME.work)", &StageFlags::work),
      toggle("--describe", "Print the stage's description as JSON and exit", &StageFlags::describe),
      toggle("--check", "Check configs, JSON lines on stdin, and exit", &StageFlags::check),
      text("--color", "auto|always|never", "Colour; auto honours NO_COLOR and the terminal", &StageFlags::color),
      text("--progress", "auto|plain|none", "How to show progress", &StageFlags::progress)};
  return table;
}

std::optional<int> parse_stage_flags(int argc, char** argv, const StageText& text, StageFlags& flags) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  bool version = false;
  std::string topic;
  const CLI::Option* const show_help = app.add_option("-h,--help", topic)->expected(0, 1);
  app.add_flag("--version", version);
  std::vector<std::string> names = {"-h", "--help", "--version"};
  for (const auto& [name, meaning] : text.flags) names.push_back(name);
  for (const StageFlag& flag : stage_flags()) {
    for (const std::string& name : support::split(flag.names, ',')) names.push_back(name);
    if (flag.value.empty()) {
      app.add_flag_callback(flag.names, [&flag, &flags] { flag.store(flags, ""); });
      continue;
    }
    CLI::Option* option = app.add_option_function<std::vector<std::string>>(
        flag.names, [&flag, &flags](const std::vector<std::string>& values) {
          for (const std::string& value : values) {
            const std::vector<std::string> words = choices_of(flag.value);
            if (!words.empty() && std::find(words.begin(), words.end(), value) == words.end()) {
              throw ConfigError(
                  cat(flag.names, " must be one of ", support::join(words, ", "), ", found ", quote(value)), {},
                  support::did_you_mean(value, words));
            }
            flag.store(flags, value);
          }
        });
    option->allow_extra_args(false);
    if (!flag.repeats) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    throw ConfigError(error.what(), {}, cat("see ", text.program, " --help"));
  }
  if (show_help->count() > 0) {
    const int columns = std::clamp(terminal_size(1).columns, 40, 100);
    std::string shown = topic.empty() ? help(text, columns) : field_topic(*text.schema, text.program, topic, columns);
    if (topic == "all" && !text.epilogue.empty()) shown += "\n" + lines_of(text.epilogue, columns);
    print(shown);
    return 0;
  }
  const std::vector<std::string> unknown = app.remaining();
  if (!unknown.empty()) {
    const std::string word = unknown.front().substr(0, unknown.front().find('='));
    for (const auto& [name, meaning] : text.flags) {
      if (name == word) throw ConfigError(cat(name, " takes no other flag with it"));
    }
    throw ConfigError(cat("unknown argument ", quote(word)), {}, support::suggestion(word, names));
  }
  if (version) {
    print(cat(text.program, " ", support::version_and_build(text.version), "\n"));
    return 0;
  }
  return std::nullopt;
}

}  // namespace pe::cli
