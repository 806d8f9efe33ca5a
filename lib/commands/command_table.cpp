#include "commands/command_table.h"

#include <string>
#include <utility>
#include <vector>

#include "commands/commands.h"
#include "commands/submissions.h"
#include "support/text.h"

namespace pe::commands {

using cli::choice;
using cli::CommandLine;
using cli::Flag;
using cli::list;
using cli::number;
using cli::share_of;
using cli::size_of;
using cli::text;
using cli::time_of;
using cli::toggle;
using support::cat;

namespace {

Flag store_flag() {
  return text("--store", "DIR", "The store; else $PE_STORE, else store/ at the pipeline's root", &CommandLine::store);
}
Flag color_flag() {
  return choice("--color", {"auto", "always", "never"},
                "Colour; auto honours NO_COLOR, CLICOLOR_FORCE and the terminal", &CommandLine::color);
}
Flag json_flag() { return toggle("--json", "Print JSON with a schema_version, for programs", &CommandLine::json); }

std::vector<Flag> operator+(std::vector<Flag> a, const std::vector<Flag>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Flag> reading_flags() {
  return {list("--set", "STAGE.KEY=VALUE",
               "Override a value of a stage's config, or vars.NAME, axes.NAME, resources.NAME.KEY, slurm.KEY; "
               "axes.NAME.LABEL=VALUE adds a label",
               &CommandLine::set),
          list("--axis", "AXIS=LABEL,…", "Keep only these labels of an axis", &CommandLine::axis),
          text("--scale", "SCALE", "Use this scale of the pipeline file", &CommandLine::scale), store_flag(),
          color_flag()};
}

std::vector<Flag> capacity_flags() {
  return {number("-j,--jobs", "N", "CPUs to use (default: all available to this process)", &CommandLine::jobs),
          {"--mem", "SIZE", "Memory to use, such as 16G (default: all of it)",
           [](CommandLine& line, const std::string& given) { line.mem_bytes = size_of("--mem", given); }},
          {"--gpus", "IDS", "GPUs to use, such as 0,1, or none (default: CUDA_VISIBLE_DEVICES, else all)",
           [](CommandLine& line, const std::string& given) { line.gpus = given == "none" ? "" : given; }},
          list("--pool", "NAME=N", "Tasks of a pool that may run concurrently (default: 1)", &CommandLine::pools)};
}

constexpr const char* kSelection =
    "SELECT names tasks: train, train[seed=42], train[*] or [seed=42]. A * stands for any characters. +SELECT adds the "
    "tasks that it depends on, and SELECT+ the tasks that depend on it. "
    "Several SELECTs are a union; none means every task. Quote them, since shells read brackets as patterns.";

constexpr const char* kReadingExits = "0 done; 2 usage or pipeline file; 4 the store cannot be read.";

constexpr const char* kResultSelection =
    "Without FILE, SELECT names results: the first 4 digits or more of a key or digest, a task such as train[seed=42], "
    "a label, or *. @step picks a snapshot. +SELECT adds the results that it was made from, and SELECT+ the results "
    "that were made from it. With FILE it names that pipeline's tasks, as for run.";

Flag from_store_flag() {
  return toggle(
      "--from-store",
      "Make only the selected tasks, from results that are in the store, of any CPU; a report names what is not "
      "there",
      &CommandLine::make_inputs, false);
}

cli::Command run_entry() {
  return {"run",
          "FILE [SELECT...] [flags]",
          "Run what is missing on this machine",
          cat("Runs every task without a result in the store. CPUs, memory and GPUs limit how many run at a time. At "
              "the end it prints the findings of the report and its place. A failure blocks only what depends on it. "
              "The first Ctrl-C asks stages to save and stop, and the second kills them. No result is left incomplete, "
              "and the same command resumes later.\n\n",
              kSelection),
          reading_flags() + capacity_flags() +
              std::vector<Flag>{
                  toggle("-n,--dry-run", "Show what would run, and run nothing", &CommandLine::dry_run),
                  toggle("--force", "Run the selected tasks again (not their inputs), and replace their results",
                         &CommandLine::force),
                  from_store_flag(),
                  toggle("--keep-going", "After a failure, continue with tasks that do not depend on it (the default)",
                         &CommandLine::fail_fast, false),
                  toggle("--fail-fast", "After a failure, start no further task", &CommandLine::fail_fast),
                  toggle("--strict", "Exit with 5 when a task produced different contents than before",
                         &CommandLine::strict),
                  choice("--resume", {"auto", "never"}, "Whether stages continue from files of earlier attempts",
                         &CommandLine::resume),
                  {"--grace", "TIME", "How long stages may take to save after the first Ctrl-C (2m)",
                   [](CommandLine& line, const std::string& given) { line.grace_s = time_of("--grace", given); }},
                  toggle("--trust-store", "Do not checksum inputs before a stage reads them",
                         &CommandLine::check_inputs, false),
                  choice("--wait-lease", {"always", "never"},
                         "Whether to wait for tasks that another run is working on; never skips them and exits with 3",
                         &CommandLine::wait_lease),
                  choice("--progress", {"auto", "tty", "plain", "json", "none"},
                         "How to show progress; auto draws a panel on a terminal", &CommandLine::progress),
                  choice("--durability", {"on", "off"}, "off skips every fsync, for tests and disposable stores",
                         &CommandLine::durability)},
          {{"pe-pipeline run pipelines/quickstart.yml", "everything that is missing"},
           {"pe-pipeline run grid.yml 'evaluate[suite=passkey]' --force", "one part again"},
           {"pe-pipeline run grid.yml report --from-store", "a report on the cells that are finished"},
           {"pe-pipeline run grid.yml --axis seed=42 -j 8 --gpus 0,1", "a slice, on two GPUs"},
           {"pe-pipeline run fineweb.yml --set fetch.path=texts/", "another input folder"}},
          "0 done, or nothing to do; 1 a task failed; 2 usage or pipeline file; 3 incomplete without a failure "
          "(interrupted, an input missing, another run is working on it); 4 store or file system; 5 a conflict under "
          "--strict; 130 interrupted twice.",
          run_command};
}

cli::Command submit_entry() {
  return {
      "submit",
      "FILE [SELECT...] [flags]",
      "Submit what is missing to Slurm, and return",
      cat("Sends every task whose result is not in the store as elements of job arrays that wait for each other, and "
          "returns; no process has to stay alive. A submission is frozen: later edits of the file do not affect it. "
          "Submitting again sends only tasks that have no result and are not queued, with more memory for tasks that "
          "ran out of it. Partitions, accounts and more are set in the file's block `slurm`.\n\n",
          kSelection),
      reading_flags() +
          std::vector<Flag>{
              toggle("--print", "Print the sbatch commands and scripts, and send nothing", &CommandLine::dry_run),
              text("--continue", "RUN", "Submit what did not fit into the queue, or close a run whose last job is gone",
                   &CommandLine::run),
              choice("--progress", {"auto", "tty", "plain", "json", "none"},
                     "How to show the tasks that run on this machine first (slurm.run_on)", &CommandLine::progress)},
      {{"pe-pipeline submit pipelines/fineweb_grid.yml", ""},
       {"pe-pipeline submit grid.yml --print | less", "what would be sent"},
       {"pe-pipeline submit grid.yml --set slurm.mode=lane --set slurm.partition=gpu", ""}},
      "0 submitted, or nothing to do; 1 a task failed, of a run that --continue closes; 2 usage, pipeline file, or "
      "refused by Slurm; 3 Slurm does not answer, or the queue is full; 4 store or file system.",
      submit_command};
}

cli::Command cancel_entry() {
  return {"cancel",
          "[FILE] [RUN] [SELECT...] [flags]",
          "Cancel jobs of a submission, or stop a run",
          "Marks the tasks first, so that none of their jobs is queued again, then cancels the jobs. Running jobs may "
          "save their progress. If the run is not a submission but a process on this machine, that process is asked to "
          "save and stop. Without SELECT the whole run is cancelled. With FILE (ending in .yml), only runs of that "
          "pipeline are meant, in its store.",
          {store_flag(), text("--run", "RUN", "Which run; default: the newest active run", &CommandLine::run),
           color_flag()},
          {{"pe-pipeline cancel", "the newest active run"}, {"pe-pipeline cancel grid.yml 'trunk[seed=42]'", ""}},
          "0 done; 2 usage, or no active run or task of that name; 3 Slurm does not answer: the tasks stay marked, and "
          "their jobs end when they see it; 4 the store cannot be written.",
          cancel_command};
}

cli::Command init_entry() {
  return {"init",
          "DIR",
          "Begin a project in its own folder",
          "Writes DIR/configs with the configs that come with pe-pipeline, DIR/pipelines/quickstart.yml and a "
          ".gitignore, and nothing where one of them is there already. Pipeline files in its other folders use these "
          "configs, too. Paths begin at the nearest folder above the file with configs/. Missing files come from the "
          "installation.",
          {color_flag()},
          {{"pe-pipeline init study", ""}},
          "0 done; 2 usage, or something is there already; 4 the folder cannot be written.",
          init_command};
}

cli::Command plan_entry() {
  return {"plan",
          "FILE [SELECT...] [flags]",
          "Show what would run, and why",
          cat("Changes no result and starts no task.\n\n", kSelection),
          reading_flags() + capacity_flags() +
              std::vector<Flag>{
                  json_flag(), toggle("--why", "One line per task instead of one per cause", &CommandLine::why),
                  toggle("--force", "Plan as if --force were given to run", &CommandLine::force), from_store_flag(),
                  text("--device", "DEVICE", "Cost on GPUs that were measured: h100, or a FILE.yml of such figures",
                       &CommandLine::device),
                  toggle("--exit-code", "Exit with 10 when a task would run", &CommandLine::exit_code)},
          {{"pe-pipeline plan pipelines/fineweb_grid.yml", "the whole grid"},
           {"pe-pipeline plan pipelines/fineweb_grid.yml --device h100 --gpus 0,1,2,3", "its cost on four H100"},
           {"pe-pipeline plan grid.yml --exit-code >/dev/null || echo 'there is work'", "in a script"}},
          "0 done; 2 usage or pipeline file; 4 the store cannot be read; 10 a task would run (with --exit-code).",
          plan_command};
}

cli::Command explain_entry() {
  return {
      "explain",
      "FILE [SELECT...] [flags]",
      "Explain why tasks will run or were reused",
      cat("Compares each task with earlier results, down to the field, input or version that differs.\n\n", kSelection),
      reading_flags() + std::vector<Flag>{text("--against", "RUN|KEY|FILE",
                                               "Compare with this run, result or pipeline file (FILE@REV: the file at "
                                               "a git revision); default: the newest earlier result of the same task",
                                               &CommandLine::against),
                                          json_flag(),
                                          toggle("--all", "Every task, not only the first 20", &CommandLine::all)},
      {{"pe-pipeline explain grid.yml 'trunk[seed=42]'", ""},
       {"pe-pipeline explain grid.yml '*' --set trunk.train.peak_lr=1e-3", "what if"},
       {"pe-pipeline explain grid.yml trunk --against grid.yml@HEAD~3", "what an edit changed"}},
      kReadingExits,
      explain_command};
}

cli::Command status_entry() {
  return {"status",
          "[FILE] [RUN] [flags]",
          "Show a run, active or finished",
          "Reads the journal of a run, which may belong to another process. With FILE, the newest run of that "
          "pipeline is meant, in its store. Without FILE it is the newest run in --store, $PE_STORE, or the store/ of "
          "this folder or the nearest above it.",
          {store_flag(), text("--run", "RUN", "Which run; default: the newest", &CommandLine::run),
           toggle("--failed", "Only what failed or is blocked", &CommandLine::failed),
           toggle("--stale", "Instead, list leases held by processes of this host that have ended, in all runs",
                  &CommandLine::stale),
           toggle("--watch", "Update the display until the run ends", &CommandLine::watch), json_flag(), color_flag()},
          {{"pe-pipeline status --watch", "until the run ends"},
           {"pe-pipeline status", "the newest run of ./store"},
           {"pe-pipeline status grid.yml --json | jq .counts", ""}},
          kReadingExits,
          status_command};
}

cli::Command logs_entry() {
  return {
      "logs",
      "[FILE] SELECT... [flags]",
      "Show the logs of tasks",
      cat("Prints the log of the latest attempt of each task of a run. With FILE (ending in .yml), only runs of that "
          "pipeline are read.\n\n",
          kSelection),
      {store_flag(), text("--run", "RUN", "Which run; default: the newest that has the task", &CommandLine::run),
       number("--attempt", "N", "Which attempt; default: the latest", &CommandLine::attempt),
       number("--tail", "N", "Only the last N lines", &CommandLine::tail, support::Suffixes::kNone, 0),
       toggle("-f,--follow", "Follow the log until the run ends", &CommandLine::follow), json_flag(), color_flag()},
      {{"pe-pipeline logs 'trunk[encoding=rope,seed=42]' -f", ""}, {"pe-pipeline logs grid.yml decay --tail 5", ""}},
      kReadingExits,
      logs_command};
}

cli::Command graph_entry() {
  return {"graph",
          "FILE [SELECT...] [flags]",
          "Draw the tasks and their dependencies",
          cat("Prints Graphviz, SVG, Mermaid or JSON.\n\n", kSelection),
          reading_flags() +
              std::vector<Flag>{choice("--format", {"dot", "svg", "mermaid", "json"},
                                       "Form of the output; svg needs Graphviz", &CommandLine::format),
                                {"--json", "", "The same as --format json",
                                 [](CommandLine& line, const std::string&) { line.format = "json"; }},
                                list("--collapse", "AXIS",
                                     "Draw tasks that differ only in this axis as one; 'all' draws one node per stage",
                                     &CommandLine::collapse),
                                toggle("--cached", "Colour tasks by whether they are in the store or would run",
                                       &CommandLine::cached)},
          {{"pe-pipeline graph grid.yml --collapse seed --format svg > grid.svg", ""},
           {"pe-pipeline graph grid.yml --collapse all --format mermaid", ""}},
          kReadingExits,
          graph_command};
}

cli::Command show_entry() {
  return {"show",
          "[FILE] KEY|PATH|ID|encoding [ENCODING] [flags]",
          "Show where an artifact comes from, or what an encoding is",
          "KEY is the beginning of a task key, plan key or digest (4 digits or more). PATH is an artifact, read from "
          "its header. ID is a task, such as evaluate[encoding=rope]. `encoding ENCODING` shows a positional encoding: "
          "formula, options with defaults and units, what it is known for, its errata. With FILE (ending in .yml), ID "
          "is a task of that pipeline: what its runs made, else what it reuses.",
          {store_flag(), toggle("--tree", "Also show the results it was made from", &CommandLine::tree),
           toggle("--preimage", "Print the document whose hash is the key", &CommandLine::preimage), json_flag(),
           color_flag()},
          {{"pe-pipeline show 3fa9c2d1", ""},
           {"pe-pipeline show out/grid/trunk/seed=42.model.h5", ""},
           {"pe-pipeline show 'evaluate[encoding=rope]' --tree", ""},
           {"pe-pipeline show encoding yarn", ""}},
          kReadingExits,
          show_command};
}

cli::Command list_entry() {
  return {
      "list",
      "stages|tasks|artifacts|runs|encodings [FILE] [SELECT...] [flags]",
      "List stages, tasks, artifacts, runs or encodings",
      cat("With FILE, stages, tasks, artifacts and runs belong to that pipeline. Without it, stages are the programs "
          "that were found, and artifacts and runs are the store's. Encodings are all that a model can use.\n\n",
          kSelection),
      reading_flags() + std::vector<Flag>{json_flag()},
      {{"pe-pipeline list tasks grid.yml 'decay[seed=42]'", ""},
       {"pe-pipeline list artifacts", ""},
       {"pe-pipeline list encodings --json", ""}},
      kReadingExits,
      list_command};
}

cli::Command config_entry() {
  return {"config",
          "FILE [SELECT...] [flags]",
          "Show the configs of tasks",
          cat("Complete, with defaults filled in.\n\n", kSelection),
          reading_flags() +
              std::vector<Flag>{
                  toggle("--origin", "Show where each value came from", &CommandLine::origin),
                  toggle("--changed", "Leave out values that are defaults", &CommandLine::changed), json_flag()},
          {{"pe-pipeline config grid.yml 'trunk[encoding=rope,seed=42]' --origin", ""}},
          kReadingExits,
          config_command};
}

cli::Command forget_entry() {
  return {"forget",
          "FILE SELECT... [flags]",
          "Drop the records of results",
          cat("The tasks run again next time; objects stay. Records go to the store's trash.\n\n", kSelection),
          reading_flags() +
              std::vector<Flag>{
                  json_flag(),
                  toggle("-n,--dry-run", "List what would be dropped, and drop nothing", &CommandLine::dry_run),
                  choice("--durability", {"on", "off"}, "off skips every fsync", &CommandLine::durability)},
          {{"pe-pipeline forget grid.yml 'evaluate[encoding=rope]'", ""}},
          "0 done; 2 usage or pipeline file; 4 the store cannot be written.",
          forget_command};
}

cli::Command verify_entry() {
  return {"verify",
          "[FILE] [SELECT...] [flags]",
          "Check results, by checksum or by running them again",
          cat("Rehashes every object and compares it with its name, its record and its own header. With --rerun each "
              "task runs again in a temporary folder. Differences are listed per dataset: how many elements differ, "
              "and by how many units in the last place. Inputs that are known and "
              "not here, such as checkpoints behind imported results, are made again first, in scratch. A packed file "
              "(NAME.tar.zst of 'pe-pipeline export') is checked as if it were a store.\n\n",
              kResultSelection),
          reading_flags() +
              std::vector<Flag>{
                  toggle("--rerun", "Run the tasks again and compare their contents", &CommandLine::rerun),
                  {"--sample", "SHARE", "Only a random share of them, such as 5%",
                   [](CommandLine& line, const std::string& given) { line.sample = share_of("--sample", given); }},
                  toggle("--keep", "With --rerun, keep the new contents even if they are the same", &CommandLine::keep),
                  toggle("--repair", "Move damaged data to the trash, so that the next run makes it again",
                         &CommandLine::repair),
                  {"--gpus", "IDS", "GPUs for results that were made on one, such as 0,1",
                   [](CommandLine& line, const std::string& given) { line.gpus = given == "none" ? "" : given; }},
                  json_flag()},
          {{"pe-pipeline verify", "every result of ./store"},
           {"pe-pipeline verify grid.yml 'evaluate[suite=passkey]' --rerun", ""},
           {"pe-pipeline verify --rerun --sample 5%", "a random share"},
           {"pe-pipeline verify results.tar.zst", "a packed file"}},
          "0 everything intact and the same; 2 usage or pipeline file; 3 some cannot be run again here; 4 the store "
          "cannot be read; 5 something is damaged or differs.",
          verify_command};
}

cli::Command diff_entry() {
  return {"diff",
          "[FILE] A B [flags]",
          "Compare two artifacts, results or runs",
          "A and B are paths of artifacts, keys or ids of results, or runs. How they were made is compared first "
          "(config, inputs), then the contents: per dataset how many elements differ and by how much. Two runs are "
          "compared task by task, grouped by the differences. Two reports are compared number by number, in units of "
          "the noise of both. With FILE (ending in .yml), ids are tasks of that pipeline.",
          {store_flag(),
           number("--ulp", "N", "Numbers up to N units in the last place apart count as equal", &CommandLine::ulp,
                  support::Suffixes::kNone, 0),
           list("--only", "PATH", "Only this dataset, group or member, such as /model/embedding or report.md",
                &CommandLine::only),
           text("--run", "RUN", "Of several results of an id, take the results of this run; default: the newest",
                &CommandLine::run),
           json_flag(), color_flag()},
          {{"pe-pipeline diff 'trunk[seed=1]' 'trunk[seed=2]'", ""},
           {"pe-pipeline diff a.h5 b.h5 --ulp 4 --only /model", ""},
           {"pe-pipeline diff 20261121-194512-3fa9 20261122-080112-77b1", "two runs"}},
          "0 the same content; 1 different; 2 usage; 4 something cannot be read.",
          diff_command};
}

/// A loss may differ by more than 1.
double difference_of(const std::string& given) {
  const auto value = support::parse_real(given);
  if (!value) return share_of("--difference", given);
  if (!(*value > 0))
    throw cli::usage_error(cat("--difference: ", quote(given), " is not above 0"), "as in: --difference 0.01, or 1%");
  return *value;
}

cli::Command power_entry() {
  return {"power",
          "[FILE] REPORT [flags]",
          "Show which differences a study can detect",
          "Computes the smallest difference between two encodings that a study would detect. It uses the noise between "
          "seeds and documents of a report, a two-sided test at 5 % and a power of 80 % (doc/statistics.md). REPORT "
          "is a folder with a report, or a result in the store: with FILE as for run, without it as for verify. Three "
          "seeds of two encodings are enough to start with.",
          reading_flags() +
              std::vector<Flag>{
                  number("--seeds", "N", "Assume N seeds; default: as many as the report has", &CommandLine::seeds),
                  number("--items", "N", "Assume N documents or trials; default: as many as the report has",
                         &CommandLine::items),
                  {"--difference", "NUMBER",
                   "Also show how many seeds detect this difference, in nats per token or as a share of answers: 0.01 "
                   "or 1%",
                   [](CommandLine& line, const std::string& given) { line.difference = difference_of(given); }},
                  json_flag()},
          {{"pe-pipeline power grid.yml report", ""},
           {"pe-pipeline power reports/grid/latest --seeds 5 --items 200", "if there were that many"},
           {"pe-pipeline power reports/grid/latest --difference 0.01", "how many seeds detect 0.01 nats"}},
          "0 done; 2 usage, no report or several; 4 something cannot be read.",
          power_command};
}

cli::Command gc_entry() {
  return {
      "gc",
      "[FILE] [flags]",
      "Drop what the store does not need",
      "Without a limit, only leftovers are dropped: unfinished files, objects that no record names, finished attempts. "
      "--max-size and --keep-last also drop results. They keep pinned results, inputs of active runs and leases, and "
      "results that each pipeline's newest complete run (for each --scale, --axis and --set) or a later run used. They "
      "keep results younger than the grace period, too. When something cannot be read, nothing is dropped, and the "
      "exit code is 4. With --max-size, "
      "checkpoints of finished trainings go first, then the results that are cheapest to recompute for their size. "
      "Everything goes to the store's trash, and leaves it after the grace period.",
      {store_flag(),
       toggle("-n,--dry-run", "List what would be dropped, and drop nothing", &CommandLine::dry_run),
       {"--max-size", "SIZE", "Drop results until objects and work folders fit, such as 500G",
        [](CommandLine& line, const std::string& given) { line.max_size = size_of("--max-size", given); }},
       number("--keep-last", "N",
              "Keep results of the newest N complete runs of each pipeline, and of later runs; drop the rest",
              &CommandLine::keep_last),
       {"--grace", "TIME", "How old leftovers must be, and how long the trash keeps them (24h)",
        [](CommandLine& line, const std::string& given) { line.trash_grace_s = time_of("--grace", given); }},
       choice("--policy", {"cost", "age"},
              "Which results go first: the cheapest to recompute for their size, or the oldest", &CommandLine::policy),
       choice("--durability", {"on", "off"}, "off skips every fsync", &CommandLine::durability),
       json_flag(),
       color_flag()},
      {{"pe-pipeline gc -n", "what would be dropped"},
       {"pe-pipeline gc --max-size 500G", ""},
       {"pe-pipeline gc --keep-last 3 --grace 7d", ""}},
      "0 done; 2 usage; 3 cannot get below --max-size: everything left is in use; 4 the store cannot be written.",
      gc_command};
}

cli::Command pin_entry() {
  return {
      "pin",
      "[FILE] [NAME SELECT...] [flags]",
      "Protect results from gc",
      cat("Without arguments, lists the pins. A pin keeps only the results it names; use +SELECT to keep what they "
          "were made from as well.\n\n",
          kResultSelection),
      reading_flags() +
          std::vector<Flag>{text("--run", "RUN", "Only results that this run made", &CommandLine::run), json_flag()},
      {{"pe-pipeline pin paper 'evaluate[size=tiny]' report", ""}, {"pe-pipeline pin", "the pins"}},
      "0 done; 2 usage, or no such result; 4 the store cannot be written.",
      pin_command};
}

cli::Command unpin_entry() {
  return {"unpin",
          "PIN... [flags]",
          "Remove pins",
          "",
          {store_flag(), color_flag()},
          {{"pe-pipeline unpin paper", ""}},
          "0 done; 2 there is no such pin; 4 the store cannot be written.",
          unpin_command};
}

cli::Command transfer_entry(bool push) {
  return {
      push ? "push" : "pull",
      "[FILE] SELECT... DIR [flags]",
      push ? "Copy results to another store" : "Copy results from another store",
      cat("DIR is a store, or a folder that holds one as store/. Copies results and their records, and checks every "
          "object. Of inputs it copies only records, which is enough to reuse the results there.\n\n",
          kResultSelection),
      reading_flags() +
          std::vector<Flag>{
              toggle("-n,--dry-run", "List what would be copied, and copy nothing", &CommandLine::dry_run),
              choice("--durability", {"on", "off"}, "off skips every fsync", &CommandLine::durability), json_flag()},
      push
          ? std::vector<std::pair<std::string, std::string>>{{"pe-pipeline push grid.yml evaluate /mnt/laptop/store",
                                                              "train here, report there"}}
          : std::vector<std::pair<std::string, std::string>>{{"pe-pipeline pull 'evaluate[size=tiny]' /mnt/box/project",
                                                              ""},
                                                             {"pe-pipeline run grid.yml report",
                                                              "then, from the copied results"}},
      "0 done; 2 usage, or no such result; 4 a store cannot be read or written, or an object is damaged; 5 the other "
      "store has different contents for a key.",
      push ? push_command : pull_command};
}

cli::Command export_entry() {
  return {
      "export",
      "[FILE] [SELECT...] [flags]",
      "Pack results into one file, without checkpoints",
      cat("Packs evaluation tables and metrics with the records of everything that they were made from. Checkpoints, "
          "data and reports stay; the file names their digests. `pe-pipeline import` puts the file into another store, "
          "where the report is made again without a training. SELECT may also be the id of a run.\n\n",
          kResultSelection),
      reading_flags() +
          std::vector<Flag>{text("-o,--out", "PATH", "The file to write (default: PIPELINE.tar.zst or results.tar.zst)",
                                 &CommandLine::out),
                            choice("--durability", {"on", "off"}, "off skips every fsync", &CommandLine::durability),
                            json_flag()},
      {{"pe-pipeline export grid.yml -o grid.tar.zst", "all results that the pipeline has so far"},
       {"pe-pipeline export 20261121-194512-37503f -o grid.tar.zst", "all results of a run"},
       {"tar --zstd -tvf grid.tar.zst", "what is in it"}},
      "0 done; 2 usage, or no such result; 4 the store cannot be read, an object is gone, or the file cannot be "
      "written.",
      export_command};
}

cli::Command import_entry() {
  return {
      "import",
      "[FILE] PACKED... [flags]",
      "Put packed results into a store",
      "PACKED is a file that `pe-pipeline export` wrote. Everything in it is checked first: bytes against digests, "
      "keys against configs. Afterwards `run` reuses the results, and trains only what needs weights that are not "
      "here. Several files can be imported into one store. Where a file has other contents for a key than the store, "
      "nothing is written. Results of an earlier result version are imported and named; no task reuses them. With FILE "
      "(ending in .yml), that pipeline's store is used.",
      {store_flag(), toggle("-n,--dry-run", "Check the files and list what would be imported", &CommandLine::dry_run),
       choice("--durability", {"on", "off"}, "off skips every fsync", &CommandLine::durability), json_flag(),
       color_flag()},
      {{"pe-pipeline import grid.yml reports/published/grid/results.tar.zst", ""},
       {"pe-pipeline run grid.yml report", "then, without a training"},
       {"pe-pipeline verify grid.yml evaluate --rerun --sample 5%", "and check that a rerun gives the same"}},
      "0 done; 2 usage; 4 a file is damaged or of another schema, or the store cannot be written; 5 a file and the "
      "store have different contents for a key.",
      import_command};
}

cli::Command doctor_entry() {
  return {"doctor",
          "[FILE] [flags]",
          "Check that the store and the machine are ready for work",
          "Checks the store, its leases and runs that died. Checks that links, renames and syncs of the file system "
          "are reliable. Also checks space, clocks, GPUs, and Slurm's limits if there is Slurm.",
          {store_flag(), toggle("--fix", "Repair what can be repaired without losing anything", &CommandLine::fix),
           json_flag(), color_flag()},
          {{"pe-pipeline doctor", ""}, {"pe-pipeline doctor --fix --store /data/store", ""}},
          "0 ready; 2 usage; 4 something is wrong.",
          doctor_command};
}

cli::Command timeline_entry() {
  return {"timeline",
          "[FILE] [RUN] [flags]",
          "Write the timeline of a run as a page",
          "Shows on one HTML page which task ran when and in which slot, what waited, what was reused, the critical "
          "path and peak memory. It is made from the journal alone, so it also works for a run that died or is active. "
          "`run` writes it at its end. With FILE, the newest run of that pipeline is meant, as for status.",
          {store_flag(), text("--run", "RUN", "Which run; default: the newest", &CommandLine::run),
           text("--out", "DIR",
                "Where to write timeline.html, or - for standard output; default: the run's folder in reports/",
                &CommandLine::out),
           json_flag(), color_flag()},
          {{"pe-pipeline timeline", "the newest run of ./store"},
           {"pe-pipeline timeline grid.yml 20261121-194512 --out /tmp", ""}},
          kReadingExits,
          timeline_command};
}

cli::Command metrics_entry() {
  return {
      "metrics",
      "[FILE] [RUN] [SELECT...] [flags]",
      "Send the curves of trainings to a tracker",
      "Writes CSV or TensorBoard files, or sends to W&B or Trackio. A finished training keeps its curves, and a "
      "running one can be followed. Attempts of a task are joined, and the axis is the number of tokens. The same "
      "command may be repeated: files are written again, and a tracker gets only what it has not. CSV and "
      "TensorBoard need Python alone. PE_PYTHON names another Python than python3, such as one that has wandb. With "
      "FILE, the newest run of that pipeline is meant, as for status.",
      {store_flag(),
       text("--run", "RUN", "Which run; default: the newest", &CommandLine::run),
       choice("--to", {"csv", "tensorboard", "wandb", "trackio"}, "Where to (default: csv)", &CommandLine::to),
       text("--out", "DIR", "Folder for files (default: metrics/)", &CommandLine::out),
       text("--project", "NAME", "Project of W&B and Trackio (default: the pipeline's name)", &CommandLine::project),
       toggle("-f,--follow", "Continue until the run ends", &CommandLine::follow),
       {"--every", "TIME", "How often --follow looks (5s)",
        [](CommandLine& line, const std::string& given) { line.every_s = time_of("--every", given); }},
       json_flag(),
       color_flag()},
      {{"pe-pipeline metrics", "the newest run of ./store, as metrics/*.csv"},
       {"pe-pipeline metrics grid.yml 'trunk[encoding=rope]' --to wandb --follow", "while it trains"},
       {"tensorboard --logdir metrics", "after pe-pipeline metrics --to tensorboard"}},
      kReadingExits,
      metrics_command};
}

cli::Command man_entry() {
  return {"man",
          "[COMMAND|PROGRAM] [flags]",
          "Show the manual of a command or stage",
          "Uses man(1) on a terminal, prints plain text otherwise. Without an argument: the overview.",
          {text("--out", "DIR", "Write the pages of all commands and stages there", &CommandLine::out)},
          {{"pe-pipeline man run", ""},
           {"pe-pipeline man pe-train", ""},
           {"pe-pipeline man --out ~/.local/share/man/man1", "then also: man pe-train"}},
          "0 done; 2 there is no such manual; 4 the folder cannot be written.",
          man_command};
}

cli::Command completion_entry() {
  return {"completion",
          "bash|zsh|fish",
          "Print a script that completes commands in a shell",
          "The script completes commands, flags and files. For a pipeline file it also completes stages, axes, labels, "
          "scales and config keys. For a stage it completes flags, config keys and help topics.",
          {},
          {{"source <(pe-pipeline completion bash)", "for this shell"},
           {"pe-pipeline completion fish > ~/.config/fish/completions/pe-pipeline.fish", "permanently"}},
          "0 done; 2 no such shell.",
          completion_command};
}

cli::Command help_entry() { return {"help", "[COMMAND]", "Show help, or the help of a command", "", {}, {}, "0."}; }

}  // namespace
const cli::CommandTable& command_table() {
  static const cli::CommandTable table = {
      run_entry(),           submit_entry(), cancel_entry(),     init_entry(),   plan_entry(),
      explain_entry(),       status_entry(), logs_entry(),       graph_entry(),  show_entry(),
      list_entry(),          config_entry(), forget_entry(),     verify_entry(), diff_entry(),
      power_entry(),         gc_entry(),     pin_entry(),        unpin_entry(),  transfer_entry(true),
      transfer_entry(false), export_entry(), import_entry(),     doctor_entry(), timeline_entry(),
      metrics_entry(),       man_entry(),    completion_entry(), help_entry()};
  return table;
}

}  // namespace pe::commands
