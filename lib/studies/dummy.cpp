#include "studies/dummy.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "artifact/checkpoint.h"
#include "artifact/eval_table.h"
#include "encodings/registry.h"
#include "model/checkpoint_io.h"
#include "model/device.h"
#include "schema/rows.h"
#include "schema/structured_rows.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/text.h"
#include "training/optimizer.h"
#include "training/state_copy.h"
#include "training/step.h"

namespace pe::studies {

using artifact::Split;
using support::cat;

void DummyConfig::Dummy::describe(support::FieldVisitor& v) {
  v.choice(
      "mode", mode, {{"seed", DummyMode::kSeed}, {"fixed", DummyMode::kFixed}, {"hard", DummyMode::kHard}},
      "Rows and scoring as published; without the wrap-around target and with padding out of the headline; or with "
      "progressions of many lengths and steps, some of which only tests have.");
  v.choice(
      "split", split, {{"row", SplitBy::kRow}, {"base", SplitBy::kBase}},
      "Mode fixed: test rows occur in training (row, as published), or begin with numbers that it never has (base).",
      {.neutral = Json("row")});
  v.field("epochs", epochs, "After how many epochs it is measured, ascending; training ends with the last.",
          {.unit = "epochs", .min = 1});
  v.field("batch", batch, "Rows of a step.", {.unit = "rows", .min = 1, .max = 1 << 20});
  v.field("train_rows", train_rows, "Rows to train on; 0 means all rows of the mode (800; hard 7,200).",
          {.unit = "rows", .min = 0, .max = 1e8, .neutral = Json(0)});
  v.field("test_rows", test_rows, "Rows to test on; 0 means all rows of the mode (200; hard 2,000).",
          {.unit = "rows", .min = 0, .max = 1e8, .neutral = Json(0)});
  v.field("rates", rates, "Adam's learning rates, constant; of several the one with the lowest validation loss counts.",
          {.min = 1e-9, .max = 10});
  v.field("shifts", shifts, "Further tests with all positions moved along by so many.",
          {.unit = "tokens", .min = 1, .max = 1 << 20});
  v.field("long_rows", long_rows,
          "Mode hard: a further test with 9 to 16 terms after MIDDLE, where training has 3 to 8.",
          {.neutral = Json(false)});
  v.field("echo", echo,
          "Mode hard: a distractor of another step between MIDDLE and the continuation, in training and test.",
          {.neutral = Json(false)});
  v.field("seed", seed, "Of weights, training rows, their order and dropout. Test rows are the same for all.",
          {.min = 0});
  v.field("save_every", save_every,
          "Time between checkpoints, which are written after an epoch. A killed run loses at most this time.",
          {.unit = "s", .min = 0, .max = 1e6, .hashed = false});
  v.check(!epochs.empty() && std::is_sorted(epochs.begin(), epochs.end(), std::less_equal<>()),
          "dummy.epochs holds at least one number, each larger than the one before");
  v.check(!rates.empty(), "dummy.rates holds at least one learning rate");
  v.check(rates.size() == 1 || mode == DummyMode::kHard,
          "dummy.rates holds several learning rates, and only dummy.mode: hard has rows to choose among them by");
  v.check(split == SplitBy::kRow || mode == DummyMode::kFixed, "dummy.split: base belongs to dummy.mode: fixed");
  v.check((!long_rows && !echo) || mode == DummyMode::kHard,
          "dummy.long_rows and dummy.echo belong to dummy.mode: hard");
  v.check(!long_rows || !echo, "dummy.long_rows and dummy.echo do not go together: the longest row would not fit");
}

void DummyConfig::describe(support::FieldVisitor& v) {
  v.group("dummy", dummy, "Rows, training and tests.");
  v.group("model", model, "The network.");
  v.group("compute", compute, "Device, precision and threads.");
  const std::int64_t micro = compute.micro_batch.value_or(dummy.batch);
  v.check(micro >= dummy.batch,
          cat("compute.micro_batch is ", micro, ", and a step of ", dummy.batch, " rows is one piece here"));
  v.check(compute.ranks.value_or(1) == 1, "a step is one piece here: set compute.ranks: 1");
}

std::string network_name(const model::ModelConfig& config) {
  const char* block = config.bare_attention                                  ? "bare"
                      : config.norm_placement == model::NormPlacement::kPost ? "post_norm"
                                                                             : "pre_norm";
  if (config.attend_over_batch) return cat(block, "_over_batch");
  return cat(block, config.mask == model::Mask::kCausal ? "_causal" : "_bidirectional");
}

namespace {

/// Rows as tensors.
struct Rows {
  at::Tensor ids, labels;            ///< [N, T] int64
  std::vector<DummyTarget> targets;  ///< [N · T]
  std::int64_t count() const { return ids.size(0); }
};

Rows make_rows(const DummyData& data, Split split, std::int64_t count, bool long_rows, at::Device device) {
  const std::int64_t length = data.length();
  Rows rows{at::empty({count, length}, at::TensorOptions(at::kLong)),
            at::empty({count, length}, at::TensorOptions(at::kLong)),
            {}};
  for (std::int64_t i = 0; i < count; ++i) {
    const DummyRow row = data.row(split, i, long_rows);
    std::copy(row.ids.begin(), row.ids.end(), rows.ids.data_ptr<std::int64_t>() + i * length);
    std::copy(row.labels.begin(), row.labels.end(), rows.labels.data_ptr<std::int64_t>() + i * length);
    rows.targets.insert(rows.targets.end(), row.targets.begin(), row.targets.end());
  }
  rows.ids = rows.ids.to(device);
  rows.labels = rows.labels.to(device);
  return rows;
}

/// Nats and hits of one sort of target.
struct Score {
  double nats = 0;
  std::int64_t count = 0, right = 0;
  void add(double loss, bool hit) {
    nats += loss;
    ++count;
    right += hit ? 1 : 0;
  }
  double loss() const {
    return count == 0 ? std::numeric_limits<double>::quiet_NaN() : nats / static_cast<double>(count);
  }
  double accuracy() const {
    return count == 0 ? std::numeric_limits<double>::quiet_NaN()
                      : static_cast<double>(right) / static_cast<double>(count);
  }
};

/// Result of one test.
struct TestScores {
  std::string status = "ok";
  std::map<DummyTarget, Score> by_target;
  std::vector<Score> by_position;
  Score all;
};

TestScores test(const model::LanguageModel& model, const Rows& rows, std::int64_t batch, std::int64_t shift) {
  const at::NoGradGuard no_gradients;
  const std::int64_t length = rows.ids.size(1);
  TestScores found;
  found.by_position.resize(static_cast<std::size_t>(length));
  for (std::int64_t first = 0; first < rows.count(); first += batch) {
    const std::int64_t count = std::min(batch, rows.count() - first);
    const at::Tensor labels = rows.labels.narrow(0, first, count);
    at::Tensor hidden;
    try {
      hidden = model.forward(rows.ids.narrow(0, first, count), {.position = shift, .pe_len = length});
    } catch (const encodings::RangeError&) {
      found.status = "na_positions";
      return found;
    }
    const at::Tensor losses = model.losses(hidden, labels).to(at::kDouble).cpu();
    const at::Tensor right = model.logits(hidden).argmax(-1).eq(labels).reshape({-1}).cpu();
    const at::Tensor asked = labels.reshape({-1}).cpu();
    for (std::int64_t i = 0; i < count * length; ++i) {
      if (asked.data_ptr<std::int64_t>()[i] < 0) continue;
      const double loss = losses.data_ptr<double>()[i];
      const bool hit = right.data_ptr<bool>()[i];
      found.by_target[rows.targets[static_cast<std::size_t>(first * length + i)]].add(loss, hit);
      found.by_position[static_cast<std::size_t>(i % length)].add(loss, hit);
      found.all.add(loss, hit);
    }
  }
  if (!std::isfinite(found.all.loss())) found.status = "overflow";
  return found;
}

/// Adam as the notebook has it: constant rate, no decay, no clipping.
training::OptimizerSettings adam(double rate) {
  training::OptimizerSettings settings;
  settings.kind = training::OptimizerKind::kAdam;
  settings.peak_lr = rate;
  settings.beta1 = 0.9;
  settings.beta2 = 0.999;
  settings.eps = 1e-8;
  settings.weight_decay = 0;
  settings.clip = 0;
  return settings;
}

/// One network at one learning rate, epoch by epoch.
class Learner {
 public:
  Learner(const DummyConfig& config, const model::ModelConfig& shape, const model::ComputeConfig& compute,
          at::Device device, std::int64_t vocabulary, double rate)
      : config_(config.dummy),
        rate_(rate),
        model_(model::LanguageModel::make(shape, vocabulary, static_cast<std::uint64_t>(config.dummy.seed), device,
                                          model::compute_type(compute))),
        optimizer_(model_, adam(rate), 0) {}

