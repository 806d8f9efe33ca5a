#include "training/drop_pe.h"

#include "encodings/registry.h"
#include "model/checkpoint_io.h"
#include "model/device.h"
#include "support/error.h"
#include "support/text.h"
#include "training/branch_point.h"
#include "training/logit_scale.h"

namespace pe::training {

using support::ArtifactError;
using support::cat;

Schedule drop_schedule(const DropConfig& config, double snapshot_peak, std::int64_t begin, std::int64_t end) {
  Schedule schedule;
  schedule.kind = ScheduleKind::kCosine;
  schedule.peak = config.peak_lr > 0 ? config.peak_lr : config.peak_scale * snapshot_peak;
  schedule.final_share = config.final_share;
  schedule.begin = begin;
  schedule.warmup = config.warmup_steps > 0 ? config.warmup_steps : share_of_steps(config.warmup_share, end - begin);
  schedule.decay_begin = schedule.end = end;
  return schedule;
}

namespace {

/// A snapshot keeps its batch and its window, since the order of its data continues.
void require_own_only_of_imports(const DropConfig& drop, bool imported, const std::string& file) {
  if (imported || (drop.batch == 0 && drop.length == 0)) return;
  throw support::ConfigError(cat(drop.batch != 0 ? "drop.batch" : "drop.length", " is for imported models, and ", file,
                                 " is a snapshot, which keeps its batch and length"),
                             {}, "leave it at 0");
}

/// @throws ArtifactError unless `snapshot` is before the decay of its schedule and before step `end`
void require_before_end(const BranchPoint& snapshot, std::int64_t end) {
  if (snapshot.phase == "decay" || snapshot.phase == "done") {
    throw ArtifactError(cat(snapshot.checkpoint.path().string(), ": step ", snapshot.step, " is in phase '",
                            snapshot.phase, "' of its schedule; a drop branches off before a decay"));
  }
  if (snapshot.step >= end) {
    throw ArtifactError(cat(snapshot.checkpoint.path().string(), ": a snapshot at step ", snapshot.step,
                            ", but the horizon of drop.horizon_tokens ends at step ", end));
  }
}

/// Changes of the arm. `had` is the encoding before.
model::ModelChanges changes_of(const DropConfig& drop, const Json& had) {
  const bool drops = drop.arm == DropConfig::Arm::kDrop;
  model::ModelChanges changes;
  if (drops) changes.encoding = drop.encoding.json;
  changes.keep_encoding_parameters = true;  // of members that stay
  changes.redraw_other_shapes = drops;
  if (drop.qk_norm == DropConfig::QkNorm::kWidth) changes.qk_norm_over = model::QkNormOver::kWidth;
  const bool scaled = drop.logit_scale != DropConfig::LogitScale::kNone;
  if (scaled) {
    const double slope = drop.logit_scale == DropConfig::LogitScale::kGiven ? drop.logit_scale_slope : 0.0;
    changes.encoding = with_length_scale(drops ? drop.encoding.json : had, slope);
  }
  return changes;
}

}  // namespace

void drop_pe(const DropPeConfig& config, artifact::Workspace& workspace) {
  const artifact::CheckpointReader peek(workspace.input("init").path);
  const bool imported = peek.meta().extra.contains("imported");
  require_own_only_of_imports(config.drop, imported, peek.path().string());
  const std::int64_t length = config.drop.length > 0 ? config.drop.length : model::config_of(peek).length;
  const data::TokenDataset dataset = open_data(workspace, length, imported ? "drop.length" : "train.length");
  const bool fits = config.drop.logit_scale == DropConfig::LogitScale::kFitted;
  if (fits) require_fitting_windows(dataset, length, workspace.input("data").path.string());
  const bool reset = config.drop.optimizer == DropConfig::Optimizer::kReset;
  BranchPoint snapshot = open_branch_point(workspace, dataset, {.moments = !imported || !reset});
  snapshot.length = length;
  if (config.drop.batch > 0) snapshot.batch = config.drop.batch;
  const std::string file = snapshot.checkpoint.path().string();
  const model::ComputeConfig compute = model::resolve(config.compute, snapshot.batch, snapshot.length);
  const at::Device device = model::open_device(compute);
  const std::unique_ptr<Communicator> ranks = open_communicator(compute, device);

  const std::int64_t end = horizon_steps(config.drop.horizon_tokens, snapshot.batch * snapshot.length);
  require_before_end(snapshot, end);
  const bool drops = config.drop.arm == DropConfig::Arm::kDrop;
  const Json& had = snapshot.checkpoint.meta().encoding;
  const Json& wanted = config.drop.encoding.json;
  if (drops && had == (wanted.is_string() ? Json{{"kind", wanted}} : wanted)) {
    throw ArtifactError(
        cat(file, ": its encoding is '", encodings::encoding_name(had), "' already, so there is nothing to drop"),
        "leave it out of the drops, or use drop.arm: nodrop as a control");
  }
  const Schedule schedule = drop_schedule(config.drop, snapshot.optimizer.peak_lr, snapshot.step, end);
  if (schedule.warmup > end - snapshot.step) {
    throw support::ConfigError(
        cat("the warm-up takes ", schedule.warmup, " steps, but only ", end - snapshot.step, " remain"));
  }
  model::ModelChanges changes = changes_of(config.drop, had);
  if (imported) changes.length = length;
  const model::ChangedModel loaded =
      model::load_changed(snapshot.checkpoint, changes, device, model::compute_type(compute));
  if (fits) require_fitting_model(loaded.model);
  Run run = run_from(snapshot, loaded.model, config, config.drop.watch, compute, ranks.get());
  run.optimizer.peak_lr = schedule.peak;
  if (reset) run.optimizer_start = snapshot.step;
  run.schedule = schedule;
  run.last_step = end;
  run.branch = {{"kind", drops ? "drop" : "nodrop"}, {"step", snapshot.step}, {"end", end}, {"encoding_before", had}};
  if (config.drop.qk_norm == DropConfig::QkNorm::kWidth) run.branch["qk_norm"] = "width";
  run.fresh = loaded.untrained();
  run.saves_end = fits;
  run.hint_at_divergence = "lower drop.peak_scale or drop.peak_lr, or raise drop.warmup_steps";
  if (!reset) run.moments_from = &snapshot.checkpoint;
  execute(run, dataset, workspace);
  if (fits) fit_logit_scale(run, dataset, config.drop.watch.validate_windows, workspace);
}

}  // namespace pe::training
