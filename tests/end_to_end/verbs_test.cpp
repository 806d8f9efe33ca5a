// Verbs on existing results, with the real pe-pipeline: verify and run again, compare, keep, drop, carry elsewhere; and
// stages that are not ours, from the code in doc/stages-of-your-own.md.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdlib>

#include "artifact/metrics.h"
#include "commands/command_table.h"
#include "end_to_end/project.h"
#include "pipeline/run/run_status.h"
#include "pipeline/store/host.h"
#include "pipeline/store/store.h"
#include "support/clock.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/installed.h"
#include "support/json.h"
#include "support/process.h"
#include "support/test_data.h"
#include "support/text.h"

using namespace pe;  // NOLINT
using test::Answer;
namespace fs = std::filesystem;

namespace {

const char* const kToy = R"(schema: pe-pipeline/1
name: toy
axes:
  seed: [1, 2]
stages:
  data:
    run: pe-toy
    config: {set: {value: 5}}
  trunk:
    run: pe-toy
    over: [seed]
    needs: {init: data}
    config: {set: {value: $(seed), tokens: 40}}
    snapshots: {s10: 0.25, s20: 0.5}
    outputs: {out: toy_s$(seed)}
  decay:
    run: pe-toy
    over: [seed]
    needs: {init: trunk@s20}
    config: {set: {value: 7, tokens: 6}}
  report:
    run: pe-toy-report
    gather: {in: decay}
    config: {set: {text: the report}}
)";

/// A project whose verbs are called word for word.
class Place : public test::Project {
 public:
  explicit Place(const std::string& text = kToy, const std::string& name = "toy.yml") : Project(text, name) {}
  Answer call(const std::vector<std::string>& words) const {
    std::vector<std::string> all = {program()};
    all.insert(all.end(), words.begin(), words.end());
    return call_words(all);
  }
  Answer run(const std::vector<std::string>& more = {}) const { return Project::call("run", more); }
  Json json(std::vector<std::string> words) const {
    words.push_back("--json");
    const Answer answer = call(words);
    const Json json = Json::parse(answer.out, nullptr, false);
    BOOST_REQUIRE_MESSAGE(json.is_object(), words.front() << " printed no JSON:\n" << answer.out << answer.err);
    BOOST_TEST(json.at("schema_version") == 1);
    return json;
  }
  /// The object of the first result whose task is called so.
  fs::path object_of(const std::string& task) const {
    const pipeline::Store opened = store();
    for (const auto& key : opened.keys()) {
      const auto record = opened.read(key);
      if (record && record->task == task) return opened.object_path(record->outputs.front().object);
    }
    return {};
  }
  void script(const std::string& name, const std::string& text) const {
    fs::create_directories((root() / name).parent_path());
    support::write_file_atomically(root() / name, text, false);
    fs::permissions(root() / name, fs::perms::owner_exec, fs::perm_options::add);
  }
};

void flip(const fs::path& path, std::uint64_t at) {
  std::string bytes = support::read_file(path);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  fs::remove(path);
  support::write_file_atomically(path, bytes, false);
}

/// A metrics file with one column of reals.
void write_reals(const fs::path& path, const std::vector<double>& values) {
  artifact::Tables tables;
  tables.facts = {{"state", "x"}};
  artifact::Table table("losses", {{"loss", artifact::ColumnType::kReal, ""}});
  for (const double value : values) table.add_row({value});
  tables.tables.push_back(std::move(table));
  artifact::write_metrics(path, {}, tables);
}

/// The code block of a page that begins with this line.
std::string code_of(const std::string& page, const std::string& language) {
  const auto from = page.find("```" + language + "\n");
  BOOST_REQUIRE(from != std::string::npos);
  const auto begin = from + language.size() + 4;
  return page.substr(begin, page.find("\n```", begin) + 1 - begin);
}

/// A run, with collection after collection at the same time.
void run_beside_collections() {
  const Place place;
  BOOST_REQUIRE(place.run({"--set", "decay.value=1"}).code == 0);
  support::SpawnOptions options;
  options.arguments = {(test::build_root() / "stages" / "pe-pipeline").string(),
                       "run",
                       place.file().string(),
                       "--durability",
                       "off",
                       "--progress",
                       "none",
                       "--set",
                       "decay.step_s=0.2",
                       "--set",
                       "report.text=other"};
  options.directory = place.root();
  const pid_t run = support::spawn(options);
  int rounds = 0, status = 0;
  while (::waitpid(run, &status, WNOHANG) == 0) {
    BOOST_TEST(
        place.call({"gc", "--keep-last", "1", "--max-size", "1K", "--grace", "0s", "--durability", "off"}).code == 3);
    ++rounds;
  }
  BOOST_TEST(status == 0);
  BOOST_TEST(rounds > 3);
  BOOST_TEST(place.call({"verify"}).code == 0);
  CHECK_HAS(place.run({"--set", "decay.step_s=0.2", "--set", "report.text=other"}).out, "nothing to do");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(verbs)

BOOST_AUTO_TEST_CASE(results_come_out_the_same_when_they_are_run_again_and_damage_is_found_and_repaired) {
  const Place place;
  BOOST_REQUIRE(place.run().code == 0);
  Answer answer = place.call({"verify", place.file().string(), "--rerun"});
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(answer.out, "8 results whole");
  CHECK_HAS(answer.out, "run again: 6 same");  // both snapshots of a trunk in one go
  BOOST_TEST(place.json({"verify", "--sample", "1%", "--rerun"}).at("counts").at("same") == 1);

  flip(place.object_of("decay[seed=1]"), 600);
  answer = place.call({"verify"});
  BOOST_TEST(answer.code == 5);
  CHECK_HAS(answer.out, "damaged  decay[seed=1].out  object ");
  CHECK_HAS(answer.out, "--repair");
  BOOST_TEST(place.call({"verify", "--repair"}).code == 5);
  answer = place.run();
  BOOST_TEST(answer.code == 0);
  BOOST_TEST(place.call({"verify"}).code == 0);
  answer = place.call({"verify", "decy"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "did you mean 'decay'?");
}

BOOST_AUTO_TEST_CASE(a_run_is_shown_while_its_pipeline_file_has_an_error) {
  const Place place;
  BOOST_REQUIRE(place.run().code == 0);
  for (const std::string& text : {std::string(kToy) + "extra: 1\n", std::string("name: [\n")}) {
    support::write_file_atomically(place.file(), text, false);
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"status"}, {"logs"}, {"list", "runs"}}) {
      std::vector<std::string> call = words;
      call.push_back(place.file().string());
      if (words.front() == "logs") call.push_back("data");
      const Answer answer = place.call(call);
      BOOST_TEST(answer.code == 0, answer.err);
      CHECK_HAS(answer.err, "warning: ");
      CHECK_HAS(answer.err, "toy.yml:");
      CHECK_HAS(answer.err, "it ran as 'toy'");
    }
  }
  fs::rename(place.file(), place.root() / "other.yml");
  const Answer never_ran = place.call({"status", (place.root() / "other.yml").string()});
  BOOST_TEST(never_ran.code == 2);
  CHECK_HAS(never_ran.err, "not valid YAML");
}

