// The real pe-pipeline with pe-toy: its output, its files on disk, and that a kill at any time loses nothing.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <fstream>
#include <set>

#include "end_to_end/project.h"
#include "pipeline/run/run_status.h"
#include "pipeline/store/journal.h"
#include "pipeline/store/store.h"
#include "support/files.h"
#include "support/json.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/text.h"
#include "support/version.h"

using namespace pe;        // NOLINT
using namespace pe::test;  // NOLINT

BOOST_AUTO_TEST_SUITE(orchestrator)

BOOST_AUTO_TEST_CASE(the_first_run_builds_and_the_second_says_at_once_that_there_is_nothing_to_do) {
  const Project project;
  Answer answer = project.call("plan", {"--exit-code"});
  BOOST_TEST(answer.code == 10);
  CHECK_HAS(answer.out, "toy  8 tasks  8 run");
  answer = project.call("run");
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(answer.out, "toy: 8 made, 0 reused");
  CHECK_HAS(answer.out, "report: reports/toy/");
  BOOST_TEST(fs::exists(project.root() / "reports/toy/latest/report.md"));
  BOOST_TEST(fs::exists(project.root() / "out/toy/trunk/seed=1@s10.h5"));
  const auto before = project.contents();
  answer = project.call("run");
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(answer.out, "toy: nothing to do, all 8 tasks are in the store");
  CHECK_HAS(answer.out, "report: reports/toy/");
  BOOST_TEST((project.contents() == before));
  BOOST_TEST(project.store().runs().size() == 1u);
  BOOST_TEST(project.call("plan", {"--exit-code"}).code == 0);
  // Links that a user removed are made again, also where nothing else is to do.
  fs::remove_all(project.root() / "out/toy/decay");
  fs::remove(project.root() / "out/toy/trunk/seed=1@s10.h5");
  CHECK_HAS(project.call("run").out, "toy: nothing to do");
  BOOST_TEST(fs::exists(project.root() / "out/toy/decay"));
  BOOST_TEST(fs::exists(project.root() / "out/toy/trunk/seed=1@s10.h5"));
}

BOOST_AUTO_TEST_CASE(nothing_to_do_shows_the_plan_at_hand_and_no_other_configuration) {
  const Project project;
  const auto report_of = [](const Answer& answer) {
    const std::size_t at = answer.out.find("report: ");
    BOOST_REQUIRE_MESSAGE(at != std::string::npos, answer.out << answer.err);
    return answer.out.substr(at, answer.out.find('\n', at) - at);
  };
  const std::string whole = report_of(project.call("run"));
  const std::string slice = report_of(project.call("run", {"--axis", "seed=1"}));
  BOOST_TEST(whole != slice);
  const fs::path latest = project.root() / "reports/toy/latest";
  Answer answer = project.call("run");
  CHECK_HAS(answer.out, "nothing to do");
  CHECK_HAS(answer.out, "relinked for this plan: 1 link in out/toy replaced, reports/toy/latest turned");
  BOOST_TEST(report_of(answer) == whole);
  CHECK_HAS(whole, fs::read_symlink(latest).string());
  answer = project.call("run");  // now from memory
  BOOST_TEST(report_of(answer) == whole);
  BOOST_TEST(!has(answer.out, "relinked"), answer.out);
  answer = project.call("run", {"--axis", "seed=1"});
  BOOST_TEST(report_of(answer) == slice);
  CHECK_HAS(slice, fs::read_symlink(latest).string());
  // Other values of a slice: no model of the earlier values keeps its name in the folder, and back again.
  answer = project.call("run", {"--axis", "seed=1", "--set", "trunk.value=9"});
  CHECK_HAS(answer.out, "to results of other settings removed from out/toy");
  BOOST_TEST(!fs::exists(project.root() / "out/toy/trunk/seed=2@s10.h5"));
  answer = project.call("run");
  CHECK_HAS(answer.out, "links in out/toy replaced");
  BOOST_TEST(report_of(answer) == whole);
  BOOST_TEST(fs::exists(project.root() / "out/toy/trunk/seed=2@s10.h5"));
}

