/// @file
/// One table of all commands and their flags. The parser, help, man pages, completion and the tests of all of them read
/// it, so a command is one entry here and nothing else has to be told.
///
/// The words in capitals of `usage` and of a flag's `value` say what may stand there, and completion goes by them:
/// FILE a pipeline file, SELECT a selection of its tasks, RUN a run, DIR a folder, AXIS, SCALE, … (completion.h).
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"
#include "support/error.h"

namespace pe::cli {

/// One flag: how it is written, what it means, and where its value goes.
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
  std::vector<std::pair<std::string, std::string>> examples;  ///< command, what it does
  std::string exits;
};

/// A place of a usage line and what may stand there: "[FILE] SELECT... DIR [flags]" → FILE (optional), SELECT
/// (repeats), DIR.
struct UsagePlace {
  std::string kind;
  bool optional = false;
  bool repeats = false;
};
std::vector<UsagePlace> usage_places(const std::string& usage);

/// In the order of help.
const std::vector<Command>& commands();

/// Null when there is none of that name.
const Command* find_command(const std::string& name);

/// What all commands share, for help and man pages.
extern const char* const kSummary;
extern const char* const kExitCodes;
extern const char* const kEnvironment;

support::ConfigError usage_error(const std::string& message, const std::string& hint);

}  // namespace pe::cli
