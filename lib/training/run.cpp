#include "training/run.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <future>
#include <numbers>
#include <span>

#include "artifact/content_digest.h"
#include "data/token_numbers.h"
#include "encodings/attend.h"
#include "encodings/registry.h"
#include "encodings/token_reader.h"
#include "model/checkpoint_io.h"
#include "model/device.h"
#include "model/flat_zeros.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/text.h"
#include "training/gradient_buckets.h"
#include "training/resume.h"
#include "training/watcher.h"

namespace pe::training {
namespace {

using artifact::Split;
using support::ArtifactError;
using support::cat;
using Clock = std::chrono::steady_clock;

struct Batch {
  at::Tensor ids;       ///< [B, T]
  at::Tensor targets;   ///< [B·T]
  at::Tensor doc_start; ///< [B, T], unless documents are joined
  std::int64_t bytes = 0;
};

/// Windows as inputs and targets; `bytes` only where asked for.
class BatchReader {
 public:
  BatchReader(const data::TokenDataset& dataset, Split split, std::int64_t length, at::Device device, Documents documents)
      : dataset_(dataset), split_(split), length_(length), device_(device), documents_(documents),
        window_(static_cast<std::size_t>(length + 1)) {}

  template <typename WindowOf>
  Batch read(std::int64_t count, const WindowOf& window_of, bool count_bytes) {
    const auto options = at::TensorOptions(at::kLong);
    Batch batch{at::empty({count, length_}, options), at::empty({count * length_}, options), {}, 0};
    if (documents_ != Documents::kJoined) batch.doc_start = at::empty({count, length_}, options);
    auto* ids = batch.ids.data_ptr<std::int64_t>();
    auto* targets = batch.targets.data_ptr<std::int64_t>();
    for (std::int64_t row = 0; row < count; ++row) {
      const std::uint64_t window = window_of(row);
      dataset_.window(split_, length_, window, window_);
      if (batch.doc_start.defined()) {
        document_starts(dataset_, split_, window * static_cast<std::uint64_t>(length_),
                        {batch.doc_start.data_ptr<std::int64_t>() + row * length_, static_cast<std::size_t>(length_)});
      }
      std::copy(window_.begin(), window_.end() - 1, ids + row * length_);
      if (dataset_.has_labels()) {
        dataset_.read_labels(split_, window_of(row) * static_cast<std::uint64_t>(length_),
                             std::span(targets + row * length_, static_cast<std::size_t>(length_)));
      } else {
        std::copy(window_.begin() + 1, window_.end(), targets + row * length_);
      }
      if (count_bytes) batch.bytes += static_cast<std::int64_t>(dataset_.text_bytes(window_, 1));
    }
    if (device_.is_cuda()) {
      batch.ids = batch.ids.to(device_);
      batch.targets = batch.targets.to(device_);
      if (batch.doc_start.defined()) batch.doc_start = batch.doc_start.to(device_);
    }
    return batch;
  }

  /// Targets that count in `count` windows: all of them, but for data with labels.
  template <typename WindowOf>
  std::int64_t targets(std::int64_t count, const WindowOf& window_of) {
    if (!dataset_.has_labels()) return count * length_;
    std::vector<std::int64_t> labels(static_cast<std::size_t>(length_));
    std::int64_t asked = 0;
    for (std::int64_t row = 0; row < count; ++row) {
      dataset_.read_labels(split_, window_of(row) * static_cast<std::uint64_t>(length_), labels);
      asked += std::count_if(labels.begin(), labels.end(), [](std::int64_t label) { return label >= 0; });
    }
    return asked;
  }

 private:
  const data::TokenDataset& dataset_;
  Split split_;
  std::int64_t length_;
  at::Device device_;
  Documents documents_;
  std::vector<std::int64_t> window_;
};

/// What two objects have that the other has not, or has otherwise.
std::pair<Json, Json> differences(const Json& a, const Json& b) {
  const auto only = [](const Json& of, const Json& without) {
    Json left = Json::object();
    for (const auto& [name, value] : of.items()) {
      if (!without.contains(name) || without[name] != value) left[name] = value;
    }
    return left;
  };
  return {only(a, b), only(b, a)};
}

double bits_per_byte(double nats, std::int64_t bytes) {
  return bytes == 0 ? std::numeric_limits<double>::quiet_NaN() : nats / std::numbers::ln2 / static_cast<double>(bytes);
}

/// Of a longer sequence only so much is looked at for its largest logit: that route holds all logits of a layer.
constexpr std::int64_t kLogitTokens = 2048;

/// Steps between two comparisons of the ranks' parameters.
constexpr std::int64_t kCompareEvery = 500;

/// Where a checkpoint to resume from holds weights, moments and averages (where there are any).
constexpr std::array<const char*, 4> kStateParts = {"model/", "optim/m/", "optim/v/", "ema/"};

/// Everything that lives while a run goes on.
class Loop {
 public:
  Loop(const Run& run, const data::TokenDataset& dataset, artifact::Workspace& workspace)
      : run_(run),
        dataset_(dataset),
        workspace_(workspace),
        ranks_(run.communicator == nullptr ? *alone_ : *run.communicator),
        progress_(workspace.progress == nullptr || !ranks_.is_first() ? support::silent_progress()
                                                                      : *workspace.progress),
        length_(run.model.config().length),
        order_(static_cast<std::uint64_t>(run.data_seed), dataset.windows(Split::kTrain, length_)),
        reader_(dataset, Split::kTrain, length_, run.model.device(), run.documents),
        optimizer_(run.model, run.optimizer, run.optimizer_start),
        store_(workspace, run.checkpoint, progress_),
        step_(run.first_step) {
    check_snapshots();
    if (run.moments_from != nullptr) {
      std::vector<std::string> skip = run.fresh;
      for (const model::Parameter& parameter : run.model.parameters()) {
        if (run.encoding_replaced && parameter.name.rfind("encoding.", 0) == 0) skip.push_back(parameter.name);
      }
      model::read_tensors(*run.moments_from, "optim/m/", run.model, optimizer_.first_moments(), skip);
      model::read_tensors(*run.moments_from, "optim/v/", run.model, optimizer_.second_moments(), skip);
      if (!optimizer_.averages().empty()) model::read_tensors(*run.moments_from, "ema/", run.model, optimizer_.averages(), skip);
    }
  }

