// Results on their way to another machine: exported, imported where nothing was trained, reported, continued, checked.
#include <boost/test/unit_test.hpp>
#include <chrono>

#include "pipeline/store/record.h"
#include "project.h"
#include "support/fake_runner.h"
#include "support/json.h"
#include "support/text.h"

using namespace pe;  // NOLINT
namespace fs = std::filesystem;
using test::Answer;
using test::Project;

namespace {

constexpr const char* kStudy = R"(schema: pe-pipeline/1
name: tiny
title: "A tiny study"
axes:
  encoding: [none, rope]
stages:
  fetch:
    run: pe-fetch
    config:
      set: {source: generated, generated.words: 20k, generated.min_words: 150, generated.max_words: 300}
  tokenize:
    run: pe-tokenize
    needs: {raw: fetch}
    config: {file: configs/tokenize.yml, set: {tokenizer: bpe, vocabulary: 400}}
  train:
    run: pe-train
    over: [encoding]
    needs: {data: tokenize}
    config:
      file: [configs/model.yml, configs/train.yml]
      set:
        model: {width: 32, layers: 1, heads: 2, encoding: $(encoding)}
        train: {batch: 4, length: 64, seed: 42, tokens: 4k, warmup_steps: 4, log_every: 8, validate_every: 0, validate_windows: 8}
  evaluate:
    run: pe-evaluate
    each: {model: [train]}
    needs: {data: tokenize}
    config:
      file: configs/eval/quick.yml
      set: {eval.tasks: [perplexity], eval.lengths: [1, 2], eval.documents: 8, eval.min_documents: 2}
  report:
    run: pe-report
    gather: {scores: evaluate, curves: train}
    allow_partial: true
    config: {file: configs/report.yml}
)";

/// A clone of a project: configs and the pipeline, and no store.
struct Clone : Project {
  Clone() : Project(kStudy, "tiny.yml") {
    fs::remove_all(root() / "configs");
    fs::copy(test::source_root() / "configs", root() / "configs", fs::copy_options::recursive);
  }
  Json report() const { return Json::parse(support::read_file(root() / "reports/tiny/latest/report.json")); }
  std::string packed() const { return (root() / "results.tar.zst").string(); }
  Answer export_here(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"-o", packed(), "--durability", "off"};
    words.insert(words.end(), more.begin(), more.end());
    return call("export", words);
  }
  Answer import_from(const std::string& file) const { return call("import", {file, "--durability", "off"}); }
};

/// The study where it was run, and its packed file.
const Clone& original() {
  static const Clone clone;
  static const Answer ran = clone.call("run", {"--progress", "plain"});
  BOOST_REQUIRE_MESSAGE(ran.code == 0, ran.out << ran.err);
  static const Answer exported = clone.export_here();
  BOOST_REQUIRE_MESSAGE(exported.code == 0, exported.out << exported.err);
  return clone;
}

/// Tasks that a run started, by stage.
std::map<std::string, int> started(const Clone& clone) {
  std::map<std::string, int> stages;
  const pipeline::Store store = clone.store();
  pipeline::each_journal_event(store.runs_folder() / store.runs().back(), [&](const pipeline::JournalEvent& event) {
    if (event.event == "start") ++stages[event.task.substr(0, event.task.find('['))];
  });
  return stages;
}

using Started = std::map<std::string, int>;

}  // namespace

BOOST_AUTO_TEST_SUITE(results)

