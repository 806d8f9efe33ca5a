/// @file
/// The commands of `pe-pipeline`: between the parsed command line (cli) and the library (pipeline). Answers go
/// to standard output, lines for people to standard error.
#pragma once

#include "cli/command_line.h"

namespace pe::commands {

/// The whole program: parses, carries out, prints errors; returns the exit code.
int pipeline_main(int argc, char** argv);

int run_command(const cli::CommandLine& line);
int plan_command(const cli::CommandLine& line);
int explain_command(const cli::CommandLine& line);
int status_command(const cli::CommandLine& line);
int logs_command(const cli::CommandLine& line);
int graph_command(const cli::CommandLine& line);
int show_command(const cli::CommandLine& line);
int list_command(const cli::CommandLine& line);
int config_command(const cli::CommandLine& line);
int forget_command(const cli::CommandLine& line);
int verify_command(const cli::CommandLine& line);
int diff_command(const cli::CommandLine& line);
int export_command(const cli::CommandLine& line);
int import_command(const cli::CommandLine& line);
int power_command(const cli::CommandLine& line);
int gc_command(const cli::CommandLine& line);
int pin_command(const cli::CommandLine& line);
int unpin_command(const cli::CommandLine& line);
int push_command(const cli::CommandLine& line);
int pull_command(const cli::CommandLine& line);
int doctor_command(const cli::CommandLine& line);
int metrics_command(const cli::CommandLine& line);
int timeline_command(const cli::CommandLine& line);
int init_command(const cli::CommandLine& line);
int man_command(const cli::CommandLine& line);
int completion_command(const cli::CommandLine& line);

/// The hidden `__complete SHELL …` that completion scripts ask (cli/completion.h).
int answer_shell(const std::vector<std::string>& arguments);

}  // namespace pe::commands