  void go() {
    require_same_run();
    if (ranks_.is_first() && !resume()) run_.model.draw();
    if (ranks_.count() > 1) take_over_state();
    announce();
    stopping_ = ranks_.any(support::stop_requested());
    last_checkpoint_ = Clock::now();
    std::size_t next_snapshot = 0;
    const auto& snapshots = workspace_.snapshots;
    while (next_snapshot < snapshots.size() && snapshots[next_snapshot].step < step_) ++next_snapshot;
    const std::int64_t end = snapshots.empty() ? run_.last_step : snapshots.back().step;
    for (;;) {
      while (next_snapshot < snapshots.size() && snapshots[next_snapshot].step == step_) {
        write_snapshot(snapshots[next_snapshot], false);
        ++next_snapshot;
      }
      if (step_ >= end) break;
      if (ranks_.count() == 1 ? support::stop_requested() : stopping_) stop();
      if (!one_step()) diverged(next_snapshot);
      const bool is_best = run_.watch.validate_every > 0 && step_ % run_.watch.validate_every == 0 && add_validation();
      const bool pinned = run_.checkpoint.pin_every > 0 && step_ % run_.checkpoint.pin_every == 0;
      const bool due = std::chrono::duration<double>(Clock::now() - last_checkpoint_).count() >= run_.checkpoint.every;
      if (step_ % kCompareEvery == 0) compare_ranks();
      if (ranks_.is_first()) prepare_copy();
      if (ranks_.is_first() && (pinned || (is_best && run_.checkpoint.best) || (due && step_ < end))) save();
      store_.check();
      log_written();
    }
    try {
      finish_writing();
    } catch (const support::IoError& error) {   // what it would have saved is about to be the result
      progress_.warn(error.what());
    }
    if (snapshots.empty()) write_artifacts(workspace_.outputs, run_.artifact_holds_moments, false);
    if (watcher_) watcher_->end("done");
    ranks_.barrier();
  }

 private:
  std::int64_t tokens(std::int64_t steps) const { return steps * run_.batch * length_; }
  std::int64_t seen() const { return run_.tokens_before + tokens(step_); }

  void check_snapshots() const {
    for (const artifact::Snapshot& snapshot : workspace_.snapshots) {
      if (snapshot.step < run_.first_step || snapshot.step > run_.last_step) {
        throw support::ConfigError(cat("snapshot '", snapshot.label, "' is at step ", snapshot.step, ", outside of steps ",
                                       run_.first_step, " to ", run_.last_step));
      }
      const bool at_end = snapshot.step == run_.schedule.end;
      if (run_.schedule.kind == ScheduleKind::kWsd && !run_.schedule.free_of_horizon(snapshot.step) && !at_end) {
        throw support::ConfigError(
            cat("snapshot '", snapshot.label, "' at step ", snapshot.step, " lies inside the decay, which begins at step ",
                run_.schedule.decay_begin),
            {}, "set train.decay_share: 0 in a stage that only feeds branches, or move the snapshot");
      }
    }
  }