BOOST_AUTO_TEST_CASE(a_stage_that_reads_what_it_does_not_declare_is_caught_by_running_it_again) {
  const Place place("schema: pe-pipeline/1\nname: leaky\nstages:\n  leak:\n    run: stages/leak\n", "leaky.yml");
  place.script("stages/leak", R"sh(#!/bin/sh
case "$1" in
--describe) echo '{"schema": "pe-stage/1", "name": "leak", "version": 1, "inputs": [], "fields": [],
  "outputs": [{"name": "out", "kind": "metrics"}]}' ;;
--check) while read -r config; do echo '{"ok": true}'; done ;;
--task) cp "$(dirname "$0")/undeclared.h5" "$(sed -n 's/^ *"out": "\(.*\)"$/\1/p' "$2")" ;;
esac
)sh");
  write_reals(place.root() / "stages/undeclared.h5", {1.0, 2.0, 3.0});
  Answer answer = place.run();
  BOOST_REQUIRE_MESSAGE(answer.code == 0, answer.out << answer.err);
  BOOST_TEST(place.call({"verify", "--rerun"}).code == 0);
  write_reals(place.root() / "stages/undeclared.h5", {1.0, std::nextafter(std::nextafter(2.0, 3.0), 3.0), 3.0});
  answer = place.call({"verify", "--rerun"});
  BOOST_TEST(answer.code == 5);
  CHECK_HAS(answer.out, "differs  leak");
  CHECK_HAS(answer.out, "/tables/losses/data/loss: 1 of 3 differ, at most 2 ULP");
  CHECK_HAS(answer.out, "kept: ");
  const Json json = place.json({"verify", "--rerun"});
  const Json difference = json.at("results").at(0).at("rerun").at("outputs").at(0).at("differences").at(0);
  BOOST_TEST(difference.at("largest_ulp") == 2);
  BOOST_TEST(difference.at("where") == 1);
  // Another version of the stage is not asked to repeat it.
  std::string text = support::read_file(place.root() / "stages/leak");
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2");
  place.script("stages/leak", text);
  answer = place.call({"verify", "--rerun"});
  BOOST_TEST(answer.code == 3);
  CHECK_HAS(answer.out, "has result version 2 now");
}

BOOST_AUTO_TEST_CASE(a_store_that_cannot_be_listed_ends_gc_verify_and_plans_with_4) {
  const Place place;
  BOOST_REQUIRE(place.run().code == 0);
  const fs::path tasks = place.root() / "store/tasks";
  fs::rename(tasks, place.root() / "aside");
  fs::create_symlink("tasks", tasks);  // to itself
  for (const std::vector<std::string>& words : {std::vector<std::string>{"gc", "--keep-last", "1", "--grace", "0s"},
                                                {"verify"},
                                                {"plan", place.file().string()}}) {
    const Answer answer = place.call(words);
    BOOST_TEST(answer.code == 4, words.front() << ": " << answer.out << answer.err);
    CHECK_HAS(answer.err, tasks.string());
  }
  fs::remove(tasks);
  fs::rename(place.root() / "aside", tasks);
  BOOST_TEST(place.call({"verify"}).code == 0);
  CHECK_HAS(place.run().out, "nothing to do");
}

BOOST_AUTO_TEST_CASE(a_project_or_a_store_whose_path_is_not_utf8_is_refused) {
  const Place place;
  const fs::path odd = place.root() / "d\xff";
  fs::create_directories(odd / "configs");  // makes it a project
  fs::copy_file(place.file(), odd / "toy.yml");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"run", (odd / "toy.yml").string()},
                                                {"run", place.file().string(), "--store", (odd / "store").string()}}) {
    const Answer answer = place.call(words);
    BOOST_TEST(answer.code == 2);
    CHECK_HAS(answer.err, "/d\\xff");
    CHECK_HAS(answer.err, "is not UTF-8");
  }
  BOOST_TEST(!fs::exists(odd / "store"));
}

