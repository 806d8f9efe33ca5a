#include "cli/stage_flags.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "support/error.h"
#include "support/suggest.h"

namespace pe::cli {

std::optional<int> parse_stage_flags(int argc, char** argv, const StageText& text, StageFlags& flags) {
  CLI::App app{text.summary, text.program};
  app.set_help_flag("-h,--help", "Show this and end");
  bool version = false;
  app.add_flag("--version", version, "Show the version and end");
  app.add_option("--task", flags.task, "Run as pe-pipeline does, from a task file (pe-task/1)")->type_name("FILE");
  app.add_option("--config", flags.config_files, "Read config values from a YAML file; later files lie over earlier ones")
      ->type_name("FILE")->allow_extra_args(false);
  app.add_option("--set", flags.sets, "Set one config value, parsed as YAML; lies over all files")
      ->type_name("KEY=VALUE")->allow_extra_args(false);
  app.add_option("--input", flags.inputs, "Where an input is; may be repeated")->type_name("ROLE=PATH")->allow_extra_args(false);
  app.add_option("--output", flags.outputs, "Where an output goes")->type_name("ROLE=PATH")->allow_extra_args(false);
  app.add_option("--work", flags.work, "Folder for checkpoints and logs; a second run in it resumes")->type_name("DIR");
  app.add_flag("--describe", flags.describe, "Print the stage's description as JSON and end");
  app.add_flag("--check", flags.check, "Read configs as JSON lines from standard input, print what is wrong with them, and end");
  app.add_option("--color", flags.color, "auto, always or never")->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option("--progress", flags.progress, "auto, plain or none")->type_name("HOW")
      ->check(CLI::IsMember({"auto", "plain", "none"}));
  app.footer("\n" + text.roles + "\nConfig fields:\n" + text.fields + (text.epilogue.empty() ? "" : "\n" + text.epilogue) +
             "\nExit codes: 0 done; 2 flags or config; 3 an input is missing or damaged; 69 a service does not answer;\n"
             "70 our mistake; 73 an output cannot be created; 74 reading or writing failed; 75 checkpointed, run again;\n"
             "76 diverged; 130 interrupted.\n");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  } catch (const CLI::ExtrasError&) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) names.push_back(option->get_name());
    const std::vector<std::string> unknown = app.remaining();
    const std::string word = unknown.empty() ? "" : unknown.front();
    throw support::ConfigError("unknown argument '" + word + "'", {text.program, 0, 0, "", 1},
                               support::suggestion(word.substr(0, word.find('=')), names));
  } catch (const CLI::ParseError& error) {
    throw support::ConfigError(error.what(), {text.program, 0, 0, "", 1}, "see " + text.program + " --help");
  }
  if (version) {
    std::printf("%s %s\n", text.program.c_str(), text.version.c_str());
    return 0;
  }
  return std::nullopt;
}

}  // namespace pe::cli
