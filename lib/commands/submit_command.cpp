#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <set>

#include "commands/commands.h"
#include "commands/display.h"
#include "commands/plan_costs.h"
#include "commands/run_choice.h"
#include "commands/session.h"
#include "commands/stop_signals.h"
#include "commands/submissions.h"
#include "commands/timeline.h"
#include "pipeline/orchestrator.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::Graph;
using pipeline::JobArray;
using pipeline::Plan;
using pipeline::Slurm;
using pipeline::Store;
using pipeline::StoreReader;
using pipeline::Submission;
using pipeline::TaskState;
using support::cat;
using support::ConfigError;
using support::quote;

bool runs(const Plan& plan, std::size_t i) {
  return plan.tasks[i].state == TaskState::kRun || plan.tasks[i].state == TaskState::kLikelyReuse;
}

/// The blocks `slurm` of the file, changed by --set. Their mistakes were reported when the file was expanded.
pipeline::SlurmPolicies policies_of(const cli::CommandLine& line, const std::string& path) {
  pipeline::PipelineFile file = pipeline::read_pipeline_file(path);
  const std::string prefix = "slurm.";
  for (const std::string& text : line.set) {
    const auto equals = text.find('=');
    if (text.rfind(prefix, 0) != 0 || equals == std::string::npos) continue;
    pipeline::set_slurm(file, text.substr(prefix.size(), equals - prefix.size()),
                        support::parse_yaml_value(text.substr(equals + 1), "--set " + text.substr(0, equals)));
  }
  support::Diagnostics mistakes;
  pipeline::SlurmPolicies policies = pipeline::slurm_policies(file, mistakes);
  mistakes.throw_if_any();
  return policies;
}

/// Words of `run` that make one of its tasks here.
std::vector<std::string> run_words(const cli::CommandLine& line) {
  std::vector<std::string> words = {support::own_executable().string(), "run", fs::absolute(line.words.at(0)).string()};
  for (const std::string& set : line.set) words.insert(words.end(), {"--set", set});
  for (const std::string& axis : line.axis) words.insert(words.end(), {"--axis", axis});
  if (!line.scale.empty()) words.insert(words.end(), {"--scale", line.scale});
  if (!line.store.empty()) words.insert(words.end(), {"--store", fs::absolute(line.store).string()});
  return words;
}

void tell(const std::string& text) { say(cat("pe-pipeline: ", text, "\n")); }

/// Reports a program of Slurm that takes long: sbatch itself waits when the queue is full.
support::TimedCapture call_and_tell(const std::vector<std::string>& words, const std::string& input, double limit_s) {
  constexpr std::chrono::seconds kSlow(10);
  auto answer = std::async(std::launch::async, pipeline::call_slurm, words, input, limit_s);
  if (answer.wait_for(kSlow) != std::future_status::ready)
    tell(cat(words.front(), " has not answered for ", kSlow.count(), " s; it has ", support::short_duration(limit_s)));
  return answer.get();
}

Slurm slurm_or_refuse() {
  for (const char* name : {"SLURM_CLUSTERS", "SBATCH_CLUSTERS"}) {
    if (pipeline::own_environment(name))
      throw ConfigError(cat(name, " is set, and `submit` sends jobs to the Slurm of this machine alone"),
                        {"pe-pipeline submit", 0, 0, "", 1},
                        "unset it; SLURM_CONF names the settings of another Slurm");
  }
  if (Slurm::is_here()) return Slurm(call_and_tell);
  throw ConfigError("sbatch was not found: there is no Slurm on this machine", {"pe-pipeline submit", 0, 0, "", 1},
                    "`submit --print` shows what would be sent; `run` makes it here");
}

void print_arrays(const Submission& submission, const std::map<std::string, std::string>& jobs) {
  std::vector<std::vector<std::string>> rows;
  for (const pipeline::SubmittedArray& array : submission.arrays) {
    if (!array.live_job.empty()) continue;
    const auto job = jobs.find(array.token);
    rows.push_back({"  " + array.label, counted(array.elements.size(), "element"),
                    job == jobs.end() ? "waits for room in the queue" : "job " + job->second});
  }
  print(table(rows));
}