BOOST_AUTO_TEST_CASE(two_results_or_two_runs_are_compared_by_config_inputs_and_contents) {
  const Place place;
  BOOST_REQUIRE(place.run().code == 0);
  Answer answer = place.call({"diff", "trunk[seed=1]@10", "trunk[seed=2]@10"});
  BOOST_TEST(answer.code == 1);
  CHECK_HAS(answer.out, "config    value: 1 -> 2");
  CHECK_HAS(answer.out, "1 difference");
  BOOST_TEST(place.call({"diff", "trunk[seed=1]@10", "trunk[seed=1]@10"}).code == 0);
  const std::string path = (place.root() / "out/toy/trunk/toy_s1@s10.h5").string();
  BOOST_TEST(fs::exists(path));
  BOOST_TEST(place.call({"diff", path, "trunk[seed=1]@10"}).code == 0);
  BOOST_TEST(place.call({"diff", path}).code == 2);
  BOOST_TEST(place.call({"diff", "decay", "report"}).code == 2);  // two decays
  answer = place.call({"diff", "trunk[seed=1]@10", "trunk[seed=2]@10", "--only", "/nope"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "neither side holds anything at /nope");

  answer = place.run({"--set", "decay.value=8"});
  BOOST_REQUIRE(answer.code == 0);
  const auto runs = place.store().runs();
  BOOST_REQUIRE(runs.size() == 2u);
  answer = place.call({"diff", runs[0], runs[1]});
  BOOST_TEST(answer.code == 1);
  CHECK_HAS(answer.out, "2 tasks  value: 7 -> 8; other content came out");
  CHECK_HAS(answer.out, "1 task  input in; other content came out");
  BOOST_TEST(place.json({"diff", runs[0], runs[1]}).at("same") == 3);
  BOOST_TEST(place.call({"diff", runs[0], "report"}).code == 2);
}

BOOST_AUTO_TEST_CASE(a_file_means_runs_and_results_of_its_own_pipeline) {
  const Place place;
  const auto add = [&](const std::string& name, const std::string& value) {
    std::string text = kToy;
    text.replace(text.find("name: toy"), 9, "name: " + name);
    text.replace(text.find("value: 5"), 8, "value: " + value);
    support::write_file_atomically(place.root() / (name + ".yml"), text, false);
  };
  add("other", "6");
  add("third", "5");
  add("fourth", "8");
  BOOST_REQUIRE(place.run().code == 0);
  BOOST_REQUIRE(place.call({"run", "other.yml", "--durability", "off"}).code == 0);
  const auto runs = place.store().runs();
  BOOST_REQUIRE(runs.size() == 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string file = i == 0 ? "toy.yml" : "other.yml", name = i == 0 ? "toy" : "other";
    BOOST_TEST(place.json({"status", file}).at("run") == runs[i]);
    BOOST_TEST(place.json({"status", file, "--run", "latest"}).at("run") == runs[i]);
    BOOST_TEST(place.json({"timeline", file}).at("run") == runs[i]);
    BOOST_TEST(place.json({"metrics", file}).at("run") == runs[i]);
    BOOST_TEST(place.json({"logs", file, "report"}).at("run") == runs[i]);
    const Json listed = place.json({"list", "runs", file}).at("runs");
    BOOST_REQUIRE(listed.size() == 1u);
    BOOST_TEST(listed[0].at("run") == runs[i]);
    const Json shown = place.json({"show", file, "decay[seed=1]"}).at("records");
    BOOST_REQUIRE(shown.size() == 1u);
    BOOST_TEST(shown[0].at("occasion").at("pipeline") == name);
    CHECK_HAS(place.call({"show", file, "report"}).out, "pipeline  " + name + "\n");
    const Answer answer = place.call({"diff", file, "trunk[seed=1]@10", "trunk[seed=2]@10"});
    BOOST_TEST(answer.code == 1);
    BOOST_TEST(!test::has(answer.err, "others:"), answer.err);
  }
  BOOST_TEST(place.json({"show", "decay[seed=1]"}).at("records").size() == 2u);
  BOOST_TEST(place.json({"show", "decay"}).at("records").size() == 4u);  // part of an id
  CHECK_HAS(place.call({"diff", "report", "report"}).err, "run " + runs[0] + " of 'toy'");
  // A run that is named is meant, whatever the file.
  BOOST_TEST(place.json({"status", "toy.yml", runs[1]}).at("run") == runs[1]);
  // A pipeline that has not run yet, with the tasks of another.
  for (const std::vector<std::string>& words : {std::vector<std::string>{"status", "third.yml"},
                                                {"timeline", "third.yml"},
                                                {"metrics", "third.yml", "--json"},
                                                {"logs", "third.yml", "report"}}) {
    const Answer answer = place.call(words);
    BOOST_TEST(answer.code == 2, words.front() << ": " << answer.out << answer.err);
    CHECK_HAS(answer.err, "pipeline 'third' has no run; 'other' has " + runs[1]);
  }
  CHECK_HAS(place.call({"list", "runs", "third.yml"}).out, "no runs");
  CHECK_HAS(place.call({"show", "third.yml", "report"}).out, "pipeline  toy\n");  // it would reuse that
  const Answer answer = place.call({"show", "fourth.yml", "report"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "pipeline 'fourth' has no result of 'report'; 'other' has ");
}

BOOST_AUTO_TEST_CASE(every_verb_without_arguments_ends_with_an_answer) {
  const Place place;
  for (const cli::Command& command : commands::command_table()) {
    const Answer answer = place.call({command.name});
    BOOST_TEST(answer.code != 70, command.name);
    BOOST_TEST(!test::has(answer.err, "mistake of pe-pipeline"), command.name << ": " << answer.err);
    if (command.usage.rfind("FILE", 0) != 0) continue;
    BOOST_TEST(answer.code == 2, command.name);
    CHECK_HAS(answer.err, "no pipeline file is named");
    CHECK_HAS(answer.err, "as in: pe-pipeline " + command.name + " pipelines/quickstart.yml");
  }
}

BOOST_AUTO_TEST_CASE(texts_of_a_record_do_not_move_the_cursor) {
  const Place place;
  BOOST_REQUIRE(place.run().code == 0);
  const pipeline::Store store = place.store();
  const fs::path path = store.record_path(store.keys().front());
  pipeline::Record record = pipeline::record_from_text(support::read_file(path), path.string());
  record.task = "\033[2Jmine";
  record.occasion["host"] = "h\033]0;title\007";
  fs::remove(path);
  support::write_file_atomically(path, pipeline::record_text(record), false);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"list", "artifacts"},
                                                {"show", store.keys().front().key.substr(0, 12)},
                                                {"show", store.keys().front().key.substr(0, 12), "--tree"}}) {
    const Answer answer = place.call(words);
    BOOST_TEST(answer.code == 0, answer.err);
    CHECK_HAS(answer.out, "^[[2Jmine");
    BOOST_TEST(answer.out.find('\033') == std::string::npos, answer.out);
  }
  // A damaged record is named, and is not left out without a word.
  support::write_file_atomically(path, "{", false);
  CHECK_HAS(place.call({"list", "artifacts"}).err, "warning");
}