BOOST_AUTO_TEST_CASE(an_imported_study_gives_the_same_report_without_a_training) {
  const Clone& made = original();
  BOOST_TEST(fs::file_size(made.packed()) < (1u << 20));
  const Clone clone;
  const auto began = std::chrono::steady_clock::now();
  const Answer imported = clone.import_from(made.packed());
  BOOST_REQUIRE_MESSAGE(imported.code == 0, imported.out << imported.err);
  CHECK_HAS(imported.out, "imported 7 results from ");
  CHECK_HAS(imported.out, "known without their checkpoints or data");
  const Answer plan = clone.call("plan");
  CHECK_HAS(plan.out, "6 reuse (4 known, not here)  1 run");
  CHECK_HAS(plan.out, "its result is known, but report 'report' is not here");
  const Answer ran = clone.call("run", {"report"});
  BOOST_REQUIRE_MESSAGE(ran.code == 0, ran.out << ran.err);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  BOOST_TEST_MESSAGE("import and report took " << took.count() << " s");
  BOOST_TEST(took.count() < 60);
  BOOST_TEST((started(clone) == Started{{"report", 1}}));
  BOOST_TEST(clone.report() == made.report());
  BOOST_TEST((clone.contents() == made.contents()));
  CHECK_HAS(support::read_file(clone.root() / "reports/tiny/latest/origins.csv"), "imported from");
  CHECK_HAS(support::read_file(clone.root() / "reports/tiny/latest/report.html"),
            "results.tar.zst&#39;. <a href=\"origins.csv\">");

  // Every command names the state.
  CHECK_HAS(clone.call("run").out, "nothing to do");
  CHECK_HAS(clone.call("explain", {"train[encoding=rope]"}).out, "nothing needs it");
  CHECK_HAS(clone.call("explain", {"evaluate"}).out, "imported from 'results.tar.zst' on ");
  CHECK_HAS(clone.call_words({Project::program(), "list", "artifacts", clone.file().string()}).out, "known, not here");
  CHECK_HAS(clone.call_words({Project::program(), "list", "tasks", clone.file().string()}).out, "known, not here");
  const Answer verified = clone.call("verify");
  BOOST_TEST(verified.code == 0, verified.out << verified.err);
  CHECK_HAS(verified.out, "known and not here");
  CHECK_HAS(clone.call_words({Project::program(), "gc", "-n", "--grace", "0s"}).out, "known, not here");
  CHECK_HAS(clone.call_words({Project::program(), "status"}).out, "known and not here");
  for (const auto& entry : fs::recursive_directory_iterator(clone.root() / "out"))
    BOOST_TEST(fs::exists(entry.path()), entry.path() << " leads nowhere");
}

BOOST_AUTO_TEST_CASE(one_more_encoding_trains_that_one_and_travels_on) {
  const Clone& made = original();
  const Clone second;
  BOOST_REQUIRE(second.import_from(made.packed()).code == 0);
  const std::string more = "axes.encoding=[none,rope,alibi]";
  const Answer ran = second.call("run", {"--set", more, "--progress", "plain"});
  BOOST_REQUIRE_MESSAGE(ran.code == 0, ran.out << ran.err);
  BOOST_TEST((started(second) == Started{{"fetch", 1}, {"tokenize", 1}, {"train", 1}, {"evaluate", 1}, {"report", 1}}));
  // The data, made again, have the known contents.
  CHECK_HAS(second.call("explain", {"tokenize", "--set", more}).out, "origin   made by run");
  const Answer exported = second.export_here({"--set", more});
  BOOST_REQUIRE_MESSAGE(exported.code == 0, exported.out << exported.err);
  const Clone third;
  BOOST_REQUIRE(third.import_from(made.packed()).code == 0);
  const Answer rest = third.import_from(second.packed());
  BOOST_REQUIRE_MESSAGE(rest.code == 0, rest.out << rest.err);
  CHECK_HAS(rest.out, " there already");
  const Answer report = third.call("run", {"report", "--set", more});
  BOOST_REQUIRE_MESSAGE(report.code == 0, report.out << report.err);
  BOOST_TEST((started(third) == Started{{"report", 1}}));
  BOOST_TEST(third.report() == second.report());
}

