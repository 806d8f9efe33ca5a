// The real programs on pipelines/smoke.yml, as a person would run them: build, nothing to do, the same bytes again,
// killed and resumed, damaged inputs.
#include <signal.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "artifact/content_digest.h"
#include "artifact/kind.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/text.h"
#include "support/version.h"

namespace fs = std::filesystem;
using pe::support::capture;
using pe::support::CapturedOutput;

namespace {

std::string program(const std::string& name) { return (pe::test::build_root() / "stages" / name).string(); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A folder like a user's: configs and one pipeline file, a separate store.
class Project {
 public:
  Project() {
    fs::copy(pe::test::source_root() / "configs", folder_ / "configs", fs::copy_options::recursive);
    fs::create_directory(folder_ / "pipelines");
    fs::copy(pe::test::source_root() / "pipelines" / "smoke.yml", file());
  }
  fs::path file() const { return folder_ / "pipelines/smoke.yml"; }
  fs::path path(const std::string& name) const { return folder_ / name; }
  CapturedOutput pipeline(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), program("pe-pipeline"));
    arguments.insert(arguments.end(), {"--store", (folder_ / "store").string()});
    return capture(arguments);
  }
  CapturedOutput run(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"run", file().string()});
    return pipeline(more);
  }
  /// Friendly name below out/ → digest of its object, made_by left aside as the store leaves it.
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> out;
    for (const auto& entry :
         fs::recursive_directory_iterator(folder_ / "out", fs::directory_options::follow_directory_symlink)) {
      const std::string file = entry.path().filename().string();
      if (!entry.is_regular_file() || file == "manifest.json" || file.front() == '.') continue;
      out[entry.path().lexically_relative(folder_ / "out").string()] = entry.path().extension() == ".h5"
                                                                           ? pe::artifact::content_digest(entry.path())
                                                                           : pe::support::sha256_file(entry.path());
    }
    return out;
  }
  /// The only thing below out/ whose path holds all of these.
  fs::path find(const std::vector<std::string>& parts) const {
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "out")) {
      const std::string name = entry.path().lexically_relative(folder_ / "out").string();
      bool all = true;
      for (const std::string& part : parts) all = all && contains(name, part);
      if (all && (entry.is_symlink() || entry.is_regular_file() || fs::exists(entry.path() / "manifest.json")))
        return entry.path();
    }
    BOOST_FAIL("nothing below out/ is called like " << parts.front());
    return {};
  }

 private:
  pe::test::TempFolder folder_;
};

/// One run for all cases that only read.
const Project& finished() {
  static const Project project;
  static const CapturedOutput first = project.run();
  BOOST_REQUIRE_MESSAGE(first.status.code == 0, first.out << first.err);
  return project;
}