BOOST_AUTO_TEST_CASE(a_gpu_that_is_named_twice_is_refused) {
  const Place place;
  const Answer answer = place.run({"--gpus", "0,1,0"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "GPU '0' is named twice");
}

BOOST_AUTO_TEST_CASE(hints_lead_to_commands_that_are_right) {
  const Place place;
  BOOST_REQUIRE(place.run().code == 0);
  Answer answer = place.call({"list", "tasks"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "as in: pe-pipeline list tasks pipelines/quickstart.yml");
  answer = place.call({"plan", "toy.yml", "--set", "axes.seed=1,3"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "expected a list of labels or a map label -> value for axis 'seed', found '1,3'");
  CHECK_HAS(answer.err, "write '[1,3]'");
  BOOST_TEST(place.call({"plan", "toy.yml", "--set", "axes.seed=[1,3]"}).code == 0);
  BOOST_TEST(place.call({"plan", "toy.yml", "--set", "axes.seed.3=3"}).code == 0);
  answer = place.call({"show", "00000"});
  const std::string trunk = "trunk[seed=1]";  // three results have this id
  CHECK_HAS(answer.err, trunk);
  BOOST_TEST(answer.err.find(trunk) == answer.err.rfind(trunk), answer.err);
  answer = place.call({"run", "toy.yml", "report", "--force", "--mem", "2M"});
  CHECK_HAS(answer.err, "ask for less in the stage, as in `resources: {mem: 2M}`, or raise --mem");
}

BOOST_AUTO_TEST_CASE(a_flag_that_a_subject_does_not_use_is_refused) {
  const Place place;
  BOOST_REQUIRE(place.run().code == 0);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"list", "runs", "--axis", "seed=1"},
                                                {"list", "runs", "toy.yml", "--set", "vars.a=1"},
                                                {"list", "artifacts", "--scale", "small"},
                                                {"list", "stages", "--axis", "seed=1"},
                                                {"list", "encodings", "--store", "store"},
                                                {"verify", "decay", "--axis", "seed=1"},
                                                {"pin", "paper", "report", "--set", "decay.value=1"},
                                                {"show", "encoding", "rope", "--tree"}}) {
    const Answer answer = place.call(words);
    BOOST_TEST(answer.code == 2, support::join(words, " ") << ": " << answer.out << answer.err);
    CHECK_HAS(answer.err, "' takes no --");
    if (words.front() == "verify") CHECK_HAS(answer.err, "as in: pe-pipeline verify FILE");
  }
  BOOST_TEST(place.call({"list", "artifacts", "toy.yml", "--axis", "seed=1"}).code == 0);
  BOOST_TEST(place.call({"verify", "toy.yml", "decay", "--axis", "seed=1"}).code == 0);
}

BOOST_AUTO_TEST_CASE(a_store_that_is_named_and_not_there_is_an_error_and_is_not_made) {
  const Place place;
  const std::string typo = (place.root() / "stroe").string();
  for (const std::vector<std::string>& words : {std::vector<std::string>{"verify"},
                                                {"verify", "--repair"},
                                                {"list", "runs"},
                                                {"list", "artifacts"},
                                                {"pin"},
                                                {"status", "--stale"},
                                                {"export", "decay"},
                                                {"submit", "--continue", "abcd"}}) {
    std::vector<std::string> named = words;
    named.insert(named.end(), {"--store", typo});
    const Answer answer = place.call(named);
    BOOST_TEST(answer.code == 2, support::join(words, " ") << ": " << answer.out << answer.err);
    CHECK_HAS(answer.err, "there is no store at '" + typo + "'");
    BOOST_TEST(!fs::exists(typo), support::join(words, " "));
  }
  BOOST_TEST(place.call({"submit", "--continue", "abcd", "--print"}).code == 2);
}