BOOST_AUTO_TEST_CASE(a_plan_checks_values_once_and_names_the_line_that_set_them) {
  const Project project(
      "schema: pe-pipeline/1\nname: toy\nstages:\n  t:\n    run: stages/strict\n    config:\n      set:\n"
      "        eval.copy: 3\n        eval.tasks: perplexty\n        eval.seed: 2\n");
  const fs::path script = project.root() / "stages/strict";
  fs::create_directories(script.parent_path());
  support::write_file_atomically(script, R"sh(#!/bin/sh
case "$1" in
--describe) cat <<'END'
{"schema": "pe-stage/1", "name": "strict", "version": 1, "inputs": [], "outputs": [{"name": "out", "kind": "metrics"}],
 "fields": [{"name": "eval", "type": "group", "help": "x", "fields": [
   {"name": "copy", "type": "integer", "default": 1, "help": "x"}, {"name": "heads", "type": "integer", "default": 1, "help": "x"},
   {"name": "seed", "type": "integer", "default": 1, "help": "x"}, {"name": "tasks", "type": "text", "default": "", "help": "x"}]}]}
END
  ;;
--check) echo asked >> "$(dirname "$0")/asked"
  while read -r config; do
    case "$config" in
    *perplexty*) echo '{"ok": false, "errors": ["config: in '"'eval'"': unknown task '"'perplexty'"'; did you mean '"'perplexity'"'?"]}' ;;
    *'"heads":5'*) echo '{"ok": false, "errors": ["config: in '"'eval'"': heads must divide width"]}' ;;
    *) echo '{"ok": true}' ;;
    esac
  done ;;
esac
)sh",
                                 false);
  fs::permissions(script, fs::perms::owner_all);
  for (const char* verb : {"plan", "submit"}) {
    const Answer answer = project.call(
        verb, std::string(verb) == "submit" ? std::vector<std::string>{"--print"} : std::vector<std::string>{});
    BOOST_TEST(answer.code == 2, answer.out << answer.err);
    CHECK_HAS(answer.err, "toy.yml:9:21: t: config: in 'eval': unknown task 'perplexty'; did you mean 'perplexity'?");
  }
  Answer answer = project.call("plan", {"--set", "t.eval.tasks=perplexity", "--set", "t.eval.heads=5"});
  BOOST_TEST(answer.code == 2, answer.out << answer.err);
  CHECK_HAS(answer.err, "--set t.eval.heads:1:1: t: config: in 'eval': heads must divide width");
  // An accepted config is not checked again, once there is a store.
  fs::create_directories(project.root() / "store");
  const auto asked = [&] { return support::split(support::read_file(script.parent_path() / "asked"), '\n').size(); };
  BOOST_TEST(project.call("plan", {"--set", "t.eval.tasks=perplexity"}).code == 0);
  const std::size_t before = asked();
  BOOST_TEST(project.call("plan", {"--set", "t.eval.tasks=perplexity"}).code == 0);
  BOOST_TEST(asked() == before);
  BOOST_TEST(project.call("plan", {"--set", "t.eval.tasks=perplexity", "--set", "t.eval.seed=3"}).code == 0);
  BOOST_TEST(asked() == before + 1);
}

BOOST_AUTO_TEST_CASE(plans_say_what_is_left_out_and_give_each_reason_a_line) {
  std::string text = kToyPipeline;
  const std::size_t at = text.find("    needs: {init: 'trunk@$(branch)'}");
  text.insert(at, "    exclude: [{seed: 1, branch: s10}]\n");
  const Project project(text);
  Answer answer = project.call("plan");
  CHECK_HAS(answer.out, "toy  7 tasks  7 run  (1 cell excluded)\n");
  BOOST_TEST(project.call("run").code == 0);
  answer = project.call("plan", {"--set", "decay.tokens=7", "--set", "decay.step_s=0.004"});
  CHECK_HAS(answer.out, "decay[*]  tokens 6 -> 7  --set decay.tokens\n");
  answer = project.call("plan", {"--axis", "seed=2"});
  CHECK_HAS(answer.out, "run  1  report  input in: ");
  BOOST_TEST(!has(answer.out, "labels ["), answer.out);
  for (const std::string& line : support::split(answer.out, '\n'))
    BOOST_TEST(support::display_width(line) <= 100u, line);
  // The words of `plan` select.
  CHECK_HAS(project.call("plan", {"decay[*]", "--force"}).out, "3 run");
  CHECK_HAS(project.call("logs", {"de*", "--tail", "1"}).out, "decay[seed=2,branch=s20]");
  // Tasks that this machine cannot hold are one line.
  answer = project.call("plan", {"--force", "-j", "1", "--mem", "1M"});
  BOOST_TEST(answer.out.find("too large here  7 tasks; ") != std::string::npos, answer.out);
  BOOST_TEST(answer.out.find("too large here") == answer.out.rfind("too large here"));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_not_there_is_looked_for_by_its_name) {
  const Project project;
  fs::create_directories(project.root() / "pipelines");
  for (const char* name : {"toy.yml", "retrieval.yml"})
    fs::copy_file(project.file(), project.root() / "pipelines" / name);
  const auto says = [&](const std::string& path) { return project.call_words({Project::program(), "plan", path}).err; };
  CHECK_HAS(says("pipelines/retrieva.yml"), "did you mean 'pipelines/retrieval.yml'?");
  CHECK_HAS(says("retrieval.yml"), "did you mean 'pipelines/retrieval.yml'?");
  CHECK_HAS(project.call_words({Project::program(), "status", "tooy.yml"}).err, "did you mean 'toy.yml'?");
}

