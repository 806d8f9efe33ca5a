#include <ATen/core/Tensor.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "../cuda/host_plugin.h"
#include "model/checkpoint_io.h"
#include "small_run.h"
#include "support/error.h"
#include "support/recording_progress.h"
#include "support/text.h"
#include "training/run.h"
#include "watching.h"

namespace {

using namespace pe;
using namespace pe::test;
using training::TrainConfig;

std::string bytes_of(const std::filesystem::path& file) { return support::read_file(file); }

}  // namespace

BOOST_AUTO_TEST_SUITE(train, *boost::unit_test::fixture<NoStop>())

BOOST_AUTO_TEST_CASE(the_loss_falls_and_a_tiny_set_is_learned) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data", 3);
  TrainConfig config = small_config();
  config.train.tokens = 150 * 4 * 8;
  config.train.decay_share = 0.2;
  config.train.validate_windows = 0;
  artifact::Workspace workspace = workspace_in(folder.path(), data);
  training::train(config, workspace);
  const artifact::Tables tables = artifact::read_metrics(folder / "metrics.h5");
  const std::vector<double> losses = tables.at("train").reals("loss");
  BOOST_REQUIRE(losses.size() == 75U);
  BOOST_TEST(losses.front() > 2.9);  // ln 23 = 3.1
  BOOST_TEST(losses.back() < 0.8);
}

BOOST_AUTO_TEST_CASE(a_warm_up_of_half_a_schedule_is_a_warning) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data", 3);
  for (const std::int64_t steps : {9, 10}) {
    TrainConfig config = small_config();
    config.train.warmup_steps = steps;
    artifact::Workspace workspace = workspace_in(folder / std::to_string(steps), data);
    RecordingProgress progress;
    workspace.progress = &progress;
    training::train(config, workspace);
    BOOST_TEST(
        progress.has("warning: the warm-up takes 10 of the schedule's 20 steps, up to a learning rate of 0.01") ==
        (steps == 10));
    BOOST_TEST(progress.has("the warm-up takes") == (steps == 10));
  }
}

BOOST_AUTO_TEST_CASE(the_same_run_gives_the_same_bytes) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  for (const char* name : {"a", "b"}) {
    artifact::Workspace workspace = workspace_in(folder / name, data);
    training::train(small_config(), workspace);
  }
  BOOST_TEST((bytes_of(folder / "a/model.h5") == bytes_of(folder / "b/model.h5")));
  BOOST_TEST((bytes_of(folder / "a/metrics.h5") == bytes_of(folder / "b/metrics.h5")));
}

// Stopped at each of these steps in turn, in new work folders that resume from the one before.
// The switch: LibTorch's operators one by one, in the same precision.
BOOST_AUTO_TEST_CASE(plain_kernels_train_alike_but_for_rounding) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  std::map<std::string, std::vector<double>> losses;
  for (const char* name : {"fused", "plain", "fused-again"}) {
    TrainConfig config = small_config();
    if (std::string(name) == "plain") config.compute.kernels = model::Kernels::kPlain;
    artifact::Workspace workspace = workspace_in(folder / name, data);
    training::train(config, workspace);
    losses[name] = artifact::read_metrics(folder / (std::string(name) + "/metrics.h5")).at("train").reals("loss");
  }
  for (std::size_t i = 0; i < losses["fused"].size(); ++i) {
    BOOST_TEST(std::abs(losses["plain"][i] - losses["fused"][i]) <= 1e-4);
  }
  const auto model_of = [&](const char* name) {
    return support::read_file(folder / (std::string(name) + "/model.h5"));
  };
  BOOST_TEST((model_of("fused") == model_of("fused-again")));
  BOOST_TEST((model_of("fused") != model_of("plain")));
}