BOOST_AUTO_TEST_CASE(words_that_name_no_log_are_told) {
  const Place place;
  BOOST_REQUIRE(place.run().code == 0);
  Answer answer = place.call({"logs", "data", "trnk"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "did you mean 'trunk'?");
  BOOST_TEST(place.call({"logs", "data", "report"}).code == 0);
  answer = place.call({"logs", "trunk", "--attempt", "2"});
  BOOST_TEST(answer.code == 2);
  BOOST_TEST(answer.out == "");
}

BOOST_AUTO_TEST_CASE(logs_of_a_run_are_those_of_its_attempts) {
  const Place place;
  BOOST_REQUIRE(place.run().code == 0);
  const std::string first = place.store().runs().front();
  BOOST_REQUIRE(place.call({"run", "toy.yml", "data", "--force", "--durability", "off"}).code == 0);
  BOOST_REQUIRE(place.store().runs().size() == 2u);
  const auto attempt = [&](std::vector<std::string> words) { return place.json(words).at("logs").at(0).at("attempt"); };
  BOOST_TEST(attempt({"logs", "data"}) == "a02");
  BOOST_TEST(attempt({"logs", "data", "--run", first}) == "a01");
  BOOST_TEST(attempt({"logs", "data", "--run", first, "--attempt", "2"}) == "a02");
}

BOOST_AUTO_TEST_CASE(cancelling_the_pipeline_of_a_file_leaves_the_run_of_another_alone) {
  const Place place(test::one_task("tokens: 400, step_s: 0.05"));
  support::write_file_atomically(place.root() / "mini.yml",
                                 "schema: pe-pipeline/1\nname: mini\nstages: {t: {run: pe-toy}}\n", false);
  const pid_t pid = place.start();
  const auto live = [&] {
    return fs::exists(place.root() / "store/runs") ? pipeline::live_runs(place.store()) : std::vector<std::string>();
  };
  for (int i = 0; i < 1000 && live().empty(); ++i) ::usleep(10000);
  BOOST_REQUIRE(live().size() == 1u);
  Answer answer = place.call({"cancel", "mini.yml"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "pipeline 'mini' has no active run; 'toy' has " + live().front());
  BOOST_TEST(::waitpid(pid, nullptr, WNOHANG) == 0);
  place.write(support::read_file(place.file()) + "extra: 1\n");  // an edit under way does not keep the run alive
  answer = place.call({"cancel", "toy.yml"});
  BOOST_TEST(answer.code == 0, answer.err);
  CHECK_HAS(answer.err, "unknown key 'extra'");
  CHECK_HAS(answer.out, "was asked to save and stop");
  BOOST_TEST(support::wait_for(pid).code == 3);
}

BOOST_AUTO_TEST_CASE(pins_keep_what_gc_would_drop) {
  const Place place;
  BOOST_REQUIRE(place.run().code == 0);
  // Another edition of the file; a run with --set is a separate run for `gc`, and keeps its results.
  std::string edited = support::read_file(place.file());
  edited.replace(edited.find("{value: 7,"), 10, "{value: 8,");
  place.write(edited);
  BOOST_REQUIRE(place.run().code == 0);
  Answer answer = place.call({"pin", "paper", "+decay[seed=1]"});
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(place.call({"pin"}).out, "paper");
  BOOST_TEST(place.json({"pin"}).at("pins").at(0).at("results") == 4);  // data, trunk@20, two decays
  answer = place.call({"gc", "--keep-last", "1", "--grace", "0s", "-n"});
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(answer.out, "would move");
  const std::size_t before = place.store().keys().size();
  const Json json = place.json({"gc", "--keep-last", "1", "--grace", "0s"});
  BOOST_TEST(json.at("dropped").size() >= 2u);
  BOOST_TEST(place.store().keys().size() < before);
  BOOST_TEST(place.call({"verify"}).code == 0);
  CHECK_HAS(place.run().out, "nothing to do");
  BOOST_TEST(place.call({"unpin", "papr"}).code == 2);
  BOOST_TEST(place.call({"unpin", "paper"}).code == 0);
  CHECK_HAS(place.call({"pin"}).out, "no pins");
  BOOST_TEST(place.call({"gc", "--max-size", "1K", "--grace", "0s"}).code == 3);
}

BOOST_AUTO_TEST_CASE(collecting_garbage_without_any_grace_beside_a_run_costs_the_run_nothing) {
  const char* rounds = ::getenv("PE_TEST_ROUNDS");
  for (int i = 0; i < (rounds ? std::atoi(rounds) : 1); ++i) run_beside_collections();
}

BOOST_AUTO_TEST_CASE(results_pushed_elsewhere_are_reported_there_without_what_they_were_made_from) {
  const Place box, laptop;
  BOOST_REQUIRE(box.run().code == 0);
  fs::create_directories(laptop.root() / "store");
  // Without a folder, the stage would be taken for one.
  Answer answer = box.call({"push", box.file().string(), "decay"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "push what, and where to?");
  answer = box.call({"push", box.file().string(), "decay", (laptop.root() / "store").string()});
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(answer.out, "copied 2 results (2 objects");
  CHECK_HAS(answer.out, "records of their inputs");
  answer = laptop.run({"report"});
  BOOST_TEST(answer.code == 0);
  BOOST_TEST(laptop.object_of("report") == laptop.store().object_path(box.object_of("report").filename().string()));
  std::size_t executed = 0;
  for (const auto& id : laptop.store().runs()) {
    executed += Json::parse(support::read_file(laptop.root() / "store/runs" / id / "summary.json"))
                    .at("executed")
                    .get<std::size_t>();
  }
  BOOST_TEST(executed == 1u);
  answer = laptop.call({"verify"});
  BOOST_TEST(answer.code == 0);  // objects that stayed on the box are no damage
  CHECK_HAS(answer.out, "3 known and not here");
  // The other way round, from the project that holds a store; present objects are not sent again.
  const Json json = laptop.json({"pull", "*", box.root().string()});
  BOOST_TEST(json.at("objects") == 5);
  BOOST_TEST(laptop.json({"pull", "*", box.root().string()}).at("objects") == 0);
  BOOST_TEST(laptop.call({"pull", "*", (laptop.root() / "nowhere").string()}).code == 2);
  BOOST_TEST(laptop.call({"pull", "*", laptop.root().string()}).code == 2);
}

BOOST_AUTO_TEST_CASE(the_doctor_finds_and_mends_what_is_wrong_with_a_store) {
  const Place place;
  Answer answer = place.call({"doctor"});
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(answer.out, "no store at");
  BOOST_REQUIRE(place.run().code == 0);
  answer = place.call({"doctor"});
  CHECK_HAS(answer.out, "8 results");
  CHECK_HAS(answer.out, "links, renames and syncs as they must");
  const pipeline::ResultKey key = place.store().keys().front();
  const fs::path record = place.store().record_path(key);
  support::write_file_atomically(record, support::read_file(record).substr(0, 50), false);
  answer = place.call({"doctor"});
  CHECK_HAS(answer.out, "is corrupt");
  BOOST_TEST(place.json({"doctor", "--fix"}).at("bad") == 0);
  answer = place.call({"doctor"});
  BOOST_TEST((answer.out.find("is corrupt") == std::string::npos));
  BOOST_TEST(place.run().code == 0);
  CHECK_HAS(place.run().out, "nothing to do");
  support::write_file_atomically(place.root() / "store/VERSION", "999\n", false);
  BOOST_TEST(place.call({"doctor"}).code == 4);
}

BOOST_AUTO_TEST_CASE(the_doctor_tells_of_gpus_and_of_slurm_as_their_tools_answer) {
  const Place place;
  const char* path = ::getenv("PATH");
  const auto doctor = [&] {
    return place
        .call_words(
            {"env", "PATH=" + (place.root() / "bin").string() + ":" + (path ? path : ""), place.program(), "doctor"})
        .out;
  };
  place.script("bin/nvidia-smi",
               "#!/bin/sh\necho '0, NVIDIA H100 80GB HBM3, 81559 MiB, 3 MiB, 570.86.15'\n"
               "echo '1, NVIDIA H100 80GB HBM3, 81559 MiB, 70000 MiB, 570.86.15'\n");
  place.script("bin/scontrol",
               "#!/bin/sh\n[ \"$1 $2\" = 'show config' ] || exit 9\ncat <<'END'\n"
               "Configuration data as of 2026-11-22T09:00:00\nKillWait                = 30 sec\n"
               "MaxArraySize            = 1001\nSLURM_VERSION           = 22.05.8\nEND\n");
  std::string text = doctor();
  CHECK_HAS(text, "0, NVIDIA H100 80GB HBM3, 81559 MiB, 3 MiB, 570.86.15");
  CHECK_HAS(text, "1, NVIDIA H100 80GB HBM3, 81559 MiB, 70000 MiB");
  CHECK_HAS(text, "Slurm 22.05.8, MaxArraySize 1001, KillWait 30 sec");
  place.script("bin/nvidia-smi", "#!/bin/sh\necho 'No devices were found'\nexit 6\n");
  place.script("bin/scontrol",
               "#!/bin/sh\necho 'slurm_load_ctl_conf error: Unable to contact slurm controller' >&2\nexit 1\n");
  text = doctor();
  CHECK_HAS(text, "nvidia-smi ends with 6: No devices were found");
  CHECK_HAS(text, "scontrol does not answer (1): slurm_load_ctl_conf error: Unable to contact slurm controller");
  CHECK_HAS(text, "is slurmctld running?");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_looked_at_is_no_mistake_of_ours) {
  const Place place;
  const fs::path round = place.root() / "round.h5";
  fs::create_symlink(round, round);
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"show", round.string()}, {"diff", round.string(), round.string()}}) {
    const Answer answer = place.call(words);
    BOOST_TEST(answer.code == 4, words.front() << ": " << answer.code << "\n" << answer.err);
    CHECK_HAS(answer.err, "cannot look at");
    CHECK_HAS(answer.err, "Too many levels of symbolic links");
  }
}

