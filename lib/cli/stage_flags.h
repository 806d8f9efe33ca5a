/// @file
/// The flags that every stage has, as parsed; `stage/stage_main.h` gives them their meaning. One table: the parser,
/// help, man pages and completion read it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/config.h"

namespace pe::cli {

struct StageFlags {
  std::string task;                       ///< --task FILE
  std::vector<std::string> config_files;  ///< --config FILE, in order
  std::vector<std::string> sets;          ///< --set key=value, in order
  std::vector<std::string> inputs;        ///< --input ROLE=PATH
  std::vector<std::string> outputs;       ///< --output ROLE=PATH
  std::string work;                       ///< --work DIR
  bool describe = false;
  bool check = false;
  std::string color = "auto";     ///< auto, always, never
  std::string progress = "auto";  ///< auto, plain, none
};

/// One flag of every stage; `value` as in command_table.h.
struct StageFlag {
  std::string names;
  std::string value;
  std::string help;
  std::function<void(StageFlags&, const std::string&)> store;
  bool repeats = false;
};

const std::vector<StageFlag>& stage_flags();

/// Meaning of the exit codes of a stage.
extern const char* const kStageExitCodes;

/// Texts of the stage for `--help` and `--version`.
struct StageText {
  std::string program;  ///< "pe-train"
  std::string summary;
  std::string version;                      ///< "0.2.0, result version 3"
  std::string roles;                        ///< the inputs and outputs, one a line
  const support::Schema* schema = nullptr;  ///< the config fields
  std::string epilogue;
  std::vector<std::pair<std::string, std::string>> flags;  ///< of this stage alone, which its main takes: name, meaning
};

/// Parses; prints help or the version itself. Returns an exit code when the program should end now.
/// @throws ConfigError for a flag or value that does not exist, with the nearest one.
std::optional<int> parse_stage_flags(int argc, char** argv, const StageText& text, StageFlags& flags);

}  // namespace pe::cli