/// --print: what would be sent, as a shell would read it.
void print_scripts(const Submission& submission) {
  for (const pipeline::SubmittedArray& array : submission.arrays) {
    if (!array.live_job.empty()) continue;
    std::vector<std::string> words = {"sbatch", "--parsable"};
    words.insert(words.end(), array.options.begin(), array.options.end());
    std::string needs;
    for (const pipeline::ArrayNeed& need : array.needs) {
      static constexpr const char* kWords[] = {"aftercorr", "afterok", "afterany"};
      const pipeline::SubmittedArray& other = submission.arrays[need.array];
      needs += cat(needs.empty() ? "" : ",", kWords[static_cast<int>(need.kind)], ":<",
                   other.live_job.empty() ? other.name() : other.live_job, ">");
      if (!need.indices.empty()) needs += cat(" (", counted(need.indices.size(), "element"), " of it)");
    }
    print(cat("# ", array.name(), ": ", counted(array.elements.size(), "element"),
              needs.empty() ? "" : cat(", --dependency=", needs), "\n", pipeline::shell_command(words), " <<'EOF'\n",
              array.script, "EOF\n\n"));
  }
}

int told(const pipeline::SendReport& report, const std::string& run) {
  if (!report.failed.empty()) {
    const bool any = report.arrays > 0;
    say(cat("pe-pipeline: ", report.refusal == pipeline::Refusal::kUnknown ? "" : "Slurm refused: ", report.failed,
            "\n",
            report.refusal == pipeline::Refusal::kFinal
                ? cat(any ? "jobs that were submitted continue; " : "nothing was submitted; ",
                      "correct the file's block 'slurm' and submit again\n")
                : cat("`pe-pipeline submit --continue ", run, "` submits ", any ? "the rest" : "it", "\n"),
            report.refusal == pipeline::Refusal::kFull
                ? "an array larger than this limit never fits: set `slurm.max_in_queue` to the limit and submit again\n"
                : ""));
    return report.refusal == pipeline::Refusal::kFinal ? pipeline::kRunUsage : pipeline::kRunIncomplete;
  }
  if (report.waiting > 0) {
    print(cat(counted(report.waiting, "element"), report.waiting == 1 ? " waits" : " wait", " for room in the queue",
              report.limit.empty() ? "" : cat(" (sbatch: ", report.limit, ")"), ": the last job ",
              report.looks_again ? "looks for room every five minutes and " : "", "sends ",
              report.waiting == 1 ? "it" : "them",
              " where sbatch works on compute nodes; else `pe-pipeline submit --continue ", run, "` does\n"));
  }
  return pipeline::kRunDone;
}

/// Tasks with `run_on: here` are made now, by this process.
bool run_here(const cli::CommandLine& line, const Graph& graph, const pipeline::SlurmPolicies& policies,
              const Plan& plan, Store& store) {
  std::vector<bool> here(graph.tasks.size());
  bool any = false;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!runs(plan, i) || !policies.at(graph.tasks[i].label).here) continue;
    for (const pipeline::Edge& edge : graph.tasks[i].inputs) {
      if (!runs(plan, edge.producer) || here[edge.producer]) continue;
      throw ConfigError(cat(quote(graph.tasks[i].id), " is to run here (slurm.run_on), but needs ",
                            quote(graph.tasks[edge.producer].id), ", which a job makes"),
                        {graph.file, 0, 0, "", 1}, "let both run here, or neither");
    }
    here[i] = any = true;
  }
  if (!any) return false;
  pipeline::RunOptions options;
  options.capacity = capacity_of(line);
  options.only = here;
  options.whole = false;
  options.publish_threads = pipeline::kPublishThreads;
  options.command = run_words(line);
  const auto display = make_display(line);
  StopSignals signals;
  pipeline::LocalRunner runner;
  const pipeline::RunSummary summary = pipeline::run(graph, plan, store, runner, *display, options, StopSignals::level);
  display->finish();
  for (std::size_t i = 0; i < here.size(); ++i) {
    if (!here[i] || summary.phases[i] == pipeline::TaskPhase::kDone ||
        summary.phases[i] == pipeline::TaskPhase::kReused)
      continue;
    throw ConfigError(
        cat(quote(graph.tasks[i].id), ", which is to run here (slurm.run_on), did not end well; nothing was submitted"),
        {}, cat("pe-pipeline logs --run ", summary.run_id, " ", quote(graph.tasks[i].id), " shows why"));
  }
  return true;
}