  /// One line for people about what begins.
  void announce() {
    const std::int64_t parameters = run_.model.parameter_count();
    progress_.note(cat(support::short_count(static_cast<double>(parameters)), " parameters (", support::with_commas(parameters),
                       "), steps ", step_, " to ", workspace_.snapshots.empty() ? run_.last_step : workspace_.snapshots.back().step,
                       " of ", support::with_commas(tokens(1)), " tokens, ",
                       model::device_summary(run_.compute, run_.model.device())));
    encodings::Span span = encodings::Span::whole(*run_.compute.micro_batch, length_);
    span.training = true;
    span.device = run_.model.device();
    span.pe_len = length_;
    span.causal = run_.model.config().mask == model::Mask::kCausal;
    encodings::PositionalEncoding& encoding = run_.model.encoding();
    const encodings::State state = encodings::begin_pass(encoding, span);   // some learn only here how long they reach
    progress_.note(cat("encoding ", encodings::encoding_name(run_.model.config().encoding.json), ", attention route: ",
                       encodings::route_name(encoding, span, run_.model.compute_dtype(), /*needs_grad=*/true)));
    const std::uint64_t windows = order_.windows();
    const auto needed = static_cast<std::uint64_t>(run_.last_step * run_.batch);
    if (needed > windows) {
      progress_.note(cat("the data has ", windows, " windows; the run sees ", needed, ", that is ",
                         support::shortest(std::round(100.0 * static_cast<double>(needed) / static_cast<double>(windows)) / 100),
                         " epochs"));
    }
    const std::string device = model::device_name(run_.model.device());
    const std::optional<double> peak = run_.watch_files.peak_tflops > 0
                                           ? std::optional(run_.watch_files.peak_tflops * 1e12)
                                           : model::peak_flops(run_.model.device(), device);
    progress_.note(mfu_formula(flops(), peak, device));
    if (ranks_.count() > 1) {
      progress_.note(cat(ranks_.count(), " ranks, each with ", run_.batch / ranks_.count(), " of a step's ", run_.batch,
                         " sequences"));
    }
    if (!ranks_.is_first()) return;
    watcher_.emplace(
        workspace_, run_.watch_files,
        Watched{.first_step = run_.first_step,
                .step = step_,
                .last_step = workspace_.snapshots.empty() ? run_.last_step : workspace_.snapshots.back().step,
                .tokens_per_step = tokens(1),
                .tokens_before = run_.tokens_before,
                .flops_per_token = flops(),
                .peak_flops = peak ? std::optional(*peak * static_cast<double>(ranks_.count())) : peak,
                .memory_bytes = [device = run_.model.device()] { return model::memory_in_use(device); }},
        progress_);
  }

  /// @return false when the run has diverged. Nothing was updated then, nor in a step that was skipped.
  bool one_step() {
    const std::int64_t micro = *run_.compute.micro_batch;
    const auto window_of = [&](std::int64_t row) { return order_(static_cast<std::uint64_t>(step_ * run_.batch + row)); };
    const double scale = 1.0 / static_cast<double>(std::max<std::int64_t>(1, reader_.targets(run_.batch, window_of)));
    const bool logged = (step_ + 1) % run_.watch.log_every == 0;
    if (step_ % kLogitEvery == 0) sample_logits();
    run_.model.zero_gradients();
    double loss = 0;
    std::int64_t bytes = 0;
    // Samples are numbered through the whole batch, whoever works on them.
    const std::int64_t part = run_.batch / ranks_.count(), begin = ranks_.rank() * part;
    for (std::int64_t first = 0; first < part; first += micro) {
      const std::int64_t sample = step_ * run_.batch + begin + first;
      const auto before = Clock::now();
      const Batch batch = reader_.read(
          micro, [&](std::int64_t row) { return order_(static_cast<std::uint64_t>(sample + row)); }, logged);
      if (watcher_) watcher_->waited_for_data(std::chrono::duration<double>(Clock::now() - before).count());
      model::ForwardOptions options;
      options.training = true;
      options.step = step_;
      options.first_sample = sample;
      options.doc_start = batch.doc_start;
      options.restart_positions = run_.documents == Documents::kRestarted;
      if (buckets_ && first + micro >= part) {
        buckets_->begin();
        options.left_layer = [this](std::int64_t layer) { buckets_->left_layer(layer); };
      }
      const at::Tensor hidden = run_.model.forward(batch.ids, options);
      const at::Tensor share =
          run_.model.loss_sum(hidden.reshape({-1, hidden.size(-1)}), batch.targets, run_.optimizer.z_loss) * scale;
      share.backward();
      loss += share.item<double>();
      bytes += batch.bytes;
    }
    if (buckets_) {
      buckets_->finish();
      // The same loss, and the same word on whether to go on, for every rank.
      const std::vector<double> all =
          ranks_.sum({loss, static_cast<double>(bytes), support::stop_requested() ? 1.0 : 0.0});
      loss = all[0];
      bytes = static_cast<std::int64_t>(all[1]);
      stopping_ = all[2] > 0;
    }
    const double lr = run_.schedule.at(step_);
    const Optimizer::StepResult update = std::isfinite(loss) ? optimizer_.step(step_, lr) : Optimizer::StepResult{.grad_norm = loss, .finite = false};
    const bool finite = std::isfinite(loss) && update.finite;
    ++step_;
    curves_.steps.push_back({loss, update.grad_norm});
    const TrainRow row{step_, seen(), loss, bits_per_byte(loss / scale, bytes), lr, update.grad_norm, update.clipped};
    if (logged || !finite) curves_.train.push_back(row);
    if (watcher_) watcher_->step(row, logged || !finite);
    if (finite) return true;
    skipped_.push_back(step_);
    return in_a_row(skipped_) <= run_.optimizer.skip_nonfinite;
  }

