// tools/replay_metrics.py: attempts of a training joined, over tokens, in every tracker that the Python at hand has, offline.
#include <boost/test/unit_test.hpp>

#include <set>

#include "support/files.h"
#include "support/installed.h"
#include "support/json.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/text.h"

using namespace pe;

namespace {

std::string record(int attempt, const char* phase, int step, double loss) {
  const Json json{{"run_id", std::string(64, 'a')}, {"attempt", attempt}, {"phase", phase}, {"step", step}, {"tokens", 100 * step}, {"loss", loss},
                  {"grad_norm", step == 3 ? Json("NaN") : Json(1.5)}};
  return json.dump() + "\n";
}

/// A training that was killed behind step 6, went on from step 4 and ended at 8.
void write_attempts(const std::filesystem::path& work) {
  std::string first, second;
  for (int step = 1; step <= 6; ++step) first += record(1, "train", step, 5 - 0.1 * step);
  first += record(1, "validation", 6, 4.2) + "{\"run_id\": \"cut sho";
  for (int step = 1; step <= 4; ++step) second += record(1, "train", step, 5 - 0.1 * step);
  for (int step = 5; step <= 8; ++step) second += record(2, "train", step, 3 - 0.1 * step);
  second += record(2, "validation", 8, 2.1);
  for (const char* attempt : {"a01", "a02"}) std::filesystem::create_directories(work / "key" / attempt);
  support::write_file_atomically(work / "key/a01/metrics.jsonl", first, false);
  support::write_file_atomically(work / "key/a02/metrics.jsonl", second, false);
  support::write_file_atomically(work / "key/a02/task.json", Json{{"stage", "train"}, {"config", {{"model", {{"encoding", "rope"}}}, {"train", {{"seed", 7}}}}}}.dump(), false);
  support::write_file_atomically(work / "key/a02/progress.json", R"({"state": "done"})", false);
}

/// A store with two runs: one task is in both pipelines, under two names; and another training.
void write_store(const std::filesystem::path& store) {
  write_attempts(store / "work");
  for (const char* key : {"key", "other"}) {
    const std::string id(64, key[0]);
    const Json encoding = *key == 'k' ? Json{{"stack", {"rope", {{"kind", "ssmax"}}}}} : Json("alibi");
    std::filesystem::create_directories(store / "work" / key / "a03");
    support::write_file_atomically(store / "work" / key / "a03/metrics.jsonl",
                                   Json{{"run_id", id}, {"attempt", 3}, {"phase", "train"}, {"step", 1}, {"tokens", 10}, {"loss", 2}, {"lr", 0.5}}.dump() + "\n", false);
    support::write_file_atomically(store / "work" / key / "a03/task.json",
                                   Json{{"stage", "train"}, {"config", {{"model", {{"encoding", encoding}}}, {"train", {{"seed", 7}, {"peak_lr", 0.5}}}}}}.dump(), false);
  }
  std::filesystem::remove_all(store / "work/key/a01");
  std::filesystem::remove_all(store / "work/key/a02");
  const auto plan = [&](const std::string& run, const std::string& pipeline, const Json& tasks) {
    std::filesystem::create_directories(store / "runs" / run);
    support::write_file_atomically(store / "runs" / run / "plan.json", Json{{"pipeline", pipeline}, {"tasks", tasks}}.dump(), false);
  };
  const auto task = [](const char* id, const char* key) { return Json{{"id", id}, {"plan_key", key}}; };
  plan("1", "grid", Json::array({task("trunk[encoding=rope_ssmax,seed=7]", "key")}));
  plan("2", "sweep", Json::array({task("model[rate=5]", "key"), task("model[rate=6]", "other")}));
}

std::string script() { return (test::source_root() / "tools/replay_metrics.py").string(); }

std::vector<std::string> in_folder(const std::filesystem::path& folder, std::vector<std::string> words) {
  std::vector<std::string> command = {"env", "WANDB_MODE=offline", "WANDB_SILENT=true", "HF_HUB_OFFLINE=1", "TRACKIO_DIR=" + (folder / "out").string(), "HOME=" + folder.string(), test::chosen_python()};
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

void is_replayed_to(const std::string& tracker) {
  const test::TempFolder folder;
  write_attempts(folder / "work");
  for (const bool follow : {false, true}) {
    std::filesystem::remove_all(folder / "out");
    std::filesystem::create_directories(folder / "out");
    std::vector<std::string> words = {script(), (folder / "work").string(), "--to", tracker, "--out", (folder / "out").string()};
    if (follow) words.insert(words.end(), {"--follow", "--every", "0.1"});
    const auto sent = support::capture(in_folder(folder.path(), words), "", 64u << 20, folder.path());
    BOOST_REQUIRE_MESSAGE(sent.status.code == 0, sent.out << sent.err);
    const auto read = [&](const char* metric) {
      const auto told = support::capture(in_folder(folder.path(), {(test::source_root() / "tests/report/read_replayed.py").string(), tracker, (folder / "out").string(), metric}));
      BOOST_REQUIRE_MESSAGE(told.status.code == 0, told.out << told.err);
      return Json::parse(told.out);
    };
    const Json losses = read("train/loss");
    BOOST_REQUIRE_MESSAGE(losses.size() == 8u, tracker << ": " << losses.dump());   // steps 5 and 6 once, as they went on
    for (int step = 1; step <= 8; ++step) {
      const Json& row = losses[static_cast<std::size_t>(step - 1)];
      BOOST_TEST(row[0].get<double>() == 100.0 * step);
      BOOST_TEST(std::abs(row[1].get<double>() - ((step <= 4 ? 5 : 3) - 0.1 * step)) < 1e-6, tracker << " " << losses.dump());
    }
    BOOST_TEST(read("validation/loss").size() == 1u);   // what the first attempt validated beyond step 4 was lost with it
  }
}

/// A Python with these modules; with `sys`, any Python.
auto with(const std::string& modules) {
  return boost::unit_test::precondition(test::PythonHas{modules, test::chosen_python()});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(replay_metrics, *with("sys"))

BOOST_AUTO_TEST_CASE(csv) { is_replayed_to("csv"); }
BOOST_AUTO_TEST_CASE(tensorboard, *with("tensorboard.backend.event_processing.event_accumulator")) { is_replayed_to("tensorboard"); }
BOOST_AUTO_TEST_CASE(wandb, *with("wandb")) { is_replayed_to("wandb"); }
BOOST_AUTO_TEST_CASE(trackio, *with("trackio")) { is_replayed_to("trackio"); }

BOOST_AUTO_TEST_CASE(runs_are_called_as_their_tasks_and_chosen_by_pipeline) {
  const test::TempFolder folder;
  write_store(folder / "store");
  const auto names = [&](std::vector<std::string> more) {
    std::filesystem::remove_all(folder / "out");
    std::vector<std::string> words = {test::chosen_python(), script(), (folder / "store/work").string(), "--to", "csv", "--out", (folder / "out").string()};
    words.insert(words.end(), more.begin(), more.end());
    const auto sent = support::capture(words);
    BOOST_REQUIRE_MESSAGE(sent.status.code == 0, sent.out << sent.err);
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "out")) found.insert(entry.path().filename().string());
    return support::join({found.begin(), found.end()}, " ");
  };
  BOOST_TEST(names({}) == "sweep.model[rate=5]-kkkkkkkk.csv sweep.model[rate=6]-oooooooo.csv");
  BOOST_TEST(names({"--pipeline", "grid"}) == "sweep.model[rate=5]-kkkkkkkk.csv");
  BOOST_TEST(names({"--task", "model[rate=6*"}) == "sweep.model[rate=6]-oooooooo.csv");
  // The names of curves equal the names in the trainings' own event files.
  const std::string head = support::read_file(folder / "out/sweep.model[rate=6]-oooooooo.csv");
  BOOST_TEST(head.starts_with("tokens,step,train/loss,train/bits_per_byte,train/learning_rate,train/gradient_norm,speed/tokens_per_second"), head);
  const auto none = support::capture({test::chosen_python(), script(), (folder / "store/work").string(), "--to", "csv", "--pipeline", "grd"});
  BOOST_TEST(none.status.code == 1);
  BOOST_TEST(none.err.find("there are pipelines grid, sweep") != std::string::npos, none.err);
  // A store without runs: the stage, the stack and the seed.
  std::filesystem::remove_all(folder / "store/runs");
  BOOST_TEST(names({}) == "train-alibi-seed7-oooooooo.csv train-rope+ssmax-seed7-kkkkkkkk.csv");
}

BOOST_AUTO_TEST_CASE(event_files_have_the_config_beside_them, *with("tensorboard.backend.event_processing.event_accumulator")) {
  const test::TempFolder folder;
  write_store(folder / "store");
  const auto sent = support::capture({test::chosen_python(), script(), (folder / "store/work").string(), "--to", "tensorboard",
                                      "--out", (folder / "out").string(), "--pipeline", "sweep"});
  BOOST_REQUIRE_MESSAGE(sent.status.code == 0, sent.out << sent.err);
  const Json config = Json::parse(support::read_file(folder / "out/sweep.model[rate=5]-kkkkkkkk/config.json"));
  BOOST_TEST(config.at("train").at("peak_lr") == 0.5);
  BOOST_TEST(config.at("labels") == Json({{"rate", "5"}}));
  BOOST_TEST(config.at("pipeline") == "sweep");
}

BOOST_AUTO_TEST_CASE(what_is_not_there_is_named) {
  const test::TempFolder folder;
  const auto none = support::capture({test::chosen_python(), script(), (folder / "nothing").string(), "--to", "csv"});
  BOOST_TEST(none.status.code == 1);
  BOOST_TEST(none.err.find("there is no " + (folder / "nothing").string()) != std::string::npos, none.err);
  const auto empty = support::capture({test::chosen_python(), script(), folder.path().string(), "--to", "csv"});
  BOOST_TEST(empty.err.find("found no metrics.jsonl with records") != std::string::npos, empty.err);
}

BOOST_AUTO_TEST_SUITE_END()
