#include "training/run.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "data/tokenizers/token_numbers.h"
#include "encodings/attention/attend.h"
#include "encodings/attention/token_reader.h"
#include "encodings/registry.h"
#include "model/checkpoint_io.h"
#include "model/device.h"
#include "model/flat_zeros.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/parse_json.h"
#include "support/text.h"
#include "training/artifacts.h"
#include "training/batch_reader.h"
#include "training/gradient_buckets.h"
#include "training/identity.h"
#include "training/resume.h"
#include "training/state_copy.h"
#include "training/step.h"
#include "training/validation.h"
#include "training/watcher.h"

namespace pe::training {
namespace {

using artifact::Split;
using support::ArtifactError;
using support::cat;

/// Of a longer sequence only so much is looked at for its largest logit: that route holds all logits of a layer.
constexpr std::int64_t kLogitTokens = 2048;

/// Steps between two comparisons of the ranks' parameters.
constexpr std::int64_t kCompareEvery = 500;

/// How many steps up to the last one were skipped.
std::int64_t in_a_row(const std::vector<std::int64_t>& steps) {
  std::int64_t count = 1;
  while (count < std::ssize(steps) && *(steps.rbegin() + count) == steps.back() - count) ++count;
  return count;
}

/// Curves as they were at `step` in the run that gave the snapshot.
Curves curves_of_snapshot(const Run& run, const std::filesystem::path& metrics, std::int64_t step) {
  Curves curves = Curves::from_tables(artifact::read_metrics(metrics));
  if (std::ssize(curves.steps) != step - run.first_step) {
    throw ArtifactError(cat(metrics.string(), ": table 'steps' has ", curves.steps.size(),
                            " rows, but its snapshot took ", step - run.first_step, " steps"));
  }
  // Its last validation was for the snapshot alone, unless one was due.
  const bool due = run.watch.validate_every > 0 && step % run.watch.validate_every == 0;
  if (!due && !curves.validation.empty() && curves.validation.back().step == step) curves.validation.pop_back();
  return curves;
}

/// Everything that lives as long as a run.
class TrainingLoop {
 public:
  TrainingLoop(const Run& run, const data::TokenDataset& dataset, artifact::Workspace& workspace)
      : run_(run),
        workspace_(workspace),
        communicator_(run.communicator == nullptr ? *alone_ : *run.communicator),
        progress_(workspace.progress == nullptr || !communicator_.is_first() ? support::silent_progress()
                                                                             : *workspace.progress),
        length_(run.model.config().length),
        end_(workspace.snapshots.empty() ? run.last_step : workspace.snapshots.back().step),
        samples_({dataset, Split::kTrain, length_, run.model.device(), run.documents},
                 static_cast<std::uint64_t>(run.data_seed), dataset.windows(Split::kTrain, length_)),
        optimizer_(run.model, run.optimizer, run.optimizer_start),
        artifacts_(run, dataset, workspace, optimizer_, communicator_),
        store_(workspace, run.checkpoint, progress_) {
    position_.step = run.first_step;
    if (run.keep_best) {
      for (const model::FlatGroup& group : run.model.groups()) {
        position_.best.push_back(model::flat_zeros(group.values.numel(), group.values.options()));
      }
    }
    check_snapshots();
    if (run.moments_from != nullptr) take_moments(*run.moments_from);
  }