  const model::LanguageModel& model() const { return model_; }
  double rate() const { return rate_; }
  double seconds() const { return seconds_; }
  bool finite() const { return finite_; }

  /// State that the next epoch depends on: these tensors, and the rest.
  void save(const std::string& prefix, artifact::CheckpointWriter& writer) const {
    for (const training::StatePart& part : training::state_of(model_, optimizer_)) {
      model::write_tensors(writer, prefix + part.name, model_, part.flat, part.absent);
    }
  }
  Json rest() const { return {{"step", step_}, {"epoch", epoch_}, {"seconds", seconds_}, {"finite", finite_}}; }
  void load(const std::string& prefix, const artifact::CheckpointReader& reader, const Json& rest) {
    const at::NoGradGuard no_gradients;
    for (const training::StatePart& part : training::state_of(model_, optimizer_)) {
      model::read_tensors(reader, prefix + part.name, model_, part.flat, part.absent);
    }
    model_.after_step();
    step_ = rest.at("step");
    epoch_ = rest.at("epoch");
    seconds_ = rest.at("seconds");
    finite_ = rest.at("finite");
  }

  /// @return false once the loss is not finite any more.
  bool epoch(const Rows& rows) {
    const double began = support::steady_s();
    std::vector<std::int64_t> order(static_cast<std::size_t>(rows.count()));
    std::iota(order.begin(), order.end(), 0);
    support::Xoshiro random(support::make_key({static_cast<std::uint64_t>(config_.seed),
                                               support::fnv1a64("dummy_order"), static_cast<std::uint64_t>(epoch_++)}));
    random.shuffle(order);
    const at::Tensor shuffled = at::empty({rows.count()}, at::TensorOptions(at::kLong));
    std::copy(order.begin(), order.end(), shuffled.data_ptr<std::int64_t>());
    const at::Tensor index = shuffled.to(rows.ids.device());
    for (std::int64_t first = 0; first < rows.count() && finite_; first += config_.batch) {
      if (support::stop_requested()) throw support::StopRequest(true);
      const at::Tensor which = index.narrow(0, first, std::min(config_.batch, rows.count() - first));
      step(rows.ids.index_select(0, which), rows.labels.index_select(0, which));
    }
    seconds_ += support::steady_s() - began;
    return finite_;
  }

