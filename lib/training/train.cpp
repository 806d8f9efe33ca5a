#include "training/train.h"

#include "model/device.h"
#include "support/error.h"
#include "support/text.h"
#include "training/branch_point.h"
#include "training/run.h"

namespace pe::training {

Schedule schedule_of(const TrainSettings& settings) {
  const std::int64_t steps = horizon_steps(settings.tokens, settings.batch * settings.length);
  Schedule schedule;
  schedule.kind = settings.schedule;
  schedule.shape = settings.decay_shape;
  schedule.peak = settings.optimizer.peak_lr;
  schedule.final_share = settings.final_share;
  schedule.warmup = settings.warmup_share > 0 ? share_of_steps(settings.warmup_share, steps) : settings.warmup_steps;
  schedule.end = steps;
  schedule.decay_begin =
      settings.schedule == ScheduleKind::kWsd ? decay_span(1, settings.decay_share, steps).begin : steps;
  return schedule;
}

void train(const TrainConfig& config, artifact::Workspace& workspace) {
  const TrainSettings& settings = config.train;
  const model::ComputeConfig compute = model::resolve(config.compute, settings.batch, settings.length);
  const at::Device device = model::open_device(compute);
  const std::unique_ptr<Communicator> ranks = open_communicator(compute, device);
  const data::TokenDataset dataset = open_data(workspace, settings.length, "train.length", settings.documents);
  model::ModelConfig shape = config.model;
  shape.length = settings.length;
  const Schedule schedule = schedule_of(settings);
  const Run run{
      .model = model::LanguageModel::make(shape, dataset.vocabulary(), static_cast<std::uint64_t>(settings.seed),
                                          device, model::compute_type(compute),
                                          // A resumed run draws nothing; averages begin as the first weights.
                                          settings.optimizer.ema > 0 ? model::Weights::kDrawn : model::Weights::kLater),
      .optimizer = settings.optimizer,
      .schedule = schedule,
      .last_step = schedule.end,
      .batch = settings.batch,
      .data_seed = settings.seed,
      .documents = settings.documents,
      .watch = {settings.log_every, settings.validate_every, settings.validate_windows},
      .compute = compute,
      .communicator = ranks.get(),
      .keep_best = settings.best,
      .checkpoint = config.checkpoint,
      .watch_files = config.watch,
      .artifact_holds_moments = schedule.free_of_horizon(schedule.end)};
  execute(run, dataset, workspace);
}

}  // namespace pe::training
