#include "cli/command_table.h"

#include <algorithm>

#include "support/suggest.h"
#include "support/text.h"

namespace pe::cli {

using support::cat;
using support::ConfigError;
using support::quote;

ConfigError usage_error(const std::string& message, const std::string& hint) {
  return ConfigError(message, {"pe-pipeline", 0, 0, "", 1}, hint);
}

namespace {

std::int64_t whole(const std::string& flag, const std::string& text, support::Suffixes suffixes, std::int64_t least) {
  std::string why;
  const auto value = support::parse_integer(text, suffixes, &why);
  if (!value) throw usage_error(cat(flag, ": ", quote(text), " is no number", why.empty() ? "" : " (" + why + ")"), "");
  if (*value < least) throw usage_error(cat(flag, ": ", *value, " is below ", least), "");
  return *value;
}

std::string one_of(const std::string& flag, const std::string& text, const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), text) == words.end()) {
    throw usage_error(cat(flag, ": ", quote(text), " is not one of ", support::join(words, ", ")),
                      support::suggestion(text, words));
  }
  return text;
}

Flag toggle(std::string names, std::string help, bool CommandLine::*member, bool value = true) {
  return {std::move(names), "", std::move(help),
          [member, value](CommandLine& line, const std::string&) { line.*member = value; }};
}

Flag text(std::string names, std::string value, std::string help, std::string CommandLine::*member) {
  return {std::move(names), std::move(value), std::move(help),
          [member](CommandLine& line, const std::string& given) { line.*member = given; }};
}

Flag list(std::string names, std::string value, std::string help, std::vector<std::string> CommandLine::*member) {
  return {std::move(names), std::move(value), std::move(help),
          [member](CommandLine& line, const std::string& given) { (line.*member).push_back(given); }, true};
}

Flag choice(std::string names, std::vector<std::string> words, std::string help, std::string CommandLine::*member) {
  std::string value = support::join(words, "|");
  const std::string flag = names;
  return {std::move(names), std::move(value), std::move(help),
          [member, words = std::move(words), flag](CommandLine& line, const std::string& given) {
            line.*member = one_of(flag, given, words);
          }};
}

Flag number(std::string names, std::string value, std::string help, std::optional<std::int64_t> CommandLine::*member,
            support::Suffixes suffixes = support::Suffixes::kNone, std::int64_t least = 1) {
  const std::string flag = names;
  return {std::move(names), std::move(value), std::move(help),
          [member, suffixes, least, flag](CommandLine& line, const std::string& given) {
            line.*member = whole(flag, given, suffixes, least);
          }};
}

Flag store_flag() {
  return text("--store", "DIR", "The store; else $PE_STORE, else store/ at the pipeline's root", &CommandLine::store);
}
Flag color_flag() {
  return choice("--color", {"auto", "always", "never"}, "Colour; auto heeds NO_COLOR, CLICOLOR_FORCE and the terminal",
                &CommandLine::color);
}
Flag json_flag() { return toggle("--json", "Print JSON with a schema_version, for programs", &CommandLine::json); }

