/// @file
/// The command line of `pe-pipeline`, parsed: one table says which command takes which flags, and help, suggestions and
/// the parser all read it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pe::cli {

/// Words that end so are pipeline files; runs, tasks and selections do not.
inline bool names_pipeline_file(std::string_view word) { return word.ends_with(".yml") || word.ends_with(".yaml"); }

/// Flags for reading a pipeline file.
struct ReadingFlags {
  std::string store;              ///< --store DIR; empty: PE_STORE, else store/ at the root
  std::vector<std::string> set;   ///< --set STAGE.key=value
  std::vector<std::string> axis;  ///< --axis encoding=rope,alibi
  std::string scale;              ///< --scale NAME
};

/// Resources of the machine.
struct CapacityFlags {
  std::optional<std::int64_t> jobs;       ///< -j N: CPUs to use
  std::optional<std::int64_t> mem_bytes;  ///< --mem 16G
  std::optional<std::string> gpus;        ///< --gpus 0,1; "" or "none": none
  std::vector<std::string> pools;         ///< --pool NAME=N
};

/// Flags of several commands.
struct SharedFlags {
  std::string color = "auto";
  bool json = false;
  bool dry_run = false;
  bool force = false;             ///< run, plan
  bool make_inputs = true;        ///< run, plan: false with --from-store
  std::string durability = "on";  ///< on, off; of what writes into the store
  std::string run;                ///< --run ID; empty: the newest
  std::string out;                ///< --out DIR: man, metrics, timeline
};

struct RunFlags {
  bool fail_fast = false;
  bool strict = false;
  std::string resume = "auto";        ///< auto, never
  std::string progress = "auto";      ///< auto, tty, plain, json, none
  double grace_s = 120;               ///< for stages to stop
  bool check_inputs = true;           ///< false (`--trust-store`): inputs are not read before a stage gets them
  std::string wait_lease = "always";  ///< always, never
};

struct PlanFlags {
  std::string device;
  bool exit_code = false;
  bool why = false;
};

struct ExplainFlags {
  bool all = false;
  std::string against;  ///< --against RUN, KEY, FILE or FILE@REV; empty: the newest earlier result
};

struct StatusFlags {
  bool failed = false;
  bool stale = false;
  bool watch = false;
};

struct LogsFlags {
  bool follow = false;
  std::optional<std::int64_t> attempt;
  std::optional<std::int64_t> tail;
};

struct MetricsFlags {
  std::string to = "csv";  ///< csv, tensorboard, wandb, trackio
  std::string project;     ///< of W&B and Trackio; empty: the pipeline's name
  double every_s = 5;      ///< between two looks with --follow
};

struct GraphFlags {
  std::string format = "dot";  ///< dot, svg, mermaid, json
  std::vector<std::string> collapse;
  bool cached = false;
};

struct ShowFlags {
  bool tree = false;
  bool preimage = false;
};

struct VerifyFlags {
  bool rerun = false;
  std::optional<double> sample;  ///< --sample 5%: 0.05
  bool keep = false;
  bool repair = false;
};

struct DiffFlags {
  std::optional<std::int64_t> ulp;
  std::vector<std::string> only;
};

struct PowerFlags {
  std::optional<std::int64_t> seeds, items;
  std::optional<double> difference;  ///< nats, or a share
};

struct GarbageFlags {
  std::optional<std::int64_t> max_size;   ///< bytes
  std::optional<std::int64_t> keep_last;  ///< runs of each pipeline
  double trash_grace_s = 24 * 3600;       ///< minimum age of files before they are deleted
  std::string policy = "cost";            ///< cost, age
};

struct DoctorFlags {
  bool fix = false;
};

struct ConfigFlags {
  bool origin = false;
  bool changed = false;
};

/// A verb, its words, and the flags of every verb: flags that a verb does not take keep their defaults.
struct CommandLine : ReadingFlags,
                     CapacityFlags,
                     SharedFlags,
                     RunFlags,
                     PlanFlags,
                     ExplainFlags,
                     StatusFlags,
                     LogsFlags,
                     MetricsFlags,
                     GraphFlags,
                     ShowFlags,
                     VerifyFlags,
                     DiffFlags,
                     PowerFlags,
                     GarbageFlags,
                     DoctorFlags,
                     ConfigFlags {
  std::string verb;                ///< Such as "run".
  std::vector<std::string> words;  ///< Words that are no flags, in order: pipeline file, selections, keys.
  std::string file;                ///< The pipeline file in front, where a command has taken it off `words`.
  std::vector<std::string> given;  ///< The whole command as typed, program first.
};

}  // namespace pe::cli
