#include "training/watcher.h"

#include <unistd.h>

#include <cmath>

#include "artifact/task_protocol.h"
#include "support/clock.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::training {
namespace {

using support::cat;

constexpr double kSpeedWindow = 10;  // seconds that a speed is taken over

/// The same for all attempts of a task. By hand there is no task key; config and inputs replace it.
std::string run_id_of(const artifact::Recipe& recipe) {
  if (!recipe.task_key.empty()) return recipe.task_key;
  return support::canonical_hash(
      "pe/run",
      {{"stage", recipe.stage}, {"version", recipe.version}, {"config", recipe.config}, {"inputs", recipe.inputs}});
}

std::filesystem::path chart_folder(const std::filesystem::path& work) { return work / artifact::kChartFolder; }

/// Event files of an earlier attempt get a second name here, so that one folder holds the whole run.
void adopt_events(const std::filesystem::path& work, const std::optional<std::filesystem::path>& resume) {
  if (!resume || *resume == work) return;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(chart_folder(*resume), ignored)) {
    std::error_code there;
    const auto to = chart_folder(work) / entry.path().filename();
    std::filesystem::create_hard_link(entry.path(), to, there);
    if (there && !std::filesystem::exists(to, there)) std::filesystem::copy_file(entry.path(), to, ignored);
  }
}

}  // namespace

Watcher::Watcher(const artifact::Workspace& workspace, const WatchFiles& files, MonitorState about,
                 support::Progress& progress)
    : work_(workspace.work),
      files_(files),
      about_(std::move(about)),
      progress_(progress),
      run_id_(run_id_of(workspace.recipe)),
      stage_(workspace.recipe.stage),
      log_(workspace.work, workspace.resume.value_or(""), about_.step) {
  if (files_.tensorboard != WatchFiles::Axis::kNone) {
    support::make_folders(chart_folder(work_));
    adopt_events(work_, workspace.resume);
    const bool earlier = !std::filesystem::is_empty(chart_folder(work_));
    events_.emplace(chart_folder(work_), support::unix_time());
    // The first row of this attempt is the next step's.
    if (earlier) {
      const std::int64_t next = about_.step + 1;
      events_->restart(support::unix_time(), files_.tensorboard == WatchFiles::Axis::kSteps ? next : tokens(next));
    }
  }
  progress_record_ = {{"schema", "pe-training/1"},
                      {"run_id", run_id_},
                      {"stage", stage_},
                      {"attempt", log_.attempt()},
                      {"pid", ::getpid()},
                      {"step", about_.step},
                      {"first_step", about_.first_step},
                      {"last_step", about_.last_step},
                      {"tokens", tokens(about_.step)}};
  marks_.push_back({started_, about_.step});
  write_progress("running");
}

Json Watcher::head(const char* phase, std::int64_t step) const {
  const std::int64_t own = (step - about_.first_step) * about_.tokens_per_step;
  const double wall = std::chrono::duration<double>(Clock::now() - started_).count();
  return {{"run_id", run_id_},
          {"phase", phase},
          {"step", step},
          {"tokens", tokens(step)},
          {"flops", about_.flops_per_token * static_cast<double>(own)},
          {"wall_s", log_.wall_before() + wall}};
}

double Watcher::speed() {
  const auto now = Clock::now();
  while (marks_.size() > 2 && std::chrono::duration<double>(now - marks_[1].first).count() > kSpeedWindow)
    marks_.pop_front();
  const double seconds = std::chrono::duration<double>(now - marks_.front().first).count();
  const std::int64_t steps = marks_.back().second - marks_.front().second;
  return seconds > 0 ? static_cast<double>(steps * about_.tokens_per_step) / seconds : 0;
}