 private:
  void step(const at::Tensor& ids, const at::Tensor& labels) {
    model_.zero_gradients();
    const double scale = 1.0 / labels.ge(0).sum().item<double>();
    const double loss =
        training::accumulate(model_, ids, labels.reshape({-1}),
                             {.training = true, .step = step_, .first_sample = step_ * config_.batch}, scale)
            .item<double>();
    finite_ = training::update(optimizer_, step_, rate_, loss).finite;
    ++step_;
  }

  const DummyConfig::Dummy& config_;
  double rate_;
  model::LanguageModel model_;
  training::Optimizer optimizer_;
  std::int64_t step_ = 0, epoch_ = 0;
  double seconds_ = 0;
  bool finite_ = true;
};

struct Variant {
  std::string name;
  std::int64_t shift = 0;
  bool long_rows = false;
};

std::string mode_name(const DummyConfig::Dummy& config) {
  switch (config.mode) {
    case DummyMode::kSeed:
      return "seed";
    case DummyMode::kFixed:
      return config.split == DummyConfig::Dummy::SplitBy::kBase ? "fixed_by_base" : "fixed";
    case DummyMode::kHard:
      return config.echo ? "hard_echo" : "hard";
  }
  return "";
}

/// The tables, and the first columns of every row.
class Tables {
 public:
  Tables(const DummyConfig& config, std::string pe)
      : training_{.mode = mode_name(config.dummy),
                  .network = network_name(config.model),
                  .pe = std::move(pe),
                  .depth = config.model.layers,
                  .seed = config.dummy.seed} {}

