// Extensions to a longer context.
#include <torch/types.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <sstream>

#include "data/token_shards/sample_order.h"
#include "data/token_shards/token_dataset.h"
#include "encodings/extension/encoding_at.h"
#include "encodings/registry.h"
#include "model/checkpoint_io.h"
#include "small_run.h"
#include "support/error.h"
#include "training/branch_decay.h"
#include "training/drop_pe.h"
#include "training/extend.h"
#include "watching.h"

namespace {

using namespace pe;
using namespace pe::test;

/// A trunk of 20 steps at a context of 8, with a snapshot at 16, and its decayed end.
struct Trained {
  Trained() : data(write_shards(folder / "data")) { train("trunk", "rope"); }
  void train(const std::string& name, const std::string& encoding) {
    training::TrainConfig config = small_config();
    config.model.encoding.json =
        Json::parse(encoding, nullptr, false).is_discarded() ? Json(encoding) : Json::parse(encoding);
    artifact::Workspace workspace = workspace_in(folder / name, data, {{"s16", 16}});
    training::train(config, workspace);
  }
  artifact::Workspace from(const std::filesystem::path& init, const std::string& name) const {
    artifact::Workspace workspace = workspace_in(folder / name, data);
    workspace.inputs["init"] = {{init, artifact::Kind::kCheckpoint, "", {}}};
    return workspace;
  }
  artifact::Workspace from_trunk(const std::string& name) const { return from(folder / "trunk/s16-model.h5", name); }
  static training::ExtendPeConfig to_32(const Json& encoding = "yarn") {
    training::ExtendPeConfig config;
    config.extend.length = 32;
    config.extend.tokens = 6 * 32;  // 6 steps of one sequence
    config.extend.encoding.json = encoding;
    config.extend.warmup_steps = 2;
    config.extend.watch = {1, 3, 4};
    return config;
  }
  TempFolder folder;
  std::filesystem::path data;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(extend, Trained, *boost::unit_test::fixture<NoStop>())

BOOST_AUTO_TEST_CASE(members_that_a_lone_rule_replaces_are_named) {
  train("stacked", R"({"stack": ["rope", {"kind": "window", "size": 4}, "logn"]})");
  const auto warnings = [&](const std::string& name, const Json& encoding) {
    artifact::Workspace workspace = from(folder / "stacked/s16-model.h5", name);
    Watching progress(-1);
    workspace.progress = &progress;
    training::extend(to_32(encoding), workspace);
    return progress.warnings;
  };
  const std::vector<std::string> lost = warnings("lone", "yarn");
  BOOST_TEST_REQUIRE(lost.size() == 1u);
  BOOST_TEST(lost[0].find("no longer has logn, window of its stack") != std::string::npos, lost[0]);
  BOOST_TEST(warnings("whole", {{"stack", {"yarn", {{"kind", "window"}, {"size", 4}}, "logn"}}}).empty());
}

BOOST_AUTO_TEST_CASE(a_rule_extends_what_the_checkpoint_has) {
  const Json rope{{"kind", "rope"}, {"base", 500.0}, {"layout", "half"}};
  const Json yarn = encodings::encoding_at("yarn", rope, 8, 32);
  BOOST_TEST(yarn["factor"] == 4.0);
  BOOST_TEST(yarn["train_length"] == 8);
  BOOST_TEST(yarn["base"] == 500.0);
  BOOST_TEST(yarn["layout"] == "half");
  BOOST_TEST(yarn["over"]["kind"] == "rope");
  BOOST_TEST(encodings::encoding_at({{"kind", "yarn"}, {"factor", 2.0}}, rope, 8, 32)["factor"] == 2.0);
  // A rule over a rule becomes a rule over the encoding below the latter.
  const Json again = encodings::encoding_at(
      "pi", {{"kind", "ntk"}, {"base", 500.0}, {"over", {{"kind", "p_rope"}, {"fraction", 0.5}}}}, 8, 16);
  BOOST_TEST(again["over"] == (Json{{"kind", "p_rope"}, {"fraction", 0.5}}));
  BOOST_TEST(again["base"] == 500.0);
  BOOST_TEST(again["factor"] == 2.0);
  // It begins from the latter's factor and training length, also in a stack and with a factor that is given.
  const Json had = Json::parse(R"({"kind": "yarn", "factor": 4, "train_length": 128, "over": "rope"})");
  const Json further = encodings::encoding_at("yarn", had, 512, 1024);
  BOOST_TEST(further["factor"] == 8.0);
  BOOST_TEST(further["train_length"] == 128);
  BOOST_TEST(encodings::encoding_at("yarn", had, 512, 512)["factor"] == 4.0);
  const Json given = encodings::encoding_at({{"kind", "ntk_parts"}, {"factor", 6.0}}, had, 512, 1024);
  BOOST_TEST(given["factor"] == 6.0);
  BOOST_TEST(given["train_length"] == 128);
  const Json inside = encodings::encoding_over("yarn", {{"stack", {"logn", had}}}, 512, 1024);
  BOOST_TEST(inside["stack"][1]["factor"] == 8.0);
  BOOST_TEST(encodings::encoding_at("pi", {{"stack", {"logn", had}}}, 512, 1024)["factor"] == 8.0);
  BOOST_TEST(encodings::encoding_at({{"kind", "yarn"}, {"over", "p_rope"}}, had, 512, 1024)["factor"] == 2.0);
  const Json stack =
      encodings::encoding_at(Json::parse(R"({"stack": ["yarn", "logn"]})"),
                             Json::parse(R"({"stack": [{"kind": "rope", "base": 700.0}, "logn"]})"), 8, 16);
  BOOST_TEST(stack["stack"][0]["base"] == 700.0);
  BOOST_TEST(stack["stack"][1]["train_length"] == 8);
  BOOST_TEST(!encodings::encoding_at("dyn_ntk", rope, 8, 32).contains("factor"));
  BOOST_TEST(encodings::encoding_at("learned", rope, 8, 32)["max_positions"] == 8);
  BOOST_TEST(!encodings::encoding_at("alibi", rope, 8, 32).contains("train_length"));
  // A factor of 1 is replaced, and no other.
  const auto factor = [&](const Json& wanted) { return encodings::encoding_at(wanted, rope, 8, 32)["factor"]; };
  BOOST_TEST(factor({{"kind", "llama3"}, {"factor", 8.0}}) == 8.0);
  BOOST_TEST(factor({{"kind", "llama3"}, {"factor", 1.0}}) == 4.0);
  BOOST_TEST(factor({{"kind", "distance_map"}, {"rule", "leaky_rerope"}, {"factor", 0.0}}) == 0.0);
  BOOST_TEST(factor({{"kind", "pi"}, {"dynamic", true}, {"factor", 1.0}}) == 1.0);
  // A rule over a rotation that it cannot extend would be one over rope.
  const Json local{{"kind", "local_global"}, {"base", 500.0}};
  BOOST_CHECK_EXCEPTION(encodings::encoding_at("yarn", local, 8, 32), support::ConfigError, [](const auto& error) {
    return std::string(error.what()).find("'yarn' cannot extend 'local_global'") != std::string::npos;
  });
  BOOST_TEST(encodings::encoding_at({{"kind", "yarn"}, {"over", "p_rope"}}, local, 8, 32)["over"]["kind"] == "p_rope");
  BOOST_TEST(encodings::encoding_at("yarn", "alibi", 8, 32)["factor"] == 4.0);
  const Json frequencies{{"kind", "formula"}, {"frequencies", "500^(-c/P)"}};
  BOOST_CHECK_THROW(encodings::encoding_at("yarn", frequencies, 8, 32), support::ConfigError);
  BOOST_TEST(encodings::encoding_at("yarn", {{"kind", "formula"}, {"bias", "-d"}}, 8, 32)["factor"] == 4.0);
  // CLEX begins as the checkpoint's rope, and as no other rotation.
  const Json clex =
      encodings::encoding_at("clex", {{"kind", "rope"}, {"base", 500.0}, {"layout", "interleaved"}}, 8, 32);
  BOOST_TEST(clex["base"] == 500.0);
  BOOST_TEST(clex["layout"] == "interleaved");
  BOOST_TEST(encodings::encoding_at({{"kind", "clex"}, {"base", 700.0}}, {{"kind", "rope"}, {"base", 500.0}}, 8,
                                    32)["base"] == 700.0);
  BOOST_CHECK_THROW(encodings::encoding_at("clex", "p_rope", 8, 32), support::ConfigError);
  BOOST_CHECK_THROW(encodings::encoding_at("clex", "yarn", 8, 32), support::ConfigError);
  BOOST_TEST(encodings::encoding_at("clex", {{"kind", "clex"}, {"base", 500.0}}, 8, 32)["base"] == 500.0);
}

BOOST_AUTO_TEST_CASE(the_checkpoint_s_own_encoding_has_the_sizes_of_its_training) {
  const auto own = [](const Json& had) { return encodings::with_lengths(had, 256); };
  BOOST_TEST(own({{"kind", "llama3"}, {"factor", 8.0}})["factor"] == 8.0);
  BOOST_TEST(own({{"kind", "yarn"}, {"factor", 1.0}})["factor"] == 1.0);
  BOOST_TEST(own({{"kind", "yarn"}, {"factor", 1.0}})["train_length"] == 256);
  BOOST_TEST(own({{"kind", "window"}, {"size", nullptr}})["size"] == 64);
  BOOST_TEST(own({{"kind", "window"}, {"size", 0}})["size"] == 0);
  BOOST_TEST(own(Json::parse(R"({"stack": ["inkling", "window"]})"))["stack"][0]["extent"] == 64);
  BOOST_TEST(!own("inkling").contains("floor_scale"));
  BOOST_TEST(own("llama4_temp")["floor_scale"] == 256);
  BOOST_TEST(own("pose")["target"] == 2048);
  BOOST_TEST(own({{"kind", "cream"}, {"target", 512}})["target"] == 512);
  BOOST_TEST(own("bipe")["intra_positions"] == 256);
  BOOST_TEST(own({{"kind", "formula"}, {"bias", "-d/L"}})["train_length"] == 256);
}

BOOST_AUTO_TEST_CASE(borders_of_documents_are_asked_of_data_that_has_them) {
  training::TrainConfig masked = small_config();
  masked.train.documents = training::Documents::kMasked;
  artifact::Workspace trunk = workspace_in(folder / "masked", data, {{"s16", 16}});
  training::train(masked, trunk);
  artifact::Workspace workspace = from(folder / "masked/s16-model.h5", "mixed");
  const auto mixed = write_shards(folder / "mix", 40, 1, "test", "every eighth for validation", 1 << 20, nullptr, 32);
  workspace.inputs["data"].at(0).path = mixed;
  BOOST_CHECK_EXCEPTION(training::extend(to_32(), workspace), support::ArtifactError, [](const auto& error) {
    return says(error, {"a window of pe-mix is one document", "masked has no effect"});
  });
}

BOOST_AUTO_TEST_CASE(every_way_of_extension_trains_on_from_the_weights) {
  for (const char* kind : {"rope", "pi", "ntk", "ntk_parts", "dyn_ntk", "yarn", "longrope", "longrope2", "llama3",
                           "clex", "alibi", "none"}) {
    BOOST_TEST_CONTEXT(kind) {
      artifact::Workspace workspace = from_trunk(std::string("to-") + kind);
      training::extend(to_32(kind), workspace);
      const auto file = folder / (std::string("to-") + kind) / "model.h5";
      const artifact::CheckpointReader end(file);
      BOOST_TEST((end.meta().status == artifact::TrainingStatus::kOk));
      BOOST_TEST(end.meta().encoding["kind"] == kind);
      BOOST_TEST(end.meta().model["length"] == 32);
      BOOST_TEST(end.meta().step == 6);
      BOOST_TEST(end.meta().tokens_seen == 16 * 32 + 6 * 32);
      BOOST_TEST(end.meta().parents.size() == 1U);
      BOOST_TEST(end.meta().extra["branch"]["kind"] == "extend");
      BOOST_TEST(end.meta().extra["branch"]["length_before"] == 8);
      BOOST_TEST(end.meta().extra["branch"]["encoding_before"]["kind"] == "rope");
      const auto rows = artifact::read_metrics(folder / (std::string("to-") + kind) / "metrics.h5").at("train");
      BOOST_TEST(rows.integers("tokens").front() == 17 * 32);
      // The log counts as the artifact does, from the step of the trunk.
      const std::string log = support::read_file(folder / (std::string("to-") + kind) / "work/metrics.jsonl");
      std::istringstream lines(log);
      std::vector<std::int64_t> logged;
      for (std::string line; std::getline(lines, line);) {
        const Json record = Json::parse(line);
        if (record["phase"] == "train") logged.push_back(record["tokens"]);
      }
      BOOST_TEST(logged == rows.integers("tokens"), boost::test_tools::per_element());
      const Json progress =
          Json::parse(support::read_file(folder / (std::string("to-") + kind) / "work/progress.json"));
      BOOST_TEST(progress["tokens"] == 16 * 32 + 6 * 32);
      BOOST_TEST(rows.reals("lr").back() == 1e-3, boost::test_tools::tolerance(1e-12));  // a tenth of the trunk's
      // Six steps of at most 1e-3 each: the weights are the trunk's, moved a little.
      const auto before = tensor(folder / "trunk/s16-model.h5", "model/embedding"),
                 after = tensor(file, "model/embedding");
      double moved = 0;
      for (std::size_t i = 0; i < before.size(); ++i)
        moved = std::max(moved, std::abs(static_cast<double>(before[i]) - after[i]));
      BOOST_TEST(moved > 0);
      BOOST_TEST(moved < 0.01);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_branch_off_an_extension_has_seen_the_tokens_before_it_too) {
  training::ExtendPeConfig extension = to_32("rope");
  extension.checkpoint.every = 0;
  artifact::Workspace extended = from_trunk("extended");
  stop_after(3, extended, [&] { training::extend(extension, extended); });
  artifact::Workspace workspace = from(extended.work / "checkpoints/step-3.h5", "dropped");
  training::DropPeConfig config;
  config.drop.horizon_tokens = 6 * 32;
  config.drop.watch = {1, 3, 4};
  training::drop_pe(config, workspace);
  BOOST_TEST(artifact::CheckpointReader(folder / "dropped/model.h5").meta().tokens_seen == 16 * 32 + 6 * 32);
  // The work of the drop alone: its own three steps.
  const model::ModelConfig shape = model::config_of(artifact::CheckpointReader(folder / "dropped/model.h5"));
  const std::string log = support::read_file(workspace.work / "metrics.jsonl");
  const Json last = Json::parse(log.substr(log.rfind('\n', log.size() - 2) + 1));
  BOOST_TEST(last["step"] == 6);
  BOOST_TEST(last["flops"].get<double>() == model::flops_per_token(shape, 32) * 3 * 32);
}

// With no step taken yet the extended model is the trunk's, rescaled by the rule: the same weights under YaRN from the
// start.
BOOST_AUTO_TEST_CASE(the_first_loss_is_that_of_the_weights_under_the_new_encoding) {
  artifact::Workspace workspace = from_trunk("yarn");
  training::extend(to_32(), workspace);
  const artifact::CheckpointReader trunk(folder / "trunk/s16-model.h5");
  const Json encoding{{"kind", "yarn"}, {"factor", 4.0}, {"train_length", 8}};
  const auto changed = model::load_changed(trunk, {.encoding = encoding, .length = 32});
  const data::TokenDataset dataset(data);
  const data::SampleOrder order(42, dataset.windows(artifact::Split::kTrain, 32));
  std::vector<std::int64_t> window(33);
  dataset.window(artifact::Split::kTrain, 32, order(0), window);
  const at::NoGradGuard guard;
  const at::Tensor ids = at::tensor(std::vector<std::int64_t>(window.begin(), window.end() - 1)).unsqueeze(0);
  const at::Tensor targets = at::tensor(std::vector<std::int64_t>(window.begin() + 1, window.end()));
  const double loss = changed.model.loss_sum(changed.model.forward(ids).flatten(0, 1), targets).item<double>() / 32;
  const auto losses = artifact::read_metrics(folder / "yarn/metrics.h5").at("train").reals("loss");
  BOOST_TEST(losses.front() == loss, boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(an_extension_resumes_exactly) {
  training::ExtendPeConfig config = to_32("clex");
  config.extend.optimizer = training::DropConfig::Optimizer::kKeep;
  artifact::Workspace whole = from_trunk("whole"), parts = from_trunk("parts");
  training::extend(config, whole);
  BOOST_TEST(artifact::CheckpointReader(folder / "whole/model.h5").meta().optimizer["start"] == -16);
  stop_after(4, parts, [&] { training::extend(config, parts); });
  training::extend(config, parts);
  BOOST_TEST((support::read_file(folder / "parts/model.h5") == support::read_file(folder / "whole/model.h5")));
  BOOST_TEST((support::read_file(folder / "parts/metrics.h5") == support::read_file(folder / "whole/metrics.h5")));
}

// The end of a training holds no moments; an extension of an extension counts tokens on and keeps the first length.
BOOST_AUTO_TEST_CASE(ends_are_extended_too_and_extensions_again) {
  artifact::Workspace ended = from_trunk("ended");
  training::BranchDecayConfig decay;
  decay.decay.horizon_tokens = small_config().train.tokens;
  training::branch_decay(decay, ended);
  artifact::Workspace first = from(folder / "ended/model.h5", "first");
  training::ExtendPeConfig config = to_32();
  config.extend.length = 16;
  training::extend(config, first);
  artifact::Workspace second = from(folder / "first/model.h5", "second");
  config.extend.length = 32;
  config.extend.encoding_of = training::ExtendConfig::EncodingOf::kCheckpoint;
  training::extend(config, second);
  const artifact::CheckpointReader end(folder / "second/model.h5");
  const artifact::CheckpointMeta& meta = end.meta();
  BOOST_TEST(meta.encoding["train_length"] == 8);
  BOOST_TEST(meta.encoding["factor"] == 2.0);  // as the checkpoint says
  BOOST_TEST(meta.parents.size() == 3U);       // trunk, end, first
  BOOST_TEST(meta.tokens_seen == 20 * 32 + 2 * 6 * 32);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_knows_all_documents_that_it_and_its_parents_were_trained_on) {
  const artifact::CheckpointReader trunk(folder / "trunk/s16-model.h5");
  const auto trained = [](const std::filesystem::path& shards) {
    return data::TokenDataset(shards).splits().documents[0].hashes();
  };
  BOOST_TEST(trunk.meta().trained_on.hashes() == trained(data));
  BOOST_TEST(trunk.meta().split_rule == "every eighth for validation");
  const std::filesystem::path other = write_shards(folder / "other", 40, 2);
  artifact::Workspace workspace = from_trunk("on-other");
  workspace.inputs["data"] = {{other, artifact::Kind::kTokenShards, "", {}}};
  training::extend(to_32(), workspace);
  std::vector<std::uint64_t> both = trained(data);
  for (const std::uint64_t hash : trained(other)) both.push_back(hash);
  std::sort(both.begin(), both.end());
  BOOST_TEST(artifact::CheckpointReader(folder / "on-other/model.h5").meta().trained_on.hashes() == both);
}

BOOST_AUTO_TEST_CASE(learned_tables_grow_behind_the_rows_they_had) {
  train("tables", "learned");
  artifact::Workspace refused = from(folder / "tables/s16-model.h5", "refused");
  BOOST_CHECK_EXCEPTION(training::extend(to_32("learned"), refused), support::ConfigError, [](const auto& error) {
    return says(error, {"'learned' has 8 positions", "extend.length is 32"});
  });
  artifact::Workspace grown = from(folder / "tables/s16-model.h5", "grown");
  training::ExtendPeConfig config = to_32({{"kind", "learned"}, {"max_positions", 32}});
  config.extend.peak_lr = 1e-9;  // nothing moves
  training::extend(config, grown);
  const auto before = tensor(folder / "tables/s16-model.h5", "model/encoding.learned.table");
  auto after = tensor(folder / "grown/model.h5", "model/encoding.learned.table");
  BOOST_REQUIRE(after.size() == 4 * before.size());
  for (std::size_t i = 0; i < before.size(); ++i) BOOST_TEST(std::abs(before[i] - after[i]) < 1e-6);
}

BOOST_AUTO_TEST_CASE(parameters_that_do_not_fit_are_told_with_both_shapes) {
  train("buckets", R"({"kind": "t5", "buckets": 8})");
  artifact::Workspace workspace = from(folder / "buckets/s16-model.h5", "refused");
  BOOST_CHECK_EXCEPTION(training::extend(to_32({{"kind", "t5"}, {"buckets", 4}}), workspace), support::ArtifactError,
                        [](const auto& error) {
                          return says(error, {"s16-model.h5", "t5.table", "[8, 2]", "[4, 2]"});
                        });
  // More buckets have other borders.
  BOOST_CHECK_THROW(training::extend(to_32({{"kind", "t5"}, {"buckets", 16}}), workspace), support::ArtifactError);
}

BOOST_AUTO_TEST_CASE(a_model_is_tuned_as_it_is_at_its_own_context_on_other_data) {
  train("stacked",
        R"({"stack": ["yarn", "ssmax"]})");  // with a factor that says nothing, as it stands in the checkpoint
  for (const char* trunk : {"trunk", "stacked"}) {
    training::ExtendPeConfig config = to_32();
    config.extend.encoding_of = training::ExtendConfig::EncodingOf::kCheckpoint;
    config.extend.length = 8;
    config.extend.tokens = 6 * 32;
    artifact::Workspace workspace = from(folder / trunk / "s16-model.h5", std::string("tuned ") + trunk);
    workspace.inputs["data"] = {
        {write_shards(folder / (std::string("other ") + trunk), 40, /*seed=*/9), artifact::Kind::kTokenShards, "", {}}};
    training::extend(config, workspace);
    const artifact::CheckpointReader before(folder / trunk / "s16-model.h5"), after(workspace.output("model"));
    BOOST_TEST(after.meta().encoding.dump() == before.meta().encoding.dump());
    BOOST_TEST(after.meta().model.at("length") == 8);
    BOOST_TEST(after.meta().tokens_seen == before.meta().tokens_seen + 6 * 32);
    BOOST_TEST(tensor(workspace.output("model"), "model/embedding") !=
               tensor(folder / trunk / "s16-model.h5", "model/embedding"));
  }
}

BOOST_AUTO_TEST_CASE(a_context_that_is_no_longer_and_a_warm_up_that_does_not_fit_are_told) {
  training::ExtendPeConfig config = to_32();
  config.extend.length = 8;
  artifact::Workspace workspace = from_trunk("refused");
  BOOST_CHECK_EXCEPTION(training::extend(config, workspace), support::ConfigError, [](const auto& error) {
    return says(error, {"extend.length is 8", "trained at 8", "encoding_of: checkpoint"});
  });
  config.extend.length = 4;
  config.extend.encoding_of = training::ExtendConfig::EncodingOf::kCheckpoint;
  BOOST_CHECK_EXCEPTION(training::extend(config, workspace), support::ConfigError, [](const auto& error) {
    return says(error, {"extend.length is 4", "trained at 8"});
  });
  config = to_32();
  config.extend.warmup_steps = 7;
  BOOST_CHECK_EXCEPTION(training::extend(config, workspace), support::ConfigError, [](const auto& error) {
    return says(error, {"warmup_steps is 7", "6 steps of 1 x 32"});
  });
  config = to_32();
  config.extend.length = 100000;
  BOOST_CHECK_EXCEPTION(training::extend(config, workspace), support::ArtifactError,
                        [](const auto& error) { return says(error, {"lower extend.length"}); });
}

BOOST_AUTO_TEST_SUITE_END()
