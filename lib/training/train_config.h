/// @file
/// The configs of the four stages that train.
#pragma once

#include <cstdint>

#include "model/compute.h"
#include "model/model_config.h"
#include "support/config.h"
#include "training/schedule.h"

namespace pe::training {

/// Group `checkpoint`: how much a killed run loses. In no key.
struct CheckpointConfig {
  double every = 600;  ///< seconds
  std::int64_t keep = 2;
  std::int64_t pin_every = 0;  ///< steps; 0: none
  bool best = false;
  enum class Inexact { kMark, kRefuse };
  Inexact inexact = Inexact::kMark;
  void describe(support::FieldVisitor& v);
};

/// Group `watch`: files that a running training writes for its readers. In no key.
struct WatchFiles {
  enum class Axis { kNone, kSteps, kTokens };
  Axis tensorboard = Axis::kTokens;
  double peak_tflops = 0;  ///< 0: where the device's is known
  void describe(support::FieldVisitor& v);
};

/// Groups of every stage that trains.
struct StageConfig {
  model::ComputeConfig compute;
  CheckpointConfig checkpoint;
  WatchFiles watch;
  void describe(support::FieldVisitor& v);
};

enum class OptimizerKind { kAdamW, kAdam, kMuon };

/// Targets of weight decay in addition to matrices (of the blocks, an untied head and encodings).
enum class DecayOn { kMatrices, kMatricesAndEmbeddings, kAll };

/// Settings of an optimizer; stored in checkpoints.
struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double peak_lr = 3e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;       ///< largest norm of all gradients together; 0: none
  double momentum = 0.95;  ///< Muon's
  DecayOn decay_on = DecayOn::kMatrices;
  double encoding_lr_scale = 1.0;   ///< learning rate of the encoding's parameters, relative
  double z_loss = 0;                ///< weight of (log Σ exp)² in the gradients
  double ema = 0;                   ///< Decay of the moving average of the weights; 0: none is kept.
  std::int64_t skip_nonfinite = 0;  ///< steps in a row that may be left out before the run has diverged
};

/// How attention sees a window of packed documents: as one text, or as documents that do not see each other. Positions
/// of such documents count through the window, or restart in each document.
enum class Documents { kJoined, kMasked, kRestarted };

/// Group `train`.
struct TrainSettings {
  std::int64_t tokens = 2'400'000'000;  ///< the horizon
  std::int64_t batch = 128;             ///< sequences of a step
  std::int64_t length = 1024;           ///< T
  std::int64_t seed = 42;               ///< of weights, data order and training draws
  ScheduleKind schedule = ScheduleKind::kWsd;
  double decay_share = 0.2;
  DecayShape decay_shape = DecayShape::kOneMinusSqrt;
  double final_share = 0;
  std::int64_t warmup_steps = 500;
  double warmup_share = 0;
  OptimizerSettings optimizer;
  Documents documents = Documents::kJoined;
  std::int64_t log_every = 10;
  std::int64_t validate_every = 250;
  std::int64_t validate_windows = 128;
  bool best = false;  ///< the weights of the best validation are kept in addition to the last ones
  void describe(support::FieldVisitor& v);
};

struct TrainConfig : StageConfig {
  model::ModelConfig model;
  TrainSettings train;
  void describe(support::FieldVisitor& v);
};

/// Logging and validation of a branch, in a separate group. The rest comes from the snapshot.
struct WatchConfig {
  std::int64_t log_every = 10;
  std::int64_t validate_every = 250;
  std::int64_t validate_windows = 128;
  void describe(support::FieldVisitor& v);
};

struct DecayConfig {
  std::int64_t horizon_tokens = 2'400'000'000;
  double end = 1.0;
  double share = 0.2;
  DecayShape shape = DecayShape::kOneMinusSqrt;
  double final_share = 0;
  WatchConfig watch;
  void describe(support::FieldVisitor& v);
};

struct BranchDecayConfig : StageConfig {
  DecayConfig decay;
  void describe(support::FieldVisitor& v);
};

struct DropConfig {
  enum class Arm { kDrop, kNoDrop };
  enum class Optimizer { kReset, kKeep };
  enum class QkNorm { kKeep, kWidth };
  enum class LogitScale { kNone, kGiven, kFitted };
  std::int64_t horizon_tokens = 2'400'000'000;
  std::int64_t batch = 0;   ///< sequences of a step, of an imported model; 0: the batch that its import named
  std::int64_t length = 0;  ///< context, of an imported model; 0: the model's
  Arm arm = Arm::kDrop;
  Optimizer optimizer = Optimizer::kReset;
  support::VariantValue encoding{"none"};
  double peak_lr = 0;
  double peak_scale = 1.0;
  double final_share = 0.1;
  std::int64_t warmup_steps = 0;
  double warmup_share = 0.035;
  QkNorm qk_norm = QkNorm::kKeep;
  LogitScale logit_scale = LogitScale::kNone;
  double logit_scale_slope = 0.412;
  WatchConfig watch;
  void describe(support::FieldVisitor& v);
};

struct DropPeConfig : StageConfig {
  DropConfig drop;
  void describe(support::FieldVisitor& v);
};

struct ExtendConfig {
  enum class EncodingOf { kConfig, kCheckpoint };
  std::int64_t length = 2048;         ///< the new context
  std::int64_t tokens = 100'000'000;  ///< of this stage
  std::int64_t batch = 0;             ///< sequences; 0: as many tokens per step as before
  EncodingOf encoding_of = EncodingOf::kConfig;
  support::VariantValue encoding{"yarn"};
  DropConfig::Optimizer optimizer = DropConfig::Optimizer::kReset;
  ScheduleKind schedule = ScheduleKind::kConstant;
  double peak_lr = 0;
  double peak_scale = 0.1;
  double final_share = 0;
  std::int64_t warmup_steps = 20;
  WatchConfig watch;
  void describe(support::FieldVisitor& v);
};

struct ExtendPeConfig : StageConfig {
  ExtendConfig extend;
  void describe(support::FieldVisitor& v);
};

}  // namespace pe::training