  /// How many steps up to the last one were skipped.
  static std::int64_t in_a_row(const std::vector<std::int64_t>& steps) {
    std::int64_t count = 1;
    while (count < std::ssize(steps) && *(steps.rbegin() + count) == steps.back() - count) ++count;
    return count;
  }

  /// The largest attention logit that one sequence of this step meets, with the weights before the update.
  void sample_logits() {
    const at::NoGradGuard no_gradients;
    const std::int64_t sample = step_ * run_.batch;
    const Batch batch = reader_.read(1, [&](std::int64_t) { return order_(static_cast<std::uint64_t>(sample)); }, false);
    LogitSample found{step_, 0};
    model::ForwardOptions options;
    options.step = step_;
    options.first_sample = sample;
    options.pe_len = length_;
    options.largest_logit = &found.largest;
    const std::int64_t count = std::min(length_, kLogitTokens);
    if (batch.doc_start.defined()) options.doc_start = batch.doc_start.narrow(1, 0, count);
    options.restart_positions = run_.documents == Documents::kRestarted;
    run_.model.forward(batch.ids.narrow(1, 0, count), options);
    curves_.logits.push_back(found);
    if (watcher_) watcher_->attention(found);
  }

  /// Steps of this run that its schedule warms up in.
  std::int64_t warmup_steps() const {
    return std::max<std::int64_t>(0, run_.schedule.begin + run_.schedule.warmup - run_.first_step);
  }

  double flops() const { return model::flops_per_token(run_.model.config(), length_); }

  std::optional<ValidationRow> validation_now() const {
    std::optional<ValidationRow> row =
        validate(run_.model, dataset_, run_.watch.validate_windows, *run_.compute.micro_batch, run_.documents, &ranks_);
    if (row) {
      row->step = step_;
      row->tokens = seen();
    }
    return row;
  }

  /// @return whether its loss is the lowest so far.
  bool add_validation() {
    const std::optional<ValidationRow> row = validation_now();
    if (!row) return false;
    curves_.validation.push_back(*row);
    if (watcher_) watcher_->validation(*row);
    return curves_.best_step() == step_;
  }

  artifact::CheckpointMeta meta(bool is_diverged) const {
    artifact::CheckpointMeta meta;
    meta.status = is_diverged ? artifact::TrainingStatus::kDiverged : artifact::TrainingStatus::kOk;
    meta.step = step_;
    meta.tokens_seen = seen();
    meta.next_sample = step_ * run_.batch;
    meta.tokenizer_digest = dataset_.tokenizer_digest();
    meta.data_digest = dataset_.content_digest();
    meta.split_rule = dataset_.splits().rule;
    meta.trained_on = run_.trained_on;
    meta.trained_on.add(dataset_.splits().documents[static_cast<std::size_t>(Split::kTrain)]);
    meta.parents = run_.parents;
    model::describe_model(run_.model, meta);
    meta.optimizer = to_json(run_.optimizer, run_.optimizer_start);
    meta.data = {{"length", length_}, {"batch", run_.batch}, {"seed", run_.data_seed}};
    if (run_.documents != Documents::kJoined) {
      meta.data["documents"] = run_.documents == Documents::kMasked ? "masked" : "restarted";
    }
    meta.extra = {{"phase", run_.schedule.phase(step_)}, {"lr", step_ == run_.first_step ? 0.0 : run_.schedule.at(step_ - 1)}};
    if (!run_.branch.empty()) meta.extra["branch"] = run_.branch;
    if (!skipped_.empty()) meta.extra["skipped"] = skipped_;
    if (!inexact_.empty()) meta.extra["inexact"] = inexact_;
    return meta;
  }

  void write_checkpoint(const std::filesystem::path& path, const artifact::CheckpointMeta& meta, bool moments) const {
    artifact::CheckpointWriter writer(path, workspace_.recipe, meta);
    model::write_weights(run_.model, writer);
    if (!optimizer_.averages().empty()) model::write_tensors(writer, "ema/", run_.model, optimizer_.averages());
    if (moments) {
      model::write_tensors(writer, "optim/m/", run_.model, optimizer_.first_moments());
      model::write_tensors(writer, "optim/v/", run_.model, optimizer_.second_moments());
    }
    writer.finish();
  }