/// Tasks that ran out of memory ask for more than their last attempt had.
std::size_t ask_for_more_memory(Graph& graph, const Plan& plan, const Store& store,
                                const pipeline::Grouping& grouping) {
  std::size_t more = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!runs(plan, i) || grouping.live.count(i) != 0) continue;
    pipeline::Task& task = graph.tasks[i];
    const std::int64_t had = pipeline::last_oom_memory_bytes(store, task.plan_key);
    if (had <= 0) continue;
    const auto wanted = static_cast<std::int64_t>(std::ceil(static_cast<double>(had) * task.retry->oom_mem));
    if (wanted <= task.resources.mem_bytes) continue;
    task.resources.mem_bytes = wanted;
    ++more;
  }
  return more;
}

/// How many jobs the queue takes now.
std::int64_t room_of(std::int64_t limit, const std::vector<pipeline::JobRow>& rows) {
  const auto there =
      std::count_if(rows.begin(), rows.end(), [](const auto& row) { return !pipeline::is_final(row.state); });
  return std::max<std::int64_t>(0, limit - there);
}

/// Ends submissions of this user whose results are all there, and whose last job never ran.
void end_finished(Store& store) {
  if (!Slurm::is_here()) return;
  std::vector<Submission> open = pipeline::open_submissions(store);
  constexpr double kPatience = 5;  // seconds: there is nothing else to do
  Slurm slurm(pipeline::call_slurm, kPatience);
  if (open.empty() || slurm.cluster().empty()) return;
  std::erase_if(open, [&](const Submission& one) { return !pipeline::is_own(one, slurm); });
  if (const auto rows = slurm.own_jobs()) pipeline::end_abandoned(store, open, *rows, slurm);
}

/// Gives arrays without a time the usual time of their partition, which bounds the early signal.
void set_usual_times(std::vector<JobArray>& arrays, Slurm& slurm) {
  const bool needed = std::any_of(arrays.begin(), arrays.end(), [](const JobArray& array) {
    return array.live_job.empty() && array.resources.time_s <= 0;
  });
  const auto partitions = needed ? slurm.partitions() : std::nullopt;
  if (!partitions) return;
  for (JobArray& array : arrays)
    array.usual_time_s = pipeline::usual_time(*partitions, array.policy.partition(array.resources.name));
}

/// Names submissions of other users and clusters with the same tasks. Each task is made once, by the holder of its
/// lease.
void tell_of_others(const std::vector<Submission>& others, const Graph& graph, const std::vector<bool>& to_run) {
  std::set<std::string> wanted;
  for (std::size_t i = 0; i < to_run.size(); ++i) {
    if (to_run[i]) wanted.insert(graph.tasks[i].plan_key);
  }
  for (const Submission& other : others) {
    const auto same = static_cast<std::size_t>(std::count_if(
        other.tasks.begin(), other.tasks.end(), [&](const auto& task) { return wanted.count(task.plan_key) > 0; }));
    if (same == 0) continue;
    print(cat("run ", other.run, " of ", pipeline::submitter(other), " has ", counted(same, "task"),
              " of these; each is made once, by whichever job comes to it first\n"));
  }
}

/// The largest number of elements in an array: it fits into the queue with the jobs that are there now. It is at least
/// a quarter of the limit, since other jobs end.
std::int64_t largest_window(std::int64_t limit, const std::vector<pipeline::JobRow>& rows) {
  return std::max<std::int64_t>({1, (limit - 1) / 4, room_of(limit, rows) - 1});
}

int continue_command(const cli::CommandLine& given) {
  if (given.dry_run)
    throw ConfigError("--continue sends the run's next jobs, so --print has no effect", {"--print", 0, 0, "", 1},
                      cat("pe-pipeline status --run ", given.run, " shows what is left"));
  cli::CommandLine line = given;
  Store store = open_for_writing(line, store_path_for(line));
  if (!line.words.empty())
    throw ConfigError(cat("--continue takes no selection, found ", quote(line.words.front())),
                      {"pe-pipeline submit", 0, 0, "", 1}, "it continues the whole run");
  const std::string run = pick_run(store, line.run, line.file, "--continue");
  Slurm slurm = slurm_or_refuse();
  const pipeline::LastReport report = pipeline::go_on(store, run, slurm, "", tell);
  for (const std::string& warning : report.warnings) say(cat("pe-pipeline: warning: ", warning, "\n"));
  if (report.ended) {
    print(cat("run ", run, " has ended: ", report.summary, "\n"));
    return report.exit_code;
  }
  print(cat("run ", run, ": ", counted(report.sent.elements, "element"), " sent\n"));
  return told(report.sent, run);
}

