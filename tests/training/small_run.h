/// @file
/// A training of seconds for tests: token shards of a text that repeats itself, and a model of a few thousand weights.
#pragma once

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "artifact/checkpoint.h"
#include "artifact/content_digest.h"
#include "artifact/metrics.h"
#include "artifact/token_shards.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "training/train.h"

namespace pe::test {

inline constexpr std::int64_t kVocabulary = 23;

/// Documents of a walk in which the next token follows from the last but for a little noise.
inline std::filesystem::path write_shards(const std::filesystem::path& folder, std::int64_t documents = 40,
                                          std::uint64_t seed = 1, const std::string& tokenizer = "test",
                                          const std::string& split_rule = "every eighth for validation",
                                          std::uint64_t shard_tokens = 1 << 20,
                                          std::vector<std::int32_t>* train_tokens = nullptr, std::uint64_t window = 0) {
  artifact::TokenizerRecord record;
  record.kind = "bytes";
  record.vocabulary = kVocabulary;
  record.bos_id = 0;
  record.bos_before_documents = true;
  record.token_bytes.assign(kVocabulary, 2);
  record.token_bytes[0] = 0;
  record.content_hash = tokenizer;
  record.library = "test";
  artifact::TokenShardsWriter writer(folder, {}, record, shard_tokens);
  if (window > 0) writer.set_window(window);  // each document is one
  artifact::SplitRecord splits{.rule = split_rule, .documents = {}};
  support::Xoshiro random(seed);
  for (std::int64_t document = 0; document < documents; ++document) {
    std::vector<std::int32_t> ids{0};
    for (std::uint64_t i = 0; i < (window > 0 ? window : 60); ++i) {
      const auto next = random.below(8) == 0 ? random.below(kVocabulary - 1)
                                             : static_cast<std::uint64_t>(ids.back() * 5 + 3) % (kVocabulary - 1);
      ids.push_back(static_cast<std::int32_t>(1 + next));
    }
    const artifact::Split split = document % 8 == 7 ? artifact::Split::kValidation : artifact::Split::kTrain;
    if (train_tokens != nullptr && split == artifact::Split::kTrain)
      train_tokens->insert(train_tokens->end(), ids.begin(), ids.end());
    writer.add(split, ids.data(), ids.size(), 120, static_cast<std::uint64_t>(document));
    splits.documents[static_cast<std::size_t>(split)].add(
        support::fnv1a64(std::to_string(seed) + " " + std::to_string(document)));
  }
  writer.set_splits(std::move(splits));
  artifact::DatasetTotals totals;
  writer.finish(totals);
  return folder;
}

inline training::TrainConfig small_config() {
  training::TrainConfig config;
  config.model.width = 16;
  config.model.layers = 2;
  config.model.heads = 2;
  config.model.encoding.json = "rope";
  config.train.batch = 4;
  config.train.length = 8;
  config.train.tokens = 20 * 4 * 8;  // 20 steps
  config.train.decay_share = 0;
  config.train.warmup_steps = 3;
  config.train.optimizer.peak_lr = 1e-2;
  config.train.log_every = 2;
  config.train.validate_every = 5;
  config.train.validate_windows = 6;
  config.checkpoint.every = 1e6;
  return config;
}

/// Of a checkpoint.
inline std::vector<float> tensor(const std::filesystem::path& file, const std::string& name) {
  const std::vector<std::byte> raw = artifact::CheckpointReader(file).read(name);
  std::vector<float> values(raw.size() / sizeof(float));
  std::memcpy(values.data(), raw.data(), raw.size());
  return values;
}

/// A workspace whose folders exist. Snapshots land in "<label>-model.h5" and "<label>-metrics.h5".
inline artifact::Workspace workspace_in(const std::filesystem::path& folder, const std::filesystem::path& data,
                                        const std::vector<std::pair<std::string, std::int64_t>>& snapshots = {}) {
  artifact::Workspace workspace;
  support::make_folders(folder / "work");
  workspace.work = folder / "work";
  workspace.inputs["data"] = {{data, artifact::Kind::kTokenShards, "", {}}};
  if (snapshots.empty()) workspace.outputs = {{"model", folder / "model.h5"}, {"metrics", folder / "metrics.h5"}};
  for (const auto& [label, step] : snapshots) {
    workspace.snapshots.push_back(
        {label, step, {{"model", folder / (label + "-model.h5")}, {"metrics", folder / (label + "-metrics.h5")}}});
  }
  workspace.progress = &support::silent_progress();
  return workspace;
}

}  // namespace pe::test
