#include "training/branch_decay.h"

#include "model/checkpoint_io.h"
#include "model/device.h"
#include "support/error.h"
#include "support/text.h"
#include "training/branch_point.h"

namespace pe::training {

using support::ArtifactError;
using support::cat;

void branch_decay(const BranchDecayConfig& config, artifact::Workspace& workspace) {
  const artifact::CheckpointReader peek(workspace.input("init").path);
  const std::int64_t length = model::config_of(peek).length;
  const data::TokenDataset dataset = open_data(workspace, length);
  const BranchPoint snapshot = open_branch_point(workspace, dataset);
  const std::string file = snapshot.checkpoint.path().string();
  const model::ComputeConfig compute = model::resolve(config.compute, snapshot.batch, snapshot.length);
  const at::Device device = model::open_device(compute);
  const std::unique_ptr<Communicator> ranks = open_communicator(compute, device);

  const DecaySpan span = decay_span(config.decay.end, config.decay.share,
                                    horizon_steps(config.decay.horizon_tokens, snapshot.batch * snapshot.length));
  if (snapshot.phase != "stable" && snapshot.phase != "constant") {
    throw ArtifactError(cat(file, ": step ", snapshot.step, " is in phase '", snapshot.phase,
                            "' of its schedule; a decay branches off the stable phase"));
  }
  if (snapshot.step != span.begin) {
    throw ArtifactError(
        cat(file, ": a snapshot at step ", snapshot.step, ", but a decay that ends at ",
            support::shortest(config.decay.end), " of the horizon begins at end · (1 − share), step ", span.begin),
        cat("take the snapshot at ", support::shortest(config.decay.end * (1 - config.decay.share))));
  }
  if (span.end <= span.begin) {
    throw support::ConfigError(cat("the decay from step ", span.begin, " to ", span.end, " has no step"), {},
                               "raise decay.share or decay.horizon_tokens");
  }
  Schedule schedule;
  schedule.kind = ScheduleKind::kWsd;
  schedule.shape = config.decay.shape;
  schedule.peak = snapshot.optimizer.peak_lr;
  schedule.final_share = config.decay.final_share;
  schedule.begin = schedule.decay_begin = span.begin;
  schedule.end = span.end;

  Run run = run_from(snapshot, model::load_model(snapshot.checkpoint, device, model::compute_type(compute)), config,
                     config.decay.watch, compute, ranks.get());
  run.schedule = schedule;
  run.last_step = span.end;
  run.branch = {{"kind", "decay"}, {"step", span.begin}, {"end", span.end}};
  run.hint_at_divergence = "lower train.peak_lr of the training that it branches off";
  run.moments_from = &snapshot.checkpoint;
  execute(run, dataset, workspace);
}

}  // namespace pe::training