std::vector<bool> tasks_to_run(const Plan& plan) {
  std::vector<bool> to_run(plan.tasks.size());
  std::size_t impossible = 0;
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    to_run[i] = runs(plan, i);
    if (plan.tasks[i].state == TaskState::kInputMissing || plan.tasks[i].state == TaskState::kBlocked) ++impossible;
  }
  if (impossible > 0)
    say(cat("pe-pipeline: warning: ", counted(impossible, "task"),
            " cannot run, since files that configs name are not there; `pe-pipeline plan` names them\n"));
  return to_run;
}

/// Lays the limits of the site, the account and the present queue over the policy and the sizes of arrays.
void keep_to_limits(const pipeline::SiteConfig& config, const std::vector<pipeline::JobRow>& rows, Slurm& slurm,
                    pipeline::SlurmPolicy& policy, pipeline::Grouping& grouping) {
  if (const auto most = config.find("MaxArraySize"); most != config.end())
    grouping.largest_array = std::max<std::int64_t>(1, support::parse_integer(most->second).value_or(1001));
  if (policy.max_in_queue == 0 && pipeline::keeps_account_limits(config)) {
    const auto associations = slurm.associations();
    const std::int64_t most = associations ? pipeline::most_in_queue(*associations, policy.account) : 0;
    // While the last job of a window sends the next one, it counts as well.
    if (most > 2) policy.max_in_queue = most - 1;
  }
  if (policy.max_in_queue > 0)
    grouping.largest_array = std::min(grouping.largest_array, largest_window(policy.max_in_queue, rows));
}

/// Tasks that earlier submissions of this user have in the queue become dependencies and are not sent again.
void adopt(const Store& store, const Graph& graph, const std::vector<bool>& to_run, const std::vector<Submission>& open,
           const std::vector<pipeline::JobRow>& rows, bool whole, Slurm& slurm, pipeline::Grouping& grouping) {
  pipeline::LiveTasks live = pipeline::live_tasks(store, open, rows);
  if (!live.blocked.empty()) {
    const std::string failed = slurm.cancel(live.blocked);
    if (!failed.empty()) say(cat("pe-pipeline: warning: scancel: ", failed, "\n"));
    print(cat("cancelled ", counted(live.blocked.size(), "job"), " that waited for failed jobs\n"));
  }
  std::size_t adopted = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const auto found = live.by_plan_key.find(graph.tasks[i].plan_key);
    if (found == live.by_plan_key.end()) continue;
    if (to_run[i]) {
      grouping.live[i] = found->second;
      ++adopted;
    }
    live.by_plan_key.erase(found);
  }
  std::size_t older = 0;
  for (const Submission& submission : open) {
    if (submission.pipeline != graph.name) continue;
    for (const pipeline::SentTask& task : submission.tasks) older += live.by_plan_key.count(task.plan_key);
  }
  if (adopted > 0) print(cat(counted(adopted, "task"), adopted == 1 ? " is" : " are", " in the queue already\n"));
  if (older > 0 && whole) {
    print(cat(counted(older, "task"), " in the queue ", older == 1 ? "was" : "were",
              " submitted from another version of this pipeline, and ", older == 1 ? "goes" : "go",
              " on as submitted; `pe-pipeline cancel` ends ", older == 1 ? "it" : "them", "\n"));
  }
}

/// Makes the run and sends it.
int send_arrays(Store& store, const Graph& graph, const Plan& plan, const std::vector<JobArray>& arrays,
                pipeline::SubmissionRequest order, bool whole, const pipeline::SendOptions& options, Slurm& slurm) {
  const double started = support::steady_s();
  pipeline::RunOptions run_options;
  run_options.command = order.command;
  run_options.whole = whole;
  const pipeline::RunFolder folder(store, graph, plan, run_options);
  order.run = folder.run_id();
  const auto made = pipeline::make_submission(graph, arrays, order);
  pipeline::write_submission(store, graph, made);
  const pipeline::SendReport report = pipeline::send(store, made.submission, slurm, options);
  if (!report.failed.empty() && report.arrays == 0 && report.refusal == pipeline::Refusal::kFinal) {
    support::remove_tree(folder.path());  // of nothing nothing is left
    return told(report, order.run);
  }
  print(cat(graph.name, ": ", counted(report.elements, "element"), " in ", counted(report.arrays, "array"),
            " submitted in ", fmt::format("{:.1f}", support::steady_s() - started), " s  (run ", order.run, ")\n"));
  print_arrays(made.submission, pipeline::sent_jobs(store, order.run));
  if (std::any_of(arrays.begin(), arrays.end(), [](const JobArray& array) { return array.policy.isa.empty(); }))
    print("planned for nodes like this machine; `slurm: {isa: …, constraint: …}` plans for others\n");
  return told(report, order.run);
}