BOOST_AUTO_TEST_CASE(stopped_and_resumed_gives_the_same_bytes_as_undisturbed) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace undisturbed = workspace_in(folder / "whole", data);
  training::train(small_config(), undisturbed);

  std::filesystem::path earlier;
  int stops = 0;
  for (const std::int64_t steps : {1, 4, 3, 5, 2, 100}) {
    const std::filesystem::path attempt = folder / ("attempt" + std::to_string(stops));
    artifact::Workspace workspace = workspace_in(attempt, data);
    if (!earlier.empty()) workspace.resume = earlier;
    Watching progress(steps);
    workspace.progress = &progress;
    support::request_stop(0);
    if (steps == 100) {
      training::train(small_config(), workspace);
      BOOST_TEST((bytes_of(attempt / "model.h5") == bytes_of(folder / "whole/model.h5")));
      BOOST_TEST((bytes_of(attempt / "metrics.h5") == bytes_of(folder / "whole/metrics.h5")));
    } else {
      BOOST_CHECK_EXCEPTION(training::train(small_config(), workspace), support::StopRequest,
                            [](const auto& stopped) { return stopped.resumable(); });
      ++stops;
    }
    BOOST_TEST(progress.warnings.empty());
    earlier = workspace.work;
  }
  BOOST_TEST(stops == 5);
}

BOOST_AUTO_TEST_CASE(a_kill_falls_back_to_the_newest_whole_checkpoint) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace whole = workspace_in(folder / "whole", data);
  training::train(small_config(), whole);

  TrainConfig config = small_config();
  config.checkpoint.every = 0;  // after every step
  config.checkpoint.keep = 3;
  artifact::Workspace workspace = workspace_in(folder / "killed", data);
  stop_after(9, workspace, [&] { training::train(config, workspace); });
  // Remains of a killed writer and a failing disk: a file without its end, and one with a flipped byte.
  const auto checkpoints = workspace.work / "checkpoints";
  std::filesystem::resize_file(checkpoints / "step-9.h5", 4000);
  std::string damaged = bytes_of(checkpoints / "step-8.h5");
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x10);
  support::write_file_atomically(checkpoints / "step-8.h5", damaged);
  BOOST_TEST(!std::filesystem::exists(checkpoints / "step-6.h5"));

  Watching watch(-1);
  workspace.progress = &watch;
  training::train(small_config(), workspace);
  BOOST_TEST(watch.warnings.size() >= 1U);
  BOOST_TEST((bytes_of(folder / "killed/model.h5") == bytes_of(folder / "whole/model.h5")));
  BOOST_TEST((bytes_of(folder / "killed/metrics.h5") == bytes_of(folder / "whole/metrics.h5")));
}

BOOST_AUTO_TEST_CASE(the_log_drops_what_lies_beyond_the_checkpoint) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace workspace = workspace_in(folder / "run", data);
  stop_after(6, workspace, [&] { training::train(small_config(), workspace); });
  support::append_file(workspace.work / "metrics.jsonl",
                       "{\"attempt\":1,\"step\":6,\"phase\":\"attention\",\"ours\":1}\n"
                       "{\"attempt\":1,\"step\":8,\"loss\":1}\n{\"attempt\":1,\"st");
  workspace.progress = &support::silent_progress();
  training::train(small_config(), workspace);
  std::vector<std::int64_t> steps;
  for (const std::string& line : support::split(support::read_file(workspace.work / "metrics.jsonl"), '\n')) {
    if (line.empty()) continue;
    const Json record = Json::parse(line);
    if (record["phase"] == "train") steps.push_back(record["step"].get<std::int64_t>());
    BOOST_TEST(!record.contains("ours"));  // attention is sampled after the checkpoint of its step
  }
  BOOST_TEST(steps == (std::vector<std::int64_t>{2, 4, 6, 8, 10, 12, 14, 16, 18, 20}),
             boost::test_tools::per_element());
  BOOST_TEST(std::filesystem::exists(workspace.work / "metrics.attempt-1.jsonl"));
}

BOOST_AUTO_TEST_CASE(records_that_were_moved_are_never_overwritten) {
  const TempFolder folder;
  const auto log = folder / "metrics.jsonl", moved = folder / "metrics.attempt-2.jsonl";
  support::write_file_atomically(log, "{\"attempt\":1,\"step\":4}\n{\"attempt\":2,\"step\":9}\n", false);
  training::MetricsLog(folder.path(), {}, 5);  // the third attempt, killed before its first record
  BOOST_TEST(support::read_file(moved) == "{\"attempt\":2,\"step\":9}\n");
  training::MetricsLog(folder.path(), {}, 5).add({{"step", 9}});
  training::MetricsLog(folder.path(), {}, 5);
  BOOST_TEST(support::read_file(moved) == "{\"attempt\":2,\"step\":9}\n");
  BOOST_TEST(support::read_file(folder / "metrics.attempt-3.jsonl") == "{\"attempt\":3,\"step\":9}\n");
}

