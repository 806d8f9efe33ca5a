// The module behind `pe-pipeline metrics`: attempts of a training joined, over tokens, in every tracker that the Python
// at hand has, offline. Also repeated, followed, and from the artifact of a result that came without a log.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "artifact/header.h"
#include "artifact/metrics.h"
#include "support/files.h"
#include "support/installed.h"
#include "support/json.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/text.h"

using namespace pe;  // NOLINT
namespace fs = std::filesystem;

namespace {

constexpr const char* kTask = "trunk[encoding=rope,seed=7]";

std::string record(int attempt, const char* phase, int step, double loss) {
  const Json json{{"run_id", std::string(64, 'a')},
                  {"attempt", attempt},
                  {"phase", phase},
                  {"step", step},
                  {"tokens", 100 * step},
                  {"loss", loss},
                  {"grad_norm", step == 3 ? Json("NaN") : Json(1.5)}};
  return json.dump() + "\n";
}

/// Losses differ between the attempts, so that a test sees which of them a row is of.
double loss_of(int attempt, int step) { return (attempt == 1 ? 5 : 3) - 0.1 * step; }

/// A training that was killed after step 6, continued from step 4 and ended at 8.
void write_attempt(const fs::path& work, int attempt) {
  std::string text;
  if (attempt == 1) {
    for (int step = 1; step <= 6; ++step) text += record(1, "train", step, loss_of(1, step));
    text += record(1, "validation", 6, 4.2) + "{\"run_id\": \"cut sho";
  } else {
    for (int step = 1; step <= 4; ++step) text += record(1, "train", step, loss_of(1, step));
    for (int step = 5; step <= 8; ++step) text += record(2, "train", step, loss_of(2, step));
    text += record(2, "validation", 8, 2.1);
  }
  const fs::path folder = work / support::cat("a0", attempt);
  fs::create_directories(folder);
  support::write_file_atomically(folder / "metrics.jsonl", text, false);
  const Json task{{"stage", "train"}, {"config", {{"model", {{"encoding", "rope"}}}, {"train", {{"seed", 7}}}}}};
  support::write_file_atomically(folder / "task.json", task.dump(), false);
}

/// A stand-in for pe-pipeline. It answers `metrics --json` with `before`, and from the second time on with `after`.
/// Between the two `step` happens (a command of the shell).
fs::path write_program(const fs::path& folder, const Json& before, const Json& after, const std::string& step = ":") {
  support::write_file_atomically(folder / "before.json", before.dump(), false);
  support::write_file_atomically(folder / "after.json", after.dump(), false);
  const fs::path program = folder / "program";
  const std::string text = support::cat("#!/bin/sh\ncd \"$(dirname \"$0\")\"\nif [ -e asked ]; then ", step,
                                        "; cat after.json; else touch asked; cat before.json; fi\n");
  support::write_file_atomically(program, text, false);
  fs::permissions(program, fs::perms::owner_all);
  return program;
}

Json answer(const fs::path& folder, const std::string& state, const Json& more = Json::object()) {
  Json task{{"id", kTask},
            {"stage", "trunk"},
            {"phase", state == "running" ? "running" : "done"},
            {"task_key", state == "running" ? "" : std::string(64, 'a')},
            {"work", (folder / "work").string()}};
  task.update(more);
  return {
      {"schema", "pe-metrics/1"}, {"run", "1"}, {"pipeline", "grid"}, {"state", state}, {"tasks", Json::array({task})}};
}

std::vector<std::string> in_folder(const fs::path& folder, const std::vector<std::string>& words) {
  std::vector<std::string> command = {"env",
                                      "WANDB_MODE=offline",
                                      "WANDB_SILENT=true",
                                      "HF_HUB_OFFLINE=1",
                                      "PYTHONDONTWRITEBYTECODE=1",
                                      "TRACKIO_DIR=" + (folder / "out").string(),
                                      "HOME=" + folder.string(),
                                      "PYTHONPATH=" + (test::source_root() / "tools").string(),
                                      test::chosen_python()};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

/// The command's standard error.
std::string send(const fs::path& folder, const std::string& tracker, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{
      "-m",    "pe_pipeline.metrics",    "--program", (folder / "program").string(), "--to", tracker,
      "--out", (folder / "out").string()};
  words.insert(words.end(), more.begin(), more.end());
  const auto sent = support::capture(in_folder(folder, words), "", 64u << 20, folder);
  BOOST_REQUIRE_MESSAGE(sent.status.code == 0, sent.out << sent.err);
  return sent.err;
}

/// [[tokens, value], …] that the tracker holds.
Json read(const fs::path& folder, const std::string& tracker, const char* metric) {
  const std::string script = (test::source_root() / "tests/python/read_replayed.py").string();
  const auto told = support::capture(in_folder(folder, {script, tracker, (folder / "out").string(), metric}));
  BOOST_REQUIRE_MESSAGE(told.status.code == 0, told.out << told.err);
  return Json::parse(told.out);
}

void check_losses(const Json& losses, int last_of_first, const std::string& tracker) {
  BOOST_REQUIRE_MESSAGE(losses.size() == 8u, tracker << ": " << losses.dump());
  for (int step = 1; step <= 8; ++step) {
    const Json& row = losses[static_cast<std::size_t>(step - 1)];
    BOOST_TEST(row[0].get<double>() == 100.0 * step);
    BOOST_TEST(std::abs(row[1].get<double>() - loss_of(step <= last_of_first ? 1 : 2, step)) < 1e-6,
               tracker << losses.dump());
  }
}

void is_sent_to(const std::string& tracker) {
  const test::TempFolder folder;
  write_attempt(folder / "work", 1);
  write_attempt(folder / "work", 2);
  write_program(folder.path(), answer(folder.path(), "done"), answer(folder.path(), "done"));
  fs::create_directories(folder / "out");
  for (int time = 0; time < 2; ++time) {  // the second time nothing comes twice
    send(folder.path(), tracker);
    check_losses(read(folder.path(), tracker, "train/loss"), 4, tracker);
    BOOST_TEST(read(folder.path(), tracker, "validation/loss").size() ==
               1u);  // the first attempt's was lost with its steps
    const Json norms = read(folder.path(), tracker, "train/gradient_norm");
    BOOST_REQUIRE_MESSAGE(norms.size() == 8u, tracker << ": " << norms.dump());
    BOOST_TEST(norms[2][1] == "nan", tracker << ": " << norms.dump());
    BOOST_TEST(norms[3][1] == 1.5);
  }
}

void is_followed_to(const std::string& tracker) {
  const test::TempFolder folder;
  write_attempt(folder / "work", 1);
  write_attempt(folder / "later", 2);
  write_program(folder.path(), answer(folder.path(), "running"), answer(folder.path(), "done"),
                "mv later/a02 work/ 2>/dev/null || :");
  fs::create_directories(folder / "out");
  send(folder.path(), tracker, {"--follow", "--every", "0.1"});
  // Step 6 was the newest of the first look and waited for the second; step 5 was sent before it was lost.
  check_losses(read(folder.path(), tracker, "train/loss"), 5, tracker);
}

/// A Python with these modules; with `sys`, any Python.
auto with(const std::string& modules) {
  return boost::unit_test::precondition(test::PythonHas{modules, test::chosen_python()});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(python_metrics, *with("sys"))

BOOST_AUTO_TEST_CASE(csv) { is_sent_to("csv"); }
BOOST_AUTO_TEST_CASE(tensorboard) { is_sent_to("tensorboard"); }
BOOST_AUTO_TEST_CASE(wandb, *with("wandb")) { is_sent_to("wandb"); }
BOOST_AUTO_TEST_CASE(trackio, *with("trackio")) { is_sent_to("trackio"); }
BOOST_AUTO_TEST_CASE(csv_while_it_trains) { is_followed_to("csv"); }
BOOST_AUTO_TEST_CASE(tensorboard_while_it_trains) { is_followed_to("tensorboard"); }
BOOST_AUTO_TEST_CASE(wandb_while_it_trains, *with("wandb")) { is_followed_to("wandb"); }
BOOST_AUTO_TEST_CASE(trackio_while_it_trains, *with("trackio")) { is_followed_to("trackio"); }

BOOST_AUTO_TEST_CASE(our_event_files_are_what_the_package_reads,
                     *with("tensorboard.backend.event_processing.event_accumulator")) {
  const test::TempFolder folder;
  write_attempt(folder / "work", 2);
  write_program(folder.path(), answer(folder.path(), "done"), answer(folder.path(), "done"));
  send(folder.path(), "tensorboard");
  check_losses(read(folder.path(), "tensorboard-package", "train/loss"), 4, "tensorboard");
  const Json config =
      Json::parse(support::read_file(folder / "out" / support::cat("grid.", kTask, "-aaaaaaaa") / "config.json"));
  BOOST_TEST(config.at("train").at("seed") == 7);
  BOOST_TEST(config.at("labels") == Json({{"encoding", "rope"}, {"seed", "7"}}));
  BOOST_TEST(config.at("pipeline") == "grid");
}

BOOST_AUTO_TEST_CASE(names_of_curves_are_those_of_the_event_files_of_trainings) {
  const test::TempFolder folder;
  write_attempt(folder / "work", 2);
  write_program(folder.path(), answer(folder.path(), "done"), answer(folder.path(), "done"));
  const std::string said = send(folder.path(), "csv");
  BOOST_TEST(said.find(support::cat("grid.", kTask, "-aaaaaaaa: 8 rows")) != std::string::npos, said);
  const std::string head = support::read_file(folder / "out" / support::cat("grid.", kTask, "-aaaaaaaa.csv"));
  BOOST_TEST(head.starts_with("tokens,step,train/loss,train/bits_per_byte,train/learning_rate,train/"
                              "gradient_norm,speed/tokens_per_second,"),
             head);
}

BOOST_AUTO_TEST_CASE(a_result_without_a_log_has_the_curves_of_its_artifact, *with("h5py")) {
  const test::TempFolder folder;
  artifact::Table train("train", artifact::train_columns()), attention("attention", artifact::attention_columns());
  for (int step = 1; step <= 8; ++step)
    train.add_row({step, step * 100, loss_of(step <= 4 ? 1 : 2, step), 2.0, 1e-3,
                   step == 3 ? std::numeric_limits<double>::quiet_NaN() : 1.5, 0});
  attention.add_row({2, 17.5});
  const artifact::Recipe recipe{.stage = "train",
                                .version = 1,
                                .task_key = std::string(64, 'a'),
                                .config = {{"seed", 7}},
                                .inputs = Json::object()};
  artifact::write_metrics(folder / "metrics.h5", recipe, {{train, attention}, Json::object()});
  const Json done = answer(folder.path(), "done", {{"artifact", (folder / "metrics.h5").string()}});
  write_program(folder.path(), done, done);
  send(folder.path(), "csv");
  check_losses(read(folder.path(), "csv", "train/loss"), 4, "artifact");
  BOOST_TEST(read(folder.path(), "csv", "train/gradient_norm")[2][1] == "nan");
  BOOST_TEST(read(folder.path(), "csv", "attention/largest_logit") == Json::parse("[[200.0, 17.5]]"));
}

BOOST_AUTO_TEST_CASE(the_log_of_other_inputs_is_not_taken) {
  const test::TempFolder folder;
  write_attempt(folder / "work", 2);  // of the key aaaa…
  const Json done = answer(folder.path(), "done", {{"task_key", std::string(64, 'b')}});
  write_program(folder.path(), done, done);
  const std::string said = send(folder.path(), "csv");
  BOOST_TEST(said.find("no task of this run has curves here") != std::string::npos, said);
}

BOOST_AUTO_TEST_CASE(a_missing_package_is_named) {
  const test::TempFolder folder;
  write_attempt(folder / "work", 2);
  write_program(folder.path(), answer(folder.path(), "done"), answer(folder.path(), "done"));
  fs::create_directories(folder / "hidden");
  support::write_file_atomically(folder / "hidden/wandb.py", "raise ImportError(\"No module named 'wandb'\")\n", false);
  const std::string modules = (folder / "hidden").string() + ":" + (test::source_root() / "tools").string();
  const auto sent = support::capture(
      {"env", "PYTHONPATH=" + modules, "PYTHONDONTWRITEBYTECODE=1", test::chosen_python(), "-m", "pe_pipeline.metrics",
       "--program", (folder / "program").string(), "--to", "wandb", "--out", (folder / "out").string()});
  BOOST_TEST(sent.status.code == 2);
  BOOST_TEST(sent.err.find("No module named 'wandb'; --to wandb needs that package in ") != std::string::npos,
             sent.err);
}

BOOST_AUTO_TEST_CASE(the_examples_of_the_docstrings_run) {
  const auto ran = support::capture(
      in_folder("/tmp", {"-m", "doctest", (test::source_root() / "tools/pe_pipeline/metrics.py").string()}));
  BOOST_TEST(ran.status.code == 0, ran.out << ran.err);
}

BOOST_AUTO_TEST_SUITE_END()