  void train() {
    require_same_run();
    if (communicator_.is_first() && !resume()) run_.model.draw();
    if (communicator_.count() > 1) take_over_state();
    announce();
    stopping_ = communicator_.any(support::stop_requested());
    last_checkpoint_ = support::steady_s();
    const auto& snapshots = workspace_.snapshots;
    while (next_snapshot_ < snapshots.size() && snapshots[next_snapshot_].step < position_.step) ++next_snapshot_;
    unread_steps_ = communicator_.count() == 1 && optimizer_.has_unread_steps();
    if (unread_steps_ && !position_.skipped.empty() && position_.skipped.back() == position_.step)
      optimizer_.set_skipped(in_a_row(position_.skipped));
    for (;;) {
      while (next_snapshot_ < snapshots.size() && snapshots[next_snapshot_].step == position_.step) {
        read_step();
        write_snapshot(snapshots[next_snapshot_], false);
        ++next_snapshot_;
      }
      if (position_.step >= end_) break;
      if (communicator_.count() == 1 ? support::stop_requested() : stopping_) stop();
      one_step();
      after_step();
    }
    read_step();
    try {
      if (run_.saves_end && communicator_.is_first() && saved_ != position_.step) save();
      finish_writing();
    } catch (const support::IoError& error) {  // the unsaved state is about to be the result
      progress_.warn(error.what());
    }
    if (snapshots.empty()) write_artifacts(workspace_.outputs, run_.artifact_holds_moments, false);
    if (watcher_) watcher_->end("done");
    communicator_.barrier();
  }

 private:
  std::int64_t tokens(std::int64_t steps) const { return steps * run_.batch * length_; }

  /// Moments to begin with; of parameters that the checkpoint lacks they stay 0.
  void take_moments(const artifact::CheckpointReader& checkpoint) const {
    for (const StatePart& part : optimizer_.state()) {
      std::vector<std::string> skip = run_.fresh;
      skip.insert(skip.end(), part.absent.begin(), part.absent.end());
      model::read_tensors(checkpoint, part.name, run_.model, part.flat, skip);
    }
  }

  void check_snapshots() const {
    for (const artifact::Snapshot& snapshot : workspace_.snapshots) {
      if (snapshot.step < run_.first_step || snapshot.step > run_.last_step) {
        throw support::ConfigError(cat("snapshot '", snapshot.label, "' is at step ", snapshot.step,
                                       ", outside of steps ", run_.first_step, " to ", run_.last_step));
      }
      const bool at_end = snapshot.step == run_.schedule.end;
      if (run_.schedule.kind == ScheduleKind::kWsd && !run_.schedule.free_of_horizon(snapshot.step) && !at_end) {
        throw support::ConfigError(
            cat("snapshot '", snapshot.label, "' at step ", snapshot.step,
                " lies inside the decay, which begins at step ", run_.schedule.decay_begin),
            {}, "set train.decay_share: 0 in a stage that only feeds branches, or move the snapshot");
      }
    }
  }

  /// One line for people about the training that begins.
  void announce() {
    const std::int64_t parameters = run_.model.parameter_count();
    progress_.note(cat(support::short_count(static_cast<double>(parameters)), " parameters (",
                       support::with_commas(parameters), "), steps ", position_.step, " to ", end_, " of ",
                       support::with_commas(tokens(1)), " tokens, ",
                       model::device_summary(run_.compute, run_.model.device())));
    encodings::Span span = encodings::Span::whole(*run_.compute.micro_batch, length_);
    span.training = true;
    span.device = run_.model.device();
    span.pe_len = length_;
    span.causal = run_.model.config().mask == model::Mask::kCausal;
    encodings::PositionalEncoding& encoding = run_.model.encoding();
    const encodings::State state = encodings::begin_pass(encoding, span);  // some learn only here how long they reach
    progress_.note(cat("encoding ", encodings::encoding_name(run_.model.config().encoding.json), ", attention route: ",
                       encodings::route_name(encoding, span, run_.model.compute_dtype(), /*needs_grad=*/true)));
    const std::uint64_t windows = samples_.order().windows();
    const auto needed = static_cast<std::uint64_t>(end_ * run_.batch);
    if (needed > windows) {
      progress_.note(
          cat("the data has ", windows, " windows; the run sees ", needed, ", that is ",
              support::shortest(std::round(100.0 * static_cast<double>(needed) / static_cast<double>(windows)) / 100),
              " epochs"));
    }
    // Settings of a longer run, merged into a short one, leave a schedule that only ever rises.
    const Schedule& schedule = run_.schedule;
    if (schedule.warmup > 1 && 2 * schedule.warmup >= schedule.end - schedule.begin) {
      progress_.warn(cat("the warm-up takes ", schedule.warmup, " of the schedule's ", schedule.end - schedule.begin,
                         " steps, up to a learning rate of ", support::shortest(schedule.peak)));
    }
    const std::string device = model::device_name(run_.model.device());
    const std::optional<double> peak = run_.watch_files.peak_tflops > 0
                                           ? std::optional(run_.watch_files.peak_tflops * 1e12)
                                           : model::peak_flops(run_.model.device(), device);
    if (peak || run_.model.device().is_cuda()) progress_.note(mfu_formula(flops(), peak, device));
    if (communicator_.count() > 1) {
      progress_.note(cat(communicator_.count(), " ranks, each with ", run_.batch / communicator_.count(),
                         " of a step's ", run_.batch, " sequences"));
    }
    if (!communicator_.is_first()) return;
    watcher_.emplace(
        workspace_, run_.watch_files,
        MonitorState{.first_step = run_.first_step,
                     .step = position_.step,
                     .last_step = end_,
                     .tokens_per_step = tokens(1),
                     .tokens_before = run_.tokens_before,
                     .flops_per_token = flops(),
                     .peak_flops = peak ? std::optional(*peak * static_cast<double>(communicator_.count())) : peak,
                     .memory_bytes = [device = run_.model.device()] { return model::memory_in_use(device); }},
        progress_);
  }

