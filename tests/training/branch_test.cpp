// Decays and drops that branch off a trunk.
#include <torch/types.h>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "data/token_shards/token_dataset.h"
#include "model/checkpoint_io.h"
#include "small_run.h"
#include "support/error.h"
#include "training/branch_decay.h"
#include "training/drop_pe.h"
#include "training/logit_scale.h"
#include "training/validation.h"
#include "watching.h"

namespace {

using namespace pe;
using namespace pe::test;

/// A trunk of 20 steps with snapshots at 8, 10 and 16.
struct Trunk {
  Trunk() : data(write_shards(folder / "data")) {
    artifact::Workspace workspace = workspace_in(folder / "trunk", data, {{"s8", 8}, {"s10", 10}, {"s16", 16}});
    training::train(small_config(), workspace);
  }
  artifact::Workspace branch(const std::string& name, const std::string& snapshot) const {
    artifact::Workspace workspace = workspace_in(folder / name, data);
    workspace.inputs["init"] = {{folder / ("trunk/" + snapshot + "-model.h5"), artifact::Kind::kCheckpoint, "", {}}};
    return workspace;
  }
  static training::BranchDecayConfig decay(double end, double share) {
    training::BranchDecayConfig config;
    config.decay.horizon_tokens = small_config().train.tokens;
    config.decay.end = end;
    config.decay.share = share;
    config.decay.watch = {1, 5, 6};
    return config;
  }
  static training::DropPeConfig drop() {
    training::DropPeConfig config;
    config.drop.horizon_tokens = small_config().train.tokens;
    config.drop.watch = {1, 5, 6};
    return config;
  }
  TempFolder folder;
  std::filesystem::path data;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(branch, Trunk)

// The trunk with a separate decay takes the same steps, so the branch must end with the same weights.
BOOST_AUTO_TEST_CASE(a_decay_equals_the_run_that_would_have_decayed_itself) {
  training::TrainConfig whole = small_config();
  whole.train.decay_share = 0.2;  // steps 16 to 20
  artifact::Workspace direct = workspace_in(folder / "direct", data);
  training::train(whole, direct);
  artifact::Workspace workspace = branch("decay", "s16");
  training::branch_decay(decay(1.0, 0.2), workspace);
  for (const char* name : {"model/embedding", "model/layers.1.feed_forward.down", "model/norm"}) {
    BOOST_TEST(tensor(folder / "decay/model.h5", name) == tensor(folder / "direct/model.h5", name),
               boost::test_tools::per_element());
  }
  const artifact::CheckpointReader end(folder / "decay/model.h5");
  BOOST_TEST(end.meta().step == 20);
  BOOST_TEST(end.meta().next_sample == 80);
  BOOST_TEST(end.meta().parents.size() == 1U);
  BOOST_TEST(end.meta().extra["branch"]["kind"] == "decay");
  BOOST_TEST(end.find("optim/m/embedding") == nullptr);
}

BOOST_AUTO_TEST_CASE(a_decay_falls_to_zero_at_its_end) {
  artifact::Workspace workspace = branch("decay", "s8");
  training::branch_decay(decay(0.5, 0.2), workspace);  // steps 8 to 10
  const auto lr = artifact::read_metrics(folder / "decay/metrics.h5").at("train").reals("lr");
  BOOST_REQUIRE(lr.size() == 2U);
  BOOST_TEST(lr[0] == 1e-2);
  BOOST_TEST(lr[1] == 1e-2 * (1 - std::sqrt(0.5)), boost::test_tools::tolerance(1e-12));
  const auto validation = artifact::read_metrics(folder / "decay/metrics.h5").at("validation").integers("step");
  BOOST_TEST(validation.back() == 10);
}

BOOST_AUTO_TEST_CASE(a_branch_resumes_exactly) {
  artifact::Workspace whole = branch("whole", "s10");
  training::drop_pe(drop(), whole);
  artifact::Workspace parts = branch("parts", "s10");
  stop_after(4, parts, [&] { training::drop_pe(drop(), parts); });
  training::drop_pe(drop(), parts);
  BOOST_TEST((support::read_file(folder / "parts/model.h5") == support::read_file(folder / "whole/model.h5")));
}

BOOST_AUTO_TEST_CASE(a_snapshot_elsewhere_names_the_step_that_is_needed) {
  artifact::Workspace workspace = branch("decay", "s10");
  BOOST_CHECK_EXCEPTION(training::branch_decay(decay(1.0, 0.2), workspace), support::ArtifactError,
                        [](const auto& error) {
                          return says(error, {"s10-model.h5", "step 10", "step 16"});
                        });
}

BOOST_AUTO_TEST_CASE(a_drop_changes_the_encoding_and_its_control_does_not) {
  artifact::Workspace dropped = branch("drop", "s10"), control = branch("nodrop", "s10");
  training::drop_pe(drop(), dropped);
  training::DropPeConfig config = drop();
  config.drop.arm = training::DropConfig::Arm::kNoDrop;
  training::drop_pe(config, control);
  const artifact::CheckpointReader a(folder / "drop/model.h5"), b(folder / "nodrop/model.h5");
  BOOST_TEST(a.meta().encoding["kind"] == "none");
  BOOST_TEST(b.meta().encoding["kind"] == "rope");
  BOOST_TEST(a.meta().step == 20);
  BOOST_TEST(a.meta().next_sample == b.meta().next_sample);
  const auto lr_a = artifact::read_metrics(folder / "drop/metrics.h5").at("train").reals("lr");
  const auto lr_b = artifact::read_metrics(folder / "nodrop/metrics.h5").at("train").reals("lr");
  BOOST_TEST(lr_a == lr_b, boost::test_tools::per_element());
  BOOST_TEST(a.meta().optimizer["start"] == 10);  // moments from zero
}

// A decay has not begun where its first step comes next: the state is that of a stable trunk.
BOOST_AUTO_TEST_CASE(branches_leave_where_a_decay_begins) {
  training::TrainConfig config = small_config();
  config.train.decay_share = 0.5;
  artifact::Workspace trunk = workspace_in(folder / "decaying", data, {{"s10", 10}});
  training::train(config, trunk);
  BOOST_TEST(artifact::CheckpointReader(folder / "decaying/s10-model.h5").meta().extra["phase"] == "decay");
  artifact::Workspace workspace = workspace_in(folder / "dropped", data);
  workspace.inputs["init"] = {{folder / "decaying/s10-model.h5", artifact::Kind::kCheckpoint, "", {}}};
  training::drop_pe(drop(), workspace);
  BOOST_TEST(std::filesystem::exists(folder / "dropped/model.h5"));
}

BOOST_AUTO_TEST_CASE(a_second_logit_scale_is_refused) {
  training::DropPeConfig config = drop();
  config.drop.encoding.json = "length_scale";
  config.drop.logit_scale = training::DropConfig::LogitScale::kGiven;
  artifact::Workspace workspace = branch("twice", "s10");
  BOOST_CHECK_EXCEPTION(training::drop_pe(config, workspace), support::ConfigError,
                        [](const auto& error) { return says(error, {"has a length_scale already"}); });
}

BOOST_AUTO_TEST_CASE(the_optimizer_is_reset_or_kept) {
  training::DropPeConfig config = drop();
  artifact::Workspace reset = branch("reset", "s10"), keep = branch("keep", "s10");
  training::drop_pe(config, reset);
  config.drop.optimizer = training::DropConfig::Optimizer::kKeep;
  training::drop_pe(config, keep);
  BOOST_TEST(artifact::CheckpointReader(folder / "keep/model.h5").meta().optimizer["start"] == 0);
  BOOST_TEST(tensor(folder / "reset/model.h5", "model/norm") != tensor(folder / "keep/model.h5", "model/norm"),
             boost::test_tools::per_element());
}

// DroPE's norm over the whole width starts at ones in place of the one per head, in the arm and in its control.
BOOST_AUTO_TEST_CASE(a_drop_may_bring_a_norm_over_the_whole_width) {
  training::DropPeConfig config = drop();
  config.drop.qk_norm = training::DropConfig::QkNorm::kWidth;
  config.drop.optimizer = training::DropConfig::Optimizer::kKeep;
  config.drop.peak_lr = 1e-9;  // nothing moves
  artifact::Workspace workspace = branch("width", "s10");
  training::drop_pe(config, workspace);
  const artifact::CheckpointReader end(folder / "width/model.h5");
  BOOST_TEST(end.meta().model["qk_norm_over"] == "width");
  BOOST_TEST(end.meta().extra["branch"]["qk_norm"] == "width");
  const auto weights = tensor(folder / "width/model.h5", "model/layers.0.attention.query_norm");
  BOOST_REQUIRE(weights.size() == 16U);  // H · d_h
  for (const float weight : weights) BOOST_TEST(std::abs(weight - 1) < 1e-6);
  BOOST_TEST(tensor(folder / "trunk/s10-model.h5", "model/layers.0.attention.query_norm").size() == 8U);
  config.drop.arm = training::DropConfig::Arm::kNoDrop;
  artifact::Workspace control = branch("control", "s10");
  training::drop_pe(config, control);
  BOOST_TEST(artifact::CheckpointReader(folder / "control/model.h5").meta().model["qk_norm_over"] == "width");
}

BOOST_AUTO_TEST_CASE(a_given_logit_scale_does_not_touch_training) {
  training::DropPeConfig config = drop();
  artifact::Workspace plain = branch("plain", "s10"), scaled = branch("scaled", "s10"),
                      control = branch("control", "s10");
  training::drop_pe(config, plain);
  config.drop.logit_scale = training::DropConfig::LogitScale::kGiven;
  config.drop.logit_scale_slope = 0.3;
  training::drop_pe(config, scaled);
  for (const char* name : {"model/embedding", "model/layers.1.feed_forward.down"}) {
    BOOST_TEST(tensor(folder / "scaled/model.h5", name) == tensor(folder / "plain/model.h5", name),
               boost::test_tools::per_element());
  }
  const Json encoding = artifact::CheckpointReader(folder / "scaled/model.h5").meta().encoding;
  BOOST_TEST(encoding["kind"] == "length_scale");
  BOOST_TEST(encoding["slope"] == 0.3);
  config.drop.arm = training::DropConfig::Arm::kNoDrop;
  training::drop_pe(config, control);
  const Json kept = artifact::CheckpointReader(folder / "control/model.h5").meta().encoding;
  BOOST_TEST(kept["stack"][0]["kind"] == "rope");
  BOOST_TEST(kept["stack"][1]["slope"] == 0.3);
}

BOOST_AUTO_TEST_CASE(the_slope_goes_through_one_at_the_training_length) {
  // β = 1 + 0.412 · ln s gives the published values at 2, 4 and 8.
  std::vector<training::ScaleFit> fits{
      {.length = 16, .beta = 1.285576638}, {.length = 32, .beta = 1.571153277}, {.length = 64, .beta = 1.856729915}};
  BOOST_TEST(training::slope_of(fits, 8) == 0.412, boost::test_tools::tolerance(1e-8));
  fits[2].beta = 1;  // Σ (β − 1) ln s / Σ (ln s)² = 0.412 · (1 + 4) / (1 + 4 + 9)
  BOOST_TEST(training::slope_of(fits, 8) == 0.412 * 5 / 14, boost::test_tools::tolerance(1e-8));
}

// The fit of the written model by hand: all slopes of the grid at every length, by the model as a checkpoint holds it.
BOOST_AUTO_TEST_CASE(a_fitted_logit_scale_is_the_best_of_its_grid) {
  training::DropPeConfig config = drop();
  config.drop.logit_scale = training::DropConfig::LogitScale::kFitted;
  config.drop.peak_lr = 0.03;
  artifact::Workspace workspace = branch("fitted", "s10");
  training::drop_pe(config, workspace);
  const artifact::CheckpointReader end(folder / "fitted/model.h5");
  const Json record = end.meta().extra["logit_scale"];
  BOOST_REQUIRE(record["fits"].size() == 3U);
  BOOST_TEST(end.meta().encoding["slope"] == record["slope"]);
  BOOST_TEST(artifact::read_metrics(folder / "fitted/metrics.h5").facts["encoding"] == end.meta().encoding);
  const data::TokenDataset dataset(data);
  std::vector<training::ScaleFit> fits;
  for (const Json& fit : record["fits"]) {
    const auto length = fit["length"].get<std::int64_t>();
    double best = 1e9, best_beta = 0;
    for (int i = 0; i <= 10; ++i) {
      const auto changed = model::load_changed(end, {.encoding = {{"kind", "length_scale"}, {"slope", 0.05 * i}}});
      const at::NoGradGuard guard;
      double sum = 0;
      const std::int64_t windows =
          std::min<std::int64_t>(6, static_cast<std::int64_t>(dataset.windows(artifact::Split::kValidation, length)));
      for (std::int64_t w = 0; w < windows; ++w) {
        std::vector<std::int64_t> window(static_cast<std::size_t>(length + 1));
        dataset.window(artifact::Split::kValidation, length, static_cast<std::uint64_t>(w), window);
        const at::Tensor ids = at::tensor(std::vector<std::int64_t>(window.begin(), window.end() - 1)).unsqueeze(0);
        const at::Tensor targets = at::tensor(std::vector<std::int64_t>(window.begin() + 1, window.end()));
        sum += changed.model.losses(changed.model.forward(ids).flatten(0, 1), targets)
                   .to(at::kDouble)
                   .sum()
                   .item<double>();
      }
      const double loss = sum / static_cast<double>(windows * length);
      if (loss < best - 1e-7) {
        best = loss;
        best_beta = 1 + 0.05 * i * std::log(static_cast<double>(length) / 8);
      }
    }
    BOOST_TEST(fit["loss"].get<double>() == best, boost::test_tools::tolerance(1e-5));
    BOOST_TEST(fit["beta"].get<double>() == best_beta, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(fit["loss"].get<double>() <= fit["unscaled_loss"].get<double>());
    fits.push_back({.length = length, .beta = best_beta});
  }
  BOOST_TEST(record["slope"].get<double>() == training::slope_of(fits, 8), boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_stop_while_a_scale_is_fitted_loses_no_step) {
  const NoStop no_stop;
  training::DropPeConfig config = drop();
  config.drop.logit_scale = training::DropConfig::LogitScale::kFitted;
  artifact::Workspace whole = branch("whole-fit", "s10"), stopped = branch("stopped-fit", "s10");
  training::drop_pe(config, whole);
  Watching stop(10);  // the last step of the training: the fit is next
  stopped.progress = &stop;
  BOOST_CHECK_EXCEPTION(training::drop_pe(config, stopped), support::StopRequest,
                        [](const auto& request) { return request.resumable(); });
  support::request_stop(0);
  BOOST_TEST(std::filesystem::exists(stopped.work / "checkpoints/step-20.h5"));
  Watching again(-1);
  stopped.progress = &again;
  training::drop_pe(config, stopped);
  BOOST_TEST(again.advances == 0);
  for (const char* file : {"model.h5", "metrics.h5"})
    BOOST_TEST((support::read_file(folder / "whole-fit" / file) == support::read_file(folder / "stopped-fit" / file)));
}

BOOST_AUTO_TEST_CASE(a_scale_is_fitted_as_far_as_there_are_positions) {
  const auto fitted = [&](std::int64_t rows) {
    training::TrainConfig trunk = small_config();
    trunk.model.encoding.json = {{"kind", "learned"}, {"max_positions", rows}};
    const std::string name = "rows" + std::to_string(rows);
    artifact::Workspace first = workspace_in(folder / (name + "-trunk"), data, {{"s10", 10}});
    training::train(trunk, first);
    training::DropPeConfig config = drop();
    config.drop.arm = training::DropConfig::Arm::kNoDrop;
    config.drop.logit_scale = training::DropConfig::LogitScale::kFitted;
    artifact::Workspace workspace = workspace_in(folder / name, data);
    workspace.inputs["init"] = {{folder / (name + "-trunk/s10-model.h5"), artifact::Kind::kCheckpoint, "", {}}};
    training::drop_pe(config, workspace);
    return artifact::CheckpointReader(folder / name / "model.h5").meta().extra["logit_scale"]["fits"].size();
  };
  BOOST_TEST(fitted(40) == 2U);  // 16 and 32 tokens
  BOOST_CHECK_EXCEPTION(fitted(8), support::ConfigError, [](const auto& error) {
    return says(error, {"the encoding has 8 positions", "measures 16 tokens", "drop.logit_scale: given"});
  });
  BOOST_TEST(!std::filesystem::exists(folder / "rows8/model.h5"));
}

BOOST_AUTO_TEST_CASE(a_drop_keeps_the_parameters_of_members_that_stay) {
  training::TrainConfig trunk = small_config();
  trunk.model.encoding.json = Json::parse(R"({"stack": ["rope", "ssmax"]})");
  artifact::Workspace first = workspace_in(folder / "stack-trunk", data, {{"s10", 10}});
  training::train(trunk, first);
  training::DropPeConfig config = drop();
  config.drop.encoding.json = "ssmax";
  config.drop.peak_lr = 1e-9;  // nothing moves
  artifact::Workspace workspace = workspace_in(folder / "stack-drop", data);
  workspace.inputs["init"] = {{folder / "stack-trunk/s10-model.h5", artifact::Kind::kCheckpoint, "", {}}};
  training::drop_pe(config, workspace);
  const auto before = tensor(folder / "stack-trunk/s10-model.h5", "model/encoding.ssmax.0.s"),
             after = tensor(folder / "stack-drop/model.h5", "model/encoding.ssmax.0.s");
  BOOST_REQUIRE(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i) BOOST_TEST(std::abs(before[i] - after[i]) < 1e-6);
  const auto fresh = model::LanguageModel::make(
      [&] {
        model::ModelConfig shape = trunk.model;
        shape.length = 8;
        return shape;
      }(),
      kVocabulary, 42);
  double moved = 0;
  for (const model::Parameter& parameter : fresh.parameters()) {
    if (parameter.name != "encoding.ssmax.0.s") continue;
    for (std::int64_t i = 0; i < parameter.tensor.numel(); ++i)
      moved += std::abs(parameter.tensor.flatten()[i].item<double>() - before[static_cast<std::size_t>(i)]);
  }
  BOOST_TEST(moved > 1e-4);  // it was trained, so a new one differs
}

BOOST_AUTO_TEST_CASE(a_branch_takes_no_part_of_a_batch_whose_rows_see_each_other) {
  training::TrainConfig config = small_config();
  config.model.attend_over_batch = true;
  config.model.encoding.json = "none";
  artifact::Workspace first = workspace_in(folder / "over-trunk", data, {{"s10", 10}});
  training::train(config, first);
  training::BranchDecayConfig decays = decay(1, 0.5);
  decays.compute.micro_batch = 2;
  artifact::Workspace workspace = workspace_in(folder / "over", data);
  workspace.inputs["init"] = {{folder / "over-trunk/s10-model.h5", artifact::Kind::kCheckpoint, "", {}}};
  BOOST_CHECK_EXCEPTION(training::branch_decay(decays, workspace), support::ConfigError, [](const auto& error) {
    return says(error, {"model.attend_over_batch", "compute.micro_batch is 2 of 4", "set compute.micro_batch: 4"});
  });
  decays.compute.micro_batch = 4;
  training::branch_decay(decays, workspace);
}

BOOST_AUTO_TEST_CASE(a_logit_scale_without_text_to_fit_it_on_is_rejected_before_the_training) {
  training::DropPeConfig config = drop();
  config.drop.logit_scale = training::DropConfig::LogitScale::kFitted;
  const auto short_data = write_shards(folder / "short", /*documents=*/7);  // none for validation
  artifact::Workspace trunk = workspace_in(folder / "short-trunk", short_data, {{"s10", 10}});
  training::train(small_config(), trunk);
  artifact::Workspace workspace = workspace_in(folder / "unfitted", short_data);
  workspace.inputs["init"] = {{folder / "short-trunk/s10-model.h5", artifact::Kind::kCheckpoint, "", {}}};
  BOOST_CHECK_EXCEPTION(training::drop_pe(config, workspace), support::ArtifactError, [](const auto& error) {
    return says(error, {"the validation split has no window of 16 tokens"});
  });
  BOOST_TEST(!std::filesystem::exists(folder / "unfitted/model.h5"));
  BOOST_CHECK_EXCEPTION(support::make_config<training::DropPeConfig>(
                            Json{{"drop", {{"logit_scale", "fitted"}, {"validate_windows", 0}}}}),
                        support::ConfigError,
                        [](const auto& error) { return says(error, {"drop.validate_windows must be above 0"}); });
}

BOOST_AUTO_TEST_CASE(a_logit_scale_is_fitted_on_documents_as_the_run_reads_them) {
  training::TrainConfig masked = small_config();
  masked.train.documents = training::Documents::kMasked;
  artifact::Workspace trunk = workspace_in(folder / "masked", data, {{"s10", 10}});
  training::train(masked, trunk);
  training::DropPeConfig config = drop();
  config.drop.logit_scale = training::DropConfig::LogitScale::kFitted;
  artifact::Workspace workspace = workspace_in(folder / "fitted", data);
  workspace.inputs["init"] = {{folder / "masked/s10-model.h5", artifact::Kind::kCheckpoint, "", {}}};
  training::drop_pe(config, workspace);
  const artifact::CheckpointReader end(folder / "fitted/model.h5");
  const auto unscaled = model::load_changed(end, {.encoding = {{"kind", "length_scale"}, {"slope", 0.0}}});
  const data::TokenDataset dataset(data);
  for (const Json& fit : end.meta().extra["logit_scale"]["fits"]) {
    const auto loss = [&](training::Documents documents) {
      return training::validate(unscaled.model, dataset, 6, 6, documents, nullptr, fit["length"].get<std::int64_t>())
          ->loss;
    };
    const auto found = fit["unscaled_loss"].get<double>();
    BOOST_TEST(found == loss(training::Documents::kMasked), boost::test_tools::tolerance(1e-6));
    BOOST_TEST(std::abs(found - loss(training::Documents::kJoined)) > 1e-4);
  }
}

BOOST_AUTO_TEST_CASE(nothing_to_drop_is_told) {
  training::TrainConfig config = small_config();
  config.model.encoding.json = "none";
  artifact::Workspace trunk = workspace_in(folder / "bare", data, {{"s10", 10}});
  training::train(config, trunk);
  artifact::Workspace workspace = workspace_in(folder / "drop", data);
  workspace.inputs["init"] = {{folder / "bare/s10-model.h5", artifact::Kind::kCheckpoint, "", {}}};
  BOOST_CHECK_EXCEPTION(training::drop_pe(drop(), workspace), support::ArtifactError, [](const auto& error) {
    return says(error, {"'none'", "nothing to drop"});
  });
}

BOOST_AUTO_TEST_CASE(a_horizon_before_the_snapshot_is_told) {
  training::DropPeConfig config = drop();
  config.drop.horizon_tokens = 10 * 32;
  artifact::Workspace workspace = branch("drop", "s16");
  BOOST_CHECK_EXCEPTION(training::drop_pe(config, workspace), support::ArtifactError, [](const auto& error) {
    return says(error, {"step 16", "step 10"});
  });
}

BOOST_AUTO_TEST_CASE(other_data_splits_and_tokenizers_are_refused_with_both_values) {
  const data::TokenDataset own(data);
  const auto refused = [&](const std::filesystem::path& shards, const std::vector<std::string>& parts) {
    artifact::Workspace workspace = branch("a", "s16");
    workspace.inputs["data"] = {{shards, artifact::Kind::kTokenShards, "", {}}};
    BOOST_CHECK_EXCEPTION(training::branch_decay(decay(1.0, 0.2), workspace), support::ArtifactError,
                          [&](const auto& error) { return says(error, parts); });
  };
  const auto other = write_shards(folder / "other", 40, 2);
  refused(other, {"token shards", own.content_digest(), data::TokenDataset(other).content_digest()});
  const auto split = write_shards(folder / "split", 40, 1, "test", "every ninth");
  refused(split, {own.content_digest(), data::TokenDataset(split).content_digest(),
                  "split into every eighth for validation, this data into every ninth"});
  const auto third = write_shards(folder / "third", 40, 1, "another");
  refused(third, {"tokenizer", own.tokenizer_digest(), data::TokenDataset(third).tokenizer_digest()});
}

BOOST_AUTO_TEST_CASE(the_end_of_a_decay_and_a_damaged_file_are_no_snapshots) {
  artifact::Workspace first = branch("first", "s16");
  training::branch_decay(decay(1.0, 0.2), first);
  artifact::Workspace second = workspace_in(folder / "second", data);
  second.inputs["init"] = {{folder / "first/model.h5", artifact::Kind::kCheckpoint, "", {}}};
  BOOST_CHECK_EXCEPTION(training::branch_decay(decay(1.0, 0.2), second), support::ArtifactError, [](const auto& error) {
    return says(error, {"first/model.h5", "no optimizer state"});
  });
  const auto file = folder / "trunk/s16-model.h5";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  artifact::Workspace third = branch("third", "s16");
  BOOST_CHECK_EXCEPTION(training::branch_decay(decay(1.0, 0.2), third), support::ArtifactError,
                        [](const auto& error) { return says(error, {"s16-model.h5"}); });
}

BOOST_AUTO_TEST_SUITE_END()