BOOST_AUTO_TEST_CASE(a_run_whose_plan_is_damaged_is_left_out_with_a_word) {
  const Place place;
  BOOST_REQUIRE(place.run().code == 0);
  BOOST_REQUIRE(place.run({"--set", "report.text=again"}).code == 0);
  const auto runs = place.store().runs();
  BOOST_REQUIRE(runs.size() == 2u);
  const fs::path plan = place.root() / "store/runs" / runs.front() / "plan.json";
  for (const std::string text :
       {"", "{\"schema\": \"pe-run/1\"", "[]", "{\"schema\": \"pe-run/1\", \"tasks\": 7}", "\xff\xfe"}) {
    support::write_file_atomically(plan, text, false);
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"list", "runs"}, {"status"}, {"logs", "report"}}) {
      const Answer answer = place.call(words);
      BOOST_TEST(answer.code == 0, words.front() << ": " << answer.err);
      if (words.front() != "list") continue;
      CHECK_HAS(answer.out, runs.back());
      BOOST_TEST(!test::has(answer.out, runs.front()));
      CHECK_HAS(answer.err, "warning: run " + runs.front() + " is left out: ");
    }
    BOOST_TEST(place.json({"list", "runs"}).at("runs").size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(a_process_of_another_machine_of_this_name_is_never_stopped) {
  const Place place;
  BOOST_REQUIRE(place.run().code == 0);
  const std::string run = place.store().runs().front();
  const fs::path folder = place.root() / "store/runs" / run;
  fs::remove(folder / "summary.json");
  support::SpawnOptions options;
  options.arguments = {"sleep", "600"};
  const pid_t stranger = support::spawn(options);
  Json plan = Json::parse(support::read_file(folder / "plan.json"));
  plan["pid"] = stranger;
  plan["process_start"] = pipeline::process_start(stranger);
  plan["started"] = support::unix_time();
  for (const char* member : {"machine", "boot", "pids"}) {
    Json other = plan;
    other[member] = "another";
    support::write_file_atomically(folder / "plan.json", other.dump(), false);
    const Answer answer = place.call({"cancel", "--run", run});
    BOOST_TEST(answer.code == 2, member << ": " << answer.code << answer.out << answer.err);
    CHECK_HAS(answer.err, std::string(member) == "boot" ? run : "another machine or container of this name");
    BOOST_TEST(::kill(stranger, 0) == 0, member);
  }
  support::write_file_atomically(folder / "plan.json", plan.dump(), false);
  const Answer answer = place.call({"cancel", "--run", run});
  BOOST_TEST(answer.code == 0, answer.err);
  CHECK_HAS(answer.out, "was asked to save and stop");
  BOOST_TEST(support::wait_for(stranger).signal == SIGTERM);
}

BOOST_AUTO_TEST_CASE(sbatch_that_does_not_answer_is_told_after_ten_seconds) {
  const Place place(test::one_task("value: 3"));
  place.script(
      "bin/scontrol",
      "#!/bin/sh\n[ \"$1 $2\" = 'show config' ] && printf 'ClusterName = here\\nSLURM_VERSION = 22.05.8\\n'\nexit 0\n");
  place.script("bin/squeue", "#!/bin/sh\nexit 0\n");
  place.script("bin/sbatch", "#!/bin/sh\n[ -e slow ] || { : > slow; sleep 11; }\necho 7\n");
  const char* path = ::getenv("PATH");
  const Answer answer = place.call_words({"env", "PATH=" + (place.root() / "bin").string() + ":" + (path ? path : ""),
                                          place.program(), "submit", place.file().string()});
  BOOST_TEST(answer.code == 0, answer.out << answer.err);
  CHECK_HAS(answer.err, "sbatch has not answered for 10 s; it has ");
  CHECK_HAS(answer.out, "1 element in 1 array submitted");
}

BOOST_AUTO_TEST_CASE(jobs_of_another_cluster_are_not_cancelled_from_here) {
  const Place place(test::one_task("value: 3"));
  const auto on = [&](const std::string& cluster, const std::vector<std::string>& words) {
    place.script("bin/scontrol", "#!/bin/sh\n[ \"$1 $2\" = 'show config' ] && printf 'ClusterName = " + cluster +
                                     "\\nSLURM_VERSION = 22.05.8\\n'\nexit 0\n");
    const char* path = ::getenv("PATH");
    std::vector<std::string> call{"env", "PATH=" + (place.root() / "bin").string() + ":" + (path ? path : ""),
                                  place.program()};
    call.insert(call.end(), words.begin(), words.end());
    return place.call_words(call);
  };
  place.script("bin/squeue", "#!/bin/sh\nexit 0\n");
  place.script("bin/sbatch", "#!/bin/sh\necho 7\n");
  place.script("bin/scancel", "#!/bin/sh\n: > cancelled\n");
  const Answer sent = on("alpha", {"submit", place.file().string()});
  BOOST_TEST_REQUIRE(sent.code == 0, sent.out << sent.err);
  const std::string run = place.store().runs().front();
  const auto marks = [&] { return support::list_folder(place.root() / "store/runs" / run); };
  const std::vector<std::string> before = marks();
  const Answer foreign = on("beta", {"cancel", "--run", run});
  BOOST_TEST(foreign.code == 2, foreign.out << foreign.err);
  CHECK_HAS(foreign.err, "on cluster 'beta'");
  CHECK_HAS(foreign.err, "alpha");
  BOOST_TEST(marks() == before, boost::test_tools::per_element());
  BOOST_TEST(!fs::exists(place.root() / "cancelled"));
  const Answer own = on("alpha", {"cancel", "--run", run});
  BOOST_TEST(own.code == 0, own.out << own.err);
}

BOOST_AUTO_TEST_CASE(a_stage_that_is_run_again_ends_with_the_verify_that_started_it) {
  const Place place("schema: pe-pipeline/1\nname: slow\nstages:\n  a: {run: stages/slow}\n", "slow.yml");
  place.script("stages/slow", R"sh(#!/bin/sh
case "$1" in
--describe) echo '{"schema": "pe-stage/1", "name": "slow", "version": 1, "inputs": [], "fields": [],
  "outputs": [{"name": "page", "kind": "report"}]}' ;;
--check) while read -r config; do echo '{"ok": true}'; done ;;
--task)
  root=$(dirname "$(dirname "$0")")
  if [ -e "$root/wait" ]; then trap '' TERM; echo $$ > "$root/pid"; exec sleep 600; fi
  page=$(sed -n 's/^ *"page": "\(.*\)".*/\1/p' "$2")
  mkdir -p "$page"; echo text > "$page/report.md" ;;