/// Tasks of a stage whose job may end them in the middle.
struct LateTasks {
  std::size_t unlimited = 0, requeued = 0;
  double longest_s = 0;          ///< of those without a limit; 0: unknown
  double jobs = 0, limit_s = 0;  ///< of the task that is requeued most often
  bool resumes = false;          ///< whether a job continues from the one before
};

std::map<std::string, LateTasks> late_tasks(const Graph& graph, const Plan& plan, const Store& store,
                                            const pipeline::SlurmPolicies& policies) {
  pipeline::Capacity all = capacity_on_device({}, false, graph);
  all.gpus.assign(64, "");
  const std::vector<double> seconds = pipeline::estimate(graph, plan, StoreReader(store), all).seconds;
  std::map<std::string, LateTasks> late;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const pipeline::Task& task = graph.tasks[i];
    const pipeline::SlurmPolicy& policy = policies.at(task.label);
    if (!runs(plan, i) || policy.here) continue;
    const double limit = task.resources.time_s > 0 ? task.resources.time_s : policy.time_s;
    if (limit <= 0) {
      LateTasks& one = late[task.label];
      ++one.unlimited;
      one.longest_s = std::max(one.longest_s, seconds[i]);
    } else if (seconds[i] > limit) {
      LateTasks& one = late[task.label];
      ++one.requeued;
      if (seconds[i] / limit > one.jobs)
        one = {one.unlimited, one.requeued, one.longest_s, seconds[i] / limit, limit, task.stage->resumes};
    }
  }
  return late;
}

/// Jobs without a time limit have the partition's, which may end them in the middle; jobs that are too short are
/// requeued; and data may be read again and again.
void warn_of_time(const Graph& graph, const Plan& plan, const Store& store, const pipeline::SlurmPolicies& policies) {
  for (const auto& [label, one] : late_tasks(graph, plan, store, policies)) {
    if (one.unlimited > 0) {
      say(cat("pe-pipeline: warning: ", counted(one.unlimited, "task"), " of ", label,
              one.unlimited == 1 ? " has" : " have", " no time limit, so the partition's default holds; ",
              one.longest_s > 0 ? cat("the longest is expected to take ", support::short_duration(one.longest_s))
                                : "how long they take is not known here",
              "; `time` in their resources sets one\n"));
    }
    if (one.requeued > 0) {
      say(cat("pe-pipeline: warning: ", counted(one.requeued, "task"), " of ", label,
              one.requeued == 1 ? " is" : " are", " expected to take up to ",
              support::short_duration(one.jobs * one.limit_s),
              one.resumes ? cat(", so up to ", std::ceil(one.jobs), " jobs of ", support::short_duration(one.limit_s),
                                " each, which continue from checkpoints\n")
                          : cat(", above their limit of ", support::short_duration(one.limit_s),
                                "; `time` in their resources raises it\n")));
    }
  }
  for (const Epochs& epochs : epochs_of(graph, plan, store)) {
    if (!epochs.data || epochs.tokens <= *epochs.data) continue;
    say(fmt::format("pe-pipeline: warning: {} reads its data {:.2g} times ({} of {} tokens)\n", epochs.label,
                    epochs.tokens / *epochs.data, support::short_count(epochs.tokens),
                    support::short_count(*epochs.data)));
  }
}