  void add_grid(std::int64_t epochs, const TestScores& plain, DummyMode mode) {
    const auto of = [&](DummyTarget target) {
      const auto found = plain.by_target.find(target);
      return found == plain.by_target.end() ? Score() : found->second;
    };
    const Score determined = of(DummyTarget::kDetermined);
    const bool ok = plain.status == "ok";
    const auto cell = [&](double value) { return ok && std::isfinite(value) ? value : schema::kMissing; };
    schema::DummyGrid row{after(epochs)};
    row.loss_headline = cell(mode == DummyMode::kSeed ? plain.all.loss() : determined.loss());
    row.loss_all = cell(plain.all.loss());
    row.det_loss = cell(determined.loss());
    row.det_acc = cell(determined.accuracy());
    for (std::size_t p = 0; p < row.loss_pos.size(); ++p) row.loss_pos[p] = cell(plain.by_position[p].loss());
    if (plain.by_position.size() > 63) row.loss_pos63 = cell(plain.by_position[63].loss());
    rows_.add(std::move(row));
  }

  void add_targets(std::int64_t epochs, const std::string& variant, const TestScores& found, double rate,
                   DummyMode mode) {
    const auto add = [&](std::string_view target, const Score& score, std::optional<double> floor) {
      schema::DummyTargets row{after(epochs)};
      row.variant = variant;
      row.target = target;
      row.n = score.count;
      if (found.status == "ok" && score.count > 0) {
        row.loss = score.loss();
        row.acc = score.accuracy();
      }
      row.floor = floor.value_or(schema::kMissing);
      row.rate = rate;
      row.status = found.status;
      rows_.add(std::move(row));
    };
    if (found.status == "na_positions") {
      add("all", {}, std::nullopt);
      return;
    }
    for (const auto& [target, score] : found.by_target) add(dummy_target_name(target), score, floor_of(target, mode));
    if (mode != DummyMode::kHard) add("middle", found.by_position[4], 0.0);
    add("all", found.all, std::nullopt);
  }

  /// Final values of the encoding's vectors: one factor for each frequency of lrope, say.
  void add_scales(std::int64_t epochs, const model::LanguageModel& model) {
    for (const model::Parameter& parameter : model.parameters()) {
      if (parameter.name.rfind("encoding.", 0) != 0 || parameter.tensor.dim() != 1) continue;
      const at::Tensor values = parameter.tensor.detach().to(at::kDouble).cpu().contiguous();
      for (std::int64_t i = 0; i < values.numel(); ++i) {
        schema::DummyScale row{after(epochs)};
        row.parameter = parameter.name;
        row.index = i;
        row.value = values.data_ptr<double>()[i];
        scales_.add(std::move(row));
      }
    }
  }

  void add_seconds(std::int64_t epochs, double seconds) {
    schema::DummySeconds row{after(epochs)};
    row.seconds = seconds;
    rows_.add(std::move(row));
  }

  /// Rows so far, to be taken again by `load`; scales are of the end alone.
  Json save() const { return rows_.to_json(); }
  void load(const Json& all) { rows_ = schema::Rows::from_json(all); }

  void write(artifact::Workspace& workspace, Json facts) {
    artifact::Tables scores;
    scores.tables = {plain_table_of(rows_.of<schema::DummyGrid>()), plain_table_of(rows_.of<schema::DummyTargets>())};
    if (const auto& scales = scales_.of<schema::DummyScale>(); !scales.empty())
      scores.tables.push_back(plain_table_of(scales));
    scores.facts = std::move(facts);
    artifact::write_eval_tables(workspace.output("scores"), workspace.recipe, scores);
    if (!workspace.has_output("timing")) return;
    artifact::Tables timing;
    timing.tables = {plain_table_of(rows_.of<schema::DummySeconds>())};
    timing.facts = {{"pe", training_.pe}};
    artifact::write_eval_tables(workspace.output("timing"), workspace.recipe, timing);
  }

 private:
  schema::DummyTraining after(std::int64_t epochs) const {
    schema::DummyTraining training = training_;
    training.epochs = epochs;
    return training;
  }

  /// Of a predictor that sees all tokens so far; in mode hard it does not know which progressions tests hold out.
  static std::optional<double> floor_of(DummyTarget target, DummyMode mode) {
    const bool hard = mode == DummyMode::kHard;
    switch (target) {
      case DummyTarget::kFirst:
        return hard ? std::log(100.0) : DummyFloors::base();
      case DummyTarget::kStep:
        return std::log(5.0);
      case DummyTarget::kDetermined:
      case DummyTarget::kPadding:
      case DummyTarget::kWrap:
        return 0.0;
      case DummyTarget::kLength:  // a sum over the row, not a mean over targets
      case DummyTarget::kEcho:
      case DummyTarget::kNone:
        return std::nullopt;
    }
    return std::nullopt;
  }

