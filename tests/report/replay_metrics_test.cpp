// tools/replay_metrics.py: attempts of a training joined, over tokens, in every tracker that the Python at hand has, offline.
#include <boost/test/unit_test.hpp>

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

BOOST_AUTO_TEST_CASE(what_is_not_there_is_named) {
  const test::TempFolder folder;
  const auto none = support::capture({test::chosen_python(), script(), (folder / "nothing").string(), "--to", "csv"});
  BOOST_TEST(none.status.code == 1);
  BOOST_TEST(none.err.find("there is no " + (folder / "nothing").string()) != std::string::npos, none.err);
  const auto empty = support::capture({test::chosen_python(), script(), folder.path().string(), "--to", "csv"});
  BOOST_TEST(empty.err.find("found no metrics.jsonl with records") != std::string::npos, empty.err);
}

BOOST_AUTO_TEST_SUITE_END()