BOOST_AUTO_TEST_CASE(a_snapshot_is_the_run_up_to_there) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace trunk = workspace_in(folder / "trunk", data, {{"early", 7}, {"late", 12}});
  Watching progress(-1);
  trunk.progress = &progress;
  training::train(small_config(), trunk);
  BOOST_REQUIRE(progress.events.size() == 2U);
  BOOST_TEST(progress.events[0]["label"] == "early");
  BOOST_TEST(progress.events[1]["step"] == 12);
  BOOST_TEST(progress.last == 12);  // it ended there, eight steps before the horizon

  // A longer horizon and other snapshots: the same point of the same trajectory.
  TrainConfig longer = small_config();
  longer.train.tokens *= 3;
  artifact::Workspace other = workspace_in(folder / "other", data, {{"late", 12}});
  training::train(longer, other);
  BOOST_TEST((bytes_of(folder / "trunk/late-model.h5") == bytes_of(folder / "other/late-model.h5")));
  BOOST_TEST((bytes_of(folder / "trunk/late-metrics.h5") == bytes_of(folder / "other/late-metrics.h5")));
  const artifact::CheckpointReader snapshot(folder / "trunk/late-model.h5");
  BOOST_TEST(snapshot.meta().step == 12);
  BOOST_TEST(snapshot.meta().next_sample == 48);
  BOOST_TEST(snapshot.meta().extra["phase"] == "stable");
  BOOST_TEST(snapshot.find("optim/m/embedding") != nullptr);
}

BOOST_AUTO_TEST_CASE(accumulating_gradients_equals_one_large_batch) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  for (const std::int64_t micro : {4, 1}) {
    TrainConfig config = small_config();
    config.compute.micro_batch = micro;
    artifact::Workspace workspace = workspace_in(folder / std::to_string(micro), data);
    training::train(config, workspace);
  }
  const auto whole = artifact::read_metrics(folder / "4/metrics.h5"),
             parts = artifact::read_metrics(folder / "1/metrics.h5");
  const auto a = whole.at("train").reals("loss"), b = parts.at("train").reals("loss");
  BOOST_REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) BOOST_TEST(std::abs(a[i] - b[i]) <= 2e-4);
}

BOOST_AUTO_TEST_CASE(an_encoding_with_parameters_and_draws_resumes_exactly) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  TrainConfig config = small_config();
  config.model.encoding.json = Json::parse(
      R"({"stack": [{"kind": "randomised", "max_random_position": 64, "per_sample": true}, "rope", "ssmax"]})");
  artifact::Workspace whole = workspace_in(folder / "whole", data);
  training::train(config, whole);
  artifact::Workspace parts = workspace_in(folder / "parts", data);
  stop_after(11, parts, [&] { training::train(config, parts); });
  training::train(config, parts);
  BOOST_TEST((bytes_of(folder / "parts/model.h5") == bytes_of(folder / "whole/model.h5")));
}

BOOST_AUTO_TEST_CASE(every_optimizer_resumes_exactly_and_differs_from_the_others) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  std::set<std::string> results;
  for (const auto kind :
       {training::OptimizerKind::kAdamW, training::OptimizerKind::kAdam, training::OptimizerKind::kMuon}) {
    TrainConfig config = small_config();
    config.train.optimizer.kind = kind;
    const std::filesystem::path at = folder / std::to_string(static_cast<int>(kind));
    artifact::Workspace whole = workspace_in(at / "whole", data), parts = workspace_in(at / "parts", data);
    training::train(config, whole);
    stop_after(7, parts, [&] { training::train(config, parts); });
    training::train(config, parts);
    BOOST_TEST((bytes_of(at / "parts/model.h5") == bytes_of(at / "whole/model.h5")));
    results.insert(bytes_of(at / "whole/model.h5"));
    // Muon keeps one tensor for a matrix, and two for each parameter that it leaves to AdamW.
    const artifact::CheckpointReader checkpoint(at / "whole/model.h5");
    BOOST_TEST((checkpoint.find("optim/m/layers.0.attention.output") != nullptr));
    BOOST_TEST((checkpoint.find("optim/v/layers.0.attention.output") == nullptr) ==
               (kind == training::OptimizerKind::kMuon));
    BOOST_TEST((checkpoint.find("optim/v/embedding") != nullptr));
  }
  BOOST_TEST(results.size() == 3U);
}