  schema::DummyTraining training_;
  schema::Rows rows_, scales_;
};

/// The config without what changes no result.
Json told_config(const artifact::Workspace& workspace) {
  return support::hashed_config(support::schema_of<DummyConfig>(), workspace.recipe.config);
}

/// State from which a killed run continues: `dummy.h5` in the work folder, written after an epoch.
class SavedState {
 public:
  SavedState(const artifact::Workspace& workspace, double every_seconds)
      : path_(workspace.work / "dummy.h5"),
        every_(every_seconds),
        last_(support::steady_s()),
        identity_(support::canonical_hash("pe/dummy-state/1", told_config(workspace))) {
    for (const auto& folder : {std::optional(workspace.work), workspace.resume}) {
      if (folder && std::filesystem::exists(*folder / "dummy.h5")) found_.push_back(*folder / "dummy.h5");
    }
  }

  /// The last finished epoch, 0 without a state. A file of another run or a damaged one is skipped.
  std::int64_t restore(std::vector<Learner>& learners, Tables& tables, support::Progress& progress) const {
    for (const std::filesystem::path& path : found_) {
      try {
        const artifact::CheckpointReader reader(path);
        const Json& state = reader.meta().extra;
        if (state.value("identity", "") != identity_) continue;
        reader.verify();  // whole, before anything changes
        const Json& rest = state.at("learners");
        const std::int64_t epoch = state.at("epoch");
        for (std::size_t i = 0; i < learners.size(); ++i) learners[i].load(prefix_of(i), reader, rest.at(i));
        tables.load(state.at("tables"));
        progress.note(cat("continuing after epoch ", epoch));
        return epoch;
      } catch (const support::ArtifactError& error) {
        progress.warn(cat("not continuing from the checkpoint of an earlier attempt: ", error.what()));
      }
    }
    return 0;
  }

  void epoch(std::int64_t epoch, const std::vector<Learner>& learners, const Tables& tables) {
    const double now = support::steady_s();
    const bool stops = support::stop_requested();
    if (!stops && now - last_ < every_) return;
    // State other than tensors is written first.
    Json state = {{"identity", identity_}, {"epoch", epoch}, {"tables", tables.save()}, {"learners", Json::array()}};
    for (const Learner& learner : learners) state["learners"].push_back(learner.rest());
    artifact::CheckpointMeta meta;
    model::describe_model(learners.front().model(), meta);
    meta.extra = std::move(state);
    artifact::CheckpointWriter writer(path_, {}, meta);
    for (std::size_t i = 0; i < learners.size(); ++i) learners[i].save(prefix_of(i), writer);
    writer.finish();
    last_ = support::steady_s();
    if (stops) throw support::StopRequest(true);
  }

 private:
  static std::string prefix_of(std::size_t learner) { return cat("learner-", learner, "/"); }

  std::filesystem::path path_;
  std::vector<std::filesystem::path> found_;
  double every_;
  double last_;
  std::string identity_;
};

std::string digest_of_first_batch(const Rows& rows, std::int64_t batch, bool last) {
  const std::int64_t count = std::min(batch, rows.count());
  const at::Tensor part = rows.ids.narrow(0, last ? rows.count() - count : 0, count).cpu().contiguous();
  return support::sha256_hex({static_cast<const char*>(part.data_ptr()), static_cast<std::size_t>(part.nbytes())})
      .substr(0, 12);
}

std::vector<Variant> variants_of(const DummyConfig::Dummy& wanted) {
  std::vector<Variant> variants = {{"plain"}};
  for (const std::int64_t shift : wanted.shifts) variants.push_back({cat("shift_", shift), shift});
  if (wanted.long_rows) variants.push_back({"long", 0, true});
  return variants;
}

/// The place of the living learner with the lowest loss, else 0.
std::size_t lowest_loss(const std::vector<Learner>& learners, const std::vector<bool>& alive, const Rows& validation,
                        std::int64_t batch) {
  std::size_t best = 0;
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < learners.size(); ++i) {
    if (!alive[i]) continue;
    const double loss = test(learners[i].model(), validation, batch, 0).all.loss();
    if (loss < lowest) {
      lowest = loss;
      best = i;
    }
  }
  return best;
}

/// Tests a learner in all variants. @returns the plain one
TestScores add_tests(const Learner& learner, bool alive, const std::vector<Variant>& variants, const Rows& tests,
                     const Rows& long_tests, const DummyConfig::Dummy& wanted, std::int64_t epoch, Tables& tables) {
  TestScores plain;
  for (const Variant& variant : variants) {
    TestScores found = test(learner.model(), variant.long_rows ? long_tests : tests, wanted.batch, variant.shift);
    if (!alive) found.status = "overflow";  // training has ended, and what it ended with is no result
    if (variant.name == "plain") {
      plain = found;
      tables.add_grid(epoch, found, wanted.mode);
    }
    tables.add_targets(epoch, variant.name, found, learner.rate(), wanted.mode);
  }
  return plain;
}

}  // namespace