  bool is_logged(std::int64_t step) const { return (step + 1) % run_.watch.log_every == 0; }

  /// The micro-batch of this rank that begins at `first` of its share.
  Samples micro_batch(std::int64_t step, std::int64_t first) const {
    const Samples share = find_share(step, run_.batch, communicator_.rank(), communicator_.count());
    return {share.first + first, *run_.compute.micro_batch, is_logged(step)};
  }

  /// Starts to read the micro-batch after this one, while this one is computed.
  void read_ahead(std::int64_t first) {
    const std::int64_t next = first + *run_.compute.micro_batch;
    if (next < run_.batch / communicator_.count())
      samples_.announce(micro_batch(position_.step, next));
    else if (position_.step + 1 < end_)
      samples_.announce(micro_batch(position_.step + 1, 0));
  }

  /// A step that was computed, or is being computed by a GPU.
  struct Step {
    std::int64_t index = 0, bytes = 0;
    double scale = 1, lr = 0;
    double loss = 0;                    ///< where the host waits for each step
    at::Tensor numbers;                 ///< else, of Optimizer::unread_step, on the host
    std::optional<c10::Event> arrived;  ///< after `numbers`
  };

  void one_step() {
    Step step = compute_gradients(position_.step);
    if (!unread_steps_) {
      const Optimizer::StepResult updated = update(optimizer_, step.index, step.lr, step.loss);
      ++position_.step;
      return record(step, step.loss, updated);
    }
    send_to_host(step, optimizer_.unread_step(step.index, step.lr, step.numbers));
    read_step();
    ++position_.step;
    unread_ = std::move(step);
  }

  void send_to_host(Step& step, const at::Tensor& numbers) const {
    const at::Device device = numbers.device();
    step.numbers = at::empty(numbers.sizes(), at::TensorOptions(at::kDouble).pinned_memory(device.is_cuda()));
    step.numbers.copy_(numbers, /*non_blocking=*/true);
    if (!device.is_cuda()) return;
    step.arrived.emplace(device.type());
    step.arrived->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }

  /// Waits for the step whose numbers the host has not read, if there is one.
  void read_step() {
    if (!unread_) return;
    const Step step = std::move(*unread_);
    unread_.reset();
    if (step.arrived) step.arrived->synchronize();
    const auto* numbers = step.numbers.const_data_ptr<double>();
    record(step, numbers[0], optimizer_.result_of(numbers[0], numbers[1]));
  }

