// Pipelines submitted to a real Slurm that this test starts: their results, whatever happens to their jobs.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <regex>
#include <set>
#include <thread>

#include "end_to_end/project.h"
#include "pipeline/cluster/slurm.h"
#include "pipeline/cluster/submission.h"
#include "support/error.h"
#include "support/real_slurm.h"
#include "support/text.h"

using namespace pe;        // NOLINT
using namespace pe::test;  // NOLINT

namespace {

/// One Slurm for all tests of this file; it takes a second to start.
RealSlurm& slurm() {
  static std::unique_ptr<RealSlurm> one = std::make_unique<RealSlurm>(RealSlurmOptions{.nodes = 2});
  return *one;
}

bool within(double seconds, const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < until) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return holds();
}

Json status(const Project& project) { return Json::parse(project.call("status", {"--json"}).out); }

std::map<std::string, int> phases(const Project& project) {
  std::map<std::string, int> counts;
  const Json answer = status(project);
  for (const auto& [phase, count] : answer.at("counts").items()) counts[phase] = count;
  return counts;
}

std::string phase_of(const Project& project, const std::string& id) {
  const Json answer = status(project);
  for (const Json& task : answer.at("tasks")) {
    if (task.at("id") == id) return task.at("phase");
  }
  return "none";
}

/// Logs of all jobs of a project, for messages.
std::string job_logs(const Project& project, const std::string& store = "store") {
  std::string text;
  for (const auto& entry : fs::recursive_directory_iterator(project.root() / store / "runs")) {
    if (entry.path().extension() == ".log")
      text += entry.path().filename().string() + ":\n" + support::read_file(entry.path());
  }
  return text + slurm().jobs();
}

/// Results of the same pipeline without any Slurm, and without waiting, which is in no key; made once.
const std::map<pipeline::ResultKey, std::string>& undisturbed(const std::string& text = kToyPipeline) {
  static std::map<std::string, std::map<pipeline::ResultKey, std::string>> known;
  const auto [found, fresh] = known.try_emplace(text);
  if (fresh) {
    static const std::regex waiting("step_s: [0-9.]+");
    const Project project(std::regex_replace(text, waiting, "step_s: 0"));
    BOOST_TEST_REQUIRE(project.call("run").code == 0);
    found->second = project.contents();
  }
  return found->second;
}

std::string slow_task(const std::string& more, int steps = 160) {
  return "schema: pe-pipeline/1\nname: toy\nslurm: {signal_lead: 30s}\nstages:\n"
         "  long:\n    run: pe-toy\n    config: {set: {tokens: " +
         std::to_string(steps) + ", step_s: 0.05, checkpoint_every: 5" + more + "}}\n";
}

/// A script in place of one of Slurm's programs, while it lives. `$REAL` is the program itself.
class InPlaceOf {
 public:
  InPlaceOf(const std::string& name, const std::string& body) : path_(::getenv("PATH")) {
    const auto real = support::find_program(name);
    support::write_file_atomically(folder_ / name, "#!/bin/sh\nREAL=" + real->string() + "\n" + body + "\n", false);
    fs::permissions(folder_ / name, fs::perms(0755));
    ::setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
  }
  ~InPlaceOf() { ::setenv("PATH", path_.c_str(), 1); }
  InPlaceOf(const InPlaceOf&) = delete;
  InPlaceOf& operator=(const InPlaceOf&) = delete;

 private:
  TempFolder folder_;
  std::string path_;
};

/// Ids of arrays by the name of the job.
std::map<std::string, std::set<std::string>> arrays_in_queue(const RealSlurm& of = slurm()) {
  std::map<std::string, std::set<std::string>> ids;
  for (const std::string& line : support::split(of.queue("%F %j"), '\n')) {
    const auto space = line.find(' ');
    // Ours alone, by their names.
    if (space != std::string::npos && line.find('.', space) != std::string::npos)
      ids[line.substr(space + 1)].insert(line.substr(0, space));
  }
  return ids;
}

void release_held(const RealSlurm& of = slurm()) {
  for (const std::string& line : support::split(of.queue("%F %r"), '\n')) {
    if (has(line, "JobHeldUser")) support::capture({"scontrol", "release", line.substr(0, line.find(' '))});
  }
}

/// A job that the others of the first node make room for.
void preempt() {
  const auto urgent = support::capture(
      {"sbatch", "--parsable", "--partition=urgent", "--exclusive", "--output=/dev/null", "--wrap=sleep 1"});
  BOOST_TEST_REQUIRE(urgent.status.code == 0, urgent.err);
}

/// Processes whose command line has all of `words`.
std::vector<pid_t> processes_with(const std::vector<std::string>& words) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    std::ifstream file(entry.path() / "cmdline");
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    if (pid > 0 && std::all_of(words.begin(), words.end(), [&](const std::string& word) { return has(line, word); }))
      found.push_back(pid);
  }
  return found;
}