/// From the plan to the last sbatch.
int submit_plan(const cli::CommandLine& line, Store& store, Graph& graph, const Plan& plan, pipeline::Grouping grouping,
                bool whole) {
  pipeline::SlurmPolicy policy = grouping.policies.begin()->second;  // what it says of the file, all have
  grouping.mode = policy.mode;
  std::vector<bool> to_run = tasks_to_run(plan);
  for (std::size_t i = 0; i < to_run.size(); ++i) {
    if (grouping.policies.at(graph.tasks[i].label).here) to_run[i] = false;  // made before anything is sent
  }
  pipeline::SubmissionRequest order;
  order.store = store.root();
  order.program = support::own_executable().string();
  order.command = run_words(line);
  warn_of_time(graph, plan, store, grouping.policies);
  if (line.dry_run) {
    pipeline::check_configs(graph, plan);
    order.run = "RUN";
    print_scripts(pipeline::make_submission(graph, pipeline::group(graph, to_run, grouping), order).submission);
    return pipeline::kRunDone;
  }
  Slurm slurm = slurm_or_refuse();
  const auto config = slurm.config();
  std::optional<pipeline::SubmitLease> lease;
  if (config) lease.emplace(store, graph.name, slurm, tell);
  const auto rows = config ? slurm.own_jobs() : std::nullopt;
  if (!rows) {
    tell(cat(slurm.trouble(), "; nothing was submitted"));
    return pipeline::kRunIncomplete;
  }
  lease->send_heartbeat();
  keep_to_limits(*config, *rows, slurm, policy, grouping);
  lease->send_heartbeat();
  order.max_in_queue = policy.max_in_queue;
  order.user = slurm.user();
  order.cluster = slurm.cluster();
  std::vector<Submission> open = pipeline::open_submissions(store);
  const auto foreign = std::stable_partition(open.begin(), open.end(),
                                             [&](const Submission& one) { return pipeline::is_own(one, slurm); });
  tell_of_others({foreign, open.end()}, graph, to_run);
  open.erase(foreign, open.end());
  adopt(store, graph, to_run, open, *rows, whole, slurm, grouping);
  lease->send_heartbeat();
  pipeline::note_lost_to_memory(store, open, *rows, slurm);
  lease->send_heartbeat();
  pipeline::end_abandoned(store, open, *rows, slurm);
  lease->send_heartbeat();
  const std::size_t more = ask_for_more_memory(graph, plan, store, grouping);
  if (more > 0)
    print(cat(counted(more, "task"), more == 1 ? " asks" : " ask",
              " for more memory than last time, when it was too little\n"));
  std::vector<JobArray> arrays = pipeline::group(graph, to_run, grouping);
  set_usual_times(arrays, slurm);
  if (std::all_of(arrays.begin(), arrays.end(), [](const JobArray& array) { return !array.live_job.empty(); })) {
    print(cat(graph.name, ": nothing to submit\n"));
    return pipeline::kRunDone;
  }
  lease->send_heartbeat();
  pipeline::check_configs(graph, plan);
  lease->send_heartbeat();
  pipeline::SendOptions options;
  options.tell = tell;
  options.heartbeat = [&] { lease->send_heartbeat(); };
  if (policy.max_in_queue > 0) options.room = room_of(policy.max_in_queue, *rows);
  return send_arrays(store, graph, plan, arrays, std::move(order), whole, options, slurm);
}

}  // namespace

int submit_command(const cli::CommandLine& line) {
  if (!line.run.empty()) return continue_command(line);
  const std::string file = pipeline_file_of(line);
  const std::vector<std::string> selectors = selectors_of(line);
  const fs::path store_folder = store_path(line, pipeline::find_root(file));
  ExpandedPipeline loaded = load(line, file, store_folder);
  pipeline::Grouping grouping;
  grouping.policies = policies_of(line, file);
  pipeline::PlanOptions plan_options;
  plan_options.selected = pipeline::select(loaded.graph, selectors);
  Store store(store_folder, {});
  Plan plan = pipeline::make_plan(loaded.graph, StoreReader(store), plan_options);
  print_warnings(store);
  if (plan.nothing_to_do()) {
    if (!line.dry_run) end_finished(store);
    return run_command(line);
  }
  if (!line.dry_run && run_here(line, loaded.graph, grouping.policies, plan, store)) {
    plan = pipeline::make_plan(loaded.graph, StoreReader(store), plan_options);
    if (plan.nothing_to_do()) return run_command(line);
  }
  return submit_plan(line, store, loaded.graph, plan, std::move(grouping), selectors.empty());
}

int last_command(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2) throw ConfigError("__last is for jobs of a submission", {"pe-pipeline", 0, 0, "", 1});
  Store store(arguments[0], {});
  Slurm slurm;
  const auto job = pipeline::own_environment("SLURM_ARRAY_JOB_ID");
  const pipeline::LastReport report = pipeline::go_on(store, arguments[1], slurm, job.value_or(""), tell);
  for (const std::string& warning : report.warnings) print(cat("warning: ", warning, "\n"));
  print(report.ended ? cat("run ", arguments[1], " has ended: ", report.summary, "\n")
                     : cat("run ", arguments[1], ": ", counted(report.sent.elements, "element"), " sent\n"));
  if (report.ended) {
    try {
      write_timeline(pipeline::read_timeline(store, arguments[1]));
    } catch (const support::Error& error) {
      print(cat("no timeline: ", error.diagnostics().front().message, "\n"));
    }
  }
  return report.ended ? pipeline::kRunDone : told(report.sent, arguments[1]);
}

}  // namespace pe::commands