BOOST_AUTO_TEST_CASE(a_project_begins_with_init_and_finds_the_configs_that_come_along) {
  const Project project;
  const auto call = [&](std::vector<std::string> words) {
    words.insert(words.begin(), Project::program());
    return project.call_words(words);
  };
  Answer answer = call({"init", "study"});
  BOOST_REQUIRE_MESSAGE(answer.code == 0, answer.err);
  CHECK_HAS(answer.out, "pe-pipeline plan study/pipelines/quickstart.yml");
  BOOST_TEST(fs::exists(project.root() / "study/configs/model/tiny.yml"));
  CHECK_HAS(support::read_file(project.root() / "study/.gitignore"), "/store/\n");
  answer = call({"init", "study"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "'study/configs' is there already; nothing was written");
  BOOST_TEST(call({"init"}).code == 2);
  // A pipeline in any other folder: its own configs/ first, then the shipped ones.
  fs::create_directories(project.root() / "configs");
  support::write_file_atomically(project.root() / "configs/own.yml", "value: 7\n", false);
  project.write(
      "schema: pe-pipeline/1\nname: toy\nstages:\n  t:\n    run: pe-toy\n    config: {file: [configs/own.yml, "
      "configs/eval/quck.yml]}\n");
  answer = project.call("plan");
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "no config file 'configs/eval/quck.yml'");
  CHECK_HAS(answer.err, "did you mean 'configs/eval/quick.yml'? (looked in '" + project.root().string() + "' and '");
}

BOOST_AUTO_TEST_CASE(a_stage_that_cannot_describe_itself_is_quoted) {
  const Project project("schema: pe-pipeline/1\nname: toy\nstages:\n  t:\n    run: stages/broken\n");
  const fs::path script = project.root() / "stages/broken";
  fs::create_directories(script.parent_path());
  support::write_file_atomically(
      script, "#!/bin/sh\necho 'line 3' >&2\necho 'SyntaxError: invalid syntax' >&2\nexit 1\n", false);
  fs::permissions(script, fs::perms::owner_all);
  const Answer answer = project.call("plan");
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "ended with 1; it said:\n  line 3\n  SyntaxError: invalid syntax");
}

BOOST_AUTO_TEST_CASE(an_id_with_several_results_is_told_and_a_run_chooses) {
  const Project project;
  project.call("run");
  project.call("run", {"--set", "decay.tokens=7"});
  const auto call = [&](std::vector<std::string> words) {
    words.insert(words.begin(), Project::program());
    return project.call_words(words);
  };
  const auto runs = project.store().runs();
  BOOST_REQUIRE(runs.size() == 2u);
  const std::string id = "decay[seed=1,branch=s10]";
  Answer answer = call({"pin", "best", id});
  CHECK_HAS(answer.out, "pinned 2 results as best\n  decay[seed=1,branch=s10] has 2 results, and all are pinned: ");
  CHECK_HAS(answer.out, "(run " + runs[1] + "), ");
  answer = call({"pin", "best", id, "--run", runs[0]});
  BOOST_TEST(answer.out == "pinned 1 result as best, in place of 2 results\n");
  answer = call({"pin", "all", "--run", runs[1]});
  CHECK_HAS(answer.out, "results as all\n");
  answer = call({"pin", "--run", runs[1]});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "no name for the pin");
  answer = call({"diff", id, "decay[seed=2,branch=s10]"});
  CHECK_HAS(answer.err, id + " is the newest of 2 results, of run " + runs[1] + "; others: ");
  CHECK_HAS(answer.err, "(run " + runs[0] + ")");
  answer = call({"diff", id, "decay[seed=2,branch=s10]", "--run", runs[0]});
  BOOST_TEST(answer.err == "");
}