/// A variable of another process; nothing when it lacks it or has ended.
std::optional<std::string> variable_of(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ");
  const std::string all((std::istreambuf_iterator<char>(file)), {});
  for (const std::string& entry : support::split(all, '\0')) {
    if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

/// Toys with GPUs, as they were at work until all were done.
struct GpuUse {
  std::size_t most = 0;  ///< at the same time
  struct Seen {
    std::string visible, given;  ///< CUDA_VISIBLE_DEVICES, and the numbers that Slurm says of the job
  };
  std::map<pid_t, Seen> toys;

  std::set<std::string> visible() const {
    std::set<std::string> all;
    for (const auto& [pid, seen] : toys) all.insert(seen.visible);
    return all;
  }
};

/// Submits two or three toys of three seconds that ask for `resources`, and watches them.
GpuUse watch_gpus(const std::string& resources, const std::string& slurm_block, int toys, const std::string& asked) {
  const Project project("schema: pe-pipeline/1\nname: toy\nresources: {gpu: {cpus: 1, " + resources + "}}\nslurm: {" +
                        slurm_block + "}\naxes: {seed: [" +
                        (toys == 3   ? "1, 2, 3"
                         : toys == 2 ? "1, 2"
                                     : "1") +
                        "]}\nstages:\n  gpus:\n    run: pe-toy\n    over: [seed]\n    resources: gpu\n"
                        "    config: {set: {value: $(seed), tokens: 60, step_s: 0.05}}\n");
  const Answer answer = project.call("submit");
  BOOST_TEST_REQUIRE(answer.code == 0, answer.err);
  for (const std::string& line : support::split(slurm().queue("%j %T %b"), '\n')) {
    if (line.rfind("gpus.", 0) == 0 && !has(line, "COMPLETED")) CHECK_HAS(line + "\n", " " + asked + "\n");
  }
  GpuUse use;
  const bool done = within(60, [&] {
    const std::vector<pid_t> now = processes_with({"pe-toy", project.root().string()});
    use.most = std::max(use.most, now.size());
    for (const pid_t pid : now) {
      const auto visible = variable_of(pid, "CUDA_VISIBLE_DEVICES"), job = variable_of(pid, "SLURM_JOB_ID");
      if (use.toys.count(pid) || !visible || !job) continue;
      const std::string details = support::capture({"scontrol", "--details", "show", "job", *job}).out;
      const auto at = details.find("(IDX:");
      use.toys[pid] = {*visible, at == std::string::npos ? "" : details.substr(at + 5, details.find(')', at) - at - 5)};
    }
    return slurm().drain(0.05);
  });
  BOOST_TEST(done, job_logs(project));
  BOOST_TEST(use.toys.size() == static_cast<std::size_t>(toys), job_logs(project));
  BOOST_TEST(phases(project)["done"] == toys, job_logs(project));
  return use;
}

std::size_t lines_with(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (const std::string& line : support::split(text, '\n')) count += has(line, part) ? 1 : 0;
  return count;
}

std::int64_t number_after(const std::string& text, const std::string& words) {
  const auto at = text.find(words);
  return at == std::string::npos ? -1 : std::atoll(text.c_str() + at + words.size());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(slurm_end_to_end, *boost::unit_test::precondition(CanStartSlurm{}))

BOOST_AUTO_TEST_CASE(a_submitted_pipeline_comes_to_its_end_without_us_and_gives_the_same_bytes) {
  slurm();
  const Project project;
  // Variables that a shell has set for sbatch must not reach the jobs.
  ::setenv("SBATCH_PARTITION", "there-is-none", 1);
  const Answer answer = project.call("submit");
  ::unsetenv("SBATCH_PARTITION");
  BOOST_TEST(answer.code == 0, answer.err);
  CHECK_HAS(answer.out, "toy: 8 elements in ");
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST((project.contents() == undisturbed()), job_logs(project));
  BOOST_TEST(fs::exists(project.root() / "reports/toy/latest/report.md"), job_logs(project));
  BOOST_TEST(fs::exists(project.root() / "out/toy/trunk/seed=1@s10.h5"));
  const Json answered = status(project);
  BOOST_TEST(answered.at("state") == "done", answered.dump(1));
  BOOST_TEST(phases(project)["done"] == 8, job_logs(project));
  const Answer again = project.call("submit");
  BOOST_TEST(again.code == 0);
  CHECK_HAS(again.out, "nothing to do");
}

BOOST_AUTO_TEST_CASE(what_is_printed_is_not_sent) {
  const Project project;
  const Answer answer = project.call("submit", {"--print", "--set", "slurm.partition=a $(b)"});
  BOOST_TEST(answer.code == 0, answer.err);
  CHECK_HAS(answer.out, "'--partition=a $(b)'");
  CHECK_HAS(answer.out, "exec ");
  CHECK_HAS(answer.out, "--dependency=aftercorr:<trunk.");
  CHECK_HAS(answer.err,
            "warning: 2 tasks of trunk have no time limit, so the partition's default holds; how long they take is not "
            "known here");
  BOOST_TEST(!has(project.call("submit", {"--print", "--set", "slurm.time=1h"}).err, "time limit"));
  BOOST_TEST(project.store().runs().empty());
  // Jobs shorter than the tasks are expected to be: a trunk sleeps for 0.12 s.
  BOOST_TEST(project.call("run").code == 0);
  const std::string late = project.call("submit", {"--print", "--set", "data.value=6", "--set", "slurm.time=50ms"}).err;
  CHECK_HAS(late, "warning: 2 tasks of trunk are expected to take up to ");
  CHECK_HAS(late, " jobs of 50 ms each, which continue from checkpoints");
}

BOOST_AUTO_TEST_CASE(a_failure_blocks_what_follows_it_alone_and_submitting_again_repairs) {
  slurm();
  const Project project;
  // It fails for good, whichever attempt.
  const Answer first =
      project.call("submit", {"--set", "trunk.fail=exit", "--axis", "seed=1,2", "--set", "trunk.fail_code=70"});
  BOOST_TEST(first.code == 0, first.err);
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  auto counts = phases(project);
  BOOST_TEST(counts["done"] == 1, job_logs(project));
  BOOST_TEST(counts["failed"] == 2, job_logs(project));
  BOOST_TEST(status(project).at("state") == "failed");
  // How it ends is in no key, so the same tasks are meant.
  const Answer again = project.call("submit");
  BOOST_TEST(again.code == 0, again.err);
  CHECK_HAS(again.out, "toy: 7 elements in ");
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST(status(project).at("state") == "done", job_logs(project));
  BOOST_TEST((project.contents() == undisturbed()));
}

BOOST_AUTO_TEST_CASE(what_is_cancelled_stays_cancelled_by_us_and_by_scancel) {
  slurm();
  const std::string text = slow_task("", 120) + "  next:\n    run: pe-toy\n    needs: {init: long}\n";
  const Project ours(text), by_scancel(text);
  for (const Project* project : {&ours, &by_scancel}) BOOST_TEST_REQUIRE(project->call("submit").code == 0);
  for (const Project* project : {&ours, &by_scancel})
    BOOST_TEST_REQUIRE(within(30, [&] { return phase_of(*project, "long") == "running"; }), job_logs(*project));
  const std::string job = status(by_scancel).at("tasks").at(0).at("job");
  BOOST_TEST(support::capture({"scancel", job}).status.code == 0);
  const Answer answer = ours.call("cancel");
  BOOST_TEST(answer.code == 0, answer.err);
  CHECK_HAS(answer.out, "everything cancelled");
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(by_scancel));
  // Longer than a job that was queued again would need to start.
  std::this_thread::sleep_for(std::chrono::seconds(8));
  BOOST_TEST(slurm().drain(1), job_logs(by_scancel));
  for (const Project* project : {&ours, &by_scancel}) {
    BOOST_TEST(project->contents().empty());
    BOOST_TEST(phase_of(*project, "long") != "done");
    BOOST_TEST(project->call("submit").code == 0);
  }
  // It saved its state, and continues from there in the next attempt.
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(by_scancel));
  for (const Project* project : {&ours, &by_scancel}) {
    BOOST_TEST((project->contents() == undisturbed(text)), job_logs(*project));
    const std::string log = project->call("logs", {"long"}).out;
    CHECK_HAS(log, "from step ");
    BOOST_TEST(!has(log, "from step 0 "), log);
  }
}

BOOST_AUTO_TEST_CASE(a_task_preempted_three_times_saves_resumes_and_gives_the_same_bytes) {
  slurm();
  const std::string text = slow_task("") + "  next:\n    run: pe-toy\n    needs: {init: long}\n";
  const Project project(text);
  BOOST_TEST_REQUIRE(project.call("submit").code == 0);
  for (int round = 0; round < 3; ++round) {
    BOOST_TEST_REQUIRE(within(40, [&] { return phase_of(project, "long") == "running"; }), job_logs(project));
    std::this_thread::sleep_for(std::chrono::seconds(1));
    preempt();
    BOOST_TEST_REQUIRE(within(20, [&] { return phase_of(project, "long") != "running"; }), job_logs(project));
    // A job that waits for it continues to wait.
    BOOST_TEST(phase_of(project, "next") == "queued", job_logs(project));
  }
  BOOST_TEST_REQUIRE(slurm().drain(90), job_logs(project));
  BOOST_TEST((project.contents() == undisturbed(text)), job_logs(project));
  const std::string logs = job_logs(project);
  BOOST_TEST(lines_with(logs, "told to stop; queued again: it continues from its saved state") == 3u, logs);
  BOOST_TEST(status(project).at("state") == "done");
}

BOOST_AUTO_TEST_CASE(what_an_administrator_requeues_resumes_or_sees_that_it_is_done) {
  slurm();
  const std::string text = slow_task("", 120) + "  quick:\n    run: pe-toy\n";
  const Project project(text);
  BOOST_TEST_REQUIRE(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(
      within(30, [&] { return phase_of(project, "quick") == "done" && phase_of(project, "long") == "running"; }),
      job_logs(project));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  // All of them, ended ones too.
  for (const char* id : {"quick", "long"}) {
    const Json answer = status(project);
    for (const Json& task : answer.at("tasks")) {
      if (task.at("id") != id) continue;
      const auto requeued = support::capture({"scontrol", "requeue", task.at("job").get<std::string>()});
      BOOST_TEST(requeued.status.code == 0, requeued.err);
    }
  }
  BOOST_TEST_REQUIRE(slurm().drain(90), job_logs(project));
  const std::string logs = job_logs(project);
  CHECK_HAS(logs, "its results are in the store");
  BOOST_TEST(!has(project.call("logs", {"long"}).out, "from step 0 "), logs);
  BOOST_TEST((project.contents() == undisturbed(text)), logs);
  BOOST_TEST(status(project).at("state") == "done", logs);
}

BOOST_AUTO_TEST_CASE(a_job_whose_process_is_killed_is_repaired_by_submitting_again) {
  slurm();
  const Project project(slow_task("", 100));
  BOOST_TEST_REQUIRE(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(within(30, [&] { return phase_of(project, "long") == "running"; }), job_logs(project));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::string job = status(project).at("tasks").at(0).at("job");
  BOOST_TEST(support::capture({"scancel", "--signal=KILL", "--batch", job}).status.code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST(project.contents().empty(), job_logs(project));
  const Answer again = project.call("submit");
  BOOST_TEST(again.code == 0, again.err);
  CHECK_HAS(again.out, "toy: 1 element in ");
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST((project.contents() == undisturbed(slow_task("", 100))), job_logs(project));
  // It had saved every fifth step.
  BOOST_TEST(!has(project.call("logs", {"long"}).out, "from step 0 "), job_logs(project));
}

BOOST_AUTO_TEST_CASE(after_a_task_that_ran_out_of_memory_the_next_submission_asks_for_more) {
  slurm();
  const Project project(
      "schema: pe-pipeline/1\nname: toy\nresources: {small: {cpus: 1, mem: 200M}}\nstages:\n  long:\n    run: pe-toy\n"
      "    resources: small\n    retry: {max: 0}\n"
      "    config: {set: {fail: signal, fail_code: 9, fail_attempts: 1}}\n");
  BOOST_TEST_REQUIRE(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST(phase_of(project, "long") == "failed", job_logs(project));
  // Stands for the kernel's record of the kill: the test has no control group whose memory ends.
  std::size_t exits = 0;
  for (const auto& entry : fs::recursive_directory_iterator(project.root() / "store")) {
    if (entry.path().filename() != "exit.json") continue;
    Json exit = Json::parse(support::read_file(entry.path()));
    BOOST_TEST(exit.at("signal") == 9);
    BOOST_TEST(exit.at("mem_bytes") == 200ll << 20);
    exit["class"] = "oom";
    support::write_file_atomically(entry.path(), exit.dump(), false);
    ++exits;
  }
  BOOST_TEST(exits == 1u);
  const Answer again = project.call("submit");
  BOOST_TEST(again.code == 0, again.err);
  CHECK_HAS(again.out, "1 task asks for more memory than last time");
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST(phase_of(project, "long") == "done", job_logs(project));
  std::set<std::string> asked;
  for (const std::string& line : support::split(slurm().queue("%m %j"), '\n')) {
    if (has(line, " long.")) asked.insert(line.substr(0, line.find(' ')));
  }
  BOOST_TEST(asked.count("200M") == 1u, job_logs(project));
  BOOST_TEST(asked.count("300M") == 1u, slurm().queue("%m %j"));
}

BOOST_AUTO_TEST_CASE(an_array_above_the_limit_is_sent_as_several) {
  slurm();  // MaxArraySize is 101
  std::string seeds;
  for (int i = 100; i < 250; ++i) seeds += support::cat(i > 100 ? "," : "", i);
  const Project project(
      "schema: pe-pipeline/1\nname: toy\nslurm: {options: [--hold]}\naxes: {seed: [" + seeds +
      "]}\nstages:\n  many:\n    run: pe-toy\n    over: [seed]\n    config: {set: {value: $(seed), text: x}}\n");
  const Answer answer = project.call("submit");
  BOOST_TEST(answer.code == 0, answer.err);
  CHECK_HAS(answer.out, "150 elements in 2 arrays");
  std::map<std::string, std::set<std::string>> rows;
  for (const std::string& line : support::split(slurm().queue("%j %i %T"), '\n')) {
    if (line.rfind("many.", 0) == 0 && has(line, "PENDING")) rows[line.substr(0, line.find(' '))].insert(line);
  }
  BOOST_TEST(rows.size() == 2u);
  std::size_t elements = 0;
  for (const auto& [name, lines] : rows) {
    BOOST_TEST(lines.size() <= 101u);
    elements += lines.size();
  }
  BOOST_TEST(elements == 150u);
  BOOST_TEST(project.call("cancel").code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(30), slurm().jobs());
}

BOOST_AUTO_TEST_CASE(names_with_quotes_spaces_and_commands_stay_names) {
  slurm();
  const std::string text =
      "schema: pe-pipeline/1\nname: toy\naxes: {word: {a: \"a b\", b: \"it's\", c: \"$$(touch pwned)\", d: 'say \"x\"; "
      "touch pwned'}}\n"
      "stages:\n  t:\n    run: pe-toy\n    over: [word]\n    config: {set: {text: $(word.value)}}\n";
  const Project project(text, "the 'file' $(touch pwned).yml");
  const fs::path store = project.root() / "it's a \"store\" $(touch pwned); %j %a";
  const Answer answer = project.call("submit", {"--store", store.string(), "--set", "slurm.setup=export NOTE='$(x)'",
                                                "--set", "slurm.options=--mail-user=$(touch pwned) 'x'"});
  BOOST_TEST(answer.code == 0, answer.err);
  BOOST_TEST_REQUIRE(slurm().drain(60), slurm().jobs());
  const Answer told = project.call("status", {"--store", store.string(), "--json"});
  const Json status = Json::parse(told.out);
  BOOST_TEST(status.at("counts").value("done", 0) == 4,
             told.out << job_logs(project, store.filename()) << slurm().log());
  for (const auto& entry : fs::recursive_directory_iterator(project.root()))
    BOOST_TEST(entry.path().filename() != "pwned");
}

BOOST_AUTO_TEST_CASE(a_node_of_a_kind_that_the_cluster_lacks_is_refused) {
  slurm();
  const Project project;
  const Answer answer = project.call("submit", {"--set", "slurm.constraint=avx512", "--set", "slurm.isa=avx512"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "Slurm refused: ");
  CHECK_HAS(answer.err, "feature");
  BOOST_TEST(slurm().drain(1));
  // The one that there is will do.
  BOOST_TEST(project.call("submit", {"--set", "slurm.constraint=avx2", "data"}).code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST(project.contents().size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_controller_that_answers_too_late_gets_every_job_once) {
  slurm();
  const Project project;
  Answer answer;
  {
    // It is stopped when the second array arrives, and takes it when no caller waits for the answer any more.
    const InPlaceOf sbatch(
        "sbatch", support::cat("N=\"$(dirname \"$0\")/calls\"; echo x >> \"$N\"\n"
                               "if [ $(wc -l < \"$N\") = 2 ]; then\n  kill -STOP ",
                               slurm().pid_of("slurmctld"), "\n  (sleep 9; kill -CONT ", slurm().pid_of("slurmctld"),
                               ") >/dev/null 2>&1 &\nfi\nexec \"$REAL\" \"$@\""));
    answer = project.call("submit");
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));
  if (answer.code != 0) {
    BOOST_TEST(answer.code == 3, answer.err);
    CHECK_HAS(answer.err, "pe-pipeline submit --continue ");
    const std::string run = status(project).at("run");
    const Answer rest = project.call_words(
        {Project::program(), "submit", "--continue", run, "--store", (project.root() / "store").string()});
    BOOST_TEST(rest.code == 0, rest.err);
  }
  BOOST_TEST_REQUIRE(slurm().drain(90), job_logs(project));
  for (const auto& [name, ids] : arrays_in_queue()) BOOST_TEST(ids.size() == 1u, name);
  BOOST_TEST((project.contents() == undisturbed()), job_logs(project));
}

BOOST_AUTO_TEST_CASE(nothing_follows_from_garbled_answers) {
  slurm();
  const Project project(slow_task(""));
  {
    const InPlaceOf squeue("squeue", "echo 'the site says: hello'");
    const Answer answer = project.call("submit");
    BOOST_TEST(answer.code == 3);
    CHECK_HAS(answer.err, "nothing was submitted");
  }
  BOOST_TEST(slurm().drain(1));
  {
    // The job is taken, and its number never arrives.
    const InPlaceOf sbatch("sbatch", "\"$REAL\" \"$@\" >/dev/null; echo 'no number'");
    const Answer answer = project.call("submit");
    BOOST_TEST(answer.code == 0, answer.err);
  }
  for (const auto& [name, ids] : arrays_in_queue()) BOOST_TEST(ids.size() == 1u, name);
  BOOST_TEST_REQUIRE(within(30, [&] { return phase_of(project, "long") == "running"; }), job_logs(project));
  {
    const InPlaceOf squeue("squeue", "printf '12|3|x'");
    const Json answer = status(project);
    BOOST_TEST(answer.at("state") == "unknown", answer.dump());
    BOOST_TEST(answer.at("tasks").at(0).at("phase") != "lost", answer.dump());
  }
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST((project.contents() == undisturbed(slow_task(""))), job_logs(project));
}

BOOST_AUTO_TEST_CASE(jobs_outlive_a_restart_of_the_controller_and_of_the_node) {
  slurm();
  const Project project(slow_task("") + "  next:\n    run: pe-toy\n    needs: {init: long}\n");
  BOOST_TEST_REQUIRE(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(within(30, [&] { return phase_of(project, "long") == "running"; }), job_logs(project));
  slurm().stop("slurmctld");
  // A refusing controller: nothing is concluded, nothing is sent.
  BOOST_TEST(status(project).at("state") == "unknown");
  const Answer refused = project.call("submit");
  BOOST_TEST(refused.code == 3, refused.err);
  CHECK_HAS(refused.err, "nothing was submitted");
  slurm().signal("slurmd-n1", SIGKILL);
  slurm().start_controller();
  slurm().start_node("n1");
  BOOST_TEST_REQUIRE(slurm().drain(90), job_logs(project) + slurm().log());
  BOOST_TEST((project.contents() == undisturbed(slow_task("") + "  next:\n    run: pe-toy\n    needs: {init: long}\n")),
             job_logs(project));
  BOOST_TEST(status(project).at("state") == "done", job_logs(project));
  BOOST_TEST(slurm().idle(30), slurm().log());
}

BOOST_AUTO_TEST_CASE(an_edit_after_the_submission_does_not_reach_it_and_is_told) {
  slurm();
  const Project project(slow_task(", text: before", 40));
  const Answer first = project.call("submit", {"--set", "slurm.options=--hold"});
  BOOST_TEST_REQUIRE(first.code == 0, first.err);
  project.write(slow_task(", text: after", 40));
  const Answer second = project.call("submit");
  BOOST_TEST(second.code == 0, second.err);
  CHECK_HAS(second.out,
            "1 task in the queue was submitted from another version of this pipeline, and goes on as submitted");
  release_held();
  BOOST_TEST_REQUIRE(slurm().drain(90), job_logs(project));
  const auto contents = project.contents();
  BOOST_TEST(contents.size() == 2u, job_logs(project));
  for (const auto& [key, content] : undisturbed(slow_task(", text: before", 40))) BOOST_TEST(contents.count(key) == 1u);
}

BOOST_AUTO_TEST_CASE(what_waits_for_some_elements_or_for_what_there_is_runs_whatever_the_others_do) {
  slurm();
  const Project project(R"(schema: pe-pipeline/1
name: toy
axes: {a: [1, 2], b: {good: never, bad: exit}}
stages:
  x:
    run: pe-toy
    over: [a, b]
    retry: {max: 0}
    config: {set: {text: $(a) $(b), fail: $(b.value), fail_code: 70}}
  y:
    run: pe-toy
    over: [b]
    gather: {in: x}
  all:
    run: pe-toy-report
    gather: {in: x}
    allow_partial: true
    config: {set: {text: what there is}}
)");
  const Answer printed = project.call("submit", {"--print"});
  CHECK_HAS(printed.out, "(2 elements of it)");
  CHECK_HAS(printed.out, "--dependency=afterany:<x.");
  BOOST_TEST(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  auto counts = phases(project);
  BOOST_TEST(counts["done"] == 4, job_logs(project));
  BOOST_TEST(counts["failed"] == 2, job_logs(project));
  BOOST_TEST(phase_of(project, "y[b=good]") == "done", job_logs(project));
  BOOST_TEST(phase_of(project, "all") == "done", job_logs(project));
}

BOOST_AUTO_TEST_CASE(what_is_in_the_queue_is_waited_for_and_not_sent_again) {
  slurm();
  const Project project;
  BOOST_TEST(project.call("submit", {"--set", "slurm.options=--hold", "trunk[seed=1]"}).code == 0);
  const Answer same = project.call("submit", {"trunk[seed=1]"});
  BOOST_TEST(same.code == 0, same.err);
  CHECK_HAS(same.out, "nothing to submit");
  const Answer all = project.call("submit");
  BOOST_TEST(all.code == 0, all.err);
  CHECK_HAS(all.out, "2 tasks are in the queue already");
  CHECK_HAS(all.out, "toy: 6 elements in ");
  release_held();
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST((project.contents() == undisturbed()), job_logs(project));
  BOOST_TEST(lines_with(job_logs(project), "its results are in the store") == 0u, job_logs(project));
  // The second submission never made the results of the first one.
  const auto ends = phases(project);
  BOOST_TEST((ends.count("waiting") == 0 && ends.count("queued") == 0), status(project).dump(1));
  BOOST_TEST((ends.count("reused") && ends.at("reused") == 2), status(project).dump(1));
}

BOOST_AUTO_TEST_CASE(a_run_whose_last_job_was_cancelled_by_hand_is_ended_by_the_next_submit) {
  slurm();
  const Project project;
  BOOST_TEST_REQUIRE(project.call("submit", {"--set", "slurm.options=--hold"}).code == 0);
  // The last job has no dependents; without it the run never ends by itself.
  std::string last;
  for (const std::string& row : support::split(slurm().queue("%F %j"), '\n')) {
    const auto words = support::split(row, ' ');
    if (words.size() == 2 && words[1].rfind("last.", 0) == 0) last = words[0];
  }
  BOOST_TEST_REQUIRE(!last.empty(), slurm().queue("%F %j"));
  support::capture({"scancel", last});
  release_held();
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  const fs::path summary = project.root() / "store/runs" / project.store().runs().front() / "summary.json";
  BOOST_TEST(!fs::exists(summary));
  const Answer again = project.call("submit");
  CHECK_HAS(again.out, "nothing to do");
  BOOST_TEST(fs::exists(summary));
  BOOST_TEST(status(project).at("state") == "done", status(project).dump(1));
}

BOOST_AUTO_TEST_CASE(inputs_that_are_seen_late_are_waited_for) {
  slurm();
  const Project project(slow_task("", 10) +
                        "  next:\n    run: pe-toy\n    needs: {init: long}\n    slurm: {options: [--hold]}\n");
  BOOST_TEST_REQUIRE(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(within(30, [&] { return phase_of(project, "long") == "done"; }), job_logs(project));
  // Like a file system that shows another node's writes late.
  std::vector<fs::path> hidden;
  for (const auto& entry : fs::recursive_directory_iterator(project.root() / "store/objects")) {
    if (entry.is_regular_file()) hidden.push_back(entry.path());
  }
  BOOST_TEST(hidden.size() == 1u);
  for (const fs::path& path : hidden) fs::rename(path, project.root() / path.filename());
  release_held();
  BOOST_TEST_REQUIRE(within(30, [&] { return phase_of(project, "next") == "starting"; }), job_logs(project));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  BOOST_TEST(phase_of(project, "next") == "starting", job_logs(project));
  for (const fs::path& path : hidden) fs::rename(project.root() / path.filename(), path);
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST(status(project).at("state") == "done", job_logs(project));
}

BOOST_AUTO_TEST_CASE(where_a_job_may_not_requeue_itself_it_ends_with_75_and_submitting_again_resumes) {
  slurm();
  const Project project(slow_task(""));
  {
    // The job inherits this PATH.
    const InPlaceOf scontrol("scontrol",
                             "[ \"$1\" = requeue ] && { echo 'Access/permission denied' >&2; exit 1; }\n"
                             "exec \"$REAL\" \"$@\"");
    BOOST_TEST_REQUIRE(project.call("submit").code == 0);
    BOOST_TEST_REQUIRE(within(30, [&] { return phase_of(project, "long") == "running"; }), job_logs(project));
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const std::string job = status(project).at("tasks").at(0).at("job");
    // However many signals come, and of which kind, it saves once.
    for (const char* signal : {"USR1", "CONT", "TERM", "USR1", "TERM"})
      support::capture({"scancel", std::string("--signal=") + signal, "--batch", job});
    BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  }
  CHECK_HAS(job_logs(project), "it could not be queued again: Access/permission denied");
  BOOST_TEST(lines_with(slurm().queue("%T %j"), "FAILED long.") >= 1u);
  BOOST_TEST(project.contents().empty());
  BOOST_TEST(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST((project.contents() == undisturbed(slow_task(""))), job_logs(project));
  BOOST_TEST(!has(project.call("logs", {"long"}).out, "from step 0 "), job_logs(project));
}

BOOST_AUTO_TEST_CASE(a_small_window_and_lanes_come_to_the_same_end) {
  slurm();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--set", "slurm.max_in_queue=3"}, {"--set", "slurm.mode=lane"}, {"--set", "slurm.max_running=1"}}) {
    const Project project;
    const Answer answer = project.call("submit", words);
    BOOST_TEST(answer.code == 0, answer.err);
    BOOST_TEST_REQUIRE(within(120, [&] { return slurm().drain(1) && status(project).at("state") == "done"; }),
                       job_logs(project));
    BOOST_TEST((project.contents() == undisturbed()), job_logs(project));
  }
}

struct HasMpi {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(fs::exists(build_root() / "lib/mpi/pe-mpi.so"));
    result.message() << "this build has no MPI plug-in";
    return result;
  }
};

BOOST_AUTO_TEST_CASE(a_training_on_two_nodes_is_preempted_resumes_and_gives_the_bytes_of_one_machine,
                     *boost::unit_test::precondition(HasMpi{})) {
  slurm();
  const std::string text = R"(schema: pe-pipeline/1
name: toy
slurm: {signal_lead: 30s, setup: [export OMPI_MCA_btl_tcp_if_include=lo]}   # both nodes are this machine
stages:
  fetch:
    run: pe-fetch
    config: {set: {source: generated, generated.words: 20k}}
  tokenize:
    run: pe-tokenize
    needs: {raw: fetch}
    config: {set: {tokenizer: bpe, vocabulary: 512}}
  trunk:
    run: pe-train
    needs: {data: tokenize}
    resources: {cpus: 2, mem: 2G}
    slurm: {nodes: 2, partition: all}
    config: {set: {model.width: 32, model.layers: 2, model.heads: 2, model.encoding: rope, train.batch: 4, train.length: 32,
                   train.tokens: 153600, train.warmup_steps: 2, train.decay_share: 0, train.validate_windows: 4,
                   checkpoint.every: 1, compute.ranks: 2}}
)";
  const Project project(text, "two_nodes.yml");
  BOOST_TEST_REQUIRE(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(
      within(90, [&] { return has(project.call("logs", {"trunk"}).out, "2 ranks, each with 2 of a step's 4"); }),
      job_logs(project));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  // Stopped until Slurm has signalled them, so that a fast machine does not end the training before.
  const std::vector<pid_t> ranks = processes_with({"pe-train", project.root().string()});
  BOOST_TEST(ranks.size() >= 2u, job_logs(project));
  for (const pid_t rank : ranks) ::kill(rank, SIGSTOP);
  preempt();
  std::this_thread::sleep_for(std::chrono::seconds(3));
  for (const pid_t rank : ranks) ::kill(rank, SIGCONT);
  BOOST_TEST_REQUIRE(slurm().drain(120), job_logs(project));
  const std::string logs = job_logs(project);
  BOOST_TEST(lines_with(logs, "told to stop; queued again: ") == 1u, logs);
  // It saved its work at the signal: no step is made twice.
  BOOST_TEST(number_after(logs, "resuming at step ") > 0, logs);
  BOOST_TEST(number_after(logs, "resuming at step ") == number_after(logs, "stopped at step "), logs);
  BOOST_TEST((project.contents() == undisturbed(text)), logs);
}

BOOST_AUTO_TEST_CASE(gpus_are_as_slurm_gave_them_and_none_is_locked_by_its_number,
                     *boost::unit_test::precondition(CanStartGpus{})) {
  slurm();  // its first node has two GPUs
  const GpuUse each = watch_gpus("gpus: 1", "", 3, "gres:gpu:1");
  BOOST_TEST(each.most == 2u);
  for (const auto& [pid, seen] : each.toys) BOOST_TEST(seen.visible == seen.given);
  BOOST_TEST((each.visible() == std::set<std::string>{"0", "1"}));
  // Where a site shows a job its own devices only, every job has a GPU 0, and they are not the same.
  const GpuUse hidden = watch_gpus("gpus: 1", "setup: [export CUDA_VISIBLE_DEVICES=0]", 2, "gres:gpu:1");
  BOOST_TEST(hidden.most == 2u);
  BOOST_TEST((hidden.visible() == std::set<std::string>{"0"}));
  // Shares of a GPU in one job, side by side.
  const GpuUse shared = watch_gpus("gpus: 0.5, pack: 2", "", 2, "gres:gpu:1");
  BOOST_TEST(shared.most == 2u);
  BOOST_TEST(shared.visible().size() == 1u);
  for (const auto& [pid, seen] : shared.toys) BOOST_TEST(seen.visible == seen.given);
  const GpuUse both = watch_gpus("gpus: 2", "gpus: per-node", 1, "gres:gpu:2");
  BOOST_TEST((both.visible() == std::set<std::string>{"0,1"}));
  // A job without GPUs, as some versions of Slurm tell it.
  const GpuUse none = watch_gpus("gpus: 0", "setup: [export CUDA_VISIBLE_DEVICES=NoDevFiles]", 1, "N/A");
  BOOST_TEST((none.visible() == std::set<std::string>{""}));
}

BOOST_AUTO_TEST_CASE(a_job_that_fails_before_its_first_word_is_told_with_its_log) {
  slurm();
  const Project project;
  BOOST_TEST(project.call("submit", {"--set", "slurm.setup=exit 7"}).code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  const std::string text = project.call("status").out;
  CHECK_HAS(text, "lost  ");
  CHECK_HAS(text, "has ended (FAILED, NonZeroExitCode); `pe-pipeline submit` continues");
  CHECK_HAS(text, "\n      log ");
  CHECK_HAS(project.call("logs", {"data"}).out, "has printed nothing; `pe-pipeline status` says how it ended");
  BOOST_TEST(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST((project.contents() == undisturbed()), job_logs(project));
}

BOOST_AUTO_TEST_CASE(where_other_jobs_fill_the_queue_the_last_job_alone_waits_for_room) {
  slurm();
  std::vector<std::string> others;
  for (int i = 0; i < 3; ++i) {
    const auto other = support::capture({"sbatch", "--parsable", "--hold", "--output=/dev/null", "--wrap=true"});
    others.push_back(std::string(support::trim(other.out)));
  }
  const Project project;
  const Answer answer = project.call("submit", {"--set", "slurm.max_in_queue=4"});
  BOOST_TEST(answer.code == 0, answer.err);
  CHECK_HAS(answer.out, "the last job looks for room every five minutes and sends them");
  BOOST_TEST(status(project).at("state") == "queued");
  CHECK_HAS(project.call("status").out, " submits it when there is room in the queue");
  // Slurm gives a waiting job its reason at the next look of the scheduler.
  BOOST_TEST(within(30, [&] { return slurm().queue("%j %r").find("BeginTime") != std::string::npos; }),
             slurm().queue("%j %r"));
  BOOST_TEST(project.call("cancel").code == 0);
  others.insert(others.begin(), "scancel");
  support::capture(others);
  BOOST_TEST_REQUIRE(slurm().drain(20), slurm().jobs());
  BOOST_TEST(project.call("submit", {"--set", "slurm.max_in_queue=4"}).code == 0);
  BOOST_TEST_REQUIRE(within(120, [&] { return slurm().drain(1) && status(project).at("state") == "done"; }),
                     job_logs(project));
  BOOST_TEST((project.contents() == undisturbed()), job_logs(project));
}

BOOST_AUTO_TEST_CASE(a_job_that_requeues_itself_leaves_the_others_of_its_array_alone) {
  slurm();
  // The last of them has the number of its array. Of the two, only one is asked to stop.
  const Project project(
      "schema: pe-pipeline/1\nname: toy\naxes: {seed: [1, 2]}\nstages:\n  long:\n    run: pe-toy\n"
      "    over: [seed]\n    config: {set: {value: $(seed), tokens: 120, step_s: 0.05, checkpoint_every: 5}}\n");
  BOOST_TEST(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(within(30, [&] { return phases(project)["running"] == 2; }), job_logs(project));
  const auto rows = support::split(slurm().queue("%F %A %K %j %T"), '\n');
  std::string told;
  for (const std::string& row : rows) {
    const auto words = support::split(row, ' ');
    if (words.size() == 5 && words[0] == words[1] && words[3].rfind("long.", 0) == 0 && words[4] == "RUNNING")
      told = words[0] + "_" + words[2];
  }
  BOOST_TEST_REQUIRE(!told.empty(), slurm().jobs());
  std::this_thread::sleep_for(std::chrono::seconds(1));  // a step is saved
  support::capture({"scancel", "--batch", "--signal=USR1", told});
  BOOST_TEST_REQUIRE(within(60, [&] { return slurm().drain(1) && status(project).at("state") == "done"; }),
                     job_logs(project));
  BOOST_TEST(lines_with(job_logs(project), "told to stop; queued again") == 1u, job_logs(project));
}

BOOST_AUTO_TEST_CASE(a_refusal_of_the_site_is_told_and_nothing_is_left) {
  slurm();
  const Project project;
  const Answer answer = project.call("submit", {"--set", "slurm.partition=nowhere"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "nowhere");
  CHECK_HAS(answer.err, "nothing was submitted");
  BOOST_TEST(slurm().drain(1));
  BOOST_TEST(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(60), job_logs(project));
  BOOST_TEST((project.contents() == undisturbed()), job_logs(project));
}

BOOST_AUTO_TEST_SUITE_END()

// Minutes each: crashes of Slurm itself, limits of time, and the quickstart with all that befalls it.
BOOST_AUTO_TEST_SUITE(slurm_soak, *boost::unit_test::precondition(CanStartSlurm{}))

BOOST_AUTO_TEST_CASE(the_quickstart_with_preemptions_a_scancel_that_stays_and_a_repair) {
  slurm();
  const Project project("", "pipelines/quickstart.yml");
  const auto set_up = [](const Project& in) {
    for (const char* folder : {"configs", "pipelines"}) {
      fs::create_directories(in.root());
      fs::copy(source_root() / folder, in.root() / folder,
               fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    }
  };
  set_up(project);
  const Answer first = project.call("submit");
  BOOST_TEST_REQUIRE(first.code == 0, first.err);
  const auto running = [&] {
    const Json answer = status(project);
    std::vector<std::pair<std::string, std::string>> found;  // trainings at work, and their jobs
    for (const Json& task : answer.at("tasks")) {
      const std::string id = task.at("id");
      if (id.rfind("train", 0) == 0 && task.at("phase") == "running")
        found.emplace_back(id, task.at("job").get<std::string>());
    }
    return found;
  };
  BOOST_TEST_REQUIRE(within(600, [&] { return running().size() > 2; }), job_logs(project));
  for (int round = 0; round < 3; ++round) {
    BOOST_TEST_REQUIRE(within(300, [&] { return !running().empty(); }), job_logs(project));
    std::this_thread::sleep_for(std::chrono::seconds(3));
    preempt();
    BOOST_TEST_REQUIRE(within(120, [&] { return running().empty(); }), job_logs(project));
    BOOST_TEST_MESSAGE("preempted: " << status(project).at("counts").dump());
  }
  BOOST_TEST_REQUIRE(within(300, [&] { return !running().empty(); }), job_logs(project));
  const auto [victim, job] = running().front();
  BOOST_TEST_MESSAGE("scancel " << job << ", which is " << victim);
  BOOST_TEST(support::capture({"scancel", job}).status.code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(1800), job_logs(project));
  std::this_thread::sleep_for(std::chrono::seconds(10));
  BOOST_TEST(slurm().drain(1), job_logs(project));
  BOOST_TEST(phase_of(project, victim) != "done");
  auto counts = phases(project);
  BOOST_TEST_MESSAGE("after the scancel: " << status(project).at("counts").dump());
  // That training and its evaluation are missing; the report takes the results that exist.
  BOOST_TEST(counts["done"] == 2 + 8 + 8 + 1, job_logs(project));
  const Answer again = project.call("submit");
  BOOST_TEST(again.code == 0, again.err);
  CHECK_HAS(again.out, "quickstart: 3 elements in 3 arrays");
  BOOST_TEST_REQUIRE(slurm().drain(1800), job_logs(project));
  BOOST_TEST(status(project).at("state") == "done", job_logs(project));
  BOOST_TEST(fs::exists(project.root() / "reports/quickstart/latest/report.html"));
  const std::string logs = job_logs(project);
  BOOST_TEST_MESSAGE(lines_with(logs, "told to stop; queued again: it continues from its saved state")
                     << " times saved and resumed, " << lines_with(logs, "told to stop; queued again: it starts again")
                     << " times begun anew");
  BOOST_TEST(lines_with(logs, "told to stop; queued again: ") >= 9u, logs);
  // The same without Slurm, and never disturbed.
  const Project calm("", "pipelines/quickstart.yml");
  set_up(calm);
  const Answer run = calm.call("run");
  BOOST_TEST_REQUIRE(run.code == 0, run.err);
  const auto made = project.contents();
  std::size_t same = 0;
  for (const auto& [key, content] : calm.contents()) {
    const auto found = made.find(key);
    BOOST_TEST((found != made.end() && found->second == content), key.key);
    same += found != made.end() && found->second == content;
  }
  BOOST_TEST_MESSAGE(same << " results, all with the bytes of an undisturbed run");
}

BOOST_AUTO_TEST_CASE(the_controller_crashes_and_ids_are_given_away_again) {
  const RealSlurm own;
  for (const double after_s : {0.2, 2.0}) {
    const Project project(slow_task("") + "  next:\n    run: pe-toy\n    needs: {init: long}\n");
    BOOST_TEST_REQUIRE(project.call("submit").code == 0);
    std::this_thread::sleep_for(std::chrono::duration<double>(after_s));
    own.signal("slurmctld", SIGKILL);
    std::this_thread::sleep_for(std::chrono::seconds(5));
    own.start_controller();
    // Jobs of others take ids that ours had when they were forgotten.
    for (int i = 0; i < 3; ++i)
      support::capture({"sbatch", "--job-name=stranger", "--output=/dev/null", "--wrap=sleep 1"});
    const auto settle = [&] {
      for (int i = 0; i < 20 && !own.drain(6); ++i) {
        support::capture({"scontrol", "update", "NodeName=" + own.nodes().front(), "State=RESUME"});
        for (const std::string& line : support::split(own.queue("%A %T %r"), '\n')) {
          // Jobs that the controller holds since it lost sight of them, and jobs that wait for forgotten ones.
          if (has(line, "PENDING") && (has(line, "Held") || has(line, "held")))
            support::capture({"scontrol", "release", line.substr(0, line.find(' '))});
          if (has(line, "DependencyNeverSatisfied")) support::capture({"scancel", line.substr(0, line.find(' '))});
        }
      }
    };
    settle();
    for (int i = 0; i < 4 && status(project).at("state") != "done"; ++i) {
      const Answer again = project.call("submit");
      BOOST_TEST(again.code == 0, again.err);
      settle();
    }
    BOOST_TEST(
        (project.contents() == undisturbed(slow_task("") + "  next:\n    run: pe-toy\n    needs: {init: long}\n")),
        own.jobs() << own.log());
    std::string text;
    for (const auto& entry : fs::recursive_directory_iterator(project.root() / "store/runs"))
      if (entry.path().extension() == ".jsonl") text += support::read_file(entry.path());
    BOOST_TEST(lines_with(text, "\"publish\"") == 2u, text);
  }
}

BOOST_AUTO_TEST_CASE(a_task_longer_than_its_job_saves_before_the_end_and_resumes) {
  slurm();
  const std::string text =
      "schema: pe-pipeline/1\nname: toy\nslurm: {signal_lead: 30s}\n"
      "resources: {short: {time: 1m}}\nstages:\n  long:\n    run: pe-toy\n    resources: short\n"
      "    config: {set: {tokens: 900, step_s: 0.1, checkpoint_every: 50}}\n";
  const Project project(text);
  BOOST_TEST_REQUIRE(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(400), job_logs(project));
  BOOST_TEST(status(project).at("state") == "done", job_logs(project));
  BOOST_TEST(lines_with(job_logs(project), "told to stop; queued again: it continues from its saved state") >= 1u,
             job_logs(project));
  BOOST_TEST((project.contents() == undisturbed(text)));
}

BOOST_AUTO_TEST_CASE(a_job_whose_step_daemon_is_gone_is_suspect) {
  slurm();
  const Project project(
      "schema: pe-pipeline/1\nname: toy\nstages:\n  long:\n    run: pe-toy\n    config: {set: {tokens: 9000, step_s: "
      "0.1}}\n");
  BOOST_TEST_REQUIRE(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(within(30, [&] { return phase_of(project, "long") == "running"; }), job_logs(project));
  const std::string job = status(project).at("tasks").at(0).at("job");
  std::this_thread::sleep_for(std::chrono::seconds(12));  // it has written its state
  // The step daemon, then the element below it; the controller hears of neither.
  std::size_t killed = 0;
  for (const char* pass : {"slurmstepd: [", "__element"}) {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const auto pid = support::parse_integer(entry.path().filename().string());
      if (!pid) continue;
      try {
        const std::string words = support::read_file(entry.path() / "cmdline"),
                          variables = support::read_file(entry.path() / "environ");
        if (has(words, pass) && (has(variables, slurm().folder().string()) || has(words, project.root().string()))) {
          ::kill(static_cast<pid_t>(*pid), SIGKILL);
          ++killed;
        }
      } catch (const support::IoError&) {  // it has ended meanwhile
      }
    }
  }
  BOOST_TEST(killed >= 2u);
  const auto reason = [&] { return status(project).at("tasks").at(0).value("reason", ""); };
  const bool told = within(160, [&] { return has(reason(), "suspect: its job runs, but gave no sign for "); });
  BOOST_TEST(told, status(project).dump(1) << job_logs(project));
  support::capture({"scancel", job});
  project.call("cancel");
  slurm().drain(60);
}

BOOST_AUTO_TEST_CASE(accounting_tells_how_jobs_ended_that_the_queue_forgot_and_whose_ids_others_have,
                     *boost::unit_test::precondition(CanStartAccounting{})) {
  // Jobs that are over are forgotten after seconds, and forty ids go round.
  const RealSlurm own({.more = "MinJobAge=2\nFirstJobId=1\nMaxJobId=40\n", .accounting = true});
  const Project project(R"(schema: pe-pipeline/1
name: toy
slurm: {signal_lead: 30s}
axes: {how: {good: never, bad: exit}}
stages:
  ends:
    run: pe-toy
    over: [how]
    retry: {max: 0}
    config: {set: {text: $(how), fail: $(how.value), fail_code: 70}}
  long:
    run: pe-toy
    config: {set: {tokens: 400, step_s: 0.05, checkpoint_every: 5}}
  held:
    run: pe-toy
    slurm: {options: [--hold]}
    config: {set: {text: held}}
)");
  const Answer first = project.call("submit");
  BOOST_TEST_REQUIRE(first.code == 0, first.err);
  const auto task = [&](const std::string& id) {
    const Json answer = status(project);
    for (const Json& one : answer.at("tasks")) {
      if (one.at("id") == id) return one;
    }
    return Json::object();
  };
  BOOST_TEST_REQUIRE(within(30, [&] { return phase_of(project, "long") == "running"; }), own.jobs());
  const std::string job = task("long").at("job"), id = job.substr(0, job.find('_'));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  // Its first attempt ends as REQUEUED, its second is killed.
  BOOST_TEST(support::capture({"scontrol", "requeue", job}).status.code == 0);
  BOOST_TEST_REQUIRE(within(20, [&] { return phase_of(project, "long") != "running"; }), own.jobs());
  BOOST_TEST_REQUIRE(within(60, [&] { return phase_of(project, "long") == "running"; }), own.jobs());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  BOOST_TEST(support::capture({"scancel", "--signal=KILL", "--batch", job}).status.code == 0);
  BOOST_TEST_REQUIRE(within(120, [&] { return !has(own.jobs(), " long.") && !has(own.jobs(), " ends."); }), own.jobs());

  // Each job once, by its name, however often it was queued.
  const auto store = project.store();
  const auto submission = pipeline::read_submission(store, store.runs().back());
  BOOST_TEST_REQUIRE(submission.has_value());
  std::vector<std::string> names;
  for (const auto& array : submission->arrays) names.push_back(array.name());
  const auto accounts = [&] {
    pipeline::Slurm asked;
    std::multiset<std::string> all;
    for (const auto& ended : asked.ended_named(names).value_or(std::vector<pipeline::EndedJob>()))
      all.insert(support::cat(ended.name.substr(0, ended.name.find('.')), " ", ended.state));
    return all;
  };
  const std::multiset<std::string> expected{"ends COMPLETED", "ends FAILED", "long FAILED"};
  std::multiset<std::string> told;
  const bool as_expected = within(30, [&] { return (told = accounts()) == expected; });
  BOOST_TEST_REQUIRE(as_expected, support::join({told.begin(), told.end()}, ", "));
  const auto lost = [&] {
    BOOST_TEST(phase_of(project, "long") == "lost", own.jobs());
    CHECK_HAS(task("long").value("reason", ""),
              "its job " + job + " has ended (FAILED); `pe-pipeline submit` continues");
    BOOST_TEST(phase_of(project, "ends[how=good]") == "done");
    BOOST_TEST(phase_of(project, "ends[how=bad]") == "failed");
    BOOST_TEST(phase_of(project, "held") == "queued");
  };
  lost();

  // A stranger at work under the id of a job of ours.
  std::string stranger;
  for (int i = 0; i < 80 && stranger != id; ++i) {
    const auto sent =
        support::capture({"sbatch", "--parsable", "--job-name=stranger", "--output=/dev/null", "--wrap=sleep 600"});
    BOOST_TEST_REQUIRE(sent.status.code == 0, sent.err);
    stranger = pipeline::parse_submitted(sent.out);
    if (stranger != id) support::capture({"scancel", stranger});
  }
  BOOST_TEST_REQUIRE(stranger == id, own.jobs());
  const auto stranger_runs = [&] { return has("\n" + own.queue("%i %T %j"), "\n" + id + " RUNNING stranger\n"); };
  BOOST_TEST_REQUIRE(within(20, stranger_runs), own.jobs());
  lost();
  BOOST_TEST((accounts() == expected));
  const Answer cancelled = project.call("cancel");
  BOOST_TEST(cancelled.code == 0, cancelled.err);
  BOOST_TEST(within(20, [&] { return !has(own.queue("%T %j"), "PENDING"); }), own.jobs());
  BOOST_TEST(stranger_runs(), own.jobs());
  const Answer again = project.call("submit", {"--set", "ends.fail=never"});
  BOOST_TEST(again.code == 0, again.err);
  CHECK_HAS(again.out, "toy: 3 elements in ");
  release_held(own);
  BOOST_TEST(within(120, [&] { return status(project).at("state") == "done"; }), own.jobs());
  BOOST_TEST(stranger_runs(), own.jobs());
  BOOST_TEST(!has(project.call("logs", {"long"}).out, "from step 0 "));
  CHECK_HAS(project.call_words({Project::program(), "doctor"}).out, "MinJobAge 2 sec");
}

BOOST_AUTO_TEST_CASE(limits_of_an_account_are_kept_by_windows_or_told,
                     *boost::unit_test::precondition(CanStartAccounting{})) {
  const RealSlurm own({.more = "AccountingStorageEnforce=associations,limits\n", .accounting = true});
  const auto manage = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"sacctmgr", "--immediate"});
    const auto answer = support::capture(words);
    BOOST_TEST_REQUIRE(answer.status.code == 0, answer.out << answer.err);
  };
  const std::string user(support::trim(support::capture({"id", "-un"}).out));
  manage({"add", "account", "lab"});
  manage({"add", "user", user, "account=lab", "MaxSubmitJobs=4"});
  manage({"modify", "qos", "normal", "set", "MaxWall=60", "flags=DenyOnLimit"});
  const Project project;
  const auto doctor = [&] { return project.call_words({Project::program(), "doctor"}).out; };
  CHECK_HAS(doctor(), "account lab may have 4 jobs in the queue (MaxSubmit)");
  CHECK_HAS(doctor(), "`submit` sends no more than that at a time");
  BOOST_TEST(!has(doctor(), "no accounting"));
  // Refused however empty the queue is: nothing is left, and nothing is to be continued.
  const Answer refused = project.call("submit", {"--set", "slurm.account=lab", "--set", "slurm.time=2h"});
  BOOST_TEST(refused.code == 2, refused.out << refused.err);
  CHECK_HAS(refused.err, "MaxWallDurationPerJobLimit");
  BOOST_TEST(project.store().runs().empty());
  // Seven elements and a last job, of which four may be in the queue.
  const Answer answer = project.call("submit", {"--set", "slurm.account=lab"});
  BOOST_TEST(answer.code == 0, answer.out << answer.err);
  CHECK_HAS(answer.out, "wait for room in the queue: the last job sends them");
  BOOST_TEST_REQUIRE(within(180, [&] { return own.drain(1) && status(project).at("state") == "done"; }),
                     own.jobs() << status(project).dump(1));
  BOOST_TEST((project.contents() == undisturbed()), own.jobs());
  for (const auto& [name, ids] : arrays_in_queue(own)) BOOST_TEST(ids.size() == 1u, name);
}

BOOST_AUTO_TEST_CASE(preempted_without_a_signal_it_resumes_from_its_last_checkpoint) {
  const RealSlurm own;
  own.reconfigure("SlurmctldParameters=preempt_send_user_signal\n", "");
  // With ten seconds between TERM and KILL, and with none; the task takes twenty.
  for (const char* grace : {"GraceTime=10", "GraceTime=0"}) {
    own.reconfigure("GraceTime=10", grace);
    const Project project(slow_task("", 400));
    BOOST_TEST_REQUIRE(project.call("submit").code == 0);
    BOOST_TEST_REQUIRE(within(40, [&] { return phase_of(project, "long") == "running"; }), own.jobs());
    std::this_thread::sleep_for(std::chrono::seconds(2));
    preempt();
    BOOST_TEST_REQUIRE(own.drain(180), own.jobs());
    BOOST_TEST(status(project).at("state") == "done", own.jobs());
    BOOST_TEST((project.contents() == undisturbed(slow_task("", 400))));
    BOOST_TEST(!has(project.call("logs", {"long"}).out, "from step 0 "), grace << "\n" << job_logs(project));
  }
}

BOOST_AUTO_TEST_CASE(a_job_that_is_told_only_at_the_end_of_its_time_is_repaired_by_submitting_again) {
  slurm();
  const std::string text =
      "schema: pe-pipeline/1\nname: toy\nslurm: {signal_lead: 0s}\n"
      "resources: {short: {time: 1m}}\nstages:\n  long:\n    run: pe-toy\n    resources: short\n"
      "    config: {set: {tokens: 900, step_s: 0.1, checkpoint_every: 50}}\n";
  const Project project(text);
  BOOST_TEST_REQUIRE(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(200), job_logs(project));
  BOOST_TEST(lines_with(slurm().queue("%T %j"), "TIMEOUT long.") >= 1u, slurm().jobs());
  BOOST_TEST(project.contents().empty(), job_logs(project));
  BOOST_TEST(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(200), job_logs(project));
  BOOST_TEST((project.contents() == undisturbed(text)), job_logs(project));
  BOOST_TEST(!has(project.call("logs", {"long"}).out, "from step 0 "), job_logs(project));
}

BOOST_AUTO_TEST_CASE(hundreds_of_small_elements_come_to_their_end) {
  slurm();
  std::string seeds;
  for (int i = 100; i < 300; ++i) seeds += support::cat(i > 100 ? "," : "", i);
  const Project project(
      "schema: pe-pipeline/1\nname: toy\naxes: {seed: [" + seeds +
      "]}\nstages:\n  many:\n    run: pe-toy\n    over: [seed]\n    config: {set: {value: $(seed)}}\n");
  BOOST_TEST_REQUIRE(project.call("submit").code == 0);
  BOOST_TEST_REQUIRE(slurm().drain(600), slurm().log());
  BOOST_TEST(phases(project)["done"] == 200, job_logs(project));
}

BOOST_AUTO_TEST_SUITE_END()