  /// The roles that the stage was asked for, at the present step. The metrics end with a validation of this very model,
  /// in which all ranks take part; rank 0 writes.
  void write_artifacts(const std::map<std::string, std::filesystem::path>& outputs, bool moments, bool is_diverged) {
    compare_ranks();
    if (const auto model = outputs.find("model"); model != outputs.end() && ranks_.is_first()) {
      write_checkpoint(model->second, meta(is_diverged), moments);
    }
    if (const auto metrics = outputs.find("metrics"); metrics != outputs.end()) {
      Curves curves = curves_;
      const bool validated = ranks_.first_says(!curves.validation.empty() && curves.validation.back().step == step_);
      if (!validated && !is_diverged) {
        if (const auto row = validation_now()) curves.validation.push_back(*row);
      }
      Json facts = {{"encoding", model::to_json(run_.model.config())["encoding"]},
                    {"seed", run_.model.seed()},
                    {"parameters", run_.model.parameter_count()},
                    {"encoding_parameters", run_.model.encoding_parameter_count()},
                    {"step", step_},
                    {"first_step", run_.first_step},
                    {"length", length_},
                    {"status", is_diverged ? "diverged" : "ok"},
                    {"stability", stability_facts(curves_.steps, curves_.logits, run_.first_step, warmup_steps(),
                                                  run_.optimizer.clip)}};
      if (!skipped_.empty()) facts["skipped_steps"] = skipped_;
      if (!inexact_.empty()) facts["inexact"] = inexact_;
      if (!is_diverged) add_average(facts);
      if (ranks_.is_first()) artifact::write_metrics(metrics->second, workspace_.recipe, curves.tables(facts));
    }
  }

  /// The validation loss of the averaged weights, which take the model's place for that long.
  void add_average(Json& facts) const {
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
    if (const auto row = validation_now()) facts["ema"] = {{"loss", row->loss}, {"bpb", row->bpb}};
    exchange(own);
  }

  void write_snapshot(const artifact::Snapshot& snapshot, bool is_diverged) {
    write_artifacts(snapshot.outputs, true, is_diverged);
    if (!ranks_.is_first()) return;
    Json event = {{"event", "snapshot"}, {"step", snapshot.step}, {"label", snapshot.label}};
    if (is_diverged) event["status"] = "diverged";
    progress_.event(event);
  }

  /// The state is copied here and now; a thread writes the copy while training goes on.
  void save() {
    const auto begin = Clock::now();
    finish_writing();   // the copy is the writer's until it is done
    artifact::CheckpointMeta now = meta(false);
    now.fingerprint = fingerprint();
    now.extra["run"] = identity();
    copy_state();
    store_.save(step_, run_.checkpoint.best ? curves_.best_step() : std::nullopt,
                [recipe = workspace_.recipe, model = run_.model, now = std::move(now), copy = copy_,
                 curves = curves_](const std::filesystem::path& path) {
                  artifact::CheckpointWriter writer(path, recipe, now);
                  for (std::size_t i = 0; i < kStateParts.size(); ++i) {
                    if (copy[i].empty()) continue;
                    model::write_tensors(writer, kStateParts[i], model, copy[i]);
                  }
                  curves.write(writer);
                  writer.finish();
                });
    saved_ = step_;
    last_checkpoint_ = Clock::now();
    stall_s_ = std::chrono::duration<double>(last_checkpoint_ - begin).count();
  }

  void finish_writing() {
    store_.wait();
    log_written();
  }

  void log_written() {
    const auto written = store_.written();
    if (written && watcher_) watcher_->checkpoint(written->step, stall_s_, written->seconds, written->bytes);
  }

  /// What a run goes on from, in the order of kStateParts.
  std::array<std::vector<at::Tensor>, kStateParts.size()> state() const {
    std::vector<at::Tensor> values;
    for (const model::FlatGroup& group : run_.model.groups()) values.push_back(group.values);
    return {values, optimizer_.first_moments(), optimizer_.second_moments(), optimizer_.averages()};
  }

  /// Buffers for one copy of the state on the host, made once: pinned where a GPU copies into them, and 0 where the
  /// model's buffers are padded, since checkpoints do not hold the padding.
  void make_copy() {
    if (copying_.valid()) copying_.get();
    if (copy_[0].empty()) allocate_copy(state());
  }
  void allocate_copy(const std::array<std::vector<at::Tensor>, kStateParts.size()>& parts) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (const at::Tensor& part : parts[i]) {
        copy_[i].push_back(model::flat_zeros(part.numel(), at::TensorOptions(part.scalar_type()).pinned_memory(part.is_cuda())));
      }
    }
  }

  /// Fresh memory has to be found page by page, which takes longer than copying into it: a thread does that while training
  /// goes on, as soon as it is likely that there will be a checkpoint.
  void prepare_copy() {
    const bool likely = run_.checkpoint.pin_every > 0 || run_.checkpoint.best ||
                        std::chrono::duration<double>(Clock::now() - last_checkpoint_).count() >= run_.checkpoint.every / 2;
    if (!likely || copying_.valid() || !copy_[0].empty()) return;
    copying_ = std::async(std::launch::async, [this, parts = state()] {
      allocate_copy(parts);
      constexpr std::int64_t kPage = 4096;
      for (const std::vector<at::Tensor>& part : copy_) {
        for (const at::Tensor& values : part) {
          auto* bytes = static_cast<volatile char*>(values.mutable_data_ptr());
          for (std::int64_t at = 0; at < static_cast<std::int64_t>(values.nbytes()); at += kPage) bytes[at] = 0;
        }
      }
    });
  }