  /// Forward and backward passes of a step.
  Step compute_gradients(std::int64_t index) {
    const std::int64_t part = run_.batch / communicator_.count(), micro = *run_.compute.micro_batch;
    const double scale =
        1.0 / static_cast<double>(std::max<std::int64_t>(1, samples_.targets(index * run_.batch, run_.batch)));
    if (index % kLogitEvery == 0) {
      read_step();
      sample_logits();
    }
    run_.model.zero_gradients();
    double loss = 0;
    at::Tensor unread_loss;
    std::int64_t bytes = 0;
    for (std::int64_t first = 0; first < part; first += micro) {
      const Samples samples = micro_batch(index, first);
      const double before = support::steady_s();
      const Batch batch = samples_.take(samples);
      if (watcher_) watcher_->waited_for_data(support::steady_s() - before);
      read_ahead(first);
      model::ForwardOptions options;
      options.training = true;
      options.step = index;
      options.first_sample = samples.first;
      options.doc_start = batch.doc_start;
      options.restart_positions = run_.documents == Documents::kRestarted;
      if (buckets_ && first + micro >= part) {
        buckets_->begin();
        options.left_layer = [this](std::int64_t layer) { buckets_->left_layer(layer); };
      }
      const at::Tensor share = accumulate(run_.model, batch.ids, batch.targets, options, scale, run_.optimizer.z_loss);
      if (!unread_steps_)
        loss += share.item<double>();
      else
        unread_loss = unread_loss.defined() ? unread_loss + share.to(at::kDouble) : share.to(at::kDouble);
      bytes += batch.bytes;
    }
    if (buckets_) {
      buckets_->finish();
      // Every rank gets the same loss and the same decision to continue.
      const std::vector<double> all =
          communicator_.sum({loss, static_cast<double>(bytes), support::stop_requested() ? 1.0 : 0.0});
      loss = all[0];
      bytes = static_cast<std::int64_t>(all[1]);
      stopping_ = all[2] > 0;
    }
    return {.index = index,
            .bytes = bytes,
            .scale = scale,
            .lr = run_.schedule.at(index),
            .loss = loss,
            .numbers = unread_loss,
            .arrived = {}};
  }

  /// Enters a step into the curves, and ends the run if it has diverged. Nothing was updated then, nor in a step that
  /// was skipped.
  void record(const Step& step, double loss, const Optimizer::StepResult& updated) {
    const std::int64_t done = step.index + 1;
    position_.curves.steps.push_back({loss, updated.grad_norm});
    const TrainRow row{done,           artifacts_.tokens_seen(done),
                       loss,           bits_per_byte(loss / step.scale, step.bytes),
                       step.lr,        updated.grad_norm,
                       updated.clipped};
    const bool logged = is_logged(step.index) || !updated.finite;
    if (logged) position_.curves.train.push_back(row);
    if (watcher_) watcher_->step(row, logged);
    if (updated.finite) return;
    position_.skipped.push_back(done);
    if (in_a_row(position_.skipped) <= run_.optimizer.skip_nonfinite) return;
    position_.step = done;  // a step that was begun after it has changed nothing
    diverged();
  }

  /// Work that is due between two steps: validation, a comparison of ranks, a checkpoint.
  void after_step() {
    const CheckpointConfig& checkpoint = run_.checkpoint;
    const bool validates = run_.watch.validate_every > 0 && position_.step % run_.watch.validate_every == 0;
    if (validates) read_step();
    const bool is_best = validates && add_validation();
    const bool pinned = checkpoint.pin_every > 0 && position_.step % checkpoint.pin_every == 0;
    const double since = support::steady_s() - last_checkpoint_;
    if (position_.step % kCompareEvery == 0) compare_ranks();
    if (communicator_.is_first()) {
      const bool likely = checkpoint.pin_every > 0 || checkpoint.best || since >= checkpoint.every / 2;
      if (likely) copy_.prepare(state());
      if (pinned || (is_best && checkpoint.best) || (since >= checkpoint.every && position_.step < end_)) {
        read_step();
        save();
      }
    }
    store_.check();
    log_written();
  }

  /// The largest attention logit that one sequence of this step meets, with the weights before the update.
  void sample_logits() {
    const at::NoGradGuard no_gradients;
    const std::int64_t sample = position_.step * run_.batch;
    const Batch batch = samples_.read({sample, 1, false});
    LogitSample found{position_.step, 0};
    model::ForwardOptions options;
    options.step = position_.step;
    options.first_sample = sample;
    options.pe_len = length_;
    options.largest_logit = &found.largest;
    const std::int64_t count = std::min(length_, kLogitTokens);
    if (batch.doc_start.defined()) options.doc_start = batch.doc_start.narrow(1, 0, count);
    options.restart_positions = run_.documents == Documents::kRestarted;
    run_.model.forward(batch.ids.narrow(1, 0, count), options);
    position_.curves.logits.push_back(found);
    if (watcher_) watcher_->attention(found);
  }

