// pe-pipeline man: the manual from the tables that make help, for reading here or for installing.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "cli/command_table.h"
#include "cli/manual.h"
#include "cli/tool_table.h"
#include "commands/command_table.h"
#include "commands/commands.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/clock.h"
#include "support/config.h"
#include "support/environment.h"
#include "support/error.h"
#include "support/files.h"
#include "support/process.h"
#include "support/suggest.h"
#include "support/text.h"
#include "support/version.h"

namespace pe::commands {

namespace {

using support::cat;
using support::ConfigError;
using support::quote;

/// The day of the manual: $SOURCE_DATE_EPOCH where a build asks for the same bytes, else the program's own.
std::string manual_date() {
  std::time_t when = 0;
  if (const std::string epoch = support::variable("SOURCE_DATE_EPOCH"); !epoch.empty()) {
    when = static_cast<std::time_t>(support::parse_integer(epoch).value_or(0));
  } else {
    const auto time = fs::last_write_time(support::own_executable());
    when = std::chrono::system_clock::to_time_t(std::chrono::file_clock::to_sys(time));
  }
  return support::utc_date(static_cast<double>(when));
}

std::string stage_page(pipeline::StageCatalog& catalog, const std::string& program) {
  const auto stage = catalog.find(program, fs::current_path(), {"pe-pipeline man", 0, 0, "", 1});
  cli::StagePage page;
  page.program = stage->program;
  page.summary = stage->summary;
  page.version = cat(stage->release, ", result version ", stage->version);
  for (const auto& input : stage->inputs) {
    page.inputs.push_back({input.name, cat("Kind: ", artifact::kind_name(input.kind), input.many ? ", any number" : "",
                                           input.optional ? ", optional" : "", ".")});
  }
  for (const auto& output : stage->outputs) {
    page.outputs.push_back({output.name, cat("Kind: ", artifact::kind_name(output.kind),
                                             output.is_volatile ? ", measured: differs from run to run." : ".")});
  }
  page.fields = support::render_fields(stage->fields, 72);
  return cli::stage_manual(page, manual_date());
}

/// Through man(1) on a terminal that has it, as plain text elsewhere.
void show(const std::string& text) {
  if (::isatty(1) == 1 && support::find_program("man")) {
    const fs::path file = support::unique_sibling(fs::temp_directory_path() / "pe-pipeline.1");
    support::write_file_atomically(file, text, false);
    support::SpawnOptions options;
    options.arguments = {"man", "-l", file.string()};
    options.stdin_fd = 0;
    const auto status = support::wait_for(support::spawn(options));
    std::error_code error;
    fs::remove(file, error);
    if (status.code == 0) return;
  }
  print(cli::plain_manual(text));
}

}  // namespace

int man_command(const cli::CommandLine& line) {
  pipeline::StageCatalog catalog = stage_catalog();
  const std::vector<std::string> programs = stage_programs();
  if (!line.out.empty()) {
    if (!line.words.empty()) throw ConfigError("--out writes all pages; name none", {"pe-pipeline man", 0, 0, "", 1});
    support::make_folders(line.out);
    const auto write = [&](const std::string& name, const std::string& text) {
      support::write_file_atomically(fs::path(line.out) / (name + ".1"), text, false);
    };
    write(cli::manual_name(""), cli::command_manual(command_table(), "", PE_VERSION, manual_date()));
    for (const std::string& command : cli::command_names(command_table())) {
      write(cli::manual_name(command), cli::command_manual(command_table(), command, PE_VERSION, manual_date()));
    }
    for (const std::string& program : programs) write(program, stage_page(catalog, program));
    for (const cli::ToolText& tool : cli::tools()) write(tool.program, cli::tool_manual(tool, manual_date()));
    return pipeline::kRunDone;
  }
  if (line.words.size() > 1)
    throw ConfigError(cat("unexpected word ", quote(line.words[1])), {"pe-pipeline man", 0, 0, "", 1});
  const std::string word = line.words.empty() ? "" : line.words.front();
  if (word.empty() || cli::find_command(command_table(), word)) {
    show(cli::command_manual(command_table(), word, PE_VERSION, manual_date()));
  } else if (const cli::ToolText* tool = cli::find_tool(word)) {
    show(cli::tool_manual(*tool, manual_date()));
  } else if (std::find(programs.begin(), programs.end(), word) != programs.end() ||
             word.find('/') != std::string::npos) {
    show(stage_page(catalog, word));
  } else {
    std::vector<std::string> known = cli::command_names(command_table());
    known.insert(known.end(), programs.begin(), programs.end());
    for (const cli::ToolText& each : cli::tools()) known.push_back(each.program);
    throw ConfigError(cat("there is no manual of ", quote(word)), {"pe-pipeline man", 0, 0, "", 1},
                      support::suggestion(word, known));
  }
  return pipeline::kRunDone;
}

}  // namespace pe::commands