esac
)sh");
  BOOST_REQUIRE(place.run().code == 0);
  support::write_file_atomically(place.root() / "wait", "", false);
  support::SpawnOptions options;
  options.arguments = {place.program(), "verify", "--rerun"};
  options.directory = place.root();
  const pid_t verify = support::spawn(options);
  std::string text;
  for (int i = 0; i < 2000 && (text.empty() || text.back() != '\n'); ++i) {
    ::usleep(5000);
    if (fs::exists(place.root() / "pid")) text = support::read_file(place.root() / "pid");
  }
  ::kill(verify, SIGKILL);
  BOOST_TEST(support::wait_for(verify).signal == SIGKILL);
  const pid_t stage = std::atoi(text.c_str());
  BOOST_REQUIRE(stage > 0);
  for (int i = 0; i < 400 && pipeline::process_start(stage) != 0; ++i) ::usleep(5000);
  BOOST_TEST(pipeline::process_start(stage) == 0u);
}

BOOST_AUTO_TEST_CASE(a_stage_that_talks_nonsense_on_every_channel_is_only_that) {
  const Place place("schema: pe-pipeline/1\nname: odd\nstages:\n  a: {run: stages/odd}\n", "odd.yml");
  place.script("stages/odd", R"END(#!/bin/sh
case "$1" in
--describe) echo '{"schema": "pe-stage/1", "name": "odd", "version": 1, "summary": "x", "inputs": [],
 "outputs": [{"name": "page", "kind": "report"}], "fields": []}' ;;
--check) while read -r config; do echo '{"ok": true}'; done ;;
--task)
  printf '{"event": "start", "resumed": "yes"}\n{"event": "wait", "waits": 3}\n{"event": "stop"}\n' >&3
  printf '{"event": "note", "text": "\\u001b]0;title\\u0007"}\n{"event": "block", "reason": "bored"}\n' >&3
  head -c 300000 /dev/urandom >&3
  printf '\n{"x": ' >&3; head -c 200000 /dev/zero | tr '\0' '[' >&3; echo >&3
  page=$(sed -n 's/^ *"page": "\(.*\)".*/\1/p' "$2")
  mkdir -p "$page"; echo text > "$page/report.md" ;;
esac
)END");
  const Answer answer = place.run();
  BOOST_TEST(answer.code == 0, answer.out << answer.err);
  CHECK_HAS(answer.err, "^[]0;title^G");
  const Json status = place.json({"status"});
  BOOST_TEST(status.at("state") == "done");
  BOOST_TEST(status.at("tasks").at(0).at("phase") == "done");
}

