#include "training/artifacts.h"

#include <algorithm>

#include "model/checkpoint_io.h"
#include "training/stability.h"
#include "training/validation.h"

namespace pe::training {

std::int64_t ArtifactWriter::tokens_seen(std::int64_t step) const {
  return run_.tokens_before + step * run_.batch * run_.model.config().length;
}

artifact::CheckpointMeta ArtifactWriter::meta(const Position& position, bool diverged) const {
  artifact::CheckpointMeta meta;
  meta.status = diverged ? artifact::TrainingStatus::kDiverged : artifact::TrainingStatus::kOk;
  meta.step = position.step;
  meta.tokens_seen = tokens_seen(position.step);
  meta.next_sample = position.step * run_.batch;
  meta.tokenizer_digest = dataset_.tokenizer_digest();
  meta.data_digest = dataset_.content_digest();
  meta.split_rule = dataset_.splits().rule;
  meta.trained_on = run_.trained_on;
  meta.trained_on.add(dataset_.splits().documents[static_cast<std::size_t>(artifact::Split::kTrain)]);
  meta.parents = run_.parents;
  model::describe_model(run_.model, meta);
  meta.optimizer = to_json(run_.optimizer, run_.optimizer_start);
  meta.data = {{"length", run_.model.config().length}, {"batch", run_.batch}, {"seed", run_.data_seed}};
  if (run_.documents != Documents::kJoined) {
    meta.data["documents"] = run_.documents == Documents::kMasked ? "masked" : "restarted";
  }
  meta.extra = {{"phase", run_.schedule.phase(position.step)},
                {"lr", position.step == run_.first_step ? 0.0 : run_.schedule.at(position.step - 1)}};
  if (!run_.branch.empty()) meta.extra["branch"] = run_.branch;
  if (!position.skipped.empty()) meta.extra["skipped"] = position.skipped;
  if (!position.inexact.empty()) meta.extra["inexact"] = position.inexact;
  if (const auto best = position.kept_best()) {
    meta.extra["best"] = {{"step", best->step}, {"tokens", best->tokens}, {"loss", best->loss}};
  }
  return meta;
}

std::optional<ValidationRow> ArtifactWriter::validation(std::int64_t step) const {
  std::optional<ValidationRow> row =
      validate(run_.model, dataset_, run_.watch.validate_windows, *run_.compute.micro_batch, run_.documents, &ranks_);
  if (row) {
    row->step = step;
    row->tokens = tokens_seen(step);
  }
  return row;
}

void ArtifactWriter::write(const std::map<std::string, std::filesystem::path>& outputs, const Position& position,
                           bool moments, bool diverged) const {
  if (const auto model = outputs.find("model"); model != outputs.end() && ranks_.is_first()) {
    write_model(model->second, position, moments, diverged);
  }
  const auto metrics = outputs.find("metrics");
  if (metrics == outputs.end()) return;
  Curves curves = position.curves;
  const bool validated =
      ranks_.first_says(!curves.validation.empty() && curves.validation.back().step == position.step);
  if (!validated && !diverged) {
    if (const auto row = validation(position.step)) curves.validation.push_back(*row);
  }
  Json facts = this->facts(position, diverged);
  if (!diverged) add_average(position.step, facts);
  if (ranks_.is_first()) artifact::write_metrics(metrics->second, workspace_.recipe, curves.tables(facts));
}

void ArtifactWriter::write_model(const std::filesystem::path& path, const Position& position, bool moments,
                                 bool diverged) const {
  artifact::CheckpointWriter writer(path, workspace_.recipe, meta(position, diverged));
  model::write_weights(run_.model, writer);
  for (const StatePart& part : optimizer_.state()) {
    if (moments || !part.of_updates) model::write_tensors(writer, part.name, run_.model, part.flat, part.absent);
  }
  if (position.kept_best()) model::write_tensors(writer, kBestPart, run_.model, position.best);
  writer.finish();
}

Json ArtifactWriter::facts(const Position& position, bool diverged) const {
  const std::int64_t warmup = std::max<std::int64_t>(0, run_.schedule.begin + run_.schedule.warmup - run_.first_step);
  Json facts = {{"encoding", model::to_json(run_.model.config())["encoding"]},
                {"seed", run_.model.seed()},
                {"parameters", run_.model.parameter_count()},
                {"encoding_parameters", run_.model.encoding_parameter_count()},
                {"step", position.step},
                {"first_step", run_.first_step},
                {"length", run_.model.config().length},
                {"status", diverged ? "diverged" : "ok"},
                {"stability", stability_facts(position.curves.steps, position.curves.logits, run_.first_step, warmup,
                                              run_.optimizer.clip)}};
  if (!position.skipped.empty()) facts["skipped_steps"] = position.skipped;
  if (!position.inexact.empty()) facts["inexact"] = position.inexact;
  if (const auto best = position.kept_best()) facts["best"] = {{"step", best->step}, {"loss", best->loss}};
  return facts;
}

/// The validation loss of the averaged weights, which take the model's place for that long.
void ArtifactWriter::add_average(std::int64_t step, Json& facts) const {
  if (optimizer_.averages().empty()) return;
  const auto exchange = [&](const std::vector<at::Tensor>& with) {
    const at::NoGradGuard no_gradients;
    for (std::size_t i = 0; i < with.size(); ++i) {
      at::Tensor values = run_.model.groups()[i].values;
      values.copy_(with[i]);
    }
    run_.model.after_step();
  };
  std::vector<at::Tensor> own;
  for (const model::FlatGroup& group : run_.model.groups()) own.push_back(group.values.clone());
  exchange(optimizer_.averages());
  if (const auto row = validation(step)) facts["ema"] = {{"loss", row->loss}, {"bpb", row->bpb}};
  exchange(own);
}

}  // namespace pe::training