BOOST_AUTO_TEST_CASE(a_packed_file_has_no_paths_of_the_machine_that_made_it) {
  const std::vector<std::string> ours = {"fetch", "--set", "fetch.source=local", "--set", "fetch.path=texts/a.txt"};
  const auto text = [](const Clone& clone) {
    fs::create_directories(clone.root() / "texts");
    support::write_file_atomically(clone.root() / "texts/a.txt", "Once upon a time.\n");
  };
  const Clone made;
  text(made);
  const Answer ran = made.call("run", ours);
  BOOST_REQUIRE_MESSAGE(ran.code == 0, ran.out << ran.err);
  const Answer exported = made.export_here(ours);
  BOOST_REQUIRE_MESSAGE(exported.code == 0, exported.out << exported.err);
  const Clone clone;
  BOOST_REQUIRE(clone.import_from(made.packed()).code == 0);
  const pipeline::Store store = clone.store();
  const std::vector<pipeline::ResultKey> keys = store.keys();
  BOOST_REQUIRE(keys.size() == 1u);
  BOOST_TEST(store.read(keys[0])->config.at("path") == Json({"texts/a.txt"}));
  BOOST_TEST(store.read(keys[0])->occasion.dump().find(made.root().string()) == std::string::npos);
  // A path below the project leads to the reader's own file.
  text(clone);
  const Answer verified = clone.call("verify", {"fetch", "--rerun", "--set", ours[2], "--set", ours[4]});
  BOOST_TEST(verified.code == 0, verified.out << verified.err);
  CHECK_HAS(verified.out, "run again: 1 same");
  // It stays when a clone packs it again, and a folder elsewhere has its name alone.
  BOOST_TEST(clone.export_here(ours).code == 0);
  const test::TempFolder elsewhere;
  fs::create_directories(elsewhere / "stories");
  support::write_file_atomically(elsewhere / "stories/b.txt", "There was a house.\n");
  const std::vector<std::string> other = {"fetch", "--set", ours[2], "--set",
                                          support::cat("fetch.path=", (elsewhere / "stories/").string())};
  BOOST_REQUIRE(made.call("run", other).code == 0);
  BOOST_REQUIRE(made.export_here(other).code == 0);
  std::set<std::string> paths;
  for (const Clone* from : {&clone, &made}) {
    const Clone third;
    BOOST_REQUIRE(third.import_from(from->packed()).code == 0);
    for (const pipeline::ResultKey& key : third.store().keys())
      paths.insert(third.store().read(key)->config.at("path").at(0).get<std::string>());
  }
  BOOST_TEST(paths == (std::set<std::string>{"texts/a.txt", "stories"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_report_from_the_store_trains_nothing_and_names_the_model_that_it_lacks) {
  const Clone clone;
  BOOST_REQUIRE(clone.import_from(original().packed()).code == 0);
  const std::string more = "axes.encoding=[none,rope,alibi]";
  const Answer plan = clone.call("plan", {"report", "--from-store", "--set", more});
  CHECK_HAS(plan.out, "4 reuse (2 known, not here)  1 run  (2 tasks left out)");
  const Answer json = clone.call("plan", {"report", "--from-store", "--set", more, "--json"});
  BOOST_TEST(Json::parse(json.out).at("left_out") == 2);
  const Answer ran = clone.call("run", {"report", "--from-store", "--set", more});
  BOOST_REQUIRE_MESSAGE(ran.code == 0, ran.out << ran.err);
  CHECK_HAS(ran.out, "1 made, 4 reused, 2 left out");
  BOOST_TEST((started(clone) == Started{{"report", 1}}));
  CHECK_HAS(clone.report().dump(), "not in the store");
  const Answer all = clone.call("run", {"--from-store"});
  BOOST_TEST(all.code == 2);
  CHECK_HAS(all.err, "--from-store makes only selected tasks, and none is named");
}

BOOST_AUTO_TEST_CASE(results_of_another_cpu_are_in_a_report_from_the_store_and_travel_on) {
  const Clone clone;
  BOOST_REQUIRE(clone.import_from(original().packed()).code == 0);
  const std::string more = "axes.encoding=[none,rope,alibi]";
  const Answer other = clone.call("run", {"evaluate[encoding=alibi]", "--set", more, "--set",
                                          "train.compute.isa=portable", "--set", "evaluate.compute.isa=portable"});
  BOOST_REQUIRE_MESSAGE(other.code == 0, other.out << other.err);
  const Answer ran = clone.call("run", {"report", "--from-store", "--set", more});
  BOOST_REQUIRE_MESSAGE(ran.code == 0, ran.out << ran.err);
  CHECK_HAS(ran.err, "2 results by a CPU with portable");
  CHECK_HAS(ran.out, "1 made, 6 reused");
  BOOST_REQUIRE(clone.export_here({"--set", more}).code == 0);
  const Clone third;
  BOOST_REQUIRE(third.import_from(clone.packed()).code == 0);
  const Answer again = third.call("run", {"report", "--from-store", "--set", more});
  BOOST_REQUIRE_MESSAGE(again.code == 0, again.out << again.err);
  BOOST_TEST(third.report() == clone.report());
}

BOOST_AUTO_TEST_CASE(imported_numbers_are_checked_from_their_data_on) {
  const Clone clone;
  BOOST_REQUIRE(clone.import_from(original().packed()).code == 0);
  const Answer again = clone.call("verify", {"evaluate[encoding=rope]", "--rerun"});
  BOOST_TEST(again.code == 0, again.out << again.err);
  CHECK_HAS(again.out, "and 3 tasks for inputs that were not here");
  CHECK_HAS(again.out, "run again: 1 same");
  CHECK_HAS(clone.call("plan").out, "(4 known, not here)");  // scratch is gone
  const Answer packed = clone.call_words({Project::program(), "verify", original().packed()});
  BOOST_TEST(packed.code == 0, packed.out << packed.err);
  CHECK_HAS(packed.out, "2 results whole, 2 sound but not complete here, 3 known and not here");
  // The pipeline file and the packed one in any order; other words choose.
  const Answer one = clone.call("verify", {original().packed(), "evaluate[encoding=rope]", "--json"});
  BOOST_REQUIRE_MESSAGE(one.code == 0, one.out << one.err);
  BOOST_TEST(Json::parse(one.out).at("counts").at("whole") == 1);
  const Answer train = clone.call("verify", {original().packed(), "train[encoding=rope]", "--json"});
  BOOST_TEST(Json::parse(train.out).at("counts").at("partial") == 1, train.out << train.err);
  BOOST_TEST(Json::parse(train.out).at("results").at(0).at("absent") == Json::parse(R"(["model"])"), train.out);
  const Clone empty;
  const Answer none = empty.call("verify", {"evaluate"});
  BOOST_TEST(none.code == 2, none.out << none.err);
  const Answer two = clone.call("verify", {original().packed(), original().packed()});
  BOOST_TEST(two.code == 2);
  CHECK_HAS(two.err, "found 2 packed files; verify checks one at a time");
}

BOOST_AUTO_TEST_CASE(bad_files_are_refused_and_nothing_is_written) {
  const std::string whole = support::read_file(original().packed());
  const Clone clone;
  const auto answer_of = [&](const std::string& bytes) {
    support::write_file_atomically(clone.packed(), bytes, false);
    return clone.import_from(clone.packed());
  };
  const Answer cut = answer_of(whole.substr(0, whole.size() / 2));
  BOOST_TEST(cut.code == 4);
  CHECK_HAS(cut.err, "is no whole file of results: it is cut short");
  BOOST_TEST(answer_of("not an archive").code == 4);
  BOOST_TEST(clone.import_from("/dev/zero").code == 4);
  BOOST_TEST(clone.import_from(clone.root().string()).code == 4);
  const Answer none = clone.import_from("/nonexistent.tar.zst");
  BOOST_TEST(none.code == 2);
  CHECK_HAS(none.err, "there is no such file");
  // A good file does not go in with a bad one.
  BOOST_TEST(clone.call("import", {original().packed(), clone.packed()}).code == 4);
  BOOST_TEST(!fs::exists(clone.root() / "store/VERSION"));
  // Nor is a file replaced that holds something else.
  const fs::path notes = clone.root() / "notes.txt";
  support::write_file_atomically(notes, "mine", false);
  const Answer kept = original().call("export", {"-o", notes.string()});
  BOOST_TEST(kept.code == 2);
  CHECK_HAS(kept.err, "exists and holds no results");
  BOOST_TEST(support::read_file(notes) == "mine");
}

namespace {

/// The results of a machine that has other contents for the key of `data`.
std::string packed_with_other_data(const Project& there) {
  BOOST_REQUIRE(there.call("run").code == 0);
  const std::string file = (there.root() / "toy.tar.zst").string();
  {
    pipeline::Store store(there.root() / "store", {false, true});
    for (const auto& key : store.keys()) {
      auto record = store.read(key);
      if (record->task != "data") continue;
      const fs::path other = there.root() / "other.h5";
      test::write_fake_output(other, "other", key.key);
      record->outputs = {store.publish_output({"out", artifact::Kind::kMetrics, false, other})};
      store.forget(key);
      store.commit(*record);
    }
  }
  const Answer exported = there.call_words(
      {Project::program(), "export", "data", "-o", file, "--store", (there.root() / "store").string()});
  BOOST_REQUIRE_MESSAGE(exported.code == 0, exported.out << exported.err);
  return file;
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_files_of_one_call_that_disagree_are_a_conflict_and_nothing_is_written) {
  const Project here, there, third;
  BOOST_REQUIRE(here.call("run").code == 0);
  const std::string own = (here.root() / "own.tar.zst").string();
  BOOST_REQUIRE(here.call("export", {"-o", own}).code == 0);
  const std::string other = packed_with_other_data(there);
  for (const auto& files : {std::vector{own, other}, std::vector{other, own}}) {
    const Answer answer = third.call("import", files);
    BOOST_TEST(answer.code == 5, answer.out << answer.err);
    CHECK_HAS(answer.out, "conflict  data  key ");
    CHECK_HAS(answer.out, "nothing was written");
    std::size_t origins = 0;
    for (auto at = answer.out.find("made by run "); at != std::string::npos;
         at = answer.out.find("made by run ", at + 1))
      ++origins;
    BOOST_TEST(origins == 2u, answer.out);
    BOOST_TEST(!fs::exists(third.root() / "store/VERSION"));
  }
}

BOOST_AUTO_TEST_CASE(a_sample_of_imported_results_is_run_again_and_a_false_one_is_found) {
  const Project here, there, third;
  BOOST_REQUIRE(here.call("run").code == 0);
  const std::string own = (here.root() / "own.tar.zst").string();
  BOOST_REQUIRE(here.call("export", {"-o", own}).code == 0);
  BOOST_REQUIRE(third.call("import", {own}).code == 0);
  const Answer sample = third.call("verify", {"--rerun", "--sample", "50%"});
  BOOST_TEST(sample.code == 0, sample.out << sample.err);
  CHECK_HAS(sample.out, "run again: ");
  CHECK_HAS(sample.out, " same");
  // Digests that agree with each other do not make a number true; running it again tells.
  const Project fooled;
  BOOST_REQUIRE(fooled.call("import", {packed_with_other_data(there)}).code == 0);
  const Answer found = fooled.call("verify", {"data", "--rerun"});
  BOOST_TEST(found.code != 0, found.out << found.err);
  CHECK_HAS(found.out, "differ");
}

BOOST_AUTO_TEST_CASE(a_file_that_disagrees_with_the_store_is_a_conflict_with_both_origins) {
  const Project here, there;
  BOOST_REQUIRE(here.call("run").code == 0);
  const std::string file = packed_with_other_data(there);
  const auto before = here.contents();
  const Answer answer = here.call("import", {file});
  BOOST_TEST(answer.code == 5, answer.out << answer.err);
  CHECK_HAS(answer.out, "conflict  data  key ");
  CHECK_HAS(answer.out, "in the file   made by run ");
  CHECK_HAS(answer.out, "in the store  made by run ");
  CHECK_HAS(answer.out, "nothing was written");
  BOOST_TEST((here.contents() == before));
}

BOOST_AUTO_TEST_CASE(results_of_another_version_are_named_and_not_reused) {
  std::string next = test::kToyPipeline;
  for (auto at = next.find("run: pe-toy\n"); at != std::string::npos; at = next.find("run: pe-toy\n"))
    next.replace(at, 12, "run: pe-toy-next\n");
  const Project later(next), here;
  BOOST_REQUIRE(later.call("run").code == 0);
  const std::string file = (later.root() / "toy.tar.zst").string();
  BOOST_REQUIRE(later.call("export", {"-o", file}).code == 0);
  const Answer answer = here.call("import", {file});
  BOOST_TEST(answer.code == 0, answer.out << answer.err);
  CHECK_HAS(answer.out, "toy has result version 1 here, not 2; no task reuses them");
  BOOST_REQUIRE(here.call("run").code == 0);
  CHECK_HAS(here.call("verify").out, " whole");
}

BOOST_AUTO_TEST_CASE(the_results_of_a_run_can_be_named_by_its_id) {
  const Project project;
  BOOST_REQUIRE(project.call("run", {"trunk[seed=1]"}).code == 0);
  const std::string run = project.store().runs().back();
  BOOST_REQUIRE(project.call("run").code == 0);
  const Answer answer = project.call_words({Project::program(), "export", run, "-o", "run.tar.zst", "--json"});
  BOOST_REQUIRE_MESSAGE(answer.code == 0, answer.out << answer.err);
  BOOST_TEST(Json::parse(answer.out).at("results") == 3);  // data, and two snapshots of one trunk
}

BOOST_AUTO_TEST_SUITE_END()