BOOST_AUTO_TEST_CASE(dropout_a_z_loss_a_cap_and_averages_resume_exactly) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  TrainConfig config = small_config();
  config.model.dropout = 0.2;
  config.model.logit_softcap = 5;
  config.train.optimizer.z_loss = 1e-2;
  config.train.optimizer.ema = 0.9;
  config.compute.micro_batch = 2;
  artifact::Workspace whole = workspace_in(folder / "whole", data), parts = workspace_in(folder / "parts", data);
  training::train(config, whole);
  for (const std::int64_t steps : {3, 8}) stop_after(steps, parts, [&] { training::train(config, parts); });
  training::train(config, parts);
  BOOST_TEST((bytes_of(folder / "parts/model.h5") == bytes_of(folder / "whole/model.h5")));
  BOOST_TEST((bytes_of(folder / "parts/metrics.h5") == bytes_of(folder / "whole/metrics.h5")));
}

std::vector<double> tensor_of(const std::filesystem::path& file, const std::string& name) {
  const std::vector<float> values = test::tensor(file, name);
  return {values.begin(), values.end()};
}

BOOST_AUTO_TEST_CASE(the_average_is_that_of_the_weights_after_each_step) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  TrainConfig config = small_config();
  config.train.optimizer.ema = 0.75;
  artifact::Workspace trunk = workspace_in(folder / "trunk", data, {{"s0", 0}, {"s1", 1}, {"s2", 2}, {"s3", 3}});
  training::train(config, trunk);
  for (const char* name : {"embedding", "layers.1.feed_forward.down", "norm"}) {
    std::vector<double> average = tensor_of(folder / "trunk/s0-model.h5", std::string("model/") + name);
    for (const char* step : {"s1", "s2", "s3"}) {
      const auto weights =
          tensor_of(folder / ("trunk/" + std::string(step) + "-model.h5"), std::string("model/") + name);
      for (std::size_t i = 0; i < average.size(); ++i) average[i] = 0.75 * average[i] + 0.25 * weights[i];
    }
    const auto kept = tensor_of(folder / "trunk/s3-model.h5", std::string("ema/") + name);
    BOOST_REQUIRE(kept.size() == average.size());
    double worst = 0;
    for (std::size_t i = 0; i < average.size(); ++i) worst = std::max(worst, std::abs(kept[i] - average[i]));
    BOOST_TEST(worst <= 1e-6);
  }
  const auto metrics = artifact::read_metrics(folder / "trunk/s3-metrics.h5");
  const double own = metrics.at("validation").reals("loss").back(),
               averaged = metrics.facts["ema"]["loss"].get<double>();
  BOOST_TEST(std::abs(own - averaged) > 1e-6);
  BOOST_TEST(std::abs(own - averaged) < 0.2);
  // The trunk went on from its own weights after each snapshot.
  artifact::Workspace plain = workspace_in(folder / "plain", data, {{"s3", 3}});
  training::train(small_config(), plain);
  BOOST_TEST(
      tensor_of(folder / "plain/s3-model.h5", "model/norm") == tensor_of(folder / "trunk/s3-model.h5", "model/norm"),
      boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_weights_of_the_best_validation_are_kept_beside_the_last_ones) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  TrainConfig config = small_config();
  config.train.optimizer.peak_lr = 0.5;  // reached at the end: progress on the way there is lost again
  config.train.optimizer.clip = 0;
  config.train.warmup_steps = 20;
  artifact::Workspace plain = workspace_in(folder / "plain", data);
  training::train(config, plain);
  const artifact::Tables curve = artifact::read_metrics(folder / "plain/metrics.h5");
  const auto& steps = curve.at("validation").integers("step");
  const std::vector<double> losses = curve.at("validation").reals("loss");
  const auto lowest = std::min_element(losses.begin(), losses.end()) - losses.begin();
  const std::int64_t best = steps[static_cast<std::size_t>(lowest)];
  BOOST_REQUIRE(best < 20);
  artifact::Workspace there = workspace_in(folder / "there", data, {{"best", best}});
  training::train(config, there);

  config.train.best = true;
  artifact::Workspace whole = workspace_in(folder / "whole", data), parts = workspace_in(folder / "parts", data);
  training::train(config, whole);
  for (const std::int64_t steps : {3, 8, 6})  // before the first validation, and behind others
    stop_after(steps, parts, [&] { training::train(config, parts); });
  training::train(config, parts);
  BOOST_TEST((bytes_of(folder / "parts/model.h5") == bytes_of(folder / "whole/model.h5")));
  for (const char* name : {"embedding", "layers.1.feed_forward.down", "norm"}) {
    const std::string weights = std::string("model/") + name, kept = std::string("best/") + name;
    BOOST_TEST(tensor_of(folder / "whole/model.h5", kept) == tensor_of(folder / "there/best-model.h5", weights),
               boost::test_tools::per_element());
    BOOST_TEST(tensor_of(folder / "whole/model.h5", weights) == tensor_of(folder / "plain/model.h5", weights),
               boost::test_tools::per_element());
  }
  const artifact::CheckpointReader checkpoint(folder / "whole/model.h5");
  const model::StoredWeights found = model::find_weights(checkpoint, model::WeightsOf::kBest);
  BOOST_TEST(found.step == best);
  BOOST_TEST(found.tokens == best * 4 * 8);
  const Json fact = artifact::read_metrics(folder / "whole/metrics.h5").facts["best"];
  BOOST_TEST(fact["step"] == best);
  BOOST_TEST(fact["loss"].get<double>() == losses[static_cast<std::size_t>(lowest)]);
  BOOST_TEST(artifact::CheckpointReader(folder / "plain/model.h5").find("best/embedding") == nullptr);

  // Weights of an earlier validation are gone if the first attempt did not keep them.
  artifact::Workspace late = workspace_in(folder / "late", data);
  config.train.best = false;
  stop_after(12, late, [&] { training::train(config, late); });
  config.train.best = true;
  BOOST_CHECK_EXCEPTION(training::train(config, late), support::ConfigError, [](const auto& error) {
    return std::string(error.what()).find("since train.best was false") != std::string::npos;
  });

  // A longer training continues from a snapshot as if there had been none, from before the first validation too.
  artifact::Workspace trunk = workspace_in(folder / "trunk", data, {{"s3", 3}, {"s12", 12}, {"s20", 20}});
  training::train(config, trunk);
  for (const std::size_t from : {0, 1}) {
    artifact::Workspace on = workspace_in(folder / ("on" + std::to_string(from)), data, {{"s20", 20}});
    on.earlier = trunk.snapshots[from];
    Watching notes(-1);
    on.progress = &notes;
    training::train(config, on);
    BOOST_REQUIRE(notes.warnings.size() == 1U);  // none of the snapshot
    BOOST_TEST(notes.warnings[0].starts_with("the warm-up takes 20 of the schedule's 20 steps"));
    BOOST_TEST(notes.advances == 20 - trunk.snapshots[from].step);
    BOOST_TEST((bytes_of(on.snapshots[0].outputs["model"]) == bytes_of(trunk.snapshots[2].outputs["model"])));
  }
}

