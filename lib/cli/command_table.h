/// @file
/// A program's commands as a table of commands and their flags. The parser, help, man pages, completion and the tests
/// of all of them read it, so a command is one entry and nothing else. The table of `pe-pipeline` is
/// lib/commands/command_table.cpp.
///
/// The words in capitals of `usage` and of a flag's `value` say what is allowed there, and completion uses them. FILE
/// is a pipeline file, SELECT a selection of its tasks, RUN a run, DIR a folder, AXIS, SCALE, … (completion.h). NAME is
/// free: nothing completes it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::cli {

/// One flag: its spelling, its meaning, and the place of its value.
struct Flag {
  std::string names;  ///< "-j,--jobs"
  std::string value;  ///< "N", "auto|tty|plain"; empty for a switch
  std::string help;
  std::function<void(CommandLine&, const std::string&)> store;
  bool repeats = false;
};

/// One command, with everything that help says of it.
struct Command {
  std::string name;
  std::string usage;  ///< after the name: "FILE [SELECT...] [flags]"
  std::string summary;
  std::string text;  ///< a paragraph or two
  std::vector<Flag> flags;
  std::vector<std::pair<std::string, std::string>> examples;  ///< command, effect
  std::string exits;
  int (*act)(const CommandLine&) = nullptr;  ///< carries it out; null for `help`, which the parser answers
};
using CommandTable = std::vector<Command>;  ///< in the order of help

/// A place of a usage line and its kind: "[FILE] SELECT... DIR [flags]" → FILE (optional), SELECT (repeats), DIR.
struct UsagePlace {
  std::string kind;
  bool optional = false;
  bool repeats = false;
};
std::vector<UsagePlace> usage_places(const std::string& usage);

/// Null when there is none of that name.
const Command* find_command(const CommandTable& table, const std::string& name);

/// The names of all commands, in the order of help.
std::vector<std::string> command_names(const CommandTable& table);

/// Text of `pe-pipeline help COMMAND` and `pe-pipeline COMMAND --help`; of no command, the overview.
std::string help_text(const CommandTable& table, const std::string& command, int columns);

/// Parses. Prints help or the version itself; returns an exit code when the program should end now.
/// @throws ConfigError for a command or flag that does not exist (with the nearest one). Also for an invalid value.
std::optional<int> parse_command_line(const CommandTable& table, int argc, char** argv, const std::string& version,
                                      CommandLine& line);

// Flags, as an entry lists them.
Flag toggle(std::string names, std::string help, bool CommandLine::*member, bool value = true);
Flag text(std::string names, std::string value, std::string help, std::string CommandLine::*member);
Flag list(std::string names, std::string value, std::string help, std::vector<std::string> CommandLine::*member);
Flag choice(std::string names, std::vector<std::string> words, std::string help, std::string CommandLine::*member);
Flag number(std::string names, std::string value, std::string help, std::optional<std::int64_t> CommandLine::*member,
            support::Suffixes suffixes = support::Suffixes::kNone, std::int64_t least = 1);
/// Seconds of "30s", "2m", "24h". @throws ConfigError naming the flag.
double time_of(const std::string& flag, const std::string& given);
/// Bytes of "16G". @throws ConfigError naming the flag; for a small number without a unit, too, which means something
/// else
std::int64_t size_of(const std::string& flag, const std::string& given);
/// "5%" or "0.05". @throws ConfigError naming the flag.
double share_of(const std::string& flag, const std::string& given);

/// Common text of all commands, for help and man pages.
extern const char* const kSummary;
extern const char* const kExitCodes;
extern const char* const kEnvironment;

support::ConfigError usage_error(const std::string& message, const std::string& hint);

}  // namespace pe::cli