  void copy_state() {
    const at::NoGradGuard no_gradients;
    make_copy();
    const auto parts = state();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (std::size_t j = 0; j < parts[i].size(); ++j) copy_[i][j].copy_(parts[i][j]);
    }
  }

  [[noreturn]] void stop() {
    if (ranks_.is_first()) {
      if (saved_ != step_) save();
      finish_writing();
      watcher_->end("stopped");
    }
    progress_.note(cat("stopped at step ", step_, "; run again to continue"));
    ranks_.agree_on_end();
    throw support::Stopped(true);
  }

  [[noreturn]] void diverged(std::size_t next_snapshot) {
    const auto& snapshots = workspace_.snapshots;
    for (; next_snapshot < snapshots.size(); ++next_snapshot) write_snapshot(snapshots[next_snapshot], true);
    if (snapshots.empty()) write_artifacts(workspace_.outputs, false, true);
    const TrainRow& row = curves_.train.back();
    if (watcher_) watcher_->end("diverged");
    ranks_.agree_on_end();
    throw support::Error(support::kExitDiverged,
                         support::Diagnostic{cat("training diverged at step ", step_, ": loss ", support::shortest(row.loss),
                                                 ", gradient norm ", support::shortest(row.grad_norm)),
                                             {}, "lower train.peak_lr, or lengthen the warm-up", {}});
  }

  /// On what the bits of a step hang, beside config and data.
  Json fingerprint() const {
    Json json = model::fingerprint(run_.compute, run_.model.device());
    json["micro_batch"] = run_.compute.micro_batch.value_or(run_.batch);
    if (ranks_.count() > 1) json["ranks"] = ranks_.count();
    return json;
  }

  /// Ranks that were started on different configs or data would add up gradients of different runs.
  void require_same_run() {
    if (ranks_.count() == 1) return;
    const artifact::CheckpointMeta here = meta(false);
    const Json run = {{"config", workspace_.recipe.config},
                      {"data", here.data_digest},
                      {"order", here.data},
                      {"model", here.model},
                      {"encoding", here.encoding},
                      {"optimizer", here.optimizer},
                      {"parents", here.parents},
                      {"run", identity()},
                      {"steps", {run_.first_step, run_.last_step}}};
    const std::string digest = support::canonical_hash("pe/ranks", run);
    const bool unlike = ranks_.broadcast(digest) != digest;
    const std::vector<double> all = ranks_.gather(unlike ? 1.0 : 0.0);
    const auto other = std::find(all.begin(), all.end(), 1.0);
    if (other == all.end()) return;
    throw support::ConfigError(
        cat("rank ", other - all.begin(), " was started with another config, or on other data, than rank 0"), {},
        "start all ranks with the same command");
  }

  /// What rank 0 begins with, or has resumed from, is what all begin with.
  void take_over_state() {
    const Json mine = {{"step", step_}, {"skipped", skipped_}, {"inexact", inexact_}};
    const Json first = Json::parse(ranks_.broadcast(mine.dump()));
    step_ = first.at("step");
    skipped_ = first.at("skipped").get<std::vector<std::int64_t>>();
    inexact_ = first.at("inexact");
    const at::NoGradGuard no_gradients;
    for (const auto& part : state()) {
      for (const at::Tensor& tensor : part) {
        if (tensor.numel() > 0) ranks_.broadcast(tensor);
      }
    }
    if (!ranks_.is_first() && step_ > run_.first_step) run_.model.after_step();
    buckets_.emplace(run_.model, ranks_);
  }

  /// Each rank has updated its own copy; bits must not have come apart.
  void compare_ranks() {
    if (ranks_.count() > 1) require_agreement(ranks_, parameter_hash(run_.model), step_);
  }

  /// What else decides how the steps go; the horizon only where it shapes them.
  Json identity() const {
    const Schedule& schedule = run_.schedule;
    Json json = {{"kind", word_of(schedule.kind)},    {"begin", schedule.begin},
                 {"warmup", schedule.warmup},         {"peak", schedule.peak},
                 {"log_every", run_.watch.log_every}, {"validate_every", run_.watch.validate_every},
                 {"validate_windows", run_.watch.validate_windows}};
    if (!schedule.free_of_horizon(schedule.end)) {
      json["shape"] = word_of(schedule.shape);
      json["final_share"] = schedule.final_share;
      json["decay_begin"] = schedule.decay_begin;
      json["end"] = schedule.end;
    }
    return json;
  }

  /// @return whether there was something to go on from
  bool resume() {
    artifact::CheckpointMeta expected = meta(false);
    expected.extra["run"] = identity();
    const std::int64_t limit = workspace_.snapshots.empty() ? run_.last_step : workspace_.snapshots.front().step;
    return store_.restore(expected, run_.first_step, limit, [&](const artifact::CheckpointReader& checkpoint,
                                                                const std::filesystem::path* metrics) {
      // A snapshot is one result of its key wherever it was made, as what branches off it takes it to be.
      const auto [there, here] =
          differences(checkpoint.meta().fingerprint, metrics == nullptr ? fingerprint() : Json::object());
      Json inexact = checkpoint.meta().extra.value("inexact", Json::array());
      if (there != here) {
        const std::string what = cat("resuming from ", checkpoint.path().string(), ", which another program, library, device, "
                                     "dtype or thread count wrote: the result will not be bit-exact (", there.dump(),
                                     " there, ", here.dump(), " here)");
        if (run_.checkpoint.inexact == CheckpointConfig::Inexact::kRefuse) {
          throw support::ConfigError(what, {}, "go on where it was written, remove it to begin anew, or set "
                                               "checkpoint.inexact: mark");
        }
        progress_.warn(what);
        inexact.push_back({{"step", checkpoint.meta().step}, {"there", there}, {"here", here}});
      }
      // All of it is checked before any of it is put in place: a damaged tensor must not leave half of it in the model.
      Curves curves = metrics == nullptr ? Curves::read(checkpoint) : curves_of_snapshot(*metrics, checkpoint.meta().step);
      const auto parts = state();
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (!parts[i].empty()) model::require_tensors(checkpoint, kStateParts[i], run_.model);
      }
      checkpoint.verify(at::get_num_threads());
      try {
        for (std::size_t i = 0; i < parts.size(); ++i) {
          if (!parts[i].empty()) model::read_tensors(checkpoint, kStateParts[i], run_.model, parts[i]);
        }
      } catch (const ArtifactError& error) {
        throw support::IoError(cat("a checkpoint changed while it was read: ", error.what()));
      }
      curves_ = std::move(curves);
      skipped_ = checkpoint.meta().extra.value("skipped", std::vector<std::int64_t>());
      run_.model.after_step();
      step_ = checkpoint.meta().step;
      inexact_ = std::move(inexact);
      progress_.note(metrics == nullptr ? cat("resuming at step ", step_) : cat("going on from the snapshot at step ", step_));
    });
  }

  /// As they were at `step` in the run that gave the snapshot.
  Curves curves_of_snapshot(const std::filesystem::path& metrics, std::int64_t step) const {
    Curves curves = Curves::from_tables(artifact::read_metrics(metrics));
    if (std::ssize(curves.steps) != step - run_.first_step) {
      throw ArtifactError(cat(metrics.string(), ": table 'steps' has ", curves.steps.size(), " rows, but its snapshot took ",
                              step - run_.first_step, " steps"));
    }
    // Its last validation was for the snapshot alone, unless one was due.
    const bool due = run_.watch.validate_every > 0 && step % run_.watch.validate_every == 0;
    if (!due && !curves.validation.empty() && curves.validation.back().step == step) curves.validation.pop_back();
    return curves;
  }

  const Run& run_;
  const data::TokenDataset& dataset_;
  artifact::Workspace& workspace_;
  const std::unique_ptr<Communicator> alone_ = make_null_communicator();
  Communicator& ranks_;
  support::Progress& progress_;
  std::int64_t length_;
  data::SampleOrder order_;
  BatchReader reader_;
  Optimizer optimizer_;
  Curves curves_;
  Json inexact_ = Json::array();        ///< where it went on from another machine's checkpoint
  std::vector<std::int64_t> skipped_;   ///< steps that changed nothing, as counted in curves
  std::array<std::vector<at::Tensor>, kStateParts.size()> copy_;   ///< of the state, for the thread that writes it
  std::future<void> copying_;               ///< makes copy_; before it, so that it ends first
  ResumeStore store_;
  std::optional<Watcher> watcher_;          ///< of rank 0
  std::optional<GradientBuckets> buckets_;  ///< where there are several ranks
  bool stopping_ = false;                   ///< some rank was asked to stop; all know
  std::int64_t step_;
  Clock::time_point last_checkpoint_;
  std::int64_t saved_ = -1;                 ///< the step of the last checkpoint
  double stall_s_ = 0;                      ///< of the last checkpoint, until it is logged
};