BOOST_AUTO_TEST_CASE(a_followed_log_has_each_line_of_each_attempt_once) {
  const Project project(
      one_task("tokens: 40, step_s: 0.02, fail: exit, fail_code: 9, fail_step: 20, fail_attempts: 1"));
  const pid_t run = project.start();
  const auto logs = [&] {
    std::set<fs::path> found;
    std::error_code error;
    for (fs::recursive_directory_iterator at(project.root() / "store/work", error), end; !error && at != end;
         at.increment(error)) {
      if (at->path().filename() == "stage.log") found.insert(at->path());
    }
    return found;
  };
  for (int i = 0; i < 1000 && logs().empty(); ++i) ::usleep(10'000);
  const Answer followed = project.call("logs", {"t", "--follow", "--attempt", "1"});
  BOOST_TEST(support::wait_for(run).code == 0);
  BOOST_TEST(followed.code == 0, followed.err);
  std::string whole;
  for (const fs::path& log : logs()) {
    if (!whole.empty()) whole += "== attempt " + log.parent_path().filename().string() + "\n";
    whole += support::read_file(log);
  }
  BOOST_TEST(logs().size() == 2u);
  CHECK_HAS(whole, "failing on purpose");
  BOOST_TEST(followed.out == whole);
}

BOOST_AUTO_TEST_CASE(a_config_shows_what_is_no_default_in_short_lines) {
  const Project project;
  Answer answer = project.call("config", {"trunk[seed=1]", "--origin"});
  CHECK_HAS(answer.out, "  value: 1  # " + project.file().string() + ":15\n");
  CHECK_HAS(answer.out, "  # default\n");
  answer = project.call("config", {"trunk[seed=1]", "--changed", "--set", "trunk.tokens=80"});
  CHECK_HAS(answer.out, "  tokens: 80\n");
  BOOST_TEST(!has(answer.out, "default"), answer.out);
  BOOST_TEST(support::split(answer.out, '\n').size() < 9u, answer.out);
  answer = project.call("config", {"trunk[seed=1]", "--changed", "--json", "--set", "trunk.tokens=80"});
  const Json config = Json::parse(answer.out).at("tasks").at(0).at("config");
  BOOST_TEST(config.at("tokens") == 80);
  BOOST_TEST(config.size() < 8u, config.dump());
}

BOOST_AUTO_TEST_CASE(the_version_names_the_build) {
  const Project project;
  const Answer answer = project.call_words({Project::program(), "--version"});
  BOOST_TEST(answer.code == 0);
  const std::string build = support::elf_build_id(Project::program());
  BOOST_TEST(build.size() == 40u);
  BOOST_TEST(answer.out == "pe-pipeline " PE_VERSION ", build " + build.substr(0, 12) + "\n");
}

BOOST_AUTO_TEST_CASE(force_runs_what_is_selected_and_the_report_comes_again_from_the_cache) {
  const Project project;
  project.call("run");
  Answer answer = project.call("run", {"decay[seed=1,branch=s10]", "--force"});
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(answer.out, "toy: 1 made");
  fs::remove_all(project.root() / "reports");
  answer = project.call("run", {"report", "--force"});
  CHECK_HAS(answer.out, "toy: 1 made");
  BOOST_TEST(fs::exists(project.root() / "reports/toy/latest/report.md"));
  // A report that a user removed comes back without any run.
  fs::remove_all(project.root() / "reports");
  answer = project.call("run");
  CHECK_HAS(answer.out, "nothing to do");
  BOOST_TEST(fs::exists(project.root() / "reports/toy/latest/report.md"));
}

BOOST_AUTO_TEST_CASE(a_changed_value_runs_what_depends_on_it_and_is_explained) {
  const Project project;
  project.call("run");
  const Answer plan = project.call("plan", {"--set", "decay.tokens=7"});
  CHECK_HAS(plan.out, "3 reuse  5 run");
  CHECK_HAS(plan.out, "tokens 6 -> 7");
  const Answer explain = project.call("explain", {"decay[seed=1,branch=s10]", "--set", "decay.tokens=7"});
  CHECK_HAS(explain.out, "tokens 6 -> 7");
  const Answer run = project.call("run", {"--set", "decay.tokens=7"});
  CHECK_HAS(run.out, "toy: 5 made, 3 reused");
}

BOOST_AUTO_TEST_CASE(a_failure_names_its_log_and_the_command_that_runs_it_alone) {
  std::string text = kToyPipeline;
  text.replace(text.find("value: $(branch.value)"), 22,
               "value: $(branch.value), fail: exit, fail_code: 70, fail_step: 3");
  const Project project(text);
  const Answer answer = project.call("run", {"decay[seed=1,branch=s10]", "report"});
  BOOST_TEST(answer.code == 1);
  CHECK_HAS(answer.err, "failed   decay[seed=1,branch=s10]  exit code 70 (class permanent)");
  CHECK_HAS(answer.err, "| toy: failing on purpose at step 3");
  CHECK_HAS(answer.err, "stage.log");
  CHECK_HAS(answer.err, "toy.yml' 'decay[seed=1,branch=s10]'");
  CHECK_HAS(answer.err, "blocked  report");
  const Answer status = project.call_words({Project::program(), "status", project.file().string(), "--failed"});
  CHECK_HAS(status.out, "failed  decay[seed=1,branch=s10]");
  const Answer log =
      project.call_words({Project::program(), "logs", project.file().string(), "decay[seed=1,branch=s10]"});
  CHECK_HAS(log.out, "failing on purpose");
}

BOOST_AUTO_TEST_CASE(a_transient_failure_is_tried_again_and_a_checkpoint_exit_goes_on) {
  const Project transient(one_task("fail: exit, fail_code: 9, fail_attempts: 1"));
  Answer answer = transient.call("run");
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(answer.err, "retry    t  exit code 9, class transient");
  const Project checkpoint(one_task("tokens: 20, fail: exit, fail_code: 75, fail_step: 7, fail_attempts: 1"));
  answer = checkpoint.call("run");
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(answer.err, "requeue  t  stopped at a checkpoint, continues");
  CHECK_HAS(answer.err, "attempt 2, continues");
  // Interrupted and undisturbed give the same content.
  const Project undisturbed(one_task("tokens: 20"));
  undisturbed.call("run");
  BOOST_TEST((undisturbed.contents() == checkpoint.contents()));
}

BOOST_AUTO_TEST_CASE(garbage_and_missing_outputs_leave_nothing_under_a_final_name) {
  for (const char* how : {"garbage", "missing"}) {
    const Project project(one_task(std::string("fail: ") + how));
    const Answer answer = project.call("run");
    BOOST_TEST(answer.code == 1);
    CHECK_HAS(answer.err, "class broken");
    BOOST_TEST(project.contents().empty());
    BOOST_TEST(fs::is_empty(project.root() / "store/objects"));
  }
}

BOOST_AUTO_TEST_CASE(a_divergence_is_a_result_that_descendants_inherit) {
  std::string text = kToyPipeline;
  text.replace(text.find("step_s: 0.003, checkpoint_every: 4"), 34, "fail: diverge, fail_step: 15");
  const Project project(text);
  const Answer answer = project.call("run");
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(answer.err, "diverged trunk[seed=1]@s20");
  CHECK_HAS(answer.err, "diverged decay[seed=1,branch=s20]");
  CHECK_HAS(project.call("run").out, "nothing to do");
}

BOOST_AUTO_TEST_CASE(names_with_quotes_spaces_and_commands_never_reach_a_shell) {
  const std::string nasty = "it's \"x\" $(touch HACKED) `touch HACKED`; touch HACKED\nnew line & *";
  const Project project;
  fs::create_directories(project.root() / nasty);
  support::write_file_atomically(project.root() / nasty / "a b.txt", "text", false);
  project.write("schema: pe-pipeline/1\nname: toy\nstages:\n  t:\n    run: pe-toy\n    config: {set: {path: " +
                Json(nasty + "/a b.txt").dump() + ", text: " + Json("$$(touch HACKED)").dump() + "}}\n");
  const std::string& path = nasty;
  std::string text = support::read_file(project.file());
  for (auto at = text.find("$(touch"); at != std::string::npos; at = text.find("$(touch", at + 2)) {
    if (at == 0 || text[at - 1] != '$') text.insert(at, "$");
    ++at;
  }
  project.write(text);
  Answer answer = project.call("run", {"--store", (project.root() / (path + " store")).string()});
  BOOST_TEST(answer.code == 0, answer.err);
  answer = project.call("run", {"--set", "t.text=$(touch HACKED)", "--set", "t.fail=exit", "--set", "t.fail_code=70"});
  BOOST_TEST(answer.code == 1, answer.err);
  for (const auto& entry : fs::recursive_directory_iterator(project.root()))
    BOOST_TEST(entry.path().filename() != "HACKED");
}

BOOST_AUTO_TEST_CASE(a_config_that_the_stage_refuses_stops_the_run_before_it_starts) {
  const Project project(one_task("value: 13"));
  const Answer answer = project.call("run");
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "13 is refused");
  BOOST_TEST(project.store().runs().empty());
}

