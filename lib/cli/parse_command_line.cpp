#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>

#include "cli/command_line.h"
#include "cli/command_table.h"
#include "cli/print.h"
#include "cli/terminal.h"
#include "support/program.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::cli {

using support::cat;
using support::quote;

namespace {

/// An empty value, as of --run "$RUN" without RUN, would mean another run or store.
void store(const Flag& flag, const std::string& value, CommandLine& line) {
  if (value.empty()) throw usage_error(cat(flag.names, " has an empty value"), cat("it takes ", flag.value));
  flag.store(line, value);
}

/// The command whose help is asked for; empty without one.
std::string help_topic(const CommandTable& table, int argc, char** argv) {
  const std::string topic = argc > 2 && argv[2][0] != '-' ? argv[2] : "";
  if (topic.empty()) return topic;
  if (!find_command(table, topic))
    throw usage_error(cat("there is no command ", quote(topic)), support::suggestion(topic, command_names(table)));
  if (argc > 3 && argv[3][0] != '-')
    throw usage_error(cat("unknown word ", quote(argv[3])), "help takes one command, as in: help run");
  return topic;
}

}  // namespace

std::optional<int> parse_command_line(const CommandTable& table, int argc, char** argv, const std::string& version,
                                      CommandLine& line) {
  line.given.assign(argv, argv + argc);
  const int columns = terminal_size(1).columns;
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--version") {
    print(cat("pe-pipeline ", support::version_and_build(version), "\n"));
    return 0;
  }
  if (first == "-h" || first == "--help" || first == "help") {
    print(help_text(table, help_topic(table, argc, argv), columns));
    return 0;
  }
  if (first.empty()) {
    std::fputs(help_text(table, "", columns).c_str(), stderr);
    return 2;
  }
  const Command* command = find_command(table, first);
  if (!command) {
    if (first[0] == '-')
      throw usage_error(cat("unknown flag ", quote(first)), "a command comes first, as in: pe-pipeline run FILE");
    throw usage_error(cat("there is no command ", quote(first)), support::suggestion(first, command_names(table)));
  }
  line.verb = command->name;

  CLI::App app;
  app.set_help_flag();
  bool help = false;
  app.add_flag("-h,--help", help);
  app.allow_extras();  // words are ours: CLI11 would take a selection such as [seed=42,axis=x] for a list
  std::vector<std::string> flag_names = {"-h", "--help"};
  for (const Flag& flag : command->flags) {
    for (const std::string& name : support::split(flag.names, ',')) flag_names.push_back(name);
    if (flag.value.empty()) {
      // In the order of the command line: the last of two that exclude each other holds.
      app.add_flag_callback(flag.names, [&flag, &line] { flag.store(line, ""); })->trigger_on_parse();
      continue;
    }
    CLI::Option* option = app.add_option_function<std::vector<std::string>>(
        flag.names, [&flag, &line](const std::vector<std::string>& values) {
          for (const std::string& value : values) store(flag, value, line);
        });
    option->allow_extra_args(false);
    if (!flag.repeats) option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  std::vector<std::string> reversed(argv + 2, argv + argc);
  std::reverse(reversed.begin(), reversed.end());  // CLI11 takes arguments from the back of the list
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    throw usage_error(error.what(), cat("see pe-pipeline ", command->name, " --help"));
  }
  if (help) {
    print(help_text(table, command->name, columns));
    return 0;
  }
  for (const std::string& word : app.remaining()) {
    if (word.size() > 1 && word[0] == '-' && word != "--") {
      const std::string name = word.substr(0, word.find('='));
      throw usage_error(cat("unknown flag ", quote(name), " of 'pe-pipeline ", command->name, "'"),
                        support::suggestion(name, flag_names));
    }
    if (word != "--") line.words.push_back(word);
  }
  return std::nullopt;
}

}  // namespace pe::cli
