#include "training/watcher.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <regex>
#include <set>

#include "model/model_config.h"
#include "small_run.h"
#include "support/text.h"
#include "watching.h"

using namespace pe;
using namespace pe::test;

namespace {

std::vector<Json> records_of(const std::filesystem::path& work) {
  std::vector<Json> records;
  for (const std::string& line : support::split(support::read_file(work / "metrics.jsonl"), '\n')) {
    if (!line.empty()) records.push_back(Json::parse(line));
  }
  return records;
}

Json progress_of(const std::filesystem::path& work) { return Json::parse(support::read_file(work / "progress.json")); }

}  // namespace

BOOST_AUTO_TEST_SUITE(watcher, *boost::unit_test::fixture<NoStop>())

BOOST_AUTO_TEST_CASE(every_line_of_the_log_has_every_field_and_attempts_belong_to_one_run) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace workspace = workspace_in(folder / "run", data);
  workspace.recipe.stage = "train";
  Watching stop(7);
  workspace.progress = &stop;
  BOOST_CHECK_THROW(training::train(small_config(), workspace), support::StopRequest);
  BOOST_TEST(progress_of(workspace.work)["state"] == "stopped");
  BOOST_TEST(progress_of(workspace.work)["step"] == 7);
  support::request_stop(0);
  workspace.progress = &support::silent_progress();
  training::train(small_config(), workspace);

  std::set<std::string> phases, runs;
  // The batch of each step, and its loss.
  const std::vector<double> each = artifact::read_metrics(folder / "run/metrics.h5").at("steps").reals("loss");
  std::map<std::int64_t, double> losses;
  for (std::size_t i = 0; i < each.size(); ++i) losses[static_cast<std::int64_t>(i) + 1] = each[i];
  double wall = 0;
  std::int64_t attempts = 0;
  for (const Json& record : records_of(workspace.work)) {
    for (const char* name : {"run_id", "attempt", "phase", "step", "tokens", "flops", "wall_s"}) {
      BOOST_TEST(record.contains(name), name << " in " << record.dump());
    }
    const std::string phase = record["phase"];
    phases.insert(phase);
    runs.insert(record["run_id"]);
    if (phase == "train") {
      for (const char* name : {"loss", "bpb", "lr", "grad_norm", "clipped", "tokens_per_second", "mfu", "data_share"}) {
        BOOST_TEST(record.contains(name), name << " in " << record.dump());
      }
      BOOST_TEST(record["mfu"] == "n/a");  // no peak is known for a CPU, and none is guessed
    }
    if (phase == "validation") {
      const double loss = record["val_loss"];
      BOOST_TEST(record["loss"] == record["val_loss"]);
      BOOST_TEST(record["perplexity"].get<double>() == std::exp(loss));
      BOOST_TEST(record["train_loss"] == losses.at(record["step"].get<std::int64_t>()));
      BOOST_TEST(
          std::regex_match(record["timestamp"].get<std::string>(), std::regex(R"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ)")));
    }
    if (phase == "checkpoint") {
      BOOST_TEST(record["step"] == 7);
      BOOST_TEST(record["stall_s"].get<double>() > 0);
      BOOST_TEST(record["write_s"].get<double>() > 0);
      BOOST_TEST(record["bytes"].get<std::uint64_t>() ==
                 std::filesystem::file_size(workspace.work / "checkpoints/step-7.h5"));
    }
    BOOST_TEST(record["tokens"] == record["step"].get<std::int64_t>() * 32);
    BOOST_TEST(record["wall_s"].get<double>() >= wall);  // hours of the run, not of the attempt
    wall = record["wall_s"];
    attempts = std::max(attempts, record["attempt"].get<std::int64_t>());
  }
  BOOST_TEST(phases == (std::set<std::string>{"attention", "checkpoint", "train", "validation"}),
             boost::test_tools::per_element());
  BOOST_TEST(runs.size() == 1U);
  BOOST_TEST(attempts == 2);
  const Json last = progress_of(workspace.work);
  BOOST_TEST(last["schema"] == "pe-training/1");
  BOOST_TEST(last["state"] == "done");
  BOOST_TEST(last["step"] == 20);
  BOOST_TEST(last["attempt"] == 2);
  BOOST_TEST(last["memory_bytes"].get<double>() > 1e6);
  BOOST_TEST(last.contains("validation_loss"));
}

BOOST_AUTO_TEST_CASE(mfu_follows_its_formula) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  training::TrainConfig config = small_config();
  config.watch.peak_tflops = 0.5;
  artifact::Workspace workspace = workspace_in(folder.path(), data);
  training::train(config, workspace);
  model::ModelConfig shape = config.model;
  shape.vocabulary = kVocabulary;
  const double flops = model::flops_per_token(shape, 8);
  for (const Json& record : records_of(workspace.work)) {
    if (record["phase"] != "train") continue;
    const double expected = record["tokens_per_second"].get<double>() * flops / 0.5e12;
    BOOST_TEST(std::abs(record["mfu"].get<double>() - expected) <= 1e-12);
    BOOST_TEST(record["flops"].get<double>() == flops * record["tokens"].get<double>());
  }
  BOOST_TEST(training::mfu_formula(7.92e6, 989e12, "NVIDIA H200") ==
             "mfu = tokens/s x 7.92M FLOP a token (6 N + 12 L H d_h T) / 989 TFLOP/s (NVIDIA H200)");
  BOOST_TEST(training::mfu_formula(7.92e6, std::nullopt, "AMD EPYC") ==
             "mfu n/a: 7.92M FLOP a token (6 N + 12 L H d_h T), but no peak is known for AMD EPYC; watch.peak_tflops "
             "states one");
}

BOOST_AUTO_TEST_CASE(whoever_watches_is_told_every_figure_of_the_line) {
  class Keep : public Watching {
   public:
    using Watching::Watching;
    void advance(std::string_view what, std::int64_t done, std::int64_t total, const Json& detail) override {
      Watching::advance(what, done, total, detail);
      details.push_back(detail);
      totals.insert(total);
    }
    std::vector<Json> details;
    std::set<std::int64_t> totals;
  } keep(-1);
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace workspace = workspace_in(folder.path(), data);
  workspace.progress = &keep;
  training::train(small_config(), workspace);
  BOOST_TEST(keep.details.size() == 20U);
  BOOST_TEST(keep.totals.size() == 1U);
  for (const Json& detail : keep.details) {
    for (const char* name : {"loss", "tokens_per_second", "grad_norm", "mfu", "memory_bytes", "tokens"}) {
      BOOST_TEST(detail.contains(name), name);
    }
  }
}

BOOST_AUTO_TEST_CASE(no_event_files_where_none_are_wanted) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  training::TrainConfig config = small_config();
  config.watch.tensorboard = training::WatchFiles::Axis::kNone;
  artifact::Workspace workspace = workspace_in(folder.path(), data);
  training::train(config, workspace);
  BOOST_TEST(!std::filesystem::exists(workspace.work / "tensorboard"));
}

BOOST_AUTO_TEST_SUITE_END()