BOOST_AUTO_TEST_CASE(a_second_run_is_told_who_works_on_a_task_and_may_leave_it) {
  const Project project(one_task("fail: hang"));
  const pid_t first = project.start();
  const fs::path leases = project.root() / "store" / "leases";
  for (int i = 0; i < 1000 && (!fs::exists(leases) || fs::is_empty(leases)); ++i) ::usleep(10000);
  const Answer second = project.call("run", {"--wait-lease", "never"});
  BOOST_TEST(second.code == 3);
  CHECK_HAS(second.err, "elsewhere t  is left to process " + std::to_string(first));
  ::kill(first, SIGINT);
  BOOST_TEST(support::wait_for(first).code == 3);
}

/// Until the stage of a run has said something.
void wait_until_at_work(const Project& project) {
  const auto at_work = [&] {
    const auto runs = project.store().runs();
    if (runs.empty()) return false;
    for (const Json& event : pipeline::read_journal(project.root() / "store/runs" / runs.back())) {
      if (event.value("event", "") == "note") return true;
    }
    return false;
  };
  for (int i = 0; i < 1000 && !at_work(); ++i) ::usleep(10000);
}

BOOST_AUTO_TEST_CASE(a_closed_terminal_and_the_repeated_signals_of_a_cluster_ask_to_save) {
  const Project project(one_task("tokens: 400, step_s: 0.01"));
  const pid_t pid = project.start();
  wait_until_at_work(project);
  for (const int signal : {SIGHUP, SIGUSR1, SIGTERM, SIGTERM, SIGTERM}) {
    ::kill(pid, signal);
    ::usleep(2000);
  }
  const auto status = support::wait_for(pid);
  BOOST_TEST(status.signal == 0);
  BOOST_TEST(status.code == 3);  // 130 if stages had been killed
  const Answer answer = project.call("run", {"--set", "t.step_s=0"});
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(answer.err, "continues");
}