BOOST_AUTO_TEST_CASE(the_best_weights_need_a_validation_on_the_way) {
  for (const std::int64_t every : {0, 21}) {
    Json config = {{"train",
                    {{"tokens", 640},
                     {"batch", 4},
                     {"length", 8},
                     {"warmup_steps", 3},
                     {"best", true},
                     {"validate_every", every}}}};
    BOOST_CHECK_EXCEPTION(support::make_config<TrainConfig>(config), support::ConfigError, [&](const auto& error) {
      return says(error, {"best: true needs a validation within the 20 steps of the run",
                          "validate_every is " + std::to_string(every)});
    });
  }
}

/// A run whose weights are not finite before the steps named, and as they were after them.
class Poison : public Watching {
 public:
  Poison(model::LanguageModel model, std::set<std::int64_t> steps, std::int64_t stop = -1)
      : Watching(stop), model_(std::move(model)), steps_(std::move(steps)) {}
  void advance(std::string_view phase, std::int64_t done, std::int64_t total, const Json& detail) override {
    const at::NoGradGuard guard;
    at::Tensor weights = model_.groups()[1].values;
    if (kept_.defined()) weights.copy_(kept_);
    kept_ = steps_.count(done + 1) != 0 ? weights.clone() : at::Tensor();
    if (kept_.defined()) weights.fill_(std::numeric_limits<float>::quiet_NaN());
    Watching::advance(phase, done, total, detail);
  }

 private:
  model::LanguageModel model_;
  std::set<std::int64_t> steps_;
  at::Tensor kept_;
};