BOOST_AUTO_TEST_CASE(the_stages_of_the_document_run_as_they_stand_there,
                     *boost::unit_test::precondition(pe::test::Installed{"python3"})) {
  const std::string page = support::read_file(test::source_root() / "doc/stages-of-your-own.md");
  const Place place(code_of(page, "yaml"), "words.yml");
  place.script("stages/count-words", code_of(page, "python"));
  place.script("stages/top-words", code_of(page, "sh"));
  fs::create_directories(place.root() / "texts");
  support::write_file_atomically(place.root() / "texts/a.txt", "the cat saw the other cat\n", false);
  support::write_file_atomically(place.root() / "texts/b.txt", "other words\n", false);
  Answer answer = place.run();
  BOOST_REQUIRE_MESSAGE(answer.code == 0, answer.out << answer.err);
  BOOST_TEST(support::read_file(place.root() / "out/words/count/words_of_4_letters/counts.tsv") ==
             "other\t2\nwords\t1\n");
  BOOST_TEST(support::read_file(place.root() / "out/words/top/shortest=1/report.md") ==
             "| word | count |\n|---|---|\n| cat | 2 |\n| other | 2 |\n| the | 2 |\n");
  BOOST_TEST(place.call({"verify", "--rerun"}).code == 0);
  CHECK_HAS(place.run().out, "nothing to do");
  // The description is remembered by the file's content: planning starts no stage.
  std::size_t remembered = 0;
  for (const auto& entry : fs::directory_iterator(place.root() / "store/memo/describe"))
    remembered += entry.is_regular_file();
  BOOST_TEST(remembered == 2u);
  // An edit of a script runs it again; the counts are the same, so the pages stay.
  place.script("stages/count-words", code_of(page, "python") + "\n# edited\n");
  CHECK_HAS(place.run().out, "2 made, 2 reused");
  CHECK_HAS(place.run().out, "nothing to do");
  // A hidden file is in no key and is not among the files that the stage gets.
  support::write_file_atomically(place.root() / "texts/.hidden", "secret words\n", false);
  CHECK_HAS(place.run().out, "nothing to do");
  // An edit that does not change the counts of long words stops there.
  support::write_file_atomically(place.root() / "texts/b.txt", "other words a\n", false);
  const Json before = place.json({"plan", place.file().string()});
  answer = place.run();
  BOOST_TEST(answer.code == 0);
  const auto runs = place.store().runs();
  const Json summary = Json::parse(support::read_file(place.root() / "store/runs" / runs.back() / "summary.json"));
  BOOST_TEST(summary.at("executed") == 3);  // both counts, one page
  // Its own check speaks through.
  answer = place.run({"--set", "count.longest=2"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "shortest is above longest");
  answer = place.run({"--set", "count.shortst=2"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "shortest");
  // A mistake of the script is met again, so there is one attempt.
  const std::string whole = code_of(page, "python"), counter = "collections.Counter()";
  place.script("stages/count-words", std::string(whole).replace(whole.find(counter), counter.size(), "counter()"));
  answer = place.run();
  BOOST_TEST(answer.code != 0);
  CHECK_HAS(answer.out + answer.err, "NameError: name 'counter' is not defined");
  CHECK_HAS(answer.out + answer.err, "permanent");
  BOOST_TEST(!pe::test::has(answer.out + answer.err, "transient"), answer.out << answer.err);
}

// A stage that prints the labels of its inputs, and its table under other labels.
BOOST_AUTO_TEST_CASE(a_table_of_labels_is_made_again_when_the_labels_change) {
  const std::string pipeline = R"(schema: pe-pipeline/1
name: labels
axes: {v: {a: 1, b: 2}}
stages:
  gen: {run: stages/number, over: [v], config: {set: {n: $(v.value)}}}
  table: {run: stages/table, gather: {in: gen}}
)";
  const Place place(pipeline, "labels.yml");
  const auto script = [&](const std::string& name, const std::string& members, const std::string& work) {
    place.script("stages/" + name, R"~(#!/bin/sh
set -eu
case "$1" in
--describe) echo '{"schema": "pe-stage/1", "version": 1, "outputs": [{"name": "out", "kind": "report"}], )~" +
                                       members + ", \"name\": \"" + name + R"~("}' ;;
--check) while read -r config; do echo '{"ok": true}'; done ;;
--task)
  out=$(sed -n 's/^ *"out": "\(.*\)"$/\1/p' "$2")
  mkdir -p "$out"
)~" + work + " ;;\nesac\n");
  };
  script("number", R"~("inputs": [], "fields": [{"name": "n", "type": "integer", "default": 0, "help": "N."}])~",
         R"~(  sed -n 's/^ *"n": \([0-9]*\).*$/\1/p' "$2" > "$out/n.txt")~");
  const std::string members = R"~("inputs": [{"name": "in", "kind": "report", "many": true}], "fields": [])~";
  const std::string work =
      R"~(  sed -n 's/^ *"path": "\(.*\)".*$/\1/p' "$2" | while IFS= read -r path; do cat "$path/n.txt"; done > "$out/numbers"
  sed -n 's/^ *"v": "\(.*\)".*$/\1/p' "$2" > "$out/labels"
  paste -d= "$out/labels" "$out/numbers" > "$out/report.md")~";
  script("table", members, work);
  Answer answer = place.run();
  BOOST_REQUIRE_MESSAGE(answer.code == 0, answer.out << answer.err);
  const fs::path report = place.root() / "out/labels/table/table/report.md";
  BOOST_TEST(support::read_file(report) == "a=1\nb=2\n");
  std::string renamed = pipeline;
  renamed.replace(renamed.find("{a: 1, b: 2}"), 12, "{b: 1, a: 2}");
  place.write(renamed);
  CHECK_HAS(place.call({"explain", place.file().string(), "table"}).out, "labels of input in 1");
  CHECK_HAS(place.run().out, "1 made, 2 reused");
  BOOST_TEST(support::read_file(report) == "b=1\na=2\n");
  // A stage that does not read them says so, does not get them, and stays under any labels.
  script("table", members + ", \"reads_labels\": false", work);
  CHECK_HAS(place.run().out, "1 made, 2 reused");
  BOOST_TEST(support::read_file(report) == "=1\n=2\n");
  place.write(pipeline);
  CHECK_HAS(place.run().out, "nothing to do");
}

BOOST_AUTO_TEST_CASE(a_store_named_by_a_relative_path_is_refused_and_one_above_is_found) {
  const Place place;
  BOOST_REQUIRE(place.run().code == 0);
  fs::create_directories(place.root() / "pipelines/old");
  const std::string inside = (place.root() / "pipelines/old").string();
  const Answer found = place.call_words({"/usr/bin/env", "-C", inside, Place::program(), "status"});
  BOOST_TEST(found.code == 0, found.err);
  CHECK_HAS(found.out, "done");
  const Answer refused =
      place.call_words({"/usr/bin/env", "-C", inside, "PE_STORE=mystore", Place::program(), "status"});
  BOOST_TEST(refused.code == 2);
  CHECK_HAS(refused.err, "PE_STORE must be an absolute path, found 'mystore'");
}

BOOST_AUTO_TEST_SUITE_END()