BOOST_AUTO_TEST_CASE(the_first_interrupt_saves_and_the_same_command_goes_on) {
  const Project project(one_task("tokens: 400, step_s: 0.01"));
  const pid_t pid = project.start();
  wait_until_at_work(project);
  ::kill(pid, SIGINT);
  BOOST_TEST(support::wait_for(pid).code == 3);
  CHECK_HAS(support::read_file(project.root() / "run.out"), "the same command continues from here");
  BOOST_TEST(project.contents().empty());
  const Answer answer = project.call("run", {"--set", "t.step_s=0"});
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(answer.err, "continues");
  const Project undisturbed(one_task("tokens: 400"));
  undisturbed.call("run");
  BOOST_TEST((undisturbed.contents() == project.contents()));
}

BOOST_AUTO_TEST_CASE(every_reading_command_answers_in_json_with_a_schema_version) {
  const Project project;
  project.call("run");
  const std::string file = project.file().string();
  const std::vector<std::vector<std::string>> commands = {
      {"plan", file, "--json"},
      {"explain", file, "data", "--json"},
      {"status", file, "--json"},
      {"logs", file, "data", "--json"},
      {"graph", file, "--format", "json"},
      {"show", (project.root() / "out/toy/data/data.h5").string(), "--json"},
      {"list", "tasks", file, "--json"},
      {"list", "stages", file, "--json"},
      {"list", "artifacts", file, "--json"},
      {"list", "runs", file, "--json"},
      {"config", file, "data", "--json", "--origin"},
      {"forget", file, "data", "--json", "-n"}};
  for (std::vector<std::string> words : commands) {
    words.insert(words.begin(), Project::program());
    const Answer answer = project.call_words(words);
    BOOST_TEST(answer.code == 0, words[1] << ": " << answer.err);
    const Json json = Json::parse(answer.out, nullptr, false);
    BOOST_TEST((json.is_object() && json.value("schema_version", 0) == 1), words[1] << ": " << answer.out);
  }
  const Answer lines = project.call("run", {"data", "--force", "--progress", "json"});
  std::size_t count = 0;
  std::istringstream stream(lines.out);
  for (std::string line; std::getline(stream, line); ++count) BOOST_TEST(Json::accept(line), line);
  BOOST_TEST(count >= 4u);
}

