#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "cli/terminal.h"
#include "commands/command_table.h"
#include "commands/commands.h"
#include "commands/session.h"
#include "commands/submissions.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"
#include "support/explain.h"
#include "support/program.h"
#include "support/text.h"
#include "support/version.h"

namespace pe::commands {

namespace {

/// Errors of the library as exit codes of this program: what a stage calls 3, 73 or 74 is trouble with the store here.
int exit_code_of(const support::Error& error) {
  if (error.exit_code() == support::kExitConfig) return pipeline::kRunUsage;
  if (error.exit_code() == support::kExitArtifact || error.exit_code() == support::kExitIo ||
      error.exit_code() == support::kExitCannotCreate) {
    return pipeline::kRunStore;
  }
  return error.exit_code();
}

}  // namespace

int pipeline_main(int argc, char** argv) {
  try {
    support::begin_program();
    if (argc > 1 && std::string_view(argv[1]) == "__complete") return answer_shell({argv + 2, argv + argc});
    if (argc > 1 && std::string_view(argv[1]) == "__element") return element_command({argv + 2, argv + argc});
    if (argc > 1 && std::string_view(argv[1]) == "__last") return last_command({argv + 2, argv + argc});
    cli::CommandLine line;
    if (const auto code = cli::parse_command_line(command_table(), argc, argv, PE_VERSION, line)) return *code;
    const int code = cli::find_command(command_table(), line.verb)->act(line);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {  // an earlier flush may have failed
      std::fputs("pe-pipeline: cannot write to standard output\n", stderr);
      return code == 0 ? static_cast<int>(pipeline::kRunStore) : code;
    }
    return code;
  } catch (const support::Error& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", cli::harmless(error.what()).c_str());
    return exit_code_of(error);
  } catch (const std::filesystem::filesystem_error& error) {
    // A name that cannot be looked at: a link to itself, a folder without permission, a current folder that is gone.
    std::fflush(stdout);
    const std::string path = error.path1().empty() ? "the current folder" : support::quote(error.path1().string());
    const std::string text = support::cat("pe-pipeline: cannot look at ", path, ": ", error.code().message());
    std::fprintf(stderr, "%s\n", cli::harmless(text).c_str());
    return pipeline::kRunStore;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    if (const support::Error known = support::as_error(error); known.exit_code() != support::kExitBug) {
      std::fprintf(stderr, "pe-pipeline: %s\n", known.what());
      return exit_code_of(known);
    }
    std::fprintf(stderr, "pe-pipeline: %s\nThis is a mistake of pe-pipeline %s; please report it with this message.\n",
                 error.what(), PE_VERSION);
    return support::kExitBug;
  }
}

}  // namespace pe::commands