std::vector<Flag> operator+(std::vector<Flag> a, const std::vector<Flag>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Flag> reading_flags() {
  return {list("--set", "STAGE.KEY=VALUE",
               "Lay a value over a stage's config, or vars.NAME, axes.NAME, resources.NAME.KEY", &CommandLine::set),
          list("--axis", "AXIS=LABEL,…", "Keep only these labels of an axis", &CommandLine::axis),
          text("--scale", "NAME", "Take a scale of the pipeline file", &CommandLine::scale), store_flag(),
          color_flag()};
}

std::vector<Flag> capacity_flags() {
  return {number("-j,--jobs", "N", "CPUs to use; default: all that this process may", &CommandLine::jobs),
          number("--mem", "SIZE", "Memory to count with, as 16G; default: what there is", &CommandLine::mem_bytes,
                 support::Suffixes::kBytes),
          {"--gpus", "IDS", "GPUs to use, as 0,1 or none; default: CUDA_VISIBLE_DEVICES, else all",
           [](CommandLine& line, const std::string& given) { line.gpus = given == "none" ? "" : given; }},
          list("--pool", "NAME=N", "How many tasks a pool lets run at once (1 unless told)", &CommandLine::pools)};
}

constexpr const char* kSelection =
    "SELECT names tasks: a stage's label, label[axis=value,axis=value], * or [axis=*]; +SELECT takes what it needs "
    "too, SELECT+ "
    "what needs it. Several are a union; none means every task. Quote them, since shells read brackets as patterns.";

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> table = [] {
    const std::string reads = "0 done; 2 usage or pipeline file; 4 the store cannot be read.";
    std::vector<Command> out;
    out.push_back(
        {"run",
         "FILE [SELECT...] [flags]",
         "Make what is missing, here",
         cat("Runs every task whose result is not in the store yet, as many at once as CPUs, memory and GPUs allow, "
             "and "
             "prints where the report is. A failure blocks only what depends on it. The first Ctrl-C asks stages to "
             "save and "
             "stop, the second kills them; nothing is left half done, and the same command goes on later.\n\n",
             kSelection),
         reading_flags() + capacity_flags() +
             std::vector<Flag>{
                 toggle("-n,--dry-run", "Only say what would run", &CommandLine::dry_run),
                 toggle("--force", "Run what is selected again although its result is there (not what it needs)",
                        &CommandLine::force),
                 toggle("--keep-going", "After a failure, go on with what does not depend on it (the default)",
                        &CommandLine::fail_fast, false),
                 toggle("--fail-fast", "After a failure, start nothing new", &CommandLine::fail_fast),
                 toggle("--strict", "End with 5 when a task gave other contents than before", &CommandLine::strict),
                 choice("--resume", {"auto", "never"}, "Whether stages continue from what earlier attempts saved",
                        &CommandLine::resume),
                 {"--grace", "TIME", "How long stages may take to save after the first Ctrl-C (2m)",
                  [](CommandLine& line, const std::string& given) {
                    const auto value = support::parse_real(given, support::Suffixes::kSeconds);
                    if (!value || *value < 0)
                      throw usage_error(cat("--grace: ", quote(given), " is no time, as 30s or 2m"), "");
                    line.grace_s = *value;
                  }},
                 choice("--progress", {"auto", "tty", "plain", "json", "none"},
                        "How to show what goes on; auto draws a panel on a terminal", &CommandLine::progress),
                 choice("--durability", {"on", "off"}, "off leaves out every fsync: for tests and throw-away stores",
                        &CommandLine::durability)},
         {{"pe-pipeline run pipelines/quickstart.yml", "everything that is missing"},
          {"pe-pipeline run grid.yml 'evaluate[suite=passkey]' --force", "one part again"},
          {"pe-pipeline run grid.yml --axis seed=42 -j 8 --gpus 0,1", "a slice, on two GPUs"},
          {"pe-pipeline run fineweb.yml --set fetch.path=texts/", "another input folder"}},
         "0 done, or nothing to do; 1 a task failed; 2 usage or pipeline file; 3 incomplete without a failure "
         "(interrupted, "
         "an input missing); 4 store or file system, or another run holds the store; 5 a conflict under --strict; 130 "
         "interrupted twice."});
    out.push_back(
        {"plan",
         "FILE [SELECT...] [flags]",
         "Say what would run, and why",
         cat("Changes nothing and starts nothing.\n\n", kSelection),
         reading_flags() + capacity_flags() +
             std::vector<Flag>{json_flag(),
                               toggle("--why", "One line a task instead of one a cause", &CommandLine::why),
                               toggle("--force", "As if what is selected were forced", &CommandLine::force),
                               toggle("--exit-code", "End with 10 when there is work", &CommandLine::exit_code)},
         {{"pe-pipeline plan pipelines/fineweb_grid.yml", "the whole grid"},
          {"pe-pipeline plan grid.yml --exit-code >/dev/null || make-a-coffee", "in a script"}},
         "0 done; 2 usage or pipeline file; 4 the store cannot be read; 10 there is work (with --exit-code)."});
    out.push_back(
        {"explain",
         "FILE SELECT... [flags]",
         "Say why tasks will run or were reused",
         cat("Compares what is asked for with earlier results, to the field, input or version that differs.\n\n",
             kSelection),
         reading_flags() +
             std::vector<Flag>{json_flag(), toggle("--all", "Every task, not only the first 20", &CommandLine::all)},
         {{"pe-pipeline explain grid.yml 'trunk[seed=42]'", ""}},
         reads});
    out.push_back(
        {"status",
         "[FILE] [flags]",
         "Show a run, going on or over",
         "Reads the journal of a run; it may be another process's. FILE finds the store; without it the store is "
         "--store, "
         "$PE_STORE or ./store.",
         {store_flag(), text("--run", "ID", "Which run; default: the newest", &CommandLine::run),
          toggle("--failed", "Only what failed or is blocked", &CommandLine::failed), json_flag(), color_flag()},
         {{"pe-pipeline status", "the newest run of ./store"}, {"pe-pipeline status grid.yml --json | jq .counts", ""}},
         reads});
    out.push_back(
        {"logs",
         "[FILE] SELECT... [flags]",
         "Show what stages wrote",
         cat("The log of the latest attempt of each task of a run. FILE (ending in .yml) finds the store.\n\n",
             kSelection),
         {store_flag(), text("--run", "ID", "Which run; default: the newest that has the task", &CommandLine::run),
          number("--attempt", "N", "Which attempt; default: the latest", &CommandLine::attempt),
          number("--tail", "N", "Only the last N lines", &CommandLine::tail, support::Suffixes::kNone, 0),
          toggle("-f,--follow", "Go on as the log grows, until the run ends", &CommandLine::follow), json_flag(),
          color_flag()},
         {{"pe-pipeline logs 'trunk[encoding=rope,seed=42]' -f", ""}, {"pe-pipeline logs grid.yml decay --tail 5", ""}},
         reads});
    out.push_back(
        {"graph",
         "FILE [SELECT...] [flags]",
         "Draw the tasks and what they need",
         cat("Prints Graphviz, Mermaid or JSON.\n\n", kSelection),
         reading_flags() +
             std::vector<Flag>{
                 choice("--format", {"dot", "mermaid", "json"}, "What to print", &CommandLine::format),
                 {"--json", "", "The same as --format json",
                  [](CommandLine& line, const std::string&) { line.format = "json"; }},
                 list("--collapse", "AXIS", "Draw tasks that differ in this axis alone as one; 'all' draws stages",
                      &CommandLine::collapse),
                 toggle("--cached", "Mark what is in the store", &CommandLine::cached)},
         {{"pe-pipeline graph grid.yml --collapse seed | dot -Tsvg > grid.svg", ""},
          {"pe-pipeline graph grid.yml --collapse all --format mermaid", ""}},
         reads});
    out.push_back({"show",
                   "KEY|PATH|ID [flags]",
                   "Show where an artifact comes from",
                   "KEY is the beginning of a task key, plan key or digest (4 digits or more); PATH an artifact, whose "
                   "own header "
                   "answers; ID a task, as evaluate[encoding=rope].",
                   {store_flag(), toggle("--tree", "What it was made from, too", &CommandLine::tree),
                    toggle("--preimage", "The document that the key is the hash of", &CommandLine::preimage),
                    json_flag(), color_flag()},
                   {{"pe-pipeline show 3fa9c2d1", ""},
                    {"pe-pipeline show out/grid/trunk/seed=42.model.h5", ""},
                    {"pe-pipeline show 'evaluate[encoding=rope]' --tree", ""}},
                   reads});
    out.push_back({"list",
                   "stages|tasks|artifacts|runs [FILE] [SELECT...] [flags]",
                   "List stages, tasks, artifacts or runs",
                   cat("Stages and tasks are those of FILE (without it, the stage programs that were found); artifacts "
                       "are the store's, "
                       "or with FILE those of its tasks.\n\n",
                       kSelection),
                   reading_flags() + std::vector<Flag>{json_flag()},
                   {{"pe-pipeline list tasks grid.yml 'decay[seed=42]'", ""}, {"pe-pipeline list artifacts", ""}},
                   reads});
    out.push_back(
        {"config",
         "FILE [SELECT...] --resolved [flags]",
         "Show the configs that tasks get",
         cat("Complete, with defaults filled in.\n\n", kSelection),
         reading_flags() +
             std::vector<Flag>{toggle("--resolved", "Print the complete configs (this is also what happens without it)",
                                      &CommandLine::resolved),
                               toggle("--origin", "Say beside each value where it came from", &CommandLine::origin),
                               json_flag()},
         {{"pe-pipeline config grid.yml 'trunk[encoding=rope,seed=42]' --resolved --origin", ""}},
         reads});
    out.push_back(
        {"forget",
         "FILE SELECT... [flags]",
         "Drop the records of results",
         cat("The tasks run again next time; objects stay. Records go to the store's trash.\n\n", kSelection),
         reading_flags() +
             std::vector<Flag>{
                 json_flag(), toggle("-n,--dry-run", "Only say what would be dropped", &CommandLine::dry_run),
                 choice("--durability", {"on", "off"}, "off leaves out every fsync", &CommandLine::durability)},
         {{"pe-pipeline forget grid.yml 'evaluate[encoding=rope]'", ""}},
         "0 done; 2 usage or pipeline file; 4 the store cannot be written, or a run holds it."});
    out.push_back({"help", "[COMMAND]", "Show help, of a command if one is named", "", {}, {}, "0."});
    return out;
  }();
  return table;
}

const Command* find_command(const std::string& name) {
  for (const Command& command : commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

const char* const kSummary =
    "Runs pipelines of pe- stages: makes what is missing, reuses what is there, and can say why.";

const char* const kExitCodes =
    "0 done or nothing to do; 1 a task failed; 2 usage or pipeline file; 3 incomplete without a failure; 4 store or "
    "file "
    "system; 5 a conflict under --strict; 10 plan --exit-code and there is work; 130 interrupted twice.";

const char* const kEnvironment =
    "PE_STORE names the store. NO_COLOR, CLICOLOR_FORCE and FORCE_COLOR decide on colour. CUDA_VISIBLE_DEVICES names "
    "the GPUs "
    "that may be used.";

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  return names;
}

}  // namespace pe::cli