template <typename Value>
Value required(const Json& json, const char* name, const std::filesystem::path& file, const char* group) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) {
    throw ArtifactError(cat(file.string(), ": ", group, " lacks the number '", name, "'; this is no checkpoint of a training"));
  }
  return found->get<Value>();
}

}  // namespace

void execute(const Run& run, const data::TokenDataset& dataset, artifact::Workspace& workspace) {
  if (encodings::ReadsTokens* reader = encodings::reader_of(run.model.encoding()); reader != nullptr) {
    reader->read_with(data::token_numbers(reader->reads(), dataset.tokenizer(), workspace.input("data").path.string()));
  }
  Loop(run, dataset, workspace).go();
}

data::TokenDataset open_data(const artifact::Workspace& workspace, std::int64_t length, const char* key) {
  const std::filesystem::path& path = workspace.input("data").path;
  data::TokenDataset dataset(path);
  if (dataset.windows(Split::kTrain, length) == 0) {
    throw ArtifactError(cat(path.string(), ": the train split has ", dataset.tokens(Split::kTrain),
                            " tokens, too few for one window of ", length, " + 1"),
                        cat("give it more text, or lower ", key));
  }
  if (const std::uint64_t window = dataset.window_tokens(); window != 0 && window != static_cast<std::uint64_t>(length)) {
    throw ArtifactError(cat(path.string(), ": holds examples of ", window, " tokens, but train.length is ", length),
                        cat("set train.length to ", window, ", or generate.window to ", length));
  }
  return dataset;
}