void Watcher::step(const TrainRow& row, bool logged) {
  const auto now = Clock::now();
  // Ten marks per second are enough for a window of ten seconds.
  if (marks_.size() > 1 && std::chrono::duration<double>(now - marks_[marks_.size() - 2].first).count() < 0.1) {
    marks_.back() = {now, row.step};
  } else {
    marks_.push_back({now, row.step});
  }
  const double tokens_per_second = speed();
  const Json mfu =
      about_.peak_flops ? Json(tokens_per_second * about_.flops_per_token / *about_.peak_flops) : Json("n/a");
  if (logged) {
    const double seconds = std::chrono::duration<double>(now - last_row_).count();
    Json record = head("train", row.step);
    record.update({{"loss", json_number(row.loss)},
                   {"bpb", json_number(row.bpb)},
                   {"lr", row.lr},
                   {"grad_norm", json_number(row.grad_norm)},
                   {"clipped", row.clipped},
                   {"tokens_per_second", tokens_per_second},
                   {"mfu", mfu},
                   {"data_share", seconds > 0 ? data_s_ / seconds : 0}});
    log_.add(std::move(record));
    chart(row.step, {{"train/loss", row.loss},
                     {"train/bits_per_byte", row.bpb},
                     {"train/gradient_norm", row.grad_norm},
                     {"train/learning_rate", row.lr},
                     {"speed/tokens_per_second", tokens_per_second}});
    data_s_ = 0;
    last_row_ = now;
  }
  const bool first = written_ == Clock::time_point{} || !progress_record_.contains("loss");
  const bool due = first || std::chrono::duration<double>(now - written_).count() >= 1;
  progress_record_["step"] = row.step;
  progress_record_["tokens"] = row.tokens;
  progress_record_["loss"] = json_number(row.loss);
  progress_record_["grad_norm"] = json_number(row.grad_norm);
  progress_record_["lr"] = row.lr;
  progress_record_["tokens_per_second"] = std::round(tokens_per_second);
  progress_record_["mfu"] = mfu;
  if (due) {
    progress_record_["memory_bytes"] = about_.memory_bytes();
    const double left = static_cast<double>((about_.last_step - row.step) * about_.tokens_per_step);
    progress_record_["eta_s"] = tokens_per_second > 0 ? Json(std::round(left / tokens_per_second)) : Json();
    write_progress("running");
  }
  Json detail;
  for (const char* name : {"loss", "tokens_per_second", "grad_norm", "mfu", "memory_bytes", "tokens"}) {
    detail[name] = progress_record_[name];
  }
  progress_.advance("train", row.step - about_.first_step, about_.last_step - about_.first_step, detail);
}

void Watcher::validation(const ValidationRow& row) {
  Json record = head("validation", row.step);
  record.update({{"loss", json_number(row.loss)},
                 {"bpb", json_number(row.bpb)},
                 {"tokens_scored", row.tokens_scored},
                 {"bytes_scored", row.bytes_scored}});
  // Under the names that plotting scripts ask a record of a validation for.
  record.update({{"timestamp", support::utc_text(support::unix_time())},
                 {"val_loss", json_number(row.loss)},
                 {"perplexity", json_number(std::exp(row.loss))}});
  record["train_loss"] = progress_record_.value("loss", Json());
  log_.add(std::move(record));
  chart(row.step, {{"validation/loss", row.loss}, {"validation/bits_per_byte", row.bpb}});
  progress_record_["validation_loss"] = json_number(row.loss);
}

void Watcher::attention(const LogitSample& sample) {
  Json record = head("attention", sample.step);
  record["largest_logit"] = json_number(sample.largest);
  log_.add(std::move(record));
  chart(sample.step, {{"stability/largest_logit", sample.largest}});
}

void Watcher::checkpoint(std::int64_t step, double stall_s, double write_s, std::uint64_t bytes) {
  Json record = head("checkpoint", step);
  record.update({{"stall_s", stall_s}, {"write_s", write_s}, {"bytes", bytes}});
  log_.add(std::move(record));
}

void Watcher::end(const std::string& state) { write_progress(state); }

void Watcher::write_progress(const std::string& state) {
  progress_record_["state"] = state;
  progress_record_["time"] = support::unix_time();
  support::write_file_atomically(work_ / "progress.json", progress_record_.dump(1) + "\n", false);
  written_ = Clock::now();
}

void Watcher::chart(std::int64_t step, std::initializer_list<Scalar> scalars) {
  if (!events_) return;
  const std::int64_t at = files_.tensorboard == WatchFiles::Axis::kSteps ? step : tokens(step);
  events_->add(support::unix_time(), at, {scalars.begin(), scalars.size()});
}

std::string mfu_formula(double flops_per_token, std::optional<double> peak, const std::string& device) {
  const std::string work = cat(support::short_count(flops_per_token), " FLOP a token (6 N + 12 L H d_h T)");
  if (!peak) return cat("mfu n/a: ", work, ", but no peak is known for ", device, "; watch.peak_tflops states one");
  return cat("mfu = tokens/s x ", work, " / ", support::shortest(*peak / 1e12), " TFLOP/s (", device, ")");
}

}  // namespace pe::training