  double flops() const { return model::flops_per_token(run_.model.config(), length_); }

  /// @return whether its loss is the lowest so far.
  bool add_validation() {
    const std::optional<ValidationRow> row = artifacts_.validation(position_.step);
    if (!row) return false;
    position_.curves.validation.push_back(*row);
    if (watcher_) watcher_->validation(*row);
    const std::optional<ValidationRow> best = position_.curves.best();
    if (!best || best->step != position_.step) return false;
    const at::NoGradGuard no_gradients;
    for (std::size_t i = 0; i < position_.best.size(); ++i) position_.best[i].copy_(run_.model.groups()[i].values);
    return true;
  }

  void write_artifacts(const std::map<std::string, std::filesystem::path>& outputs, bool moments, bool is_diverged) {
    compare_ranks();
    artifacts_.write(outputs, position_, moments, is_diverged);
  }

  void write_snapshot(const artifact::Snapshot& snapshot, bool is_diverged) {
    write_artifacts(snapshot.outputs, true, is_diverged);
    if (!communicator_.is_first()) return;
    Json event = {{"event", "snapshot"}, {"step", snapshot.step}, {"label", snapshot.label}};
    if (is_diverged) event["status"] = "diverged";
    progress_.event(event);
  }

  /// The state is copied before this returns; a thread writes the copy during training.
  void save() {
    const double begin = support::steady_s();
    finish_writing();  // the copy is the writer's until it is done
    artifact::CheckpointMeta now = artifacts_.meta(position_, false);
    now.fingerprint = fingerprint_of(run_);
    now.extra["run"] = identity_of(run_);
    const std::optional<ValidationRow> best = run_.checkpoint.best ? position_.curves.best() : std::nullopt;
    store_.save(position_.step, best ? std::optional(best->step) : std::nullopt,
                [recipe = workspace_.recipe, model = run_.model, now = std::move(now), copy = copy_.take(state()),
                 curves = position_.curves](const std::filesystem::path& path) {
                  artifact::CheckpointWriter writer(path, recipe, now);
                  for (const StatePart& part : copy)
                    model::write_tensors(writer, part.name, model, part.flat, part.absent);
                  curves.write(writer);
                  writer.finish();
                });
    saved_ = position_.step;
    last_checkpoint_ = support::steady_s();
    stall_s_ = last_checkpoint_ - begin;
  }

  /// State that the run resumes from: weights, the optimizer's state, and the best weights so far where they are kept.
  std::vector<StatePart> state() const {
    std::vector<StatePart> parts = state_of(run_.model, optimizer_);
    if (!position_.best.empty())
      parts.push_back({.name = kBestPart, .flat = position_.best, .absent = {}, .of_updates = false});
    return parts;
  }

  void finish_writing() {
    store_.wait();
    log_written();
  }

  void log_written() {
    const auto written = store_.written();
    if (written && watcher_) watcher_->checkpoint(written->step, stall_s_, written->seconds, written->bytes);
  }

  [[noreturn]] void stop() {
    read_step();
    if (communicator_.is_first()) {
      if (saved_ != position_.step) save();
      finish_writing();
      watcher_->end("stopped");
    }
    progress_.note(cat("stopped at step ", position_.step, "; run again to continue"));
    communicator_.agree_on_end();
    throw support::StopRequest(true);
  }