Snapshot open_snapshot(const artifact::Workspace& workspace, const data::TokenDataset& dataset, SnapshotNeeds needs) {
  const artifact::Input& input = workspace.input("init");
  const std::filesystem::path& file = input.path;
  Snapshot snapshot{.checkpoint = artifact::CheckpointReader(file),
                    .digest = input.digest.empty() ? artifact::content_digest(file) : input.digest};
  const artifact::CheckpointMeta& meta = snapshot.checkpoint.meta();
  if (meta.status == artifact::TrainingStatus::kDiverged) {
    throw ArtifactError(cat(file.string(), ": this training diverged at step ", meta.step, "; nothing branches off it"));
  }
  if (meta.tokenizer_digest != dataset.tokenizer_digest()) {
    throw ArtifactError(cat(file.string(), ": trained with tokenizer ", meta.tokenizer_digest, ", but the data has ",
                            dataset.tokenizer_digest()));
  }
  if (needs.same_data && meta.data_digest != dataset.content_digest()) {
    throw ArtifactError(cat(file.string(), ": trained on token shards ", meta.data_digest, ", but the input is ",
                            dataset.content_digest()),
                        "a branch continues the order of the same data");
  }
  if (needs.moments && snapshot.checkpoint.find("optim/m/embedding") == nullptr) {
    throw ArtifactError(cat(file.string(), ": holds no optimizer state, so it is the end of a training and no snapshot"),
                        "take a snapshot of a training: 'trunk@label'");
  }
  snapshot.optimizer = optimizer_from_json(meta.optimizer, file.string());
  snapshot.optimizer_start = required<std::int64_t>(meta.optimizer, "start", file, "optimizer");
  snapshot.batch = required<std::int64_t>(meta.data, "batch", file, "data");
  snapshot.length = required<std::int64_t>(meta.data, "length", file, "data");
  snapshot.data_seed = required<std::int64_t>(meta.data, "seed", file, "data");
  if (const std::string documents = meta.data.value("documents", "joined"); documents != "joined") {
    snapshot.documents = documents == "masked" ? Documents::kMasked : Documents::kRestarted;
  }
  snapshot.step = meta.step;
  snapshot.phase = meta.extra.value("phase", "");
  snapshot.lr = required<double>(meta.extra, "lr", file, "extra");
  if (meta.next_sample != snapshot.step * snapshot.batch) {
    throw ArtifactError(cat(file.string(), ": the next sample is ", meta.next_sample, ", but ", snapshot.step, " steps of ",
                            snapshot.batch, " sequences were taken"));
  }
  return snapshot;
}

std::optional<ValidationRow> validate(const model::LanguageModel& model, const data::TokenDataset& dataset,
                                      std::int64_t windows, std::int64_t micro_batch, Documents documents,
                                      Communicator* communicator) {
  const at::NoGradGuard no_gradients;   // not inference mode: encodings may keep tables that training then uses
  const std::int64_t length = model.config().length;
  const std::int64_t count = std::min<std::int64_t>(windows, static_cast<std::int64_t>(dataset.windows(Split::kValidation, length)));
  if (count == 0) return std::nullopt;
  BatchReader reader(dataset, Split::kValidation, length, model.device(), documents);
  double loss = 0;
  ValidationRow row;
  const std::int64_t rank = communicator ? communicator->rank() : 0, ranks = communicator ? communicator->count() : 1;
  for (std::int64_t first = rank * micro_batch; first < count; first += ranks * micro_batch) {
    const std::int64_t size = std::min(micro_batch, count - first);
    const Batch batch = reader.read(size, [&](std::int64_t i) { return static_cast<std::uint64_t>(first + i); }, true);
    model::ForwardOptions options;
    options.first_sample = first;
    options.doc_start = batch.doc_start;
    options.restart_positions = documents == Documents::kRestarted;
    const at::Tensor hidden = model.forward(batch.ids, options);
    loss += model.loss_sum(hidden.reshape({-1, hidden.size(-1)}), batch.targets).item<double>();
    row.bytes_scored += batch.bytes;
    row.tokens_scored += reader.targets(size, [&](std::int64_t i) { return static_cast<std::uint64_t>(first + i); });
  }
  if (ranks > 1) {
    const std::vector<double> all =
        communicator->sum({loss, static_cast<double>(row.bytes_scored), static_cast<double>(row.tokens_scored)});
    loss = all[0];
    row.bytes_scored = static_cast<std::int64_t>(all[1]);
    row.tokens_scored = static_cast<std::int64_t>(all[2]);
  }
  row.loss = loss / static_cast<double>(row.tokens_scored);
  row.bpb = bits_per_byte(loss, row.bytes_scored);
  return row;
}

}  // namespace pe::training