std::vector<std::string> train_command(const Project& project, const fs::path& into) {
  return {program("pe-train"),
          "--config",
          project.path("configs/model.yml").string(),
          "--config",
          project.path("configs/train.yml").string(),
          "--set",
          "model.width=32",
          "--set",
          "model.layers=2",
          "--set",
          "model.heads=2",
          "--set",
          "train.batch=4",
          "--set",
          "train.length=64",
          "--set",
          "train.tokens=200k",
          "--set",
          "train.warmup_steps=4",
          "--set",
          "train.validate_every=50",
          "--set",
          "train.validate_windows=4",
          "--set",
          "compute.threads=1",
          "--set",
          "checkpoint.every=0.05",
          "--input",
          "data=" + project.find({"tokenize"}).string(),
          "--output",
          "model=" + (into / "model.h5").string(),
          "--output",
          "metrics=" + (into / "metrics.h5").string(),
          "--work",
          (into / "work").string(),
          "--progress",
          "none"};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(smoke)

BOOST_AUTO_TEST_CASE(a_second_run_has_nothing_to_do_and_the_same_bytes_come_again) {
  const Project& project = finished();
  const CapturedOutput again = project.run();
  BOOST_TEST(again.status.code == 0);
  BOOST_TEST(contains(again.out + again.err, "nothing to do"), again.out + again.err);

  const Project other;  // another folder, another store
  BOOST_REQUIRE(other.run().status.code == 0);
  const auto one = project.contents(), two = other.contents();
  BOOST_TEST(one.size() > 10u);
  BOOST_TEST(one.size() == two.size());
  for (const auto& [name, digest] : one) BOOST_TEST(two.at(name) == digest, name << " differs");
}

BOOST_AUTO_TEST_CASE(the_report_is_one_page_that_needs_no_network) {
  const Project& project = finished();
  const std::string page = pe::support::read_file(project.path("reports/smoke/latest/report.html"));
  BOOST_TEST(contains(page, "Perplexity"));
  BOOST_TEST(contains(page, "<svg"));
  for (const char* outside : {"src=\"http", "href=\"http://", "@import", "url(http", "<link rel=\"stylesheet\""}) {
    BOOST_TEST(!contains(page, outside), outside);
  }
}

BOOST_AUTO_TEST_CASE(an_edited_value_runs_what_hangs_on_it_and_says_why) {
  const Project& project = finished();
  const CapturedOutput plan =
      project.pipeline({"plan", project.file().string(), "--set", "evaluate.eval.copy.trials=5"});
  BOOST_TEST(plan.status.code == 0);
  BOOST_TEST(contains(plan.out, "4 run"), plan.out);  // three evaluations and the report
  BOOST_TEST(contains(plan.out, "eval.copy.trials 4 -> 5"), plan.out);
}

BOOST_AUTO_TEST_CASE(a_longer_budget_goes_on_from_the_snapshots_of_the_store) {
  const std::vector<std::string> longer = {"trunk[encoding=rope]", "--set", "vars.tokens=24k"};
  const Project grown, whole;
  BOOST_REQUIRE(grown.run({"trunk[encoding=rope]"}).status.code == 0);
  fs::remove_all(grown.path("store/work"));
  const CapturedOutput second = grown.run(longer);
  BOOST_REQUIRE_MESSAGE(second.status.code == 0, second.err);
  std::string log;
  for (const auto& entry : fs::recursive_directory_iterator(grown.path("store/work"))) {
    if (entry.path().filename() == "stage.log") log += pe::support::read_file(entry.path());
  }
  BOOST_TEST(contains(log, "continuing from the snapshot at step "), log);
  BOOST_REQUIRE(whole.run(longer).status.code == 0);
  const auto one = grown.contents(), two = whole.contents();
  BOOST_TEST(two.size() > 3u);
  for (const auto& [name, digest] : two) BOOST_TEST(one.at(name) == digest, name << " differs");
}

BOOST_AUTO_TEST_CASE(a_training_killed_again_and_again_gives_the_undisturbed_bytes) {
  const Project& project = finished();
  pe::test::TempFolder folder;
  fs::create_directories(folder / "calm");
  fs::create_directories(folder / "killed");
  const CapturedOutput calm = capture(train_command(project, folder / "calm"));
  BOOST_REQUIRE_MESSAGE(calm.status.code == 0, calm.err);
  int kills = 0;
  for (int attempt = 0; attempt < 40 && !fs::exists(folder / "killed/model.h5"); ++attempt) {
    pe::support::SpawnOptions options;
    options.arguments = train_command(project, folder / "killed");
    const pid_t pid = pe::support::spawn(options);
    if (attempt < 4) {
      std::this_thread::sleep_for(std::chrono::milliseconds(900 + 250 * attempt));
      ::kill(pid, SIGKILL);
    }
    if (pe::support::wait_for(pid).signal == SIGKILL) ++kills;
  }
  BOOST_TEST(kills >= 1);
  for (const char* name : {"model.h5", "metrics.h5"}) {
    BOOST_TEST(
        pe::artifact::content_digest(folder / "killed" / name) == pe::artifact::content_digest(folder / "calm" / name),
        name << " differs after " << kills << " kills");
  }
}

BOOST_AUTO_TEST_CASE(a_terminated_training_stops_at_a_checkpoint) {
  const Project& project = finished();
  pe::test::TempFolder folder;
  pe::support::SpawnOptions options;
  options.arguments = train_command(project, folder.path());
  const pid_t pid = pe::support::spawn(options);
  for (int i = 0; i < 200 && !fs::exists(folder / "work"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  ::kill(pid, SIGTERM);
  const int code = pe::support::wait_for(pid).code;
  BOOST_TEST((code == 75 || code == 0), "exit code " << code);  // 0 when it was done by then
}

BOOST_AUTO_TEST_CASE(damaged_inputs_end_in_exit_code_3_and_one_message) {
  const Project& project = finished();
  pe::test::TempFolder folder;
  const fs::path data = folder / "data";
  fs::copy(project.find({"tokenize"}), data, fs::copy_options::recursive);
  for (const auto& entry : fs::directory_iterator(data)) {
    fs::permissions(entry.path(), fs::perms::owner_all);
    if (contains(entry.path().filename().string(), "train"))
      fs::resize_file(entry.path(), fs::file_size(entry.path()) / 2);
  }
  auto command = train_command(project, folder.path());
  for (std::string& word : command) {
    if (word.rfind("data=", 0) == 0) word = "data=" + data.string();
  }
  const CapturedOutput truncated = capture(command);
  BOOST_TEST(truncated.status.code == 3);
  BOOST_TEST(contains(truncated.err, "train-00000.h5"), truncated.err);
  BOOST_TEST(!fs::exists(folder / "model.h5"));

  for (std::string& word : command) {
    if (word.rfind("data=", 0) == 0) word = "data=" + (folder / "absent").string();
  }
  BOOST_TEST(capture(command).status.code == 3);

  const CapturedOutput wrong =
      capture({program("pe-evaluate"), "--input", "data=" + project.find({"tokenize"}).string(), "--input",
               "model=" + project.find({"decay", ".metrics"}).string(), "--work", (folder / "w").string(), "--output",
               "scores=" + (folder / "s.h5").string()});
  BOOST_TEST(wrong.status.code == 3);
  BOOST_TEST(contains(wrong.err, "metrics"), wrong.err);
}

BOOST_AUTO_TEST_CASE(every_stage_explains_itself) {
  for (const char* name :
       {"pe-fetch", "pe-generate", "pe-make-tokenizer", "pe-tokenize", "pe-mix", "pe-train", "pe-branch-decay",
        "pe-drop-pe", "pe-extend", "pe-dummy", "pe-evaluate", "pe-sample", "pe-report"}) {
    const CapturedOutput help = capture({program(name), "--help"});
    BOOST_TEST(help.status.code == 0);
    BOOST_TEST(contains(help.out, "Config fields"), name);
    BOOST_TEST(contains(help.out, "Exit codes"), name);
    const CapturedOutput version = capture({program(name), "--version"});
    BOOST_TEST(version.status.code == 0);
    const std::string build = pe::support::elf_build_id(program(name)).substr(0, 12);
    BOOST_TEST(contains(version.out, pe::support::cat(name, " " PE_VERSION ", result version ")), version.out);
    BOOST_TEST(contains(version.out, pe::support::cat(", build ", build, "\n")), version.out);
    BOOST_TEST(capture({program(name), "--no-such-flag"}).status.code == 2);
    const CapturedOutput check = capture({program(name), "--check"}, "{}\n{\"nonsense\": 1}\n");
    BOOST_TEST(contains(check.out, "unknown key 'nonsense'"), check.out);
    BOOST_TEST(check.status.code == 2);
  }
}

BOOST_AUTO_TEST_CASE(a_task_that_was_planned_for_another_revision_is_refused) {
  const pe::test::TempFolder folder;
  const pe::Json described = pe::Json::parse(capture({program("pe-train"), "--describe"}).out);
  pe::Json task = {{"schema", "pe-task/1"},
                   {"stage", "train"},
                   {"key", "k"},
                   {"version", described["version"]},
                   {"config", pe::Json::object()},
                   {"inputs", {{"data", pe::Json::array()}}},
                   {"outputs", pe::Json::object()},
                   {"work", (folder / "work").string()},
                   {"resume", nullptr}};
  for (const pe::Json& revision : described["revisions"])
    task["revisions"][revision["name"].get<std::string>()] = revision["number"].get<int>() - 1;
  std::ofstream(folder / "task.json") << task.dump();
  const CapturedOutput refused = capture({program("pe-train"), "--task", (folder / "task.json").string()});
  BOOST_TEST(refused.status.code == 77, refused.err);
  BOOST_TEST(contains(refused.err, "this task was planned for revisions {\"compute.bf16_on_cpu\":"), refused.err);
}

BOOST_AUTO_TEST_CASE(names_never_reach_a_shell) {
  const Project& project = finished();
  pe::test::TempFolder folder;
  const fs::path texts = folder / "a $(touch x) `id` \"quoted\"\nline";
  fs::create_directory(texts);
  for (int i = 0; i < 40; ++i) {
    std::ofstream(texts / ("it's; rm -rf " + std::to_string(i) + ".txt"))
        << std::string(200, static_cast<char>('a' + i % 26)) << i << "\n";
  }
  const CapturedOutput result =
      project.run({"fetch", "--set", "fetch.source=local", "--set", "fetch.path=" + texts.string()});
  BOOST_TEST(result.status.code == 0, result.err);
  BOOST_TEST(!fs::exists(folder / "x"));
}

BOOST_AUTO_TEST_CASE(an_independent_reader_opens_a_checkpoint) {
  const Project& project = finished();
  BOOST_REQUIRE(project.run().status.code == 0);  // out/ shows the settings of the last run
  const std::string script =
      "import sys\ntry:\n import h5py\nexcept ImportError:\n print('no h5py'); sys.exit(0)\n"
      "f = h5py.File(sys.argv[1], 'r')\nn = []\nf.visititems(lambda k, v: n.append(k) if hasattr(v, 'shape') else "
      "None)\n"
      "print(len(n), 'datasets')\nassert any('embedding' in k for k in n), n\n";
  const CapturedOutput result = capture({"/usr/bin/python3", "-c", script, project.find({"decay", ".model"}).string()});
  BOOST_TEST(result.status.code == 0, result.out + result.err);
}

BOOST_AUTO_TEST_SUITE_END()