  [[noreturn]] void diverged() {
    const auto& snapshots = workspace_.snapshots;
    for (; next_snapshot_ < snapshots.size(); ++next_snapshot_) write_snapshot(snapshots[next_snapshot_], true);
    if (snapshots.empty()) write_artifacts(workspace_.outputs, false, true);
    const TrainRow& row = position_.curves.train.back();
    if (watcher_) watcher_->end("diverged");
    communicator_.agree_on_end();
    throw support::Error(
        support::kExitDiverged,
        support::Diagnostic{cat("training diverged at step ", position_.step, ": loss ", support::shortest(row.loss),
                                ", gradient norm ", support::shortest(row.grad_norm)),
                            {},
                            run_.hint_at_divergence,
                            {}});
  }

  /// Ranks that were started on different configs or data would add up gradients of different runs.
  void require_same_run() {
    if (communicator_.count() == 1) return;
    const artifact::CheckpointMeta here = artifacts_.meta(position_, false);
    const Json run = {{"config", workspace_.recipe.config},
                      {"data", here.data_digest},
                      {"order", here.data},
                      {"model", here.model},
                      {"encoding", here.encoding},
                      {"optimizer", here.optimizer},
                      {"parents", here.parents},
                      {"run", identity_of(run_)},
                      {"steps", {run_.first_step, run_.last_step}}};
    const std::string digest = support::canonical_hash("pe/ranks", run);
    const bool unlike = communicator_.broadcast(digest) != digest;
    const std::vector<double> all = communicator_.gather(unlike ? 1.0 : 0.0);
    const auto other = std::find(all.begin(), all.end(), 1.0);
    if (other == all.end()) return;
    throw support::ConfigError(
        cat("rank ", other - all.begin(), " was started with another config, or on other data, than rank 0"), {},
        "start all ranks with the same command");
  }

  /// All ranks start from the state of rank 0, fresh or resumed.
  void take_over_state() {
    const Json mine = {{"step", position_.step}, {"skipped", position_.skipped}, {"inexact", position_.inexact}};
    const Json first = support::require_json(communicator_.broadcast(mine.dump()));
    position_.step = first.at("step");
    position_.skipped = first.at("skipped").get<std::vector<std::int64_t>>();
    position_.inexact = first.at("inexact");
    const at::NoGradGuard no_gradients;
    for (const StatePart& part : state()) {
      for (const at::Tensor& flat : part.flat) {
        if (flat.numel() > 0) communicator_.broadcast(flat);
      }
    }
    if (!communicator_.is_first())
      run_.model.after_step();  // products read copies of the values, of a new training too
    buckets_.emplace(run_.model, communicator_);
  }

  /// Each rank has updated its own copy; bits must not have come apart.
  void compare_ranks() {
    if (communicator_.count() > 1) require_agreement(communicator_, parameter_hash(run_.model), position_.step);
  }

  /// @return whether there was a checkpoint to resume from
  bool resume() {
    artifact::CheckpointMeta expected = artifacts_.meta(position_, false);
    expected.extra["run"] = identity_of(run_);
    const std::int64_t limit = workspace_.snapshots.empty() ? run_.last_step : workspace_.snapshots.front().step;
    return store_.restore(
        expected, run_.first_step, limit,
        [&](const artifact::CheckpointReader& checkpoint, const std::filesystem::path* metrics) {
          Json inexact = marks_of(checkpoint, metrics == nullptr ? fingerprint_of(run_) : Json::object());
          Curves curves = metrics == nullptr ? Curves::read(checkpoint)
                                             : curves_of_snapshot(run_, *metrics, checkpoint.meta().step);
          std::vector<StatePart> state = this->state();
          if (!checkpoint.meta().extra.contains("best")) {  // from before the first validation
            if (!position_.best.empty() && curves.best()) {
              throw support::ConfigError(cat(checkpoint.path().string(),
                                             ": has no weights of its best validation, since train.best was false"),
                                         {}, "set train.best: false, or remove the work folder to start over");
            }
            std::erase_if(state, [](const StatePart& part) { return part.name == kBestPart; });
          }
          for (const StatePart& part : state) model::require_tensors(checkpoint, part.name, run_.model, part.absent);
          // Read into separate memory and checked as a whole, unused tensors included: a damaged file must change
          // nothing.
          const std::vector<StatePart> read = host_zeros_like(state);
          for (const StatePart& part : read)
            model::read_tensors(checkpoint, part.name, run_.model, part.flat, part.absent);
          checkpoint.verify(at::get_num_threads());
          for (std::size_t i = 0; i < state.size(); ++i) {
            for (std::size_t j = 0; j < state[i].flat.size(); ++j)
              model::move_contents(read[i].flat[j], state[i].flat[j]);
          }
          position_.step = checkpoint.meta().step;
          position_.curves = std::move(curves);
          position_.skipped = checkpoint.meta().extra.value("skipped", std::vector<std::int64_t>());
          position_.inexact = std::move(inexact);
          run_.model.after_step();
          progress_.note(
              cat(metrics == nullptr ? "resuming at step " : "continuing from the snapshot at step ", position_.step));
        });
  }

