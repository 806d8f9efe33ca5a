#include "training/branch_point.h"

#include "artifact/content_digest.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::training {

using artifact::Split;
using support::ArtifactError;
using support::cat;

namespace {

template <typename Value>
Value required(const Json& json, const char* name, const std::filesystem::path& file, const char* group) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) {
    throw ArtifactError(
        cat(file.string(), ": ", group, " lacks the number '", name, "'; this is no checkpoint of a training"));
  }
  return found->get<Value>();
}

}  // namespace

data::TokenDataset open_data(const artifact::Workspace& workspace, std::int64_t length, const char* key,
                             Documents documents) {
  const std::filesystem::path& path = workspace.input("data").path;
  data::TokenDataset dataset(path);
  if (dataset.windows(Split::kTrain, length) == 0) {
    throw ArtifactError(cat(path.string(), ": the train split has ", dataset.tokens(Split::kTrain),
                            " tokens, too few for one window of ", length, " + 1"),
                        cat("give it more text, or lower ", key));
  }
  if (const std::uint64_t window = dataset.window_tokens();
      window != 0 && window != static_cast<std::uint64_t>(length)) {
    throw ArtifactError(cat(path.string(), ": holds examples of ", window, " tokens, but ", key, " is ", length),
                        cat("set ", key, " to ", window, ", or generate.window to ", length));
  }
  require_borders(dataset, documents, path.string(), "set train.documents: joined");
  return dataset;
}

void require_borders(const data::TokenDataset& dataset, Documents documents, const std::string& where,
                     const std::string& hint) {
  if (documents == Documents::kJoined || dataset.window_tokens() == 0 || dataset.has_labels()) return;
  throw ArtifactError(cat(where, ": a window of pe-mix is one document, so train.documents: ",
                          documents == Documents::kMasked ? "masked" : "restarted", " has no effect"),
                      hint);
}

BranchPoint open_branch_point(const artifact::Workspace& workspace, const data::TokenDataset& dataset,
                              BranchNeeds needs) {
  const artifact::Input& input = workspace.input("init");
  const std::filesystem::path& file = input.path;
  BranchPoint from{.checkpoint = artifact::CheckpointReader(file),
                   .digest = input.digest.empty() ? artifact::content_digest(file) : input.digest};
  const artifact::CheckpointMeta& meta = from.checkpoint.meta();
  from.imported = meta.extra.contains("imported");
  if (meta.status == artifact::TrainingStatus::kDiverged) {
    throw ArtifactError(
        cat(file.string(), ": this training diverged at step ", meta.step, "; nothing branches off it"));
  }
  if (meta.tokenizer_digest != dataset.tokenizer_digest()) {
    throw ArtifactError(cat(file.string(), ": trained with tokenizer ", meta.tokenizer_digest, ", but the data has ",
                            dataset.tokenizer_digest()));
  }
  if (needs.same_data && !from.imported && meta.data_digest != dataset.content_digest()) {
    const std::string& rule = dataset.splits().rule;
    throw ArtifactError(
        cat(file.string(), ": trained on token shards ", meta.data_digest, ", but the input is ",
            dataset.content_digest(),
            meta.split_rule == rule ? ""
                                    : cat("; its data was split into ", meta.split_rule, ", this data into ", rule)),
        "a branch continues the order of the same data");
  }
  if (needs.moments && from.imported) {
    throw ArtifactError(cat(file.string(), ": an imported model has no optimizer state"),
                        "let the optimizer start with reset");
  }
  if (needs.moments && from.checkpoint.find("optim/m/embedding") == nullptr) {
    throw ArtifactError(
        cat(file.string(), ": holds no optimizer state, so it is the end of a training and no snapshot"),
        "take a snapshot of a training: 'trunk@label'");
  }
  from.optimizer = optimizer_from_json(meta.optimizer, file.string());
  from.optimizer_start = required<std::int64_t>(meta.optimizer, "start", file, "optimizer");
  from.batch = required<std::int64_t>(meta.data, "batch", file, "data");
  from.length = required<std::int64_t>(meta.data, "length", file, "data");
  from.data_seed = required<std::int64_t>(meta.data, "seed", file, "data");
  if (const std::string documents = meta.data.value("documents", "joined"); documents != "joined") {
    from.documents = documents == "masked" ? Documents::kMasked : Documents::kRestarted;
  }
  from.step = meta.step;
  if (!from.imported) from.tokens_before = meta.tokens_seen - from.step * from.batch * from.length;
  from.phase = meta.extra.value("phase", "");
  from.lr = required<double>(meta.extra, "lr", file, "extra");
  // Where the decay begins, no step below the peak was taken, and a stable training has the same state. The last rate
  // of a warm-up is the peak but for its rounding.
  const double peak = from.optimizer.peak_lr;
  if (from.phase == "decay" && std::abs(from.lr - peak) <= 1e-12 * peak) from.phase = "stable";
  if (meta.next_sample != from.step * from.batch) {
    throw ArtifactError(cat(file.string(), ": the next sample is ", meta.next_sample, ", but ", from.step, " steps of ",
                            from.batch, " sequences were taken"));
  }
  return from;
}

Run run_from(const BranchPoint& snapshot, const model::LanguageModel& model, const StageConfig& config,
             const WatchConfig& watch, const model::ComputeConfig& compute, Communicator* ranks) {
  Run run{.model = model,
          .optimizer = snapshot.optimizer,
          .optimizer_start = snapshot.optimizer_start,
          .first_step = snapshot.step,
          .batch = snapshot.batch,
          .data_seed = snapshot.data_seed,
          .documents = snapshot.documents,
          .tokens_before = snapshot.tokens_before,
          .watch = watch,
          .compute = compute,
          .communicator = ranks,
          .checkpoint = config.checkpoint,
          .watch_files = config.watch,
          .parents = snapshot.checkpoint.meta().parents,
          .trained_on = snapshot.checkpoint.meta().trained_on};
  run.parents.push_back(snapshot.digest);
  return run;
}

}  // namespace pe::training
