#include "training/train_config.h"

#include "encodings/registry.h"
#include "support/text.h"

namespace pe::training {

using support::FieldVisitor;

namespace {

constexpr double kMostTokens = 1e15;
constexpr double kMostSteps = 1e9;

void describe_shape(FieldVisitor& v, std::string_view name, DecayShape& shape) {
  v.choice(name, shape,
           {{"linear", DecayShape::kLinear},
            {"cosine", DecayShape::kCosine},
            {"1-sqrt", DecayShape::kOneMinusSqrt},
            {"exponential", DecayShape::kExponential},
            {"1-square", DecayShape::kOneMinusSquare}},
           "Shape of the decay; exponential halves ten times.");
}

void describe_watch(FieldVisitor& v, std::int64_t& log_every, std::int64_t& validate_every, std::int64_t& windows) {
  v.field("log_every", log_every, "A row of metrics every so many steps.",
          {.unit = "steps", .min = 1, .max = kMostSteps});
  v.field("validate_every", validate_every, "Validation every so many steps, and at each artifact; 0: only there.",
          {.unit = "steps", .min = 0, .max = kMostSteps});
  v.field("validate_windows", windows, "Windows of the validation split, always the first ones; 0: no validation.",
          {.min = 0, .max = 1e9});
}

}  // namespace

void CheckpointConfig::describe(FieldVisitor& v) {
  v.field("every", every, "Time between checkpoints to resume from.",
          {.unit = "s", .min = 0, .max = 1e7, .hashed = false});
  v.field("keep", keep, "How many of them are kept.", {.min = 1, .max = 1000, .hashed = false});
  v.field("pin_every", pin_every, "Also one every so many steps, which stays; 0: none.",
          {.unit = "steps", .min = 0, .max = kMostSteps, .hashed = false});
  v.field("best", best, "Also one after each validation with the lowest loss so far; the last of these stays.",
          {.hashed = false});
  v.choice("inexact", inexact, {{"mark", Inexact::kMark}, {"refuse", Inexact::kRefuse}},
           "Continue from a checkpoint of another library, device or thread count: with a mark in the results, or "
           "not at all.",
           {.hashed = false});
}

void WatchFiles::describe(FieldVisitor& v) {
  v.choice("tensorboard", tensorboard, {{"none", Axis::kNone}, {"steps", Axis::kSteps}, {"tokens", Axis::kTokens}},
           "Axis of the TensorBoard event files in the work folder; none: no files.", {.hashed = false});
  v.field("peak_tflops", peak_tflops,
          "Dense peak of the device in the compute dtype, for MFU; 0: known for some GPUs, else MFU is n/a.",
          {.unit = "TFLOP/s", .min = 0, .max = 1e6, .hashed = false});
}

void StageConfig::describe(FieldVisitor& v) {
  v.group("compute", compute, "Device, threads and precision.");
  v.group("checkpoint", checkpoint, "Checkpoints, which limit the loss of a killed run.");
  v.group("watch", watch, "Logs and progress of a running training.");
}

void TrainSettings::describe(FieldVisitor& v) {
  v.field("tokens", tokens, "The horizon: tokens of the whole run.", {.unit = "tokens", .min = 1, .max = kMostTokens});
  v.field("batch", batch, "Sequences of a step.", {.unit = "sequences", .min = 1, .max = 1 << 24});
  v.field("length", length, "Training context T.", {.unit = "tokens", .min = 1, .max = 1 << 24});
  v.field("seed", seed, "Seed of weights, data order and training draws.", {.min = 0});
  v.choice("schedule", schedule,
           {{"wsd", ScheduleKind::kWsd},
            {"cosine", ScheduleKind::kCosine},
            {"constant", ScheduleKind::kConstant},
            {"linear", ScheduleKind::kLinear}},
           "Learning rate after the warm-up: stable with a decay (wsd), cosine or linear to the horizon, or "
           "constant.");
  v.field("decay_share", decay_share,
          "wsd: share of the horizon that the decay takes; 0 for a trunk that only feeds branches.",
          {.min = 0, .max = 1});
  describe_shape(v, "decay_shape", decay_shape);
  v.field("final_share", final_share, "Last learning rate over the peak; constant: no effect.", {.min = 0, .max = 1});
  v.field("warmup_steps", warmup_steps, "Linear warm-up.", {.unit = "steps", .min = 0, .max = kMostSteps});
  v.field("warmup_share", warmup_share, "Warm-up as a share of the horizon, in place of warmup_steps; 0: not used.",
          {.min = 0, .max = 1});
  v.choice("optimizer", optimizer.kind,
           {{"adamw", OptimizerKind::kAdamW}, {"adam", OptimizerKind::kAdam}, {"muon", OptimizerKind::kMuon}},
           "adam adds weight_decay · weight to the gradient; muon is for the matrices of the blocks, with AdamW for "
           "the rest.",
           {.neutral = Json("adamw")});
  v.field("peak_lr", optimizer.peak_lr, "Learning rate after the warm-up.", {.min = 0, .max = 10});
  v.field("beta1", optimizer.beta1, "AdamW, Adam: decay of the first moment.", {.min = 0, .max = 0.999999});
  v.field("beta2", optimizer.beta2, "AdamW, Adam: decay of the second moment.", {.min = 0, .max = 0.999999999});
  v.field("eps", optimizer.eps, "AdamW, Adam: added to the root of the second moment.", {.min = 0, .max = 1});
  v.field("weight_decay", optimizer.weight_decay, "Weight decay of the parameters of decay_on.", {.min = 0, .max = 10});
  v.choice("decay_on", optimizer.decay_on,
           {{"matrices", DecayOn::kMatrices},
            {"matrices_and_embeddings", DecayOn::kMatricesAndEmbeddings},
            {"all", DecayOn::kAll}},
           "matrices excludes norms, embeddings, tables and other 1-D parameters. all: every parameter.",
           {.neutral = Json("matrices")});
  v.field("momentum", optimizer.momentum, "Muon: decay of the momentum.",
          {.min = 0, .max = 0.999999, .neutral = Json(0.95)});
  v.field("encoding_lr_scale", optimizer.encoding_lr_scale,
          "Learning rate of the encoding's parameters, as a multiple.", {.min = 0, .max = 1000, .neutral = Json(1.0)});
  v.field("clip", optimizer.clip, "Largest norm of all gradients together; 0: no clipping.", {.min = 0, .max = 1e9});
  v.choice("documents", documents,
           {{"joined", Documents::kJoined}, {"masked", Documents::kMasked}, {"restarted", Documents::kRestarted}},
           "Documents of a window: joined to one text, masked from each other, or masked with positions that "
           "restart.",
           {.neutral = Json("joined")});
  v.field("z_loss", optimizer.z_loss,
          "Weight of (log Σ exp)² of the logits in the gradients; the reported loss stays the cross entropy.",
          {.min = 0, .max = 1, .neutral = Json(0.0)});
  v.field("ema", optimizer.ema, "Decay of a moving average of the weights, stored as ema/…; 0: none.",
          {.min = 0, .max = 0.9999999, .neutral = Json(0.0)});
  v.field("skip_nonfinite", optimizer.skip_nonfinite,
          "Steps in a row with a non-finite loss or gradient that are skipped; after one more, the run has "
          "diverged.",
          {.unit = "steps", .min = 0, .max = 1e6, .neutral = Json(0)});
  describe_watch(v, log_every, validate_every, validate_windows);
  v.field("best", best,
          "Also keep the weights with the lowest validation loss, as best/… (eval.weights: best measures them).",
          {.neutral = Json(false)});
  v.check(schedule != ScheduleKind::kWsd || decay_share + warmup_share <= 1,
          "decay_share and warmup_share together exceed the horizon");
  const std::int64_t steps = horizon_steps(tokens, batch * length);
  v.check(!best || (validate_every > 0 && validate_every <= steps && validate_windows > 0),
          support::cat("best: true needs a validation within the ", steps, " steps of the run: validate_every is ",
                       validate_every, ", validate_windows ", validate_windows));
  const std::int64_t warm = warmup_share > 0 ? share_of_steps(warmup_share, steps) : warmup_steps;
  const std::int64_t decay = schedule == ScheduleKind::kWsd ? decay_span(1, decay_share, steps).steps() : 0;
  v.check(warm + decay <= steps, support::cat("the horizon is ", steps, " steps of ", batch, " x ", length,
                                              " tokens, but warm-up and decay take ", warm, " + ", decay));
}

namespace {

std::string why_it_does_not_fit(const model::ModelConfig& config, std::int64_t length, std::int64_t layers) {
  try {
    const encodings::Shape shape{.width = config.width,
                                 .layers = layers,
                                 .query_heads = config.heads,
                                 .key_value_heads = config.kv_heads(),
                                 .head_width = config.d_h(),
                                 .train_length = length};
    const auto encoding = encodings::make_encoding(config.encoding.json, shape);
    const auto bound = encoding->facts().max_positions;
    if (bound && *bound < length) return support::cat("it has ", *bound, " positions, and train.length is ", length);
    if (config.mask == model::Mask::kBidirectional && encoding->needs_causal_mask()) {
      return support::cat(model::why_mask_does_not_fit(encodings::encoding_name(config.encoding.json)), "; ",
                          model::kMaskHint);
    }
  } catch (const support::Error& error) {
    const support::Diagnostic& first = error.diagnostics().front();
    return first.hint.empty() ? first.message : support::cat(first.message, "; ", first.hint);
  }
  return "";
}

/// Why this model cannot have its encoding at this training length; empty when it can. Built at most once for the same
/// words, since a grid asks the same question ten thousand times, and with all layers only where a few do not suffice.
std::string why_encoding_does_not_fit(const model::ModelConfig& config, std::int64_t length) {
  if (config.heads < 1 || config.d_h() < 1 || config.heads % config.kv_heads() != 0) return "";  // reported elsewhere
  static std::map<std::string, std::string> known;
  const auto [at, fresh] = known.emplace(
      support::cat(config.encoding.json.dump(), " ", config.width, " ", config.layers, " ", config.heads, " ",
                   config.kv_heads(), " ", config.d_h(), " ", length, " ", static_cast<int>(config.mask)),
      "");
  if (!fresh) return at->second;
  at->second = why_it_does_not_fit(config, length, std::min<std::int64_t>(config.layers, 4));
  if (!at->second.empty() && config.layers > 4) at->second = why_it_does_not_fit(config, length, config.layers);
  return at->second;
}

}  // namespace

void TrainConfig::describe(FieldVisitor& v) {
  v.group("model", model, "The decoder.");
  v.group("train", train, "The run.");
  StageConfig::describe(v);
  const std::string undivided =
      model::why_not_divided(train.batch, compute.ranks.value_or(1), compute.micro_batch, "train.batch");
  v.check(undivided.empty(), undivided);
  const std::int64_t micro = compute.micro_batch.value_or(train.batch);
  v.check(!model.attend_over_batch || micro >= train.batch,
          support::cat("model.attend_over_batch makes a batch one piece, and compute.micro_batch is ", micro, " of ",
                       train.batch, " sequences"));
  v.check(!model.attend_over_batch || compute.ranks.value_or(1) == 1,
          "model.attend_over_batch makes a batch one piece: set compute.ranks: 1");
  v.check(!model.attend_over_batch || train.documents == Documents::kJoined,
          "model.attend_over_batch knows no documents: set train.documents: joined");
  const std::string why = why_encoding_does_not_fit(model, train.length);
  v.check(why.empty(), support::cat("'model.encoding' does not fit: ", why));
}

void WatchConfig::describe(FieldVisitor& v) { describe_watch(v, log_every, validate_every, validate_windows); }

void DecayConfig::describe(FieldVisitor& v) {
  v.field("horizon_tokens", horizon_tokens, "The horizon that `end` is a share of.",
          {.unit = "tokens", .min = 1, .max = kMostTokens});
  v.field("end", end, "End of the decay, as a share of the horizon.", {.min = 0, .max = 1});
  v.field("share", share, "Share of `end` that the decay takes: it begins at end · (1 − share).", {.min = 0, .max = 1});
  describe_shape(v, "shape", shape);
  v.field("final_share", final_share, "Learning rate at the end, as a share of the snapshot's.", {.min = 0, .max = 1});
  watch.describe(v);
  v.check(end > 0, "end must be above 0");
  v.check(share > 0, "share must be above 0: a decay takes at least one step");
}

void BranchDecayConfig::describe(FieldVisitor& v) {
  v.group("decay", decay, "The decay.");
  StageConfig::describe(v);
}

void DropConfig::describe(FieldVisitor& v) {
  v.field("horizon_tokens", horizon_tokens, "End of the whole run, counted from its first step.",
          {.unit = "tokens", .min = 1, .max = kMostTokens});
  v.field("batch", batch, "Sequences of a step, of an imported model; 0: what its import named.",
          {.unit = "sequences", .min = 0, .max = 1 << 24, .neutral = Json(0)});
  v.field("length", length, "Training context, of an imported model; 0: the model's.",
          {.unit = "tokens", .min = 0, .max = 1 << 24, .neutral = Json(0)});
  v.choice("arm", arm, {{"drop", Arm::kDrop}, {"nodrop", Arm::kNoDrop}},
           "drop replaces the encoding. nodrop is the control: the same schedule with the encoding kept.");
  v.choice("optimizer", optimizer, {{"reset", Optimizer::kReset}, {"keep", Optimizer::kKeep}},
           "Moments: from zero, or from the snapshot.");
  v.variant("encoding", encoding, encodings::variant_kinds(), "Encoding after the drop.", /*stackable=*/true);
  v.field("peak_lr", peak_lr, "Peak of the fresh cosine schedule; 0: peak_scale times the snapshot's.",
          {.min = 0, .max = 10});
  v.field("peak_scale", peak_scale, "Peak relative to the snapshot's, where peak_lr is 0.", {.min = 0, .max = 1000});
  v.field("final_share", final_share, "Learning rate at the end, as a share of the peak.", {.min = 0, .max = 1});
  v.field("warmup_steps", warmup_steps, "Linear warm-up of the fresh schedule; 0: warmup_share holds.",
          {.unit = "steps", .min = 0, .max = kMostSteps});
  v.field("warmup_share", warmup_share, "Warm-up as a share of the steps that remain.", {.min = 0, .max = 1});
  v.choice("qk_norm", qk_norm, {{"keep", QkNorm::kKeep}, {"width", QkNorm::kWidth}},
           "Norm on queries and keys from here on: unchanged, or replaced by a new one over the whole width.",
           {.neutral = Json("keep")});
  v.choice("logit_scale", logit_scale,
           {{"none", LogitScale::kNone}, {"given", LogitScale::kGiven}, {"fitted", LogitScale::kFitted}},
           "Growth of the logits of texts s times as long as in training by 1 + slope · ln s. It is off, uses "
           "logit_scale_slope, or uses the slope that fits validation text best at the end.",
           {.neutral = Json("none")});
  v.field("logit_scale_slope", logit_scale_slope, "The slope where it is given.",
          {.min = 0, .max = 10, .neutral = Json(0.412)});
  watch.describe(v);
  v.check(logit_scale != LogitScale::kFitted || watch.validate_windows > 0,
          "drop.logit_scale: fitted measures validation text, so drop.validate_windows must be above 0");
}

void ExtendConfig::describe(FieldVisitor& v) {
  v.field("length", length,
          "The new training context; the checkpoint's own with encoding_of: checkpoint, to tune on other data.",
          {.unit = "tokens", .min = 2, .max = 1 << 24});
  v.field("tokens", tokens, "Tokens to train on at that context.", {.unit = "tokens", .min = 1, .max = kMostTokens});
  v.field("batch", batch, "Sequences of a step; 0: as many tokens per step as before.",
          {.unit = "sequences", .min = 0, .max = 1 << 24});
  v.choice("encoding_of", encoding_of, {{"config", EncodingOf::kConfig}, {"checkpoint", EncodingOf::kCheckpoint}},
           "Encoding of the result: `encoding`, or the checkpoint's encoding (as pe-search-factors left it).");
  v.variant("encoding", encoding, encodings::variant_kinds(),
            "The encoding at the new context. A factor of 1 is replaced by new over old context, times the factor of "
            "the checkpoint. Options that follow from the training length, such as max_positions, keep their values at "
            "the old context.",
            /*stackable=*/true);
  v.choice("optimizer", optimizer, {{"reset", DropConfig::Optimizer::kReset}, {"keep", DropConfig::Optimizer::kKeep}},
           "Moments: from zero, or from the snapshot.");
  v.choice(
      "schedule", schedule,
      {{"constant", ScheduleKind::kConstant}, {"cosine", ScheduleKind::kCosine}, {"linear", ScheduleKind::kLinear}},
      "Learning rate after the warm-up.");
  v.field("peak_lr", peak_lr, "Learning rate after the warm-up; 0: peak_scale times the checkpoint's peak.",
          {.min = 0, .max = 10});
  v.field("peak_scale", peak_scale, "Peak relative to the checkpoint's, where peak_lr is 0.", {.min = 0, .max = 1000});
  v.field("final_share", final_share, "Last learning rate over the peak; constant: no effect.", {.min = 0, .max = 1});
  v.field("warmup_steps", warmup_steps, "Linear warm-up.", {.unit = "steps", .min = 0, .max = kMostSteps});
  watch.describe(v);
}

void ExtendPeConfig::describe(FieldVisitor& v) {
  v.group("extend", extend, "The extension.");
  StageConfig::describe(v);
}

void DropPeConfig::describe(FieldVisitor& v) {
  v.group("drop", drop, "The drop.");
  StageConfig::describe(v);
}

}  // namespace pe::training
