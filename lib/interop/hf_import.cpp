#include "interop/hf_import.h"

#include <cmath>

#include "artifact/checkpoint.h"
#include "data/tokenizers/tokenizer.h"
#include "encodings/registry.h"
#include "interop/hf_files.h"
#include "interop/hf_folder.h"
#include "model/checkpoint_io.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::interop {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::quote;

void ImportSettings::describe(support::FieldVisitor& v) {
  v.paths("model", model,
          "A folder with config.json, model.safetensors (or several files and their index) and a tokenizer.");
  v.choice("layout", layout,
           {{"half", encodings::PairLayout::kHalf}, {"interleaved", encodings::PairLayout::kInterleaved}},
           "Order of rotated channels in the checkpoint; rows of queries and keys are put into it.");
  v.field("length", length, "Training context of the model; 0: max_position_embeddings.",
          {.unit = "tokens", .min = 0, .max = 1 << 24});
  v.field("unused_rows", unused_rows, "The embedding may have more rows than the tokenizer has tokens.");
  v.field("batch", batch, "Sequences of a step for stages that continue from it.",
          {.unit = "sequences", .min = 1, .max = 1 << 24});
  v.field("peak_lr", peak_lr, "Peak learning rate of its training; later stages scale it.", {.min = 0, .max = 10});
  v.field("weight_decay", weight_decay, "Weight decay for stages that continue from it.", {.min = 0, .max = 10});
  v.field("seed", seed, "Seed of the data order for stages that continue from it.", {.min = 0});
}

void ImportConfig::describe(support::FieldVisitor& v) {
  v.group("import", import, "The model that is read.");
  v.check(import.model.size() <= 1, "import.model is one folder");
}

namespace {

artifact::CheckpointMeta meta_of(const HfModel& read, const ImportSettings& settings,
                                 const artifact::TokenizerRecord& tokenizer) {
  artifact::CheckpointMeta meta;
  meta.tokenizer_digest = tokenizer.digest();
  model::describe_model(read.model, meta);
  if (settings.length > 0) meta.model["length"] = settings.length;
  meta.optimizer = {{"peak_lr", settings.peak_lr},           {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8},
                    {"weight_decay", settings.weight_decay}, {"clip", 1.0},  {"start", 0}};
  meta.data = {{"length", meta.model["length"]}, {"batch", settings.batch}, {"seed", settings.seed}};
  meta.extra = {{"phase", "imported"},
                {"lr", settings.peak_lr},
                {"imported", {{"architecture", read.architecture}, {"tensors", read.tensors}}}};
  return meta;
}

}  // namespace

void import_from_hf(const ImportConfig& config, artifact::Workspace& workspace) {
  if (config.import.model.empty())
    throw support::ConfigError("import.model is empty", {}, "name the folder of a model");
  const fs::path folder = config.import.model.front();
  const HfModel read = read_hf_model(folder, config.import.layout);
  const model::ModelConfig& c = read.model.config();
  const std::int64_t length = config.import.length;
  if (read.architecture == "pe_pipeline" && length > 0 && length != c.length) {
    // Its encoding may take this length where config.json names none.
    throw support::ConfigError(
        cat("import.length is ", length, ", and the model of ", quote(folder.string()), " was trained at ", c.length),
        {}, "leave import.length out: an export of pe-pipeline states the length");
  }
  std::string note;
  const artifact::TokenizerRecord record =
      read_hf_tokenizer(folder, read.architecture, c.vocabulary, config.import.unused_rows, note);
  for (const std::string& line : support::split(note, '\n')) {
    if (!line.empty()) workspace.progress->warn(cat(folder.string(), ": ", line));
  }
  const auto tokenizer = data::make_tokenizer(record, folder.string());
  std::vector<std::int64_t> ids;
  if (record.bos_before_documents) ids.push_back(record.bos_id);
  for (const std::int32_t id : tokenizer->encode(golden_text())) ids.push_back(id);
  const std::size_t longest = std::min({ids.size(), static_cast<std::size_t>(c.length), std::size_t{512}});
  const std::vector<GoldenRun> golden = golden_runs(read.model, ids, {longest});
  if (golden.empty())
    throw ArtifactError(cat(quote(folder.string()), ": the model takes texts of fewer than two tokens"));

  artifact::CheckpointWriter writer(workspace.output("model"), workspace.recipe, meta_of(read, config.import, record));
  model::write_weights(read.model, writer);
  writer.finish();
  artifact::write_tokenizer(workspace.output("tokenizer"), workspace.recipe, record);
  const double loss = golden[0].mean_loss();
  workspace.progress->note(cat(read.architecture, ": ", read.tensors, " tensors, ",
                               support::with_commas(read.model.parameter_count()), " parameters, encoding ",
                               encodings::encoding_name(c.encoding.json), ", context ", c.length));
  workspace.progress->note(fmt::format("loss on a fixed text of {} tokens: {:.4f} nats per token",
                                       golden[0].log_probabilities.size(), loss));
  if (loss > std::log(static_cast<double>(c.vocabulary))) {
    workspace.progress->warn("the model predicts this text worse than chance: is the tokenizer its own?");
  }
}

}  // namespace pe::interop