training::Run run_of(const TrainConfig& config, std::int64_t vocabulary) {
  model::ModelConfig shape = config.model;
  shape.length = config.train.length;
  const training::Schedule schedule = training::schedule_of(config.train);
  return {.model = model::LanguageModel::make(shape, vocabulary, 42),
          .optimizer = config.train.optimizer,
          .schedule = schedule,
          .last_step = schedule.end,
          .batch = config.train.batch,
          .data_seed = 42,
          .watch = {2, 5, 6},
          .compute = model::resolve({}, config.train.batch),
          .checkpoint = config.checkpoint};
}

BOOST_AUTO_TEST_CASE(steps_without_finite_gradients_are_skipped_and_counted) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  const data::TokenDataset dataset(data);
  TrainConfig config = small_config();
  config.train.optimizer.skip_nonfinite = 2;
  const auto execute = [&](const std::string& name, const std::set<std::int64_t>& poisoned, std::int64_t stop = -1) {
    artifact::Workspace workspace = workspace_in(folder / name, data);
    const training::Run run = run_of(config, dataset.vocabulary());
    Poison progress(run.model, poisoned, stop);
    workspace.progress = &progress;
    training::execute(run, dataset, workspace);
  };
  execute("whole", {6, 7, 12});
  const artifact::CheckpointReader end(folder / "whole/model.h5");
  BOOST_TEST((end.meta().status == artifact::TrainingStatus::kOk));
  BOOST_TEST(end.meta().extra["skipped"] == Json({6, 7, 12}));
  BOOST_TEST(artifact::read_metrics(folder / "whole/metrics.h5").facts["skipped_steps"] == Json({6, 7, 12}));
  BOOST_TEST(std::isfinite(artifact::read_metrics(folder / "whole/metrics.h5").at("train").reals("loss").back()));

  // Stopped between the skips and resumed: the same bytes, with the same count.
  BOOST_CHECK_THROW(execute("parts", {6, 7, 12}, 9), support::StopRequest);
  support::request_stop(0);
  execute("parts", {12});
  BOOST_TEST((bytes_of(folder / "parts/model.h5") == bytes_of(folder / "whole/model.h5")));

  // Three in a row are too many.
  BOOST_CHECK_EXCEPTION(execute("nan", {6, 7, 8}), support::Error, [](const auto& error) {
    return error.exit_code() == support::kExitDiverged && says(error, {"diverged at step 8"});
  });
  const artifact::CheckpointReader diverged(folder / "nan/model.h5");
  BOOST_TEST((diverged.meta().status == artifact::TrainingStatus::kDiverged));
  BOOST_TEST(diverged.meta().extra["skipped"] == Json({6, 7, 8}));
}

BOOST_AUTO_TEST_CASE(divergence_is_a_result) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  TrainConfig config = small_config();
  config.train.warmup_steps = 0;
  config.train.optimizer.peak_lr = 1e38;  // the second step's products are beyond fp32
  artifact::Workspace workspace = workspace_in(folder.path(), data);
  BOOST_CHECK_EXCEPTION(training::train(config, workspace), support::Error, [](const auto& error) {
    return error.exit_code() == support::kExitDiverged && says(error, {"diverged at step"});
  });
  BOOST_TEST((artifact::CheckpointReader(folder / "model.h5").meta().status == artifact::TrainingStatus::kDiverged));
  const auto metrics = artifact::read_metrics(folder / "metrics.h5");
  BOOST_TEST(metrics.facts["status"] == "diverged");
  BOOST_TEST(!std::isfinite(metrics.at("train").reals("loss").back()));

  artifact::Workspace trunk = workspace_in(folder / "trunk", data, {{"a", 10}, {"b", 15}});
  Watching progress(-1);
  trunk.progress = &progress;
  BOOST_CHECK_THROW(training::train(config, trunk), support::Error);
  BOOST_REQUIRE(progress.events.size() == 2U);
  BOOST_TEST(progress.events[1]["status"] == "diverged");
  BOOST_TEST(
      (artifact::CheckpointReader(folder / "trunk/b-model.h5").meta().status == artifact::TrainingStatus::kDiverged));
}

