/// @file
/// A small training's data and evaluation, for tests of both together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "artifact/token_shards.h"
#include "data/tokenizers/tokenizer.h"
#include "evaluation/evaluate.h"
#include "model/compute.h"
#include "small_run.h"
#include "support/random.h"

namespace pe::test {

/// Letters at random: documents to train on, to validate on and to evaluate on.
inline std::filesystem::path write_letters(const std::filesystem::path& folder) {
  const auto tokenizer = data::make_byte_tokenizer();
  artifact::TokenizerRecord record = tokenizer->record();
  record.bos_before_documents = true;
  artifact::TokenShardsWriter shards(folder, {}, record, 1 << 20);
  for (std::uint64_t document = 0; document < 16; ++document) {
    support::Xoshiro random(document);
    std::vector<std::int32_t> ids = {static_cast<std::int32_t>(tokenizer->bos_id())};
    for (int i = 0; i < 150; ++i) ids.push_back(static_cast<std::int32_t>('a' + random.below(26)));
    const artifact::Split split = document < 10   ? artifact::Split::kTrain
                                  : document < 14 ? artifact::Split::kTest
                                                  : artifact::Split::kValidation;
    shards.add(split, ids.data(), ids.size(), 150, document);
  }
  artifact::DatasetTotals totals;
  shards.finish(totals);
  return folder;
}

/// Perplexity of the model of `folder` ("model.h5") on documents of `data`, into the file of that name in the folder.
inline void evaluate_perplexity(const std::filesystem::path& folder, const std::filesystem::path& data,
                                const std::string& name, model::Precision dtype) {
  artifact::Workspace workspace = workspace_in(folder, data);
  workspace.work = folder / ("work-" + name);  // else a second evaluation goes on where the first ended
  support::make_folders(workspace.work);
  workspace.inputs["model"] = {{folder / "model.h5", artifact::Kind::kCheckpoint, "", {}}};
  workspace.outputs = {{"scores", folder / name}};
  auto config = support::make_config<evaluation::EvaluateConfig>(
      Json{{"eval", {{"tasks", {"perplexity"}}, {"lengths", {1}}, {"documents", 4}, {"min_documents", 2}}}});
  config.compute.dtype = dtype;
  evaluation::evaluate(config, workspace);
}

}  // namespace pe::test