void dummy(const DummyConfig& config, artifact::Workspace& workspace) {
  const DummyConfig::Dummy& wanted = config.dummy;
  support::Progress& progress = workspace.progress == nullptr ? support::silent_progress() : *workspace.progress;
  model::ComputeConfig asked = config.compute;
  asked.micro_batch = wanted.batch;
  const model::ComputeConfig compute = model::resolve(asked, wanted.batch);
  const at::Device device = model::open_device(compute);
  const DummyData data(wanted.options(), static_cast<std::uint64_t>(wanted.seed));
  model::ModelConfig shape = config.model;
  shape.length = data.length();

  const auto rows_of = [&](Split split, std::int64_t count, bool long_rows) {
    return make_rows(data, split, count == 0 ? data.rows(split) : count, long_rows, device);
  };
  const Rows train = rows_of(Split::kTrain, wanted.train_rows, false),
             tests = rows_of(Split::kTest, wanted.test_rows, false);
  const bool chooses = wanted.rates.size() > 1;
  const Rows validation = chooses ? rows_of(Split::kValidation, 0, false) : Rows();
  const Rows long_tests = wanted.long_rows ? rows_of(Split::kTest, wanted.test_rows, true) : Rows();
  const std::vector<Variant> variants = variants_of(wanted);

  std::vector<Learner> learners;
  learners.reserve(wanted.rates.size());
  for (const double rate : wanted.rates) learners.emplace_back(config, shape, compute, device, data.vocabulary(), rate);
  const std::string pe = encodings::encoding_name(config.model.encoding.json);
  progress.note(cat(support::with_commas(learners.front().model().parameter_count()), " parameters, ",
                    network_name(config.model), ", ", config.model.layers, " layers, encoding ", pe, ", ",
                    train.count(), " rows, ", model::device_summary(compute, device)));

  Tables tables(config, pe);
  const std::int64_t last = wanted.epochs.back();
  SavedState saved(workspace, wanted.save_every);
  const std::int64_t done = saved.restore(learners, tables, progress);
  std::vector<bool> alive;
  for (const Learner& learner : learners) alive.push_back(learner.finite());
  for (std::int64_t epoch = done + 1; epoch <= last; ++epoch) {
    for (std::size_t i = 0; i < learners.size(); ++i) {
      if (alive[i]) alive[i] = learners[i].epoch(train);
    }
    if (std::find(wanted.epochs.begin(), wanted.epochs.end(), epoch) == wanted.epochs.end()) {
      progress.advance("dummy: epochs", epoch, last);
      saved.epoch(epoch, learners, tables);
      continue;
    }
    const std::size_t best = chooses ? lowest_loss(learners, alive, validation, wanted.batch) : 0;
    double seconds = 0;
    for (const Learner& one : learners) seconds += one.seconds();
    const Learner& learner = learners[best];
    const TestScores plain = add_tests(learner, alive[best], variants, tests, long_tests, wanted, epoch, tables);
    if (epoch == last) tables.add_scales(epoch, learner.model());
    tables.add_seconds(epoch, seconds);
    progress.advance("dummy: epochs", epoch, last, {{"loss", plain.all.loss()}});
    if (epoch < last) saved.epoch(epoch, learners, tables);
  }
  tables.write(workspace, {{"pe", pe},
                           {"encoding", model::to_json(learners.front().model().config())["encoding"]},
                           {"network", network_name(config.model)},
                           {"parameters", learners.front().model().parameter_count()},
                           {"config_hash", support::canonical_hash("pe/dummy/1", told_config(workspace)).substr(0, 12)},
                           {"first_rows", digest_of_first_batch(train, wanted.batch, false)},
                           {"last_rows", digest_of_first_batch(train, wanted.batch, true)}});
}

}  // namespace pe::studies