// With the plug-in's kernels the host reads a step's numbers after it has begun the next one. A validation after each
// step makes it wait for each.
BOOST_AUTO_TEST_CASE(steps_that_are_read_later_give_the_same_weights_and_curves) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  const std::int64_t vocabulary = data::TokenDataset(data).vocabulary();
  const StandIn plugin;
  const auto weights_of = [&](const std::string& name, std::int64_t validate_every, double rate, bool ends) {
    TrainConfig config = small_config();
    config.train.validate_every = validate_every;
    config.train.optimizer.peak_lr = rate;
    artifact::Workspace workspace = workspace_in(folder / name, data);
    if (ends)
      training::train(config, workspace);
    else
      BOOST_CHECK_THROW(training::train(config, workspace), support::Error);
    const artifact::CheckpointReader reader(folder / name / "model.h5");
    const model::LanguageModel model = run_of(config, vocabulary).model;
    model::read_tensors(reader, "model/", model, {model.groups()[0].values, model.groups()[1].values});
    const artifact::Tables tables = artifact::read_metrics(folder / name / "metrics.h5");
    return std::tuple(model.groups()[0].values, model.groups()[1].values, tables.at("train").reals("loss"),
                      tables.at("train").reals("grad_norm"), tables.facts["status"]);
  };
  const auto [a, b, losses, norms, status] = weights_of("read", 1, 1e-2, true);
  const auto [c, d, later_losses, later_norms, later_status] = weights_of("later", 0, 1e-2, true);
  BOOST_TEST((a.equal(c) && b.equal(d)));
  BOOST_TEST(losses.size() == 10U);
  BOOST_TEST(losses == later_losses);
  BOOST_TEST(norms == later_norms);
  const auto [e, f, lost, lost_norms, diverged] = weights_of("diverged", 1, 1e38, false);
  const auto [g, h, later_lost, later_lost_norms, later_diverged] = weights_of("diverged later", 0, 1e38, false);
  BOOST_TEST((e.equal(g) && f.equal(h)));
  BOOST_TEST(lost.size() == later_lost.size());
  BOOST_TEST(diverged == "diverged");
  BOOST_TEST(later_diverged == "diverged");
}

BOOST_AUTO_TEST_CASE(with_steps_that_are_read_later_stopped_and_resumed_gives_the_same_bytes) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  const StandIn plugin;
  artifact::Workspace whole = workspace_in(folder / "whole", data);
  training::train(small_config(), whole);
  for (const std::int64_t steps : {1, 3, 2, 6}) {
    artifact::Workspace workspace = workspace_in(folder / "parts", data);
    Watching progress(steps);
    workspace.progress = &progress;
    BOOST_CHECK_THROW(training::train(small_config(), workspace), support::StopRequest);
    support::request_stop(0);
  }
  artifact::Workspace rest = workspace_in(folder / "parts", data);
  training::train(small_config(), rest);
  BOOST_TEST((bytes_of(folder / "parts/model.h5") == bytes_of(folder / "whole/model.h5")));
  BOOST_TEST((bytes_of(folder / "parts/metrics.h5") == bytes_of(folder / "whole/metrics.h5")));
}

BOOST_AUTO_TEST_CASE(a_snapshot_inside_the_decay_is_refused) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  TrainConfig config = small_config();
  config.train.decay_share = 0.5;
  artifact::Workspace workspace = workspace_in(folder.path(), data, {{"mid", 15}});
  BOOST_CHECK_EXCEPTION(training::train(config, workspace), support::ConfigError, [](const auto& error) {
    return says(error, {"'mid'", "15", "10"});
  });
}

BOOST_AUTO_TEST_CASE(data_that_is_too_short_is_told) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data", 2);
  TrainConfig config = small_config();
  config.train.length = 500;
  config.train.tokens = 10'000'000;
  artifact::Workspace workspace = workspace_in(folder.path(), data);
  BOOST_CHECK_EXCEPTION(training::train(config, workspace), support::ArtifactError, [](const auto& error) {
    return says(error, {"122 tokens", "500"}) && error.exit_code() == 3;
  });
}

BOOST_AUTO_TEST_CASE(a_truncated_shard_is_an_artifact_error) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  for (const auto& entry : std::filesystem::directory_iterator(data)) {
    if (entry.path().filename().string().rfind("train-", 0) == 0) std::filesystem::resize_file(entry.path(), 3000);
  }
  artifact::Workspace workspace = workspace_in(folder.path(), data);
  BOOST_CHECK_EXCEPTION(training::train(small_config(), workspace), support::ArtifactError,
                        [](const auto& error) { return says(error, {"train-"}); });
}

BOOST_AUTO_TEST_SUITE_END()