BOOST_AUTO_TEST_CASE(a_forgotten_result_runs_again) {
  const Project project;
  project.call("run");
  const Answer answer = project.call("forget", {"decay[seed=2]"});
  CHECK_HAS(answer.out, "decay[seed=2,branch=s10]");
  CHECK_HAS(project.call("run").out, "toy: 2 made");
}

BOOST_AUTO_TEST_CASE(a_damaged_object_is_found_by_its_reader_and_made_again) {
  const Project project;
  project.call("run");
  const Json shown = Json::parse(
      project.call_words({Project::program(), "list", "artifacts", project.file().string(), "data", "--json"}).out);
  const fs::path object = shown.at("artifacts").at(0).at("path").get<std::string>();
  const auto size = fs::file_size(object);
  fs::permissions(object, fs::perms::owner_write, fs::perm_options::add);
  { std::ofstream(object, std::ios::binary) << std::string(size, 'x'); }
  const Answer answer = project.call("run", {"--set", "trunk.value=77"});
  BOOST_TEST(answer.code == 0, answer.err);
  CHECK_HAS(answer.err, "was damaged in the store and is made again");
}

BOOST_AUTO_TEST_CASE(usage_errors_name_the_nearest_word_and_end_with_2) {
  const Project project;
  Answer answer = project.call_words({Project::program(), "rnu", "x.yml"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "did you mean 'run'?");
  answer = project.call("run", {"--kep-going"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "did you mean '--keep-going'?");
  answer = project.call("run", {"dekay"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "decay");
  answer = project.call_words({Project::program(), "run", (project.root() / "nope.yml").string()});
  BOOST_TEST(answer.code == 2);
  for (const std::string verb :
       {"run", "plan", "explain", "status", "logs", "graph", "show", "list", "config", "forget"}) {
    answer = project.call_words({Project::program(), verb, "--help"});
    BOOST_TEST(answer.code == 0);
    CHECK_HAS(answer.out, "Examples:");
    CHECK_HAS(answer.out, "Exit codes:");
  }
}

BOOST_AUTO_TEST_CASE(the_memory_of_a_stage_is_its_own_and_not_that_of_who_started_it) {
  std::string values;
  for (int i = 0; i < 10000; ++i) values += (i ? ", " : "") + std::to_string(i);  // some hundred megabytes of plan
  const Project project("schema: pe-pipeline/1\nname: toy\naxes: {i: [" + values +
                        "]}\nstages:\n  t:\n    run: pe-toy\n    over: [i]\n    config: {set: {value: $(i)}}\n");
  const Answer answer = project.call("run", {"t[i=7]"});
  BOOST_TEST_REQUIRE(answer.code == 0, answer.err);
  const pipeline::Store store = project.store();
  BOOST_TEST_REQUIRE(store.keys().size() == 1u);
  const auto record = store.read(store.keys().front());
  BOOST_TEST_REQUIRE(record.has_value());
  const auto peak = record->occasion.at("peak_rss_bytes").get<std::int64_t>();
  BOOST_TEST(peak > 1 << 20);
  BOOST_TEST(peak < 40 << 20);
}

BOOST_AUTO_TEST_SUITE_END()
