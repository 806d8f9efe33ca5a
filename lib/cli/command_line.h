/// @file
/// The command line of `pe-pipeline`, parsed: one table says which command takes which flags, and help, suggestions and
/// the parser all read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pe::cli {

struct CommandLine {
  std::string verb;                ///< "run", …
  std::vector<std::string> words;  ///< what is no flag, in order: pipeline file, selections, keys
  std::vector<std::string> given;  ///< the whole command as typed, program first

  // What a pipeline file is read with.
  std::string store;              ///< --store DIR; empty: PE_STORE, else store/ at the root
  std::vector<std::string> set;   ///< --set STAGE.key=value
  std::vector<std::string> axis;  ///< --axis encoding=rope,alibi
  std::string scale;              ///< --scale NAME
  std::string color = "auto";
  bool json = false;

  // run
  std::optional<std::int64_t> jobs;       ///< -j N: CPUs to use
  std::optional<std::int64_t> mem_bytes;  ///< --mem 16G
  std::optional<std::string> gpus;        ///< --gpus 0,1; "" or "none": none
  std::vector<std::string> pools;         ///< --pool NAME=N
  bool dry_run = false;
  bool force = false;
  bool fail_fast = false;
  bool strict = false;
  std::string resume = "auto";    ///< auto, never
  std::string durability = "on";  ///< on, off
  std::string progress = "auto";  ///< auto, tty, plain, json, none
  double grace_s = 120;
  bool check_inputs = true;  ///< false (`--trust-store`): inputs are not read before a stage gets them

  // plan
  bool exit_code = false;
  bool why = false;

  // explain
  bool all = false;
  std::string against;  ///< --against RUN, KEY, FILE or FILE@REV; empty: the newest earlier result

  // status, logs
  std::string run;  ///< --run ID; empty: the newest
  bool failed = false;
  bool watch = false;
  bool follow = false;
  std::optional<std::int64_t> attempt;
  std::optional<std::int64_t> tail;

  // graph
  std::string format = "dot";  ///< dot, svg, mermaid, json
  std::vector<std::string> collapse;
  bool cached = false;

  // show
  bool tree = false;
  bool preimage = false;

  // verify
  bool rerun = false;
  std::optional<double> sample;  ///< --sample 5%: 0.05
  bool keep = false;
  bool repair = false;

  // diff
  std::optional<std::int64_t> ulp;
  std::vector<std::string> only;

  // gc
  std::optional<std::int64_t> max_size;   ///< bytes
  std::optional<std::int64_t> keep_last;  ///< runs of each pipeline
  double trash_grace_s = 24 * 3600;       ///< how young what is dropped or deleted may not be
  std::string policy = "cost";            ///< cost, age

  // doctor
  bool fix = false;

  // man, timeline
  std::string out;  ///< --out

  // config
  bool resolved = false;
  bool origin = false;
};

/// Parses. Prints help or the version itself; returns an exit code when the program should end now.
/// @throws ConfigError for a command or flag that does not exist (with the nearest one) and for a value that is none.
std::optional<int> parse_command_line(int argc, char** argv, const std::string& version, CommandLine& line);

/// The names of all commands, in the order of help.
std::vector<std::string> command_names();

/// What `pe-pipeline help COMMAND` and `pe-pipeline COMMAND --help` print; of no command, the overview.
std::string help_text(const std::string& command, int columns);

}  // namespace pe::cli