  /// Places where this run was resumed inexactly, with this one where the checkpoint's fingerprint differs from `mine`.
  /// A snapshot has no fingerprint: it is one result of its key wherever it was made, and branches treat it so.
  Json marks_of(const artifact::CheckpointReader& checkpoint, const Json& mine) const {
    const auto [there, here] = differences(checkpoint.meta().fingerprint, mine);
    Json marks = checkpoint.meta().extra.value("inexact", Json::array());
    if (there == here) return marks;
    const std::string what = cat("resuming from ", checkpoint.path().string(),
                                 ", which another program, library, device, "
                                 "dtype or thread count wrote: the result will not be bit-exact (",
                                 there.dump(), " there, ", here.dump(), " here)");
    if (run_.checkpoint.inexact == CheckpointConfig::Inexact::kRefuse) {
      throw support::ConfigError(
          what, {}, "resume on the machine that wrote it, remove it to start over, or set checkpoint.inexact: mark");
    }
    progress_.warn(what);
    marks.push_back({{"step", checkpoint.meta().step}, {"there", there}, {"here", here}});
    return marks;
  }

  const Run& run_;
  artifact::Workspace& workspace_;
  const std::unique_ptr<Communicator> alone_ = make_null_communicator();
  Communicator& communicator_;
  support::Progress& progress_;
  std::int64_t length_;
  std::int64_t end_;  ///< the last step that will be done
  SampleReader samples_;
  Optimizer optimizer_;
  ArtifactWriter artifacts_;
  Position position_;
  StateCopy copy_;  ///< before the writer, which reads it and ends first
  ResumeStore store_;
  std::optional<Watcher> watcher_;          ///< of rank 0
  std::optional<GradientBuckets> buckets_;  ///< where there are several ranks
  bool stopping_ = false;                   ///< some rank was asked to stop; all know
  bool unread_steps_ = false;               ///< the host reads the numbers of a step after it has begun the next one
  std::optional<Step> unread_;              ///< the step before the one that is computed
  std::size_t next_snapshot_ = 0;
  double last_checkpoint_ = 0;
  std::int64_t saved_ = -1;  ///< the step of the last checkpoint
  double stall_s_ = 0;       ///< of the last checkpoint, until it is logged
};

/// Rows of a batch see each other there, so a part of a batch is another model.
void require_whole_batches(const Run& run) {
  if (!run.model.config().attend_over_batch) return;
  if (*run.compute.micro_batch != run.batch) {
    throw support::ConfigError(cat("model.attend_over_batch makes a batch one piece, and compute.micro_batch is ",
                                   *run.compute.micro_batch, " of ", run.batch, " sequences"),
                               {}, cat("set compute.micro_batch: ", run.batch));
  }
  if (run.communicator != nullptr && run.communicator->count() > 1)
    throw support::ConfigError("model.attend_over_batch makes a batch one piece: set compute.ranks: 1");
}

}  // namespace

void execute(const Run& run, const data::TokenDataset& dataset, artifact::Workspace& workspace) {
  require_whole_batches(run);
  if (encodings::ReadsTokens* reader = encodings::reader_of(run.model.encoding()); reader != nullptr) {
    reader->read_with(data::token_numbers(reader->reads(), dataset.tokenizer(), workspace.input("data").path.string()));
  }
  TrainingLoop(run, dataset, workspace).train();
}

}  // namespace pe::training
