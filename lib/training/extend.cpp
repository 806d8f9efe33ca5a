#include "training/extend.h"

#include <algorithm>
#include <set>

#include "encodings/attention/positional_encoding.h"
#include "encodings/extension/encoding_at.h"
#include "encodings/registry.h"
#include "model/checkpoint_io.h"
#include "model/device.h"
#include "support/error.h"
#include "support/text.h"
#include "training/branch_point.h"

namespace pe::training {

using support::cat;
using support::ConfigError;

namespace {

std::string names(const std::vector<std::string>& list) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, list.size()); ++i) text += cat(i == 0 ? "" : ", ", list[i]);
  return list.size() > kShown ? cat(text, " and ", list.size() - kShown, " more") : text;
}

[[noreturn]] void throw_not_longer(const BranchPoint& snapshot, std::int64_t length) {
  throw ConfigError(cat("extend.length is ", length, ", and ", snapshot.checkpoint.path().string(), " was trained at ",
                        snapshot.length),
                    {},
                    cat("an extension goes to a longer context, such as ", 2 * snapshot.length,
                        "; at the same length a model is tuned without a change, with extend.encoding_of: "
                        "checkpoint"));
}

Schedule extension_schedule(const ExtendConfig& extend, double snapshot_peak, std::int64_t batch) {
  Schedule schedule;
  schedule.kind = extend.schedule;
  schedule.peak = extend.peak_lr > 0 ? extend.peak_lr : extend.peak_scale * snapshot_peak;
  schedule.final_share = extend.final_share;
  schedule.warmup = extend.warmup_steps;
  schedule.decay_begin = schedule.end = horizon_steps(extend.tokens, batch * extend.length);
  if (schedule.warmup > schedule.end) {
    throw ConfigError(cat("extend.warmup_steps is ", schedule.warmup, ", but the extension takes ", schedule.end,
                          " steps of ", batch, " x ", extend.length, " tokens"));
  }
  return schedule;
}

void note_changes(const model::ChangedModel& loaded, support::Progress& progress) {
  if (!loaded.fresh.empty()) progress.note(cat("parameters that restart: ", names(loaded.fresh)));
  if (!loaded.grown.empty()) progress.note(cat("tables that grow behind the rows they had: ", names(loaded.grown)));
  if (!loaded.dropped.empty()) {
    progress.note(cat("parameters of the encoding before that are left behind: ", names(loaded.dropped)));
  }
}

/// A lone rule replaces a whole stack, and members without parameters would go without a word.
void note_lost_members(const Json& had, const Json& encoding, support::Progress& progress) {
  if (!had.is_object() || !had.contains("stack")) return;
  const auto members = [](const Json& of) {
    return of.is_object() && of.contains("stack") ? of["stack"] : Json::array({of});
  };
  std::set<std::string> kept, lost;
  for (const Json& member : members(encoding)) kept.insert(encodings::encoding_name(member));
  for (const Json& member : members(had)) {
    const std::string name = encodings::encoding_name(member);
    if (!encodings::find_encoding(name)->facts.rotates && kept.count(name) == 0) lost.insert(name);
  }
  if (lost.empty()) return;
  progress.warn(cat("the extended model no longer has ", support::join(std::vector(lost.begin(), lost.end()), ", "),
                    " of its stack: name in extend.encoding every member that it shall have"));
}

}  // namespace

void extend(const ExtendPeConfig& config, artifact::Workspace& workspace) {
  const ExtendConfig& extend = config.extend;
  const data::TokenDataset dataset = open_data(workspace, extend.length, "extend.length");
  const bool keeps = extend.optimizer == DropConfig::Optimizer::kKeep;
  const BranchPoint snapshot = open_branch_point(workspace, dataset, {.moments = keeps, .same_data = false});
  require_borders(dataset, snapshot.documents, workspace.input("data").path.string(),
                  "give other data, or a model that was trained with train.documents: joined");
  const bool own = extend.encoding_of == ExtendConfig::EncodingOf::kCheckpoint;
  if (extend.length < snapshot.length || (extend.length == snapshot.length && !own))
    throw_not_longer(snapshot, extend.length);
  const std::int64_t batch =
      extend.batch > 0 ? extend.batch : std::max<std::int64_t>(1, snapshot.batch * snapshot.length / extend.length);
  const model::ComputeConfig compute = model::resolve(config.compute, batch, extend.length);
  const at::Device device = model::open_device(compute);
  const std::unique_ptr<Communicator> ranks = open_communicator(compute, device);

  const Json& had = snapshot.checkpoint.meta().encoding;
  const Json encoding = own && extend.length == snapshot.length ? had
                        : own                                   ? encodings::with_lengths(had, snapshot.length)
                              : encodings::encoding_at(extend.encoding.json, had, snapshot.length, extend.length);
  const model::ChangedModel loaded = model::load_changed(
      snapshot.checkpoint, {.encoding = encoding, .length = extend.length, .keep_encoding_parameters = true}, device,
      model::compute_type(compute));
  const auto bound = loaded.model.encoding().facts().max_positions;
  if (bound && *bound < extend.length) {
    throw ConfigError(cat("encoding '", encodings::encoding_name(encoding), "' has ", *bound,
                          " positions, and extend.length is ", extend.length),
                      {}, "give it that many in extend.encoding: the rows that the checkpoint has come first");
  }

  const Schedule schedule = extension_schedule(extend, snapshot.optimizer.peak_lr, batch);
  Run run = run_from(snapshot, loaded.model, config, extend.watch, compute, ranks.get());
  run.optimizer.peak_lr = schedule.peak;
  run.optimizer_start = keeps ? snapshot.optimizer_start - snapshot.step : 0;  // steps count from 0
  run.schedule = schedule;
  run.first_step = 0;
  run.last_step = schedule.end;
  run.batch = batch;
  run.tokens_before = snapshot.checkpoint.meta().tokens_seen;
  run.branch = {{"kind", "extend"},
                {"step", snapshot.step},
                {"tokens", run.tokens_before},
                {"length_before", snapshot.length},
                {"encoding_before", had}};
  run.fresh = loaded.untrained();
  run.hint_at_divergence = "lower extend.peak_scale or extend.peak_lr, or raise extend.warmup_steps";
  if (keeps) run.moments_from = &snapshot.checkpoint;
  if (workspace.progress != nullptr && ranks->is_first()) {
    note_changes(loaded, *workspace.progress);
    note_lost_members(had, encoding, *workspace.progress);
  }
  execute(run, dataset, workspace);
}

}  // namespace pe::training
