/// @file
/// Inputs for tests of the stages that measure models: token shards of bytes and an untrained model.
#pragma once

#include <string>

#include "artifact/checkpoint.h"
#include "artifact/token_shards.h"
#include "artifact/workspace.h"
#include "data/tokenizers/tokenizer.h"
#include "evaluation/evaluate.h"
#include "model/checkpoint_io.h"
#include "support/files.h"
#include "support/progress.h"
#include "support/random.h"
#include "support/temp_folder.h"

namespace pe::test {

/// Token shards and a checkpoint in a folder, and workspaces that evaluate the one on the other.
struct Bench {
  TempFolder folder;

  /// @param averages of the weights, made from another seed
  explicit Bench(const Json& encoding = "rope", const std::string& tokenizer_digest = {}, bool averages = false,
                 std::int64_t layers = 1) {
    const auto tokenizer = data::make_byte_tokenizer();
    artifact::TokenizerRecord record = tokenizer->record();
    record.bos_before_documents = true;
    artifact::TokenShardsWriter shards(folder / "data", {}, record, 1 << 20);
    for (std::uint64_t document = 0; document < 16; ++document) {
      support::Xoshiro random(document);
      std::vector<std::int32_t> ids = {static_cast<std::int32_t>(tokenizer->bos_id())};
      const std::uint64_t bytes = 280 + random.below(40);  // twice the longest context
      for (std::uint64_t i = 0; i < bytes; ++i) ids.push_back(static_cast<std::int32_t>('a' + random.below(26)));
      const artifact::Split split = document < 2    ? artifact::Split::kTrain
                                    : document < 12 ? artifact::Split::kTest
                                                    : artifact::Split::kValidation;
      shards.add(split, ids.data(), ids.size(), static_cast<std::uint32_t>(bytes), document);
    }
    artifact::DatasetTotals totals;
    shards.finish(totals);

    model::ModelConfig config;
    config.width = 16;
    config.layers = layers;
    config.heads = 2;
    config.length = 32;
    config.encoding.json = encoding;
    const model::LanguageModel model = model::LanguageModel::make(config, tokenizer->vocabulary(), 42);
    artifact::CheckpointMeta meta;
    meta.step = 17;
    meta.tokenizer_digest = tokenizer_digest.empty() ? record.digest() : tokenizer_digest;
    model::describe_model(model, meta);
    if (averages) meta.extra["best"] = {{"step", 9}, {"tokens", 900}};
    artifact::CheckpointWriter writer(folder / "model.h5", {}, meta);
    model::write_weights(model, writer);
    if (averages) {
      const model::LanguageModel other = model::LanguageModel::make(config, tokenizer->vocabulary(), 43);
      std::vector<at::Tensor> values;
      for (const model::FlatGroup& group : other.groups()) values.push_back(group.values);
      model::write_tensors(writer, "ema/", other, values);
      model::write_tensors(writer, "best/", other, values);
      artifact::CheckpointWriter alone(folder / "averages.h5", {}, meta);
      model::write_weights(other, alone);
      alone.finish();
    }
    writer.finish();
  }

  artifact::Workspace workspace(const std::string& name) const {
    artifact::Workspace workspace;
    workspace.inputs["model"] = {{folder / "model.h5", artifact::Kind::kCheckpoint, "", {}}};
    workspace.inputs["data"] = {{folder / "data", artifact::Kind::kTokenShards, "", {}}};
    workspace.outputs["scores"] = folder / (name + ".h5");
    workspace.work = folder / "work";
    support::make_folders(workspace.work);
    workspace.progress = &support::silent_progress();
    return workspace;
  }

  static evaluation::EvaluateConfig config(Json more = Json::object()) {
    Json options = {{"tasks", {"perplexity", "passkey", "copy"}},
                    {"lengths", {1, 2, 4}},
                    {"documents", 8},
                    {"min_documents", 4},
                    {"passkey", {{"depths", {0, 1}}, {"trials", 2}, {"wording", "short"}}},
                    {"copy", {{"trials", 2}}}};
    options.update(more);
    return support::make_config<evaluation::EvaluateConfig>(Json{{"eval", options}});
  }
};

}  // namespace pe::test
